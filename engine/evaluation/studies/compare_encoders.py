"""Encoders side by side: the same decoders on the same queries, in the space that each encoder makes of one corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from engine.decoder import SET_SIZE, Decoder, decode
from engine.errors import DataError, ParamError
from engine.evaluation.metrics import available_metrics, mean_of_defined, measure
from engine.evaluation.paired import short_names
from engine.evaluation.statistics import RESAMPLES, SEED, Comparison, build_comparisons
from engine.evaluation.sweep.cell import decoder_to_json
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.values import Embeddings, Qrels, Ranking

BLOCK = 64
"""So many queries are decoded between two looks at `stop`."""
MEASURED = ("recall", "comp", "ndcg", "mrr", "precision", "ilad", "redundancy")


class Variant(NamedTuple):
    """One corpus as one encoder sees it: its space, and the queries' vectors by the same encoder."""

    space: Space
    queries: Embeddings


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderComparison:
    """Decoders with several encoders, of which the first is the baseline."""

    encoders: tuple[str, ...]
    decoders: tuple[str, ...]  # names
    k: int
    queries: tuple[str, ...]  # ids
    metrics: tuple[str, ...]  # of the retrieved sets, measured in the first encoder's space
    rows: Mapping[str, Mapping[str, tuple[Comparison, ...]]]  # metric → decoder → other encoders against the first
    values: Mapping[tuple[str, str], Mapping[str, np.ndarray]] = field(repr=False)  # (decoder, encoder) → metric → (n,)
    overlap: Mapping[tuple[str, str], np.ndarray] = field(repr=False)  # → (n,) share of the first's documents

    def mean(self, decoder: str, encoder: str, metric: str) -> float | None:
        """A metric's mean over the queries that have it; None where none has."""
        return _defined(mean_of_defined(self.values[decoder, encoder][metric]))

    def agreement(self, decoder: str, encoder: str) -> float | None:
        """The mean overlap@k of an encoder's sets with the first encoder's; None where neither retrieved anything."""
        return _defined(mean_of_defined(self.overlap[decoder, encoder]))


class Apart(NamedTuple):
    """A query on which two encoders differ."""

    query: int  # its place among the queries
    overlap: float  # what the two sets share
    first: float | None  # the metric of the first's set, None where undefined
    other: float | None


