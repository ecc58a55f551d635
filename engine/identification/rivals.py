"""The documents that one setting would have picked in place of a run's, and what an index that lost them explains."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from engine.identification.evidence import GainRounding, QueryTracer, collect_traces
from engine.identification.families import DecoderFamily
from engine.identification.novelty import CONTRIBUTIONS, TOP
from engine.identification.peaks import Peak, explain_picks, find_peak
from engine.identification.pools import MAX_POOL_DEPTH, RunLists, ScoredPool, iterate_scores
from engine.progress import Progress
from engine.solvers.explained_weights import compute_novelty_error
from engine.solvers.greedy.steps import LOG_RESIDUAL, ROOT_RESIDUAL
from engine.space import Space

Array = np.ndarray

MAX_LOSS_RATE = 0.15
"""Largest share of documents that an index may have lost for its lists to be explained by that."""
MAX_LOSS_ROUNDS = 5
"""Each round takes the documents out that would have been picked; in a pool without them others may follow."""


@dataclass(frozen=True, kw_only=True)
class IndexLosses:
    """The documents that an index may not have found, and the share of picks that this explains.

    rate: the share of documents that it lost, of those that would have been picked; n_lost: their number, over all
    queries; documents: rows that no list has, the most often lost first; share_explained: of the picks, without them
    """

    rate: float
    n_lost: int
    documents: tuple[int, ...]
    share_explained: float


def find_rivals(
    family: DecoderFamily, space: Space, lists: RunLists, weight: float | None, depth_index: int,
    lost: Mapping[int, set[int]] | None = None,
) -> Iterator[tuple[int, list[Array]]]:  # fmt: skip
    """Yield each query with, for each pick, the rows that one setting would rather have picked, the best first.

    weight: λ, None for a family without one; depth_index: size of the pool, beyond MAX_POOL_DEPTH all documents; lost:
    query → rows that are no candidates of its
    """
    n_depths = min(MAX_POOL_DEPTH, len(space))
    squares = (space.matrix.lengths.double() ** 2).cpu().numpy()
    for query_index, scores_by_key in iterate_scores([family], space, lists):
        tracer = QueryTracer(space, lists, query_index, squares, n_depths)
        excluded = set() if lost is None else lost.get(query_index, set())
        key = family.scorer, family.metric
        pool = tracer.build_pool(key, scores_by_key[key], excluded)
        yield query_index, _list_rivals(family, tracer, pool, weight, depth_index, n_depths)


def _list_rivals(
    family: DecoderFamily, tracer: QueryTracer, pool: ScoredPool, weight: float | None, depth_index: int, n_depths: int
) -> list[Array]:
    """Return, for each pick of a list, the rows of the pool that gain more by one setting, the best first."""
    is_full = depth_index > n_depths
    candidates = np.concatenate([pool.order, pool.tail]) if is_full else pool.order[:depth_index]
    scaled, gains = pool.scale(family.scale, n_depths), tracer.measure_gains(family)
    factor = gains.factor * (scaled.ratios[min(depth_index, n_depths + 1)] if len(scaled.ratios) else 1.0)
    lam, order = 1.0 if weight is None else weight, np.arange(len(tracer.picks))
    if family.kind == CONTRIBUTIONS:
        order = tracer.find_order(family, scaled, factor, lam)
        novelty: Array | None = tracer.build_ordered_novelty(family, order)
    else:
        novelty = tracer.build_novelty(family)
    coverage = _CoverageGains(family, tracer, candidates) if novelty is None and family.kind != TOP else None
    # As in the intervals, each pick is judged given the picks that were really made.
    chosen: list[int] = []
    rivals = [np.empty(0, np.int64)] * len(order)
    for rank, pick in enumerate(tracer.picks[order].tolist()):
        a = factor * (scaled.values[candidates] - scaled.values[pick])
        excess = a - factor * scaled.slack
        if coverage is not None or (novelty is not None and not (rank == 0 and gains.first_by_relevance)):
            if coverage is not None:
                b = coverage.compare(pick, chosen) - gains.similarity_slack
            elif novelty is not None:
                b = novelty[rank][candidates] - novelty[rank][pick]
                b = b - _bound_errors(family, gains, novelty[rank], candidates, pick)
            excess = lam * excess + (1 - lam) * b
        # What stands in the list already is no rival.
        excess[np.isin(candidates, [*chosen, pick])] = -np.inf
        ranked = np.argsort(-excess, kind="stable")
        rivals[order[rank]] = candidates[ranked[excess[ranked] > 0]]
        chosen.append(pick)
    return rivals


def _bound_errors(family: DecoderFamily, gains: GainRounding, novelty: Array, candidates: Array, pick: int) -> Array:
    """Return the rounding of the difference in novelty between each candidate and a pick."""
    if family.kind not in (LOG_RESIDUAL, ROOT_RESIDUAL):
        return np.full(len(candidates), gains.similarity_slack)
    rows = np.append(candidates, pick)
    errors = np.array([compute_novelty_error(family.kind, value, gains.square_error) for value in novelty[rows]])
    bounds: Array = gains.similarity_slack + errors[:-1] + errors[-1]
    return bounds


class _CoverageGains:
    """Gains of coverage within one ground set, as facility_location adds them to relevance."""

    def __init__(self, family: DecoderFamily, tracer: QueryTracer, candidates: Array) -> None:
        """Compute the similarities within the ground set, the most relevant candidates."""
        size = min(len(candidates), getattr(family.selector, "ground_set", None) or len(candidates))
        self._ground, self._n_candidates = candidates[:size], len(candidates)
        self._similarities = np.maximum(tracer.compare_rows(family, self._ground), 0.0)
        self._factor = tracer.k / max(size, 1)

    def compare(self, pick: int, chosen: list[int]) -> Array:
        """Return how much more coverage each candidate adds than a pick; −∞ outside the ground set."""
        coverage = np.zeros(len(self._ground))
        if len(members := np.flatnonzero(np.isin(self._ground, chosen))):
            coverage = self._similarities[members].max(0)
        added = np.maximum(self._similarities - coverage, 0.0).sum(1)
        is_pick = self._ground == pick
        pick_added = added[is_pick][0] if is_pick.any() else 0.0
        differences = np.full(self._n_candidates, -np.inf)
        differences[: len(added)] = self._factor * (added - pick_added)
        return differences


def estimate_losses(
    family: DecoderFamily, peak: Peak, space: Space, lists: RunLists, depth: int | None, seed: int, progress: Progress
) -> IndexLosses | None:
    """Take the documents out that the peak's setting would have picked and no list of the query has; find the new peak.

    None if no document is missing, or more than MAX_LOSS_RATE would be. A document that stands further down in the list
    was not lost: the order of a list is not explained by losses. depth: the only depth of the new peak, None for any
    """
    lost: dict[int, set[int]] = {}
    losses = None
    for _ in range(MAX_LOSS_ROUNDS):
        n_new = _add_lost(lost, family, space, lists, (peak.weight, peak.depth_index))
        n_lost = sum(map(len, lost.values()))
        rate = n_lost / (n_lost + lists.n_picks)
        # With enough losses anything could be explained.
        if rate > MAX_LOSS_RATE:
            return None
        if not n_new:
            break
        # Without lost documents pools reach further, and the peak may move.
        (traces,) = collect_traces([family], space, lists, progress, lost)
        peak = find_peak(traces, depth, seed)
        losses = IndexLosses(
            rate=rate, n_lost=n_lost, documents=_list_missing(lost, lists), share_explained=peak.share_explained
        )
    return losses


def estimate_losses_at(
    family: DecoderFamily, space: Space, lists: RunLists, setting: tuple[float | None, int], progress: Progress
) -> IndexLosses | None:
    """Take the documents out that one setting would have picked and no list of the query has.

    None if no document is missing, or more than MAX_LOSS_RATE would be. setting: λ, and the depth of the pool
    """
    lost: dict[int, set[int]] = {}
    for _ in range(MAX_LOSS_ROUNDS):
        n_new = _add_lost(lost, family, space, lists, setting)
        n_lost = sum(map(len, lost.values()))
        if not n_new or n_lost / (n_lost + lists.n_picks) > MAX_LOSS_RATE:
            break
    rate = n_lost / (n_lost + lists.n_picks)
    if not n_lost or rate > MAX_LOSS_RATE:
        return None
    (traces,) = collect_traces([family], space, lists, progress, lost)
    share = float(explain_picks(traces, setting[1], setting[0]).mean())
    return IndexLosses(rate=rate, n_lost=n_lost, documents=_list_missing(lost, lists), share_explained=share)


def _add_lost(
    lost: dict[int, set[int]], family: DecoderFamily, space: Space, lists: RunLists, setting: tuple[float | None, int]
) -> int:
    """Add the documents that a setting would have picked and that a query's list lacks; return how many are new."""
    n_before = sum(map(len, lost.values()))
    for query_index, rivals in find_rivals(family, space, lists, *setting, lost):
        members = set(lists.rows[query_index].tolist())
        for pick_rivals in rivals:
            lost.setdefault(query_index, set()).update(set(pick_rivals.tolist()) - members)
    return sum(map(len, lost.values())) - n_before


def _list_missing(lost: Mapping[int, set[int]], lists: RunLists) -> tuple[int, ...]:
    """Return the lost rows that stand in no list at all, the most often lost first."""
    returned = {int(row) for rows in lists.rows for row in rows}
    # A document that another query got is in the index: it was missed, not lost.
    counts: dict[int, int] = {}
    for rows in lost.values():
        for row in rows - returned:
            counts[row] = counts.get(row, 0) + 1
    return tuple(sorted(counts, key=lambda row: (-counts[row], row)))
