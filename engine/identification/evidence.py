"""Evidence of a run for families of decoders: the weights of relevance that explain each pick, by depth of the pool."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from engine.identification.families import DecoderFamily
from engine.identification.novelty import (
    CONTRIBUTIONS,
    COSINE,
    INNER_PRODUCT,
    SWAPS,
    TOP,
    PickProducts,
    compute_novelty,
)
from engine.identification.pick_orders import find_order_intervals, find_pick_order, iterate_pick_orders
from engine.identification.pools import (
    MAX_PICKS,
    MAX_POOL_DEPTH,
    ROUNDING_SLACK,
    QueryScores,
    RunLists,
    ScaledRelevance,
    ScoredPool,
    ScorerKey,
    iterate_scores,
    measure_slacks,
    order_candidates,
)
from engine.matrix import GRAM_ROWS
from engine.matrix import products as multiply
from engine.progress import Progress
from engine.solvers.explained_weights import EMPTY_HIGH, EMPTY_LOW, trace_coverage, trace_list
from engine.solvers.greedy.steps import COVERAGE, LOG_RESIDUAL, NEAREST, ROOT_RESIDUAL, SUM
from engine.solvers.jit import is_compiled
from engine.space import Space

Array = np.ndarray

MAX_COVERAGE_DEPTH = 200
"""Largest ground set of facility_location that is looked at, beside its default."""
GROUND_SET_SIZE = 1000
"""The default ground set of facility_location."""
MIN_BLOCK_ROWS = 1 << 13
COMPILING = "compiling, once on this machine"
"""Label of the progress while the loops are compiled, which takes longer than many an identification."""


@dataclass(kw_only=True)
class Traces:
    """The intervals of λ that explain each pick of a run by one family, by depth of the pool.

    n_depths: pools of 1 … n_depths documents are told apart, and n_depths + 1 is the whole corpus; offsets, starts,
    lows, highs, pick_starts, query_index, ratios: as `explained_weights.find_intervals` takes them; pick_index: the
    pick of each of these, as a pick has several ranges of λ where its place among the picks depends on λ; n_picks: of
    the run
    """

    family: DecoderFamily
    n_depths: int
    offsets: Array
    starts: Array
    lows: Array
    highs: Array
    pick_starts: Array
    query_index: Array
    ratios: Array
    pick_index: Array
    n_picks: int

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The first arguments of the compiled loops."""
        return self.offsets, self.starts, self.lows, self.highs, self.pick_starts, self.query_index, self.ratios


class _RowBuffer:
    """Rows of a few columns of all families, one after the other, in blocks that stay where they are.

    Small arrays that stay, made between large ones that do not, would scatter memory: it could not be used again. So
    would arrays that grow, as they leave a hole behind whenever they move.
    """

    def __init__(self, *dtypes: type) -> None:
        """Begin without a row. dtypes: of the columns."""
        self._dtypes, self._blocks, self._n_rows = dtypes, list[list[Array]](), 0

    def append(self, columns: Sequence[Array]) -> tuple[int, slice]:
        """Copy some rows to the end; return the block and where in it they are."""
        n_added = len(columns[0])
        if not self._blocks or self._n_rows + n_added > len(self._blocks[-1][0]):
            size = max(MIN_BLOCK_ROWS, n_added)
            self._blocks.append([np.empty(size, dtype) for dtype in self._dtypes])
            self._n_rows = 0
        span = slice(self._n_rows, self._n_rows + n_added)
        for block_column, values in zip(self._blocks[-1], columns, strict=True):
            block_column[span] = values
        self._n_rows = span.stop
        return len(self._blocks) - 1, span

    def gather(self, spans: Sequence[tuple[int, slice]]) -> list[Array]:
        """Return the columns of some rows."""
        n_columns = range(len(self._dtypes))
        return [np.concatenate([self._blocks[block][column][span] for block, span in spans]) for column in n_columns]