def compare_encoders(
    variants: Mapping[str, Variant],
    decoders: Sequence[Decoder],
    qrels: Qrels | None = None,
    k: int = 10,
    metrics: Sequence[str] | None = None,
    *,
    resamples: int = RESAMPLES.default,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> EncoderComparison:
    """Decode the same queries in several spaces of one corpus, and compare each with the first.

    variants: at least two, by name, of one corpus and the same queries in the same order; qrels: their judgements;
    metrics: by default those that can be measured. A similarity means something else in every space, so that ILAD in
    two of them is not one quantity: all sets are measured in the first encoder's space. Interval and test are paired
    over the queries on which all decoders have the metric with all encoders; Holm's correction is over the rows of a
    metric. Raises ParamError, DataError or Cancelled.
    """
    k, resamples, seed = SET_SIZE.check(k), RESAMPLES.check(resamples), SEED.check(seed)
    decoders = list(dict.fromkeys(decoders))
    _check(variants, decoders)
    metrics = tuple(m for m in MEASURED if m in available_metrics(qrels)) if metrics is None else tuple(metrics)
    encoders, first = tuple(variants), next(iter(variants.values()))
    called = short_names([SimpleNamespace(decoder=decoder_to_json(decoder)) for decoder in decoders])
    report = with_cancellation(progress, stop, "comparing encoders stopped at {done} of {total} answers")
    values, rankings = {}, {}
    total, done = len(decoders) * len(variants) * len(first.queries), 0
    for name, decoder in zip(called, decoders, strict=True):
        for encoder, variant in variants.items():
            parts = []
            for start in range(0, len(variant.queries), BLOCK):
                block = variant.queries.take(range(start, min(start + BLOCK, len(variant.queries))))
                report(done, total, f"{name} with {encoder}")
                parts.append(decode(decoder, variant.space, block, k))
                done += len(block)
            ranking = Ranking.joined(parts)
            rankings[name, encoder] = ranking.index.cpu().numpy()
            ranking = replace(ranking, index=ranking.index.to(first.space.device))
            values[name, encoder] = measure(ranking, first.space, first.queries, qrels, k, metrics).values
    report(done, total, "statistics")
    return EncoderComparison(
        encoders=encoders,
        decoders=called,
        k=k,
        queries=first.queries.ids,
        metrics=metrics,
        rows={m: _compared(m, values, called, encoders, k, resamples, seed) for m in metrics},
        values=values,
        overlap={(name, e): overlap(rankings[name, encoders[0]], rows) for (name, e), rows in rankings.items()},
    )


def of_documents(spaces: Sequence[Space], most: int = 200, seed: int = 0) -> list[Variant]:
    """Spaces of one corpus with some of its documents as the queries, the same ones in each, drawn at random.

    For a corpus without queries, or with vectors that no encoder at hand made: what is compared are neighbourhoods.
    """
    rows = np.sort(np.random.default_rng(seed).permutation(len(spaces[0]))[:most]).tolist()
    return [Variant(space, space.embeddings.take(rows)) for space in spaces]


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n,) the share of documents that two sets have in common, of the larger set; NaN where both are empty.

    a, b: (n, k) rows of the corpus, distinct within a query, −1 pads.
    """
    common = ((a[:, :, None] == b[:, None, :]) & (a >= 0)[:, :, None]).sum((1, 2))
    larger = np.maximum((a >= 0).sum(1), (b >= 0).sum(1))
    return np.where(larger > 0, common / np.maximum(larger, 1), np.nan)


def apart(comparison: EncoderComparison, decoder: str, encoder: str, metric: str, most: int = 20) -> list[Apart]:
    """The queries on which an encoder's sets differ most from the first encoder's: those that share least, and among
    them those whose metric differs most."""
    shared = comparison.overlap[decoder, encoder]
    first, other = (comparison.values[decoder, e][metric] for e in (comparison.encoders[0], encoder))
    order = np.lexsort((-np.nan_to_num(np.abs(first - other)), shared))
    return [
        Apart(i, float(shared[i]), _defined(first[i]), _defined(other[i]))
        for i in order[:most].tolist()
        if shared[i] < 1  # alike, or empty, from here on
    ]


def _compared(
    metric: str,
    values: Mapping[tuple[str, str], Mapping[str, np.ndarray]],
    decoders: Sequence[str],
    encoders: Sequence[str],
    k: int,
    resamples: int,
    seed: int,
) -> dict[str, tuple[Comparison, ...]]:
    """Decoder → every other encoder against the first; nothing where no query has the metric everywhere."""
    table = {pair: np.asarray(columns[metric], dtype=np.float64) for pair, columns in values.items()}
    # A decoder that never has the metric must not take it from the others.
    measured = [d for d in decoders if all(np.isfinite(table[d, e]).any() for e in encoders)]
    both = np.all([np.isfinite(table[d, e]) for d in measured for e in encoders], axis=0)
    if not measured or not both.any():
        return {}
    pairs = [(d, e) for d in measured for e in encoders[1:]]
    first = np.stack([table[d, encoders[0]][both] for d, _ in pairs], axis=1)
    other = np.stack([table[pair][both] for pair in pairs], axis=1)
    labels = [(f"{decoder} with {encoder}", encoder, f"with {encoders[0]}") for decoder, encoder in pairs]
    rows = build_comparisons(labels, metric, k, other, first, resamples, seed)
    return {d: tuple(row for row, (name, _) in zip(rows, pairs, strict=True) if name == d) for d in measured}


def _check(variants: Mapping[str, Variant], decoders: Sequence[Decoder]) -> None:
    if len(variants) < 2:
        raise DataError(f"comparing encoders takes at least two; got {', '.join(variants) or 'none'}")
    if not decoders or not all(isinstance(decoder, Decoder) for decoder in decoders):
        raise ParamError(f"decoders must be a list of engine.Decoder, at least one; got {decoders!r}")
    (one, first), *others = variants.items()
    for name, variant in others:
        if variant.space.corpus != first.space.corpus:
            raise DataError(
                f"{one} and {name} are not of one corpus ({len(first.space):,} and {len(variant.space):,} documents, "
                f"digests {first.space.corpus.digest[:8]} and {variant.space.corpus.digest[:8]})"
            )
        if variant.queries.ids != first.queries.ids:
            raise DataError(f"{one} and {name} must have the same queries in the same order")


def _defined(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
