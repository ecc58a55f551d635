"""What a reranker is worth by how much it gets to see (sparse-dense paper, Fig. 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.decoder import DEPTH, SET_SIZE, Decoder
from engine.errors import ParamError
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.pairing import shared
from engine.evaluation.points import Point
from engine.evaluation.statistics import compare, intervals
from engine.evaluation.sweep import sweep
from engine.space import Space
from engine.values import Embeddings, Qrels, Queries

DEPTHS = (10, 20, 50, 100, 200, 500, 1000)


def rerank_depths(
    decoders: Sequence[Decoder],
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels,
    *,
    depths: Sequence[int] = DEPTHS,
    k: int = 10,
    metrics: Sequence[str] = ("mrr",),
    **options: Any,
) -> Iterator[Point]:
    """Every decoder at every rerank depth, as Points, MRR@10 by default; `decoder["depth"]` of a point is its depth.

    decoders: each with a rerank stage, their own depth passed over; depths: how many of the retrieved documents are
    reranked, from k on; in place of those beyond the corpus, the whole of it once; options: as `sweep` takes them.
    Raises ParamError or DataError before the first.
    """
    k = SET_SIZE.check(k)
    if isinstance(decoders, Decoder):
        decoders = [decoders]
    elif not isinstance(decoders, Iterable):
        raise ParamError(f"decoders must be a list of engine.Decoder; got {decoders!r}")
    for decoder in (decoders := list(decoders)):
        if not isinstance(decoder, Decoder):
            raise ParamError(f"decoders must be a list of engine.Decoder; got {decoder!r} among them")
        if decoder.rerank is None:
            raise ParamError(
                f"decoders must have a rerank stage, engine.Decoder(rerank=…), for the depth to matter; "
                f"{decoder.label} has none"
            )
    if isinstance(depths, str) or not isinstance(depths, Iterable) or not (depths := list(depths)):
        raise ParamError(f"depths must be a list of whole numbers in [{k}, ∞); got {depths!r}")
    wanted = sorted({min(DEPTH.check(depth) or len(space), len(space)) for depth in depths})
    if wanted[0] < min(k, len(space)):
        raise ParamError(f"depths must be whole numbers in [{k}, ∞), k being {k}; got {wanted[0]!r} among them")
    cells = [replace(decoder, depth=depth) for decoder in decoders for depth in wanted]
    return sweep(cells, space, queries, qrels, k, metrics, **options)


@dataclass(frozen=True, slots=True)
class AtDepth:
    """One metric at one depth, None for no reranking.

    mean: over the queries that have it everywhere; low, high: its 95 % interval, None for one query; milliseconds: a
    query took.
    """

    depth: int | None
    mean: float
    low: float | None
    high: float | None
    milliseconds: float


@dataclass(frozen=True)
class ByDepth:
    """A reranker's worth by depth. rows: rising depth, without reranking first where it is there; best: of them the
    reranked one with the most; shallowest: the least depth that cannot be told to have less than that (paired
    randomisation test, Holm); gain: whether the best can be told to have more (1) or less (−1) than without reranking,
    0 for neither, None where that is not there; queries: how many count."""

    metric: str
    k: int
    rows: tuple[AtDepth, ...]
    best: AtDepth
    shallowest: AtDepth
    gain: int | None
    queries: int


def by_depth(points: Sequence[Point], metric: str, k: int = 10) -> ByDepth:
    """What `rerank_depths` measured of one decoder, and what can be told of it.

    points: of one chain, at different depths, and at most one without reranking. Raises ParamError or DataError.
    """
    found = shared(points, (metric,), k)
    values = found.values[metric]
    ends = intervals(values, BAND_RESAMPLES, 0)
    rows = []
    for i, p in enumerate(found.points):
        low, high = (None, None) if ends is None else ends[:, i].tolist()
        depth = p.decoder["depth"] if p.decoder["rerank"] else None
        rows.append((depth, p, AtDepth(depth, float(values[:, i].mean()), low, high, p.milliseconds)))
    rows.sort(key=lambda row: (row[0] is not None, row[0] or 0))
    reranked = [row for row in rows if row[0] is not None]
    if not reranked or len({row[0] for row in rows}) < len(rows):
        raise ParamError("points must be of one decoder at different depths, and at most one without reranking")
    most = max(reranked, key=lambda row: (row[2].mean, -row[0]))
    told = {}
    if len(rows) > 1 and len(values) > 1:
        for row in compare([p for _, p, _ in rows], metric, most[1], k):
            told[row.label] = int(np.sign(row.difference)) if row.told else 0
    shallowest = next(row for row in reranked if row is most or told.get(row[1].label, 0) >= 0)
    plain = next((row for row in rows if row[0] is None), None)
    gain = None if plain is None else -told.get(plain[1].label, 0)
    lines = tuple(row for _, _, row in rows)
    return ByDepth(metric, k, lines, most[2], shallowest[2], gain, len(found.queries))