@dataclass(frozen=True, eq=False)
class _TraceParts:
    """The parts of a family's traces, a part a query, before they are joined.

    events, picks: buffers that all families share, of changes of the intervals and of the picks that have them; ratios:
    (Q, depths + 2) or (Q, 0), written query by query, shared by families with the same scorer and scale
    """

    events: _RowBuffer
    picks: _RowBuffer
    ratios: Array
    event_spans: list[tuple[int, slice]] = field(default_factory=list)
    pick_spans: list[tuple[int, slice]] = field(default_factory=list)

    def add(self, picks: Array, pick_starts: Array, ratios: Array, events: tuple[Array, Array, Array, Array]) -> None:
        """Add one query's part. picks: their numbers in the run; events: counts, and that many changes of each."""
        self.ratios[len(self.pick_spans)] = ratios
        self.pick_spans.append(self.picks.append((events[0], pick_starts, picks)))
        self.event_spans.append(self.events.append(events[1:]))

    def join(self, family: DecoderFamily, n_depths: int, query_index: Array) -> Traces:
        """Join the parts of all queries. query_index: of the picks of the run"""
        starts, lows, highs = self.events.gather(self.event_spans)
        counts, pick_starts, pick_index = self.picks.gather(self.pick_spans)
        return Traces(
            family=family, n_depths=n_depths, offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            starts=starts, lows=lows, highs=highs, pick_starts=pick_starts, query_index=query_index[pick_index],
            ratios=self.ratios, pick_index=pick_index, n_picks=len(query_index),
        )  # fmt: skip


def _make_parts(families: Sequence[DecoderFamily], lists: RunLists, n_depths: int) -> dict[DecoderFamily, _TraceParts]:
    """Return the parts of all families, which write to arrays that they share."""
    events, picks = _RowBuffer(np.int64, np.float64, np.float64), _RowBuffer(np.int64, np.int64, np.int64)
    n_queries, shared_ratios = len(lists.rows), dict[Any, Array]()
    parts = {}
    for family in families:
        key = family.scorer, family.metric, family.scale
        n_ratios = 0 if family.scale == "raw" else n_depths + 2
        if key not in shared_ratios:
            shared_ratios[key] = np.empty((n_queries, n_ratios))
        parts[family] = _TraceParts(events, picks, shared_ratios[key])
    return parts


def collect_traces(
    families: Sequence[DecoderFamily],
    space: Space,
    lists: RunLists,
    progress: Progress,
    lost: Mapping[int, set[int]] | None = None,
) -> Iterator[Traces]:
    """Trace all lists by every family, query by query; yield the traces of one family after the other.

    lost: query → rows that are no candidates of its, as if an index did not find them. progress may raise Cancelled.
    """
    n_depths = min(MAX_POOL_DEPTH, len(space))
    parts = _make_parts(families, lists, n_depths)
    squares = (space.matrix.lengths.double() ** 2).cpu().numpy()
    # The first list waits for the compiler.
    label = "lists" if is_compiled(trace_list) else COMPILING
    for query_number, scores_by_key in iterate_scores(families, space, lists):
        progress(query_number, len(lists.rows), label)
        tracer = QueryTracer(space, lists, query_number, squares, n_depths)
        excluded = set() if lost is None else lost.get(query_number, set())
        tracer.trace(families, scores_by_key, excluded, parts)
        label = "lists"
    progress(len(lists.rows), len(lists.rows), label)
    query_index = lists.query_index
    # Joined traces are copies: with those of one family at a time the parts alone are held.
    for family in families:
        yield parts[family].join(family, n_depths, query_index)


class GainRounding(NamedTuple):
    """The make-up of gains from relevance and novelty, and how far rounding may shift their differences.

    factor: of relevance; similarity_slack: rounding of a difference of novelty; square_error: rounding of a squared
    distance to the span of the picks; first_by_relevance: the first pick is the most relevant
    """

    factor: float
    similarity_slack: float
    square_error: float
    first_by_relevance: bool


