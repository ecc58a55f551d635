"""What a reranker is worth by how much it gets to see (sparse-dense paper, Fig. 6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import torch

from engine.candidates import Candidates, without_autocast
from engine.decoder import DEPTH, SET_SIZE, Decoder, ScoredCandidates, decode, query_batch, select_from
from engine.errors import ParamError
from engine.evaluation.frontier import BAND_RESAMPLES
from engine.evaluation.metrics import Measures, measure
from engine.evaluation.paired import align_on_common_queries
from engine.evaluation.statistics import SEED, bootstrap_intervals, compare
from engine.evaluation.sweep.cell import Cell
from engine.evaluation.sweep.sweep import check_list, sweep
from engine.params import Whole
from engine.space import Space
from engine.stages import make_selector
from engine.values import Embeddings, Qrels, Queries, Ranking

DEPTHS = (10, 20, 50, 100, 200, 500, 1000)
RANDOM = Whole(100, "random", 0, name="random", help="How many other documents, at random, are reranked too.")


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
) -> Iterator[Cell]:
    """Every decoder at every rerank depth, as Points, MRR@10 by default; `decoder["depth"]` of a point is its depth.

    decoders: each with a rerank stage, their own depth passed over; depths: how many of the retrieved documents are
    reranked, from k on; in place of those beyond the corpus, the whole of it once; options: as `sweep` takes them.
    Raises ParamError or DataError before the first.
    """
    k = SET_SIZE.check(k)
    given = [decoders] if isinstance(decoders, Decoder) else decoders
    chosen = check_list(given, "decoders", "a list of engine.Decoder", Decoder)
    for decoder in chosen:
        if decoder.rerank is None:
            raise ParamError(
                "decoders must have a rerank stage, engine.Decoder(rerank=…), for the depth to matter; "
                f"{decoder.label} has none"
            )
    listed = check_list(depths, "depths", f"a list of whole numbers in [{k}, ∞)")
    sizes = sorted({min(DEPTH.check(depth) or len(space), len(space)) for depth in listed})
    if sizes[0] < min(k, len(space)):
        raise ParamError(f"depths must be whole numbers in [{k}, ∞), k being {k}; got {sizes[0]!r} among them")
    cells = [replace(decoder, depth=depth) for decoder in chosen for depth in sizes]
    return sweep(cells, space, queries, qrels, k, metrics, **options)


@without_autocast
def rerank_mixed(
    decoder: Decoder,
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels,
    *,
    best: int = 100,
    random: int = 100,
    k: int = 10,
    metrics: Sequence[str] = ("mrr",),
    seed: int = 0,
) -> Measures:
    """What a reranker makes of the best retrieved documents with others at random among them (sparse-dense §5, Fig. 4).

    decoder: with a rerank stage, its depth passed over; best: how many of the retrieved ones, k at least; random: how
    many of the rest, drawn by seed and query id, all where there are no more; metrics: of `measure` that need
    judgements or nothing. A relevant document that neither brings cannot be found. Raises ParamError or DataError.
    """
    if decoder.rerank is None:
        raise ParamError(f"decoder must have a rerank stage, engine.Decoder(rerank=…); {decoder.label} has none")
    k, seed, others = SET_SIZE.check(k), SEED.check(seed), RANDOM.check(random)
    if (depth := DEPTH.check(best) or len(space)) < k:
        raise ParamError(f"best must be a whole number in [{k}, ∞), k being {k}; got {best}")
    batch, n = query_batch(space, queries), len(space)
    first = decode(Decoder(make_selector("top_k"), decoder.retrieve), space, queries, min(depth, n)).index
    answers = []
    for at, name in enumerate(batch.ids):
        one = batch.block(at, at + 1)
        rest = np.setdiff1d(np.arange(n), first[at].cpu().numpy())
        drawn = Random(f"{seed} {name}".encode(errors="surrogatepass")).sample(rest.tolist(), min(others, len(rest)))
        pool = torch.tensor(sorted([*first[at].tolist(), *drawn]), device=space.device)[None]
        scores = decoder.rerank.score(space, one, pool)
        c = Candidates(space.vectors[pool], scores, one.vectors, space.matrix, decoder.rerank.inner_product, pool)
        answers.append(select_from(decoder.select, ScoredCandidates(c, scores[0], True), k))
    return measure(Ranking.joined(answers), space, batch.ids, qrels, k, metrics)


@dataclass(frozen=True, slots=True)
class AtDepth:
    """One metric at one depth."""

    depth: int | None  # None for no reranking
    mean: float  # over the queries that have it everywhere
    low: float | None  # its 95% interval, None for one query
    high: float | None
    milliseconds: float | None  # of a query that is asked alone, None where many were timed together


@dataclass(frozen=True, kw_only=True)
class ByDepth:
    """A reranker's worth by depth."""

    metric: str
    k: int
    rows: tuple[AtDepth, ...]  # rising depth, first the one without reranking if it was measured
    best: AtDepth  # of them the reranked one with the most
    shallowest: AtDepth  # least depth not significantly worse than that (paired randomisation test, Holm)
    gain: int | None  # sign of best's significant difference to no reranking, 0 for none, None without that
    queries: int  # number of those that count


def by_depth(points: Sequence[Cell], metric: str, k: int = 10) -> ByDepth:
    """What `rerank_depths` measured of one decoder, and which depths differ significantly.

    points: of one chain, at different depths, and at most one without reranking. Raises ParamError or DataError.
    """
    common = align_on_common_queries(points, (metric,), k)
    values = common.values[metric]
    columns = zip(common.cells, values.T, bootstrap_intervals(values, BAND_RESAMPLES, 0), strict=True)
    rows = []
    for p, column, (low, high) in columns:
        depth = p.decoder["depth"] if p.decoder["rerank"] else None
        rows.append((AtDepth(depth, float(column.mean()), low, high, p.latency), p.label))
    rows.sort(key=lambda row: row[0].depth or 0)
    reranked = [row for row in rows if row[0].depth is not None]
    if not reranked or len({row.depth for row, _ in rows}) < len(rows):
        raise ParamError("points must be of one decoder at different depths, and at most one without reranking")
    best, label = max(reranked, key=lambda row: row[0].mean)
    compared = compare(common.cells, metric, label, k)
    signs = {label: 0} | {row.label: int(np.sign(row.difference)) if row.significant else 0 for row in compared}
    return ByDepth(
        metric=metric,
        k=k,
        rows=tuple(row for row, _ in rows),
        best=best,
        shallowest=next(row for row, label in reranked if signs[label] >= 0),
        gain=None if len(reranked) == len(rows) else -signs[rows[0][1]],
        queries=len(common.queries),
    )
