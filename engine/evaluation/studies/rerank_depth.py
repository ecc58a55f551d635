"""Quality of a reranker by the number of documents that it reranks (sparse-dense paper, Fig. 6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import torch

from engine.candidates import Candidates, without_autocast
from engine.decoder import (
    DEPTH,
    SET_SIZE,
    Decoder,
    ScoredCandidates,
    decode,
    query_batch,
    replace_relevance,
    select_from,
)
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

RERANK_DEPTHS = (10, 20, 50, 100, 200, 500, 1000)
RANDOM_DOCUMENTS = Whole(100, "random", 0, name="random", help="How many other documents, at random, are reranked too.")


def rerank_depths(
    decoders: Sequence[Decoder],
    space: Space,
    queries: Queries | Embeddings,
    qrels: Qrels,
    *,
    depths: Sequence[int] = RERANK_DEPTHS,
    k: int = 10,
    metrics: Sequence[str] = ("mrr",),
    **options: Any,
) -> Iterator[Cell]:
    """Measure decoders at several rerank depths.

    `decoder["depth"]` of a cell is its depth.

    Parameters
    ----------
    decoders : sequence of Decoder
        Decoders with a rerank stage; their own depth is ignored.
    space : Space
        The corpus to search.
    queries : Queries or Embeddings
        The queries, whose ids name the judgements.
    qrels : Qrels
        Their judgements.
    depths : sequence of int
        The numbers of retrieved documents to rerank, from k on; the full corpus once, in place of those beyond it.
    k : int
        The size of the retrieved sets.
    metrics : sequence of str
        Names of metrics.
    **options
        Options of `sweep`.

    Returns
    -------
    iterator of Cell
        One cell for each decoder and depth.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.

    Examples
    --------
    >>> cells = engine.rerank_depths([decoder], space, queries, qrels)  # doctest: +SKIP
    """
    k = SET_SIZE.check(k)
    decoder_list = [decoders] if isinstance(decoders, Decoder) else decoders
    checked_decoders = check_list(decoder_list, "decoders", "a list of engine.Decoder", Decoder)
    for decoder in checked_decoders:
        if decoder.rerank is None:
            raise ParamError(
                "decoders must have a rerank stage, engine.Decoder(rerank=…), for the depth to matter; "
                f"{decoder.label} has none"
            )
    depth_list = check_list(depths, "depths", f"a list of whole numbers in [{k}, ∞)")
    sorted_depths = sorted({min(DEPTH.check(depth) or len(space), len(space)) for depth in depth_list})
    if sorted_depths[0] < min(k, len(space)):
        raise ParamError(f"depths must be whole numbers in [{k}, ∞), k being {k}; got {sorted_depths[0]!r} among them")
    depth_decoders = [replace(decoder, depth=depth) for decoder in checked_decoders for depth in sorted_depths]
    return sweep(depth_decoders, space, queries, qrels, k, metrics, **options)


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
    """Measure a reranker on the best documents mixed with random ones (Luan et al. 2021, Fig. 4).

    decoder: with a rerank stage; its own rerank depth is ignored; best: number of retrieved documents, k at least;
    random: number of documents that were not retrieved, drawn by seed and query id, all if there are fewer; metrics:
    those of `measure` that need judgements or nothing. A relevant document in neither part cannot be found. Raises
    ParamError or DataError.
    """
    if decoder.rerank is None:
        raise ParamError(f"decoder must have a rerank stage, engine.Decoder(rerank=…); {decoder.label} has none")
    k, seed, n_random = SET_SIZE.check(k), SEED.check(seed), RANDOM_DOCUMENTS.check(random)
    if (depth := DEPTH.check(best) or len(space)) < k:
        raise ParamError(f"best must be a whole number in [{k}, ∞), k being {k}; got {best}")
    batch, n_documents = query_batch(space, queries), len(space)
    retriever = Decoder(make_selector("top_k"), decoder.retrieve)
    first_rows = decode(retriever, space, queries, min(depth, n_documents)).index
    rankings = []
    for query, query_id in enumerate(batch.ids):
        block = batch.block(query, query + 1)
        remaining = np.setdiff1d(np.arange(n_documents), first_rows[query].cpu().numpy())
        # Drawn by the query's id, so that the documents do not depend on the other queries.
        rng = Random(f"{seed} {query_id}".encode(errors="surrogatepass"))
        drawn = rng.sample(remaining.tolist(), min(n_random, len(remaining)))
        # A row of −1 pads queries for which fewer documents were retrieved.
        retrieved = [row_index for row_index in first_rows[query].tolist() if row_index >= 0]
        pool = torch.tensor(sorted([*retrieved, *drawn]), dtype=torch.int64, device=space.device)[None]
        scores = decoder.rerank.score(space, block, pool)
        # The pool takes the place of the corpus, and the reranker's scores that of the inner products.
        pooled = Candidates(space.vectors[pool], scores, block.vectors, space.matrix, pool=pool)
        candidates = replace_relevance(pooled, scores, decoder.rerank)
        rankings.append(select_from(decoder.select, ScoredCandidates(candidates, scores[0], True), k))
    return measure(Ranking.joined(rankings), space, batch.ids, qrels, k, metrics)


@dataclass(frozen=True, slots=True)
class DepthResult:
    """Mean of one metric at one rerank depth, the number of retrieved documents that are reranked."""

    depth: int | None  # None for no reranking
    mean: float  # over the queries that have it everywhere
    low: float | None  # its 95% interval, None for one query
    high: float | None
    milliseconds: float | None  # of a query that is asked alone, None where many were timed together


@dataclass(frozen=True, kw_only=True)
class DepthComparison:
    """Quality of a reranker by depth."""

    metric: str
    k: int
    rows: tuple[DepthResult, ...]  # rising depth, first the one without reranking if it was measured
    best: DepthResult  # of them the reranked one with the most
    shallowest: DepthResult  # least depth not significantly worse than that (paired randomisation test, Holm)
    gain: int | None  # sign of best's significant difference to no reranking, 0 for none, None without that
    queries: int  # number of those that count


def compare_depths(cells: Sequence[Cell], metric: str, k: int = 10) -> DepthComparison:
    """Compare the depths that `rerank_depths` measured for one decoder with the best one.

    It finds the shallowest depth that is not significantly worse than the best, since a shallow one is faster. A cell
    is one decoder's metrics, query by query, at one k. cells: of one selector with its scorer and reranker, at
    different rerank depths, and at most one without reranking. Raises ParamError or DataError.
    """
    common_cells = align_on_common_queries(cells, (metric,), k)
    cell_values = common_cells.values[metric]
    columns = zip(common_cells.cells, cell_values.T, bootstrap_intervals(cell_values, BAND_RESAMPLES, 0), strict=True)
    depth_rows = []
    for cell, column, (low_mean, high_mean) in columns:
        depth = cell.decoder["depth"] if cell.decoder["rerank"] else None
        depth_rows.append((DepthResult(depth, float(column.mean()), low_mean, high_mean, cell.latency), cell.label))
    # The row without reranking, whose depth is None, goes first.
    depth_rows.sort(key=lambda depth_row: depth_row[0].depth or 0)
    reranked = [depth_row for depth_row in depth_rows if depth_row[0].depth is not None]
    if not reranked or len({depth_row.depth for depth_row, _ in depth_rows}) < len(depth_rows):
        raise ParamError("points must be of one decoder at different depths, and at most one without reranking")
    best, best_label = max(reranked, key=lambda depth_row: depth_row[0].mean)
    comparisons = compare(common_cells.cells, metric, best_label, k)
    # Label → sign of the difference to the best; 0 if it is not significant, and so counts as no worse.
    signs = dict.fromkeys((row.label for row in comparisons), 0) | {best_label: 0}
    signs |= {row.label: int(np.sign(row.difference)) for row in comparisons if row.significant}
    # Where there is a row without reranking it is the first; the best's sign against it is the opposite of its own.
    _first_row, first_label = depth_rows[0]
    gain = None if len(reranked) == len(depth_rows) else -signs[first_label]
    return DepthComparison(
        metric=metric, k=k, rows=tuple(depth_row for depth_row, _label in depth_rows), best=best,
        shallowest=next(depth_row for depth_row, label in reranked if signs[label] >= 0),
        gain=gain, queries=len(common_cells.queries),
    )  # fmt: skip