class QueryTracer:
    """The tracing of one query's list by all families, which share its products and orders."""

    def __init__(self, space: Space, lists: RunLists, query_index: int, squares: Array, n_depths: int) -> None:
        """Compute the products of the list's documents with all documents."""
        self._space, self._n_depths, self.k = space, n_depths, lists.k
        self.members = lists.rows[query_index]
        self._own_row = int(lists.own_rows[query_index])
        self._query_length = float(torch.linalg.vector_norm(lists.batch.vectors[query_index].double()))
        member_vectors = space.vectors[torch.from_numpy(self.members).to(space.device)]
        member_products = multiply(space.vectors, member_vectors).double().cpu().numpy()
        self._products = PickProducts(member_products, squares, self.members)
        self.picks = self.members[:MAX_PICKS]
        self._first_pick = int(np.searchsorted(lists.query_index, query_index))
        self._similarity_slacks = measure_slacks(space.matrix.max_norm, space.matrix.max_norm)

    def trace(
        self,
        families: Sequence[DecoderFamily],
        scores_by_key: Mapping[ScorerKey, QueryScores],
        excluded: set[int],
        parts: Mapping[DecoderFamily, _TraceParts],
    ) -> None:
        """Add this query's part to the traces of every family. excluded: rows that are no candidates."""
        # One order of the candidates serves all selectors over the same scores.
        pools: dict[ScorerKey, ScoredPool] = {}
        for key, query_scores in scores_by_key.items():
            pools[key] = self.build_pool(key, query_scores, excluded)
        # The novelty of a list is computed once for all scorers, and is the largest array: one form at a time.
        by_novelty: dict[tuple[int, int | None, str], list[DecoderFamily]] = {}
        for family in families:
            by_novelty.setdefault(family.novelty_key, []).append(family)
        for sharing_families in by_novelty.values():
            novelty = self.build_novelty(sharing_families[0])
            for family in sharing_families:
                pool = pools[family.scorer, family.metric]
                self._trace_family(family, pool, novelty, parts[family])

    def build_pool(self, key: ScorerKey, query_scores: QueryScores, excluded: set[int]) -> ScoredPool:
        """Order the query's candidates by one scorer."""
        (scorer, metric), (scores, matches, basis) = key, query_scores
        slack = ROUNDING_SLACK * float(np.abs(scores).max())
        if scorer.inner_product:
            slack = measure_slacks(self._space.matrix.max_norm, self._query_length)[metric]
        removed = [row for row in (self._own_row, *excluded) if row >= 0]
        if removed:
            matches = np.ones(len(scores), np.bool_) if matches is None else matches.copy()
            matches[removed] = False
        return order_candidates(scores, matches, self._n_depths, slack, basis)

    def build_novelty(self, family: DecoderFamily) -> Array | None:
        """Compute (k, n) the diversity part of the gains before each pick; None for those that have none of it."""
        if family.kind in (TOP, COVERAGE, CONTRIBUTIONS):
            return None
        floor = family.noise_floor(self._space.vectors.dtype)
        return compute_novelty(family.kind, family.window, family.metric, self._products, floor)[: len(self.picks)]

    def measure_gains(self, family: DecoderFamily) -> GainRounding:
        """Return how gains of a family are made of relevance and novelty, and how far rounding may shift them."""
        similarity_slack = self._similarity_slacks[family.metric]
        square_error, factor = 2 * similarity_slack, 1.0
        has_unit_rows = family.metric == COSINE or self._space.matrix.unit
        if family.kind in (SUM, SWAPS, CONTRIBUTIONS):
            factor, similarity_slack = max(self.k - 1.0, 1.0), 2 * len(self.members) * similarity_slack
        elif family.kind == COVERAGE:
            similarity_slack *= 2 * self.k
        # Where all documents have one length, the first pick of dpp and ssd is the most relevant too.
        by_relevance = family.kind in (NEAREST, SUM, CONTRIBUTIONS) or (
            family.kind in (LOG_RESIDUAL, ROOT_RESIDUAL) and has_unit_rows
        )
        return GainRounding(factor, similarity_slack, square_error, by_relevance or self.k == 1)

    def _trace_family(self, family: DecoderFamily, pool: ScoredPool, novelty: Array | None, part: _TraceParts) -> None:
        """Trace the list by one family and add the result to its part."""
        pick_starts = pool.find_starts(self.picks, self._n_depths)
        scaled, positions = pool.scale(family.scale, self._n_depths), np.arange(len(self.picks))
        if family.kind == TOP:
            events = _trace_relevance(pool, self.picks, pick_starts, self._n_depths)
        elif family.kind == CONTRIBUTIONS:
            positions, events = self._trace_contributions(family, pool, scaled)
        elif novelty is None:
            events = self._trace_coverage(family, pool, scaled)
        else:
            events = self._trace_gains(family, pool, scaled, novelty, self.picks)
        part.add(self._first_pick + positions, pick_starts[positions], scaled.ratios, events)

    def _trace_gains(
        self, family: DecoderFamily, pool: ScoredPool, scaled: ScaledRelevance, novelty: Array, picks: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Trace picks by a gain that is λ·relevance + (1−λ)·novelty; return counts, starts, lows and highs."""
        gains = self.measure_gains(family)
        # Each pick has one change a depth at most, one before the first and one for the whole corpus.
        n_picks, capacity = len(picks), len(picks) * (self._n_depths + 3)
        counts, starts = np.empty(n_picks, np.int64), np.empty(capacity, np.int64)
        lows, highs = np.empty(capacity), np.empty(capacity)
        n_events = trace_list(
            family.kind, gains.factor * scaled.values, pool.order, pool.group_stops, pool.tail, novelty, picks,
            gains.factor * scaled.slack, gains.similarity_slack, gains.square_error, gains.first_by_relevance,
            counts, starts, lows, highs,
        )  # fmt: skip
        return counts, starts[:n_events], lows[:n_events], highs[:n_events]

    def _trace_contributions(
        self, family: DecoderFamily, pool: ScoredPool, scaled: ScaledRelevance
    ) -> tuple[Array, tuple[Array, Array, Array, Array]]:
        """Trace a list of greedy max-sum that is in the order of contributions; return positions and their changes.

        For each range of λ with one order of the picks these are traced in that order, within the range.
        """
        gains, similarities = self.measure_gains(family), self._products.compare_members(family.metric, len(self.picks))
        relevance = gains.factor * scaled.values[self.picks]
        slacks = gains.factor * scaled.slack, gains.similarity_slack
        order_lows, order_highs = find_order_intervals(relevance, similarities, *slacks)
        positions, parts = [np.empty(0, np.int64)], [(np.empty(0, np.int64), np.empty(0, np.int64), *np.empty((2, 0)))]
        for low, high, order in iterate_pick_orders(relevance, similarities, order_lows, order_highs):
            novelty = self.build_ordered_novelty(family, order)
            counts, starts, lows, highs = self._trace_gains(family, pool, scaled, novelty, self.picks[order])
            ranks = np.repeat(order, counts)
            lows, highs = np.maximum(lows, np.maximum(low, order_lows[ranks])), np.minimum(highs, order_highs[ranks])
            highs = np.minimum(highs, high)
            is_empty = lows > highs
            lows[is_empty], highs[is_empty] = EMPTY_LOW, EMPTY_HIGH
            positions.append(order)
            parts.append((counts, starts, lows, highs))
        counts, starts, lows, highs = (np.concatenate(column) for column in zip(*parts, strict=True))
        return np.concatenate(positions), (counts, starts, lows, highs)

    def find_order(self, family: DecoderFamily, scaled: ScaledRelevance, factor: float, weight: float) -> Array:
        """Return the order in which greedy max-sum made the picks at one λ, positions in the list."""
        return find_pick_order(
            factor * scaled.values[self.picks], self._products.compare_members(family.metric, len(self.picks)), weight
        )

    def build_ordered_novelty(self, family: DecoderFamily, order: Array) -> Array:
        """Compute (k, n) the diversity part of greedy max-sum's gains before each pick, in an order of the picks."""
        products = PickProducts(self._products.products[order], self._products.squares, self.picks[order])
        return compute_novelty(SUM, None, family.metric, products, 0.0)

    def _trace_coverage(
        self, family: DecoderFamily, pool: ScoredPool, scaled: ScaledRelevance
    ) -> tuple[Array, Array, Array, Array]:
        """Trace the list by facility_location, for small ground sets and for its default one."""
        n_depths, small = self._n_depths, min(MAX_COVERAGE_DEPTH, len(pool.order))
        ground_size = min(getattr(family.selector, "ground_set", None) or GROUND_SET_SIZE, len(pool.order))
        # Beyond small ground sets the default one alone is looked at, and only where scores are inner products.
        has_default = ground_size > small and family.scorer.inner_product and ground_size <= MAX_POOL_DEPTH
        size = ground_size if has_default else small
        # Beyond the deepest ground set nothing is compared.
        ground_rows = pool.order[:size]
        positions = pool.positions[self.picks]
        positions = np.where(positions < size, np.maximum(positions, -1), -1)
        sizes = np.array([*range(1, small + 1), *([ground_size] if has_default else [])], dtype=np.int64)
        lows, highs = np.empty((len(positions), len(sizes))), np.empty((len(positions), len(sizes)))
        if size:
            starts_in_order = np.where(positions >= 0, pool.group_starts[np.maximum(positions, 0)] + 1, 0)
            trace_coverage(
                scaled.values[ground_rows], self.compare_rows(family, ground_rows), positions, starts_in_order,
                float(self.k), sizes, scaled.slack, self.measure_gains(family).similarity_slack, lows, highs,
            )  # fmt: skip
        # Each size is a change of the interval, as coverage depends on all of the ground set.
        starts = sizes.copy()
        if has_default:
            starts[-1] = n_depths + 1
        if small < n_depths:
            # Nothing is known of the depths in between, or of the whole corpus if it is larger than what was traced.
            gap_column = np.searchsorted(starts, small + 1)
            starts = np.insert(starts, gap_column, small + 1)
            is_all = not has_default and small == len(pool.order) + len(pool.tail)
            gap_low, gap_high = (lows[:, small - 1], highs[:, small - 1]) if is_all else (EMPTY_LOW, EMPTY_HIGH)
            lows, highs = np.insert(lows, gap_column, gap_low, axis=1), np.insert(highs, gap_column, gap_high, axis=1)
        # Sizes with the interval of the size before are no change; of most picks nothing is explained at any size.
        is_change = np.ones(lows.shape, np.bool_)
        is_change[:, 1:] = (lows[:, 1:] != lows[:, :-1]) | (highs[:, 1:] != highs[:, :-1])
        return is_change.sum(1), np.tile(starts, (len(positions), 1))[is_change], lows[is_change], highs[is_change]

    def compare_rows(self, family: DecoderFamily, rows: Array) -> Array:
        """Return (m, m) similarities of some documents with one another, by the family's metric."""
        # Small corpora keep all products, which every query and scorer reads.
        if len(self._space) <= GRAM_ROWS and family.metric == INNER_PRODUCT:
            gram = self._space.derived("identification gram", lambda: self._space.vectors @ self._space.vectors.T)
            similarities: Array = gram.cpu().numpy()[np.ix_(rows, rows)]
            return similarities
        vectors = self._space.vectors[torch.from_numpy(rows).to(self._space.device)]
        if family.metric == COSINE:
            vectors = vectors / torch.linalg.vector_norm(vectors, dim=1, keepdim=True).clamp_min(1e-30)
        return np.asarray((vectors @ vectors.T).cpu().numpy())


def _trace_relevance(
    pool: ScoredPool, picks: Array, pick_starts: Array, n_depths: int
) -> tuple[Array, Array, Array, Array]:
    """Trace the list by relevance alone: a pick is explained at every λ and depth, or at none."""
    n_picks = len(picks)
    # The number of more relevant candidates is looked up in their sorted scores.
    candidate_scores = np.sort(-pool.relevance[np.concatenate([pool.order, pool.tail])])
    pick_scores = pool.relevance[picks]
    n_better = np.searchsorted(candidate_scores, -pick_scores - pool.slack)
    # Those before it in the list are no rivals, however relevant.
    is_earlier_better = np.tril(pick_scores > pick_scores[:, None] + pool.slack, -1)
    is_explained = (n_better <= is_earlier_better.sum(1)) & (pick_starts <= n_depths + 1)
    lows, highs = np.where(is_explained, 0.0, EMPTY_LOW), np.where(is_explained, 1.0, EMPTY_HIGH)
    return np.ones(n_picks, np.int64), np.zeros(n_picks, np.int64), lows, highs
