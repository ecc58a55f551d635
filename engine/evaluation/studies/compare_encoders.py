"""Encoders side by side: the same decoders on the same queries, in the space that each encoder makes of one corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from engine.decoder import SET_SIZE, Decoder, decode
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.evaluation.metrics import available_metrics, mean_of_defined, measure
from engine.evaluation.paired import short_names
from engine.evaluation.statistics import RESAMPLES, SEED, Comparison, build_comparisons
from engine.evaluation.sweep.cell import decoder_to_json
from engine.progress import Progress, Stop, counted, with_cancellation
from engine.space import Space
from engine.values import Embeddings, Qrels, Ranking

DECODE_BLOCK_SIZE = 64
"""Queries decoded between two checks for cancellation."""
COMPARED_METRICS = ("recall", "comp", "ndcg", "mrr", "precision", "ilad", "redundancy")


class Variant(NamedTuple):
    """One corpus as one encoder sees it: its space, and the queries' vectors by the same encoder."""

    space: Space
    queries: Embeddings


@dataclass(frozen=True, eq=False, kw_only=True)
class EncoderComparison(OneLine):
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
        """Return a metric's mean over the queries that have it, None if none has."""
        return _none_if_nan(mean_of_defined(self.values[decoder, encoder][metric]))

    def agreement(self, decoder: str, encoder: str) -> float | None:
        """Return the mean overlap with the first encoder's sets; None if all sets are empty."""
        return _none_if_nan(mean_of_defined(self.overlap[decoder, encoder]))


class Disagreement(NamedTuple):
    """A query on which two encoders differ."""

    query: int  # its position among the queries
    overlap: float  # share of common documents
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

    Similarities of two encoders are not comparable, so ILAD of all sets is measured in the first encoder's space.
    Interval and test are paired over the queries on which all decoders have the metric with all encoders; Holm's
    correction is over the rows of a metric.

    Parameters
    ----------
    variants : mapping of str to Variant
        At least two spaces by name, of one corpus, with the same queries in the same order.
    decoders : sequence of Decoder
        The decoders to compare.
    qrels : Qrels or None
        Their judgements.
    k : int
        The size of the retrieved sets.
    metrics : sequence of str or None
        Names of metrics; by default those that can be measured.
    resamples : int
        The number of draws of the intervals.
    seed : int
        The seed of the random numbers.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.

    Returns
    -------
    EncoderComparison
        The cells of all variants and their comparisons.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b", "c"), ("red apple", "green apple", "blue sky"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b", "c"), torch.eye(3)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5, 0.1]])), engine.Qrels({"q": {"a": 1}})
    >>> variants = dict.fromkeys(("one", "two"), Variant(space, queries))
    >>> decoders = [engine.Decoder(engine.make("top_k"))]
    >>> comparison = engine.compare_encoders(variants, decoders, qrels, k=1)
    """
    k, resamples, seed = SET_SIZE.check(k), RESAMPLES.check(resamples), SEED.check(seed)
    decoders = list(dict.fromkeys(decoders))
    _check_variants(variants, decoders)
    if metrics is None:
        metrics = [metric for metric in COMPARED_METRICS if metric in available_metrics(qrels)]
    metrics = tuple(metrics)
    encoders, baseline = tuple(variants), next(iter(variants.values()))
    labels = short_names([SimpleNamespace(decoder=decoder_to_json(decoder)) for decoder in decoders])
    report = with_cancellation(progress, stop, "comparing encoders stopped at {done} of {total} answers")
    values, rankings = {}, {}
    n_total, n_done = len(decoders) * len(variants) * len(baseline.queries), 0
    for label, decoder in zip(labels, decoders, strict=True):
        for encoder, variant in variants.items():
            row_blocks = []
            for block_start in range(0, len(variant.queries), DECODE_BLOCK_SIZE):
                block_end = min(block_start + DECODE_BLOCK_SIZE, len(variant.queries))
                block_queries = variant.queries.take(range(block_start, block_end))
                report(n_done, n_total, f"{label} with {encoder}")
                row_blocks.append(decode(decoder, variant.space, block_queries, k))
                n_done += len(block_queries)
            ranking = Ranking.joined(row_blocks)
            rankings[label, encoder] = ranking.index.cpu().numpy()
            # All sets are measured in the first space: a similarity means something else in every other.
            ranking = replace(ranking, index=ranking.index.to(baseline.space.device))
            values[label, encoder] = measure(ranking, baseline.space, baseline.queries, qrels, k, metrics).values
    report(n_done, n_total, "statistics")
    overlap = {}
    for (label, encoder), rows in rankings.items():
        overlap[label, encoder] = compute_overlap(rankings[label, encoders[0]], rows)
    return EncoderComparison(
        encoders=encoders, decoders=labels, k=k, queries=baseline.queries.ids, metrics=metrics, values=values,
        rows={metric: _compare_metric(metric, values, labels, encoders, k, resamples, seed) for metric in metrics},
        overlap=overlap,
    )  # fmt: skip


def build_document_variants(spaces: Sequence[Space], max_queries: int = 200, seed: int = 0) -> list[Variant]:
    """Build variants of one corpus whose queries are random documents, the same ones in every space.

    A variant is a corpus embedded by one encoder, with its queries; comparing these variants compares which documents
    the encoders place near each other. It serves a corpus without queries, or one whose vectors no available encoder
    made. spaces: one for each encoder, of the same corpus
    """
    rows = np.sort(np.random.default_rng(seed).permutation(len(spaces[0]))[:max_queries]).tolist()
    return [Variant(space, space.embeddings.take(rows)) for space in spaces]


def compute_overlap(first_rows: np.ndarray, second_rows: np.ndarray) -> np.ndarray:
    """Return the (n,) share of the larger set that two sets have in common; NaN if both are empty.

    first_rows, second_rows: (n, k) rows of the corpus, distinct within a query, −1 pads.
    """
    # Pads of one set equal those of the other: only rows of the corpus are common documents.
    n_common = ((first_rows[:, :, None] == second_rows[:, None, :]) & (first_rows >= 0)[:, :, None]).sum((1, 2))
    larger_size = np.maximum((first_rows >= 0).sum(1), (second_rows >= 0).sum(1))
    return np.where(larger_size > 0, n_common / np.maximum(larger_size, 1), np.nan)


def find_disagreements(
    comparison: EncoderComparison, decoder: str, encoder: str, metric: str, max_queries: int = 20
) -> list[Disagreement]:
    """Find the queries on which another encoder's sets differ most from the first encoder's.

    Ordered by the smallest overlap, then by the largest difference of the metric.
    """
    shares = comparison.overlap[decoder, encoder]
    first_values = comparison.values[decoder, comparison.encoders[0]][metric]
    other_values = comparison.values[decoder, encoder][metric]
    # The last key of lexsort counts first; queries without the metric come last among equals.
    order = np.lexsort((-np.nan_to_num(np.abs(first_values - other_values)), shares))
    # Sets that are alike share all documents; two empty ones have no share at all.
    return [
        Disagreement(query, float(shares[query]), _none_if_nan(first_values[query]), _none_if_nan(other_values[query]))
        for query in order[:max_queries].tolist()
        if shares[query] < 1
    ]


def _compare_metric(
    metric: str, values: Mapping[tuple[str, str], Mapping[str, np.ndarray]], decoders: Sequence[str],
    encoders: Sequence[str], k: int, resamples: int, seed: int,
) -> dict[str, tuple[Comparison, ...]]:  # fmt: skip
    """Compare in one metric each decoder on another encoder's vectors with itself on the first encoder's.

    values: (decoder, encoder) → metric → (n,). Only queries count on which all have the metric; {} if there are none.
    """
    metric_table = {pair: np.asarray(columns[metric], dtype=np.float64) for pair, columns in values.items()}
    is_defined = {pair: np.isfinite(column) for pair, column in metric_table.items()}
    # A decoder that never has the metric must not take it from the others.
    measured_decoders = []
    for decoder in decoders:
        if all(is_defined[decoder, encoder].any() for encoder in encoders):
            measured_decoders.append(decoder)
    is_common = np.all([is_defined[pair] for pair in product(measured_decoders, encoders)], axis=0)
    if not measured_decoders or not is_common.any():
        return {}
    # One call for all rows of a metric: Holm's correction is over them.
    first_encoder, *other_encoders = encoders
    named_pairs = list(product(measured_decoders, other_encoders))
    first_values = np.stack([metric_table[name, first_encoder][is_common] for name, _encoder in named_pairs], axis=1)
    other_values = np.stack([metric_table[pair][is_common] for pair in named_pairs], axis=1)
    labels = [(f"{decoder} with {encoder}", encoder, f"with {first_encoder}") for decoder, encoder in named_pairs]
    comparisons = build_comparisons(labels, metric, k, other_values, first_values, resamples, seed)
    by_decoder: dict[str, tuple[Comparison, ...]] = dict.fromkeys(measured_decoders, ())
    for (name, _), row in zip(named_pairs, comparisons, strict=True):
        by_decoder[name] += (row,)
    return by_decoder


def _check_variants(variants: Mapping[str, Variant], decoders: Sequence[Decoder]) -> None:
    """Raise a DataError or ParamError unless the encoders' variants have one corpus and the same queries.

    A variant is the corpus and the queries as one encoder embeds them. variants: by the encoder's name
    """
    if len(variants) < 2:
        raise DataError(f"comparing encoders takes at least two; got {', '.join(variants) or 'none'}")
    if not decoders or not all(isinstance(decoder, Decoder) for decoder in decoders):
        raise ParamError(f"decoders must be a list of engine.Decoder, at least one; got {decoders!r}")
    (first_name, first_variant), *remaining = variants.items()
    for name, variant in remaining:
        if variant.space.corpus != first_variant.space.corpus:
            raise DataError(
                f"{first_name} and {name} are not of one corpus ({len(first_variant.space):,} and "
                f"{counted(len(variant.space), 'document')}, digests {first_variant.space.corpus.digest[:8]} and "
                f"{variant.space.corpus.digest[:8]})"
            )
        if variant.queries.ids != first_variant.queries.ids:
            raise DataError(f"{first_name} and {name} must have the same queries in the same order")


def _none_if_nan(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
