"""Rankings by the quadratic objective: on Gram rows for a small corpus, by certified passes for a large one.

A swap of i out, j in gains θ(k−1)(r_j − r_i) − 2(1−θ)(Σ_{l∈Y∖i} s_jl − Σ_{l∈Y∖i} s_il). The search runs on a
shortlist, compiled; one pass over the vectors then bounds every other candidate's best swap, h_j + 2(1−θ)|u_i||u_j|
less i's marginal, and the few that the bound leaves open are looked at one by one and join the shortlist if need be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CHUNK_NUMBERS, GRAM_ROWS, Matrix, blocks
from engine.solvers.gram import Gram, build_ranking, fill_row, iterate_problems
from engine.solvers.greedy.certified import select_greedily
from engine.solvers.greedy.steps import SUM
from engine.solvers.quadratic.frank_wolfe import run_frank_wolfe
from engine.solvers.quadratic.objective import SWAP_TOLERANCE, Quadratic, select_most_relevant
from engine.solvers.quadratic.sets import MAX_ASCENT_STEPS, N_FIGURES, SetsOnGram, find_sets
from engine.solvers.tie_breaking import rank_exactly
from engine.values import Ranking

Array = np.ndarray

MAX_POLISHED_SIZE = 2048
"""Sets beyond this size are not polished: their Gram matrices and swaps would take minutes."""
MIN_SHORTLIST_SIZE = 128
"""The shortlist holds at least so many candidates beside the set, and as many as the set has."""
MAX_ROUNDS = 12
"""Largest number of passes for one problem."""
MAX_JOINING = 256
"""Largest number of candidates added to a shortlist in one pass."""


@dataclass(frozen=True)
class SetSearch:
    """One setting of a selector that searches a set of k documents, relevant and unlike one another.

    weight: θ, the share of relevance; loading: δ of the Frank–Wolfe ascent that finds a first set, None where a greedy
    choice finds it; starts: number of sets that swaps of single documents start from, 0 for no swaps
    """

    weight: float
    loading: float | None
    starts: int

    def details(self, **columns: Sequence[Any]) -> dict[str, Sequence[Any]]:
        """Return those of the figures in `columns` that a ranking of such a search reports.

        columns: each figure, by name, as a list with one value a query. Ascent steps and their gap are reported if
        there was an ascent, swaps if there were swaps, starts if swaps began from several sets.
        """
        detail_names = [] if self.loading is None else ["iterations", "gap", "integral", "capped"]
        detail_names += ["swaps", "swap_optimal"] if self.starts else []
        return {name: columns[name] for name in detail_names + (["starts"] if self.starts > 1 else [])}


def rank_sets(c: Candidates, k: int, settings: Sequence[SetSearch]) -> list[Ranking]:
    """Return one Ranking for each setting: for each query k documents, relevant and unlike one another.

    Settings share relevance and inner products.
    """
    if k == 1:
        return [select_most_relevant(c)] * len(settings)
    if c.count <= GRAM_ROWS and (c.matrix.cached or any(setting.starts for setting in settings)):
        return _rank_by_gram(c, k, settings)
    return [_rank_by_passes(Quadratic(c, k, setting.weight), setting) for setting in settings]


def _rank_by_gram(c: Candidates, k: int, settings: Sequence[SetSearch]) -> list[Ranking]:
    """Find the sets of a small corpus on its Gram matrix of inner products; return one Ranking a setting."""
    shape = (c.batch, len(settings), k)
    # Results that the compiled search fills in; it takes a row of four numbers for each setting.
    set_ids, gains, figures = np.empty(shape, np.int64), np.empty(shape), np.empty((*shape[:2], N_FIGURES))
    # θ, δ, True if a greedy choice and not an ascent finds the first set, number of sets that swaps start from.
    setting_rows = [(route.weight, route.loading or 0.0, route.loading is None, route.starts) for route in settings]
    table = np.array(setting_rows, np.float64)
    # At θ = 1 the scale of a swap's gain is k − 1 times the largest relevance.
    max_relevance = Quadratic(c, k, 1.0).scale.cpu().numpy() / (k - 1)
    scales = np.column_stack([max_relevance, np.full(c.batch, c.max_norm**2)])
    # Unit vectors count as exactly 1 long, as in the paper.
    for block, gram, relevance in iterate_problems(c):
        search = SetsOnGram(gram, np.ones(c.count) if c.matrix.unit else gram.squares, k, max_swaps(k))
        find_sets(search, relevance, scales[block], table, SWAP_TOLERANCE, set_ids[block], gains[block], figures[block])
    return [_build_ranking(c, route, set_ids[:, i], gains[:, i], figures[:, i]) for i, route in enumerate(settings)]


def _build_ranking(c: Candidates, setting: SetSearch, set_ids: Array, gains: Array, figures: Array) -> Ranking:
    """Build one setting's Ranking from sets and gains, (B, k), and search figures, (B, N_FIGURES).

    The figures are, in order: objective, ascent steps, last gap, swaps, swap-optimal, number of starts, integral.
    """
    objective, n_steps, gap, n_swaps, optimal, n_starts, integral = figures.T
    details = setting.details(
        iterations=n_steps.astype(int).tolist(), gap=gap.tolist(), integral=integral.astype(bool).tolist(),
        capped=(n_steps == MAX_ASCENT_STEPS).tolist(), swaps=n_swaps.astype(int).tolist(),
        swap_optimal=optimal.astype(bool).tolist(), starts=n_starts.astype(int).tolist(),
    )  # fmt: skip
    columns = {"objective": objective.tolist(), **details, "candidates": [c.count] * c.batch}
    return build_ranking(c, set_ids, gains, columns)


def _rank_by_passes(goal: Quadratic, setting: SetSearch) -> Ranking:
    """Find the sets of a large corpus by passes over its vectors: greed or Frank–Wolfe first, then swaps.

    goal: the objective, relevance less redundancy, over the candidates; setting: how to find a set
    """
    if setting.loading is None:
        (greedy_ranking,) = select_greedily(goal.c, goal.k, SUM, [goal.weight])
        set_ids, columns = greedy_ranking.index.sort(dim=1).values, {}
        field, error = goal.compute_field(goal.query_ids, goal.sum_rows(goal.query_ids, set_ids))
        is_current = torch.ones_like(goal.query_ids, dtype=torch.bool)
    else:
        ascent = run_frank_wolfe(goal, setting.loading)
        set_ids, field, error, is_current = ascent.index, ascent.field, ascent.error, ascent.is_field_current
        columns = {"iterations": ascent.steps.tolist(), "gap": ascent.gap.tolist()}
        columns |= {"integral": ascent.integral.tolist(), "capped": (ascent.steps == MAX_ASCENT_STEPS).tolist()}
    if setting.starts:
        polished = polish_sets(goal, set_ids, setting.starts > 1, field, error, is_current)
        set_ids = polished.index
        columns |= {"swaps": polished.swaps, "swap_optimal": polished.optimal, "starts": polished.starts}
    return goal.build_ranking(set_ids, setting.details(**columns))


def warm() -> None:
    """Compile the Numba loops of set searches, or load them from disk, by solving a tiny problem.

    So that a user's first query need not wait for the compiler; the tiny problem's answer is dropped.
    """
    identity = torch.eye(8)
    matrix = Matrix(identity, cached=True)
    c = Candidates(identity, identity[:1], identity[:1], matrix)
    rank_sets(c, 2, [SetSearch(0.5, 1.0, 3)])


class Shortlist:
    """A few promising candidates of one query with all their inner products, among which swaps are made.

    Sets are given as (k,) positions in `ids`.

    ids: (m,) ascending candidates
    vectors: (m, d) float64
    relevance: (m,) float64
    """

    def __init__(self, goal: Quadratic, query_id: int, doc_ids: Tensor) -> None:
        """Gather some candidates of one query, (m,), with their vectors, relevance and inner products.

        Swaps are tried among these first, so that a pass over all candidates is needed only to confirm the result.
        """
        self.goal, self.query_id = goal, query_id
        self.ids = np.empty(0, np.int64)
        self.join(doc_ids)

    def join(self, doc_ids: Tensor) -> None:
        """Add candidates, none of which may be on the shortlist yet, and renew its vectors and Gram matrix."""
        self.ids = np.sort(np.concatenate([self.ids, doc_ids.cpu().numpy()]))
        doc_ids = torch.from_numpy(self.ids).to(doc_ids.device)
        query_id = torch.full_like(doc_ids, self.query_id)
        vectors = self.goal.c.rows(query_id, doc_ids)
        self.vectors = vectors.double().cpu()
        self.relevance = self.goal.c.exact_relevance(query_id, doc_ids).cpu().numpy()
        self.gram = Gram(vectors)

    def marginal_values(self, positions: Array) -> Array:
        """Return (k,) what the objective loses if each member of a set leaves it.

        positions: (k,) the set as positions in `ids`
        """
        for position in positions:
            fill_row(self.gram.columns, self.gram.rows, self.gram.filled, position)
        similarity_sums = self.gram.rows[np.ix_(positions, positions)].sum(1)
        contributions: Array = self.goal.linear * self.relevance[positions]
        contributions -= self.goal.beta * (similarity_sums - self.gram.squares[positions])
        return contributions

    def run_swaps(self, positions: Array, n_starts: int) -> tuple[Array, int, bool]:
        """Improve a set of k documents by swaps within the shortlist; return (set, n_swaps, is_optimal).

        is_optimal is True if no swap within the shortlist improves the set any more. positions: (k,) the set as
        positions in `ids`, as is the set returned; n_starts: 1, or 3 to swap from two further sets as well and take the
        best
        """
        goal, figures = self.goal, np.zeros(N_FIGURES)
        search = SetsOnGram(self.gram, self.gram.squares, goal.k, max_swaps(goal.k))
        tolerance = SWAP_TOLERANCE * float(goal.scale[self.query_id])
        best_set = search.improve_by_swaps(self.relevance, goal.weight, tolerance, positions, n_starts, figures)
        _, _, _, n_swaps, is_optimal, *_ = figures
        return np.sort(best_set), int(n_swaps), bool(is_optimal)


@dataclass(frozen=True, slots=True)
class Polished:
    """The sets of B queries after swaps of single members, and what the swaps came to."""

    index: Tensor  # (B, k) ascending
    swaps: list[int]  # (B,) made
    optimal: list[bool]  # (B,) whether over all candidates no swap improves
    starts: list[int]  # (B,) from how many sets


@dataclass
class _Search:
    """The state of one query's search for a better set of k documents by swaps.

    short: the promising candidates that swaps are made with; chosen: (k,) the set, as positions in the shortlist;
    swaps: number made; settled: no swap within the shortlist improves the set; starts: number of sets that swaps
    started from
    """

    short: Shortlist
    chosen: Array
    swaps: int
    settled: bool
    starts: int

    @property
    def ids(self) -> Array:
        """(k,) the set's candidates."""
        doc_ids: Array = self.short.ids[self.chosen]
        return doc_ids


def polish_sets(goal: Quadratic, sets: Tensor, restarts: bool, field: Tensor, error: Tensor, valid: Tensor) -> Polished:
    """Improve each query's set of k documents by swaps with any candidate, while one raises the objective.

    goal: the objective, with its candidates `goal.c`; sets: (B, k) ascending; restarts: swap from two further sets too,
    found on each query's shortlist of candidates; the best result is returned, on a tie that from `sets`; field: (B, n)
    the linear field at `sets`, that is, what each candidate would add to the objective; error: (B,) bound on its error;
    valid: (B,) True where field and error belong to these sets. The sets come back as they are where there is nothing
    to swap (k = n) or too much.
    """
    n_queries, n = goal.c.relevance.shape
    if goal.k > MAX_POLISHED_SIZE or goal.k == n:
        # No swaps were made, and each set is its only start; a set of all candidates is optimal.
        return Polished(sets, [0] * n_queries, [goal.k == n] * n_queries, [1] * n_queries)
    searches: list[_Search] = []
    optimal: list[bool] = []
    # Blocks of queries whose shortlists, with their vectors and inner products, fit the memory budget.
    list_size = min(n, 2 * goal.k + max(MIN_SHORTLIST_SIZE, goal.k))
    block_size = max(1, CHUNK_NUMBERS // (list_size * (goal.c.vectors.shape[-1] + list_size)))
    for queries in goal.query_ids.split(block_size):
        block_searches, certificates = _polish_block(goal, queries, sets, restarts, field, error, valid)
        searches += block_searches
        optimal += certificates
    polished = torch.from_numpy(np.stack([search.ids for search in searches])).to(sets.device)
    return Polished(polished, [search.swaps for search in searches], optimal, [search.starts for search in searches])


def _polish_block(
    goal: Quadratic, queries: Tensor, sets: Tensor, restarts: bool, field: Tensor, error: Tensor,
    valid: Tensor,
) -> tuple[list[_Search], list[bool]]:  # fmt: skip
    """Improve the sets of some queries by swaps; return searches, and True where no swap improves a set.

    For each query, swaps within a shortlist of its best candidates come first; then passes over all candidates look for
    swaps with others, in up to MAX_ROUNDS rounds for those sets that still move. queries: (b,) numbers of the problems
    to solve here. The other arguments are those of `polish_sets`, for all B problems: sets, (B, k); field, (B, n), what
    each candidate would add to its set; error, (B,), bounds on the field's error; valid, (B,), False where the field
    must be computed again; restarts, True to start swaps from two further sets too
    """
    block_field, block_error = field[queries], error[queries]
    if not bool(valid[queries].all()):
        # A field that was not taken at the set is computed again.
        stale_positions = (~valid[queries]).nonzero().flatten()
        stale = queries[stale_positions]
        block_field[stale_positions], renewed_error = goal.compute_field(stale, goal.sum_rows(stale, sets[stale]))
        block_error[stale_positions] = renewed_error.double()
    score_exactly = partial(goal.compute_exact_field, queries, goal.sum_rows(queries, sets[queries]))
    list_size = min(goal.c.count, goal.k + max(MIN_SHORTLIST_SIZE, goal.k))
    near_ids, _ = rank_exactly(block_field, list_size, block_error, score_exactly, rescore_all=False)
    searches, optimal, unfinished = [], [False] * len(queries), []
    for position, query_id in enumerate(queries.tolist()):
        search = _start_search(goal, query_id, near_ids[position], sets[query_id], restarts)
        searches.append(search)
        has_moved = search.ids.tolist() != sets[query_id].tolist()
        # A set that is still the one the field was taken at needs no further pass.
        if not has_moved:
            has_moved, optimal[position] = _verify_search(search, block_field[position], float(block_error[position]))
        unfinished += [position] if has_moved else []
    for _ in range(MAX_ROUNDS):
        if not unfinished:
            break
        active = queries[unfinished]
        current = torch.from_numpy(np.stack([searches[position].ids for position in unfinished])).to(sets.device)
        block_field, block_error = goal.compute_field(active, goal.sum_rows(active, current))
        still_unfinished = []
        for row, position in enumerate(unfinished):
            has_moved, optimal[position] = _verify_search(searches[position], block_field[row], float(block_error[row]))
            still_unfinished += [position] if has_moved else []
        unfinished = still_unfinished
    return searches, optimal


def _start_search(goal: Quadratic, query_id: int, near_ids: Tensor, members: Tensor, restarts: bool) -> _Search:
    """Start one query's search: build a shortlist of promising candidates, and swap within it.

    near_ids: candidates with the largest field; members: (k,) the set to start from; restarts: swap from other sets
    too, and keep the best
    """
    shortlist = Shortlist(goal, query_id, torch.unique(torch.cat([near_ids, members])))
    positions, n_starts = np.searchsorted(shortlist.ids, members.cpu().numpy()), 3 if restarts else 1
    return _Search(shortlist, *shortlist.run_swaps(positions, n_starts), n_starts)


def _verify_search(search: _Search, field: Tensor, error: float) -> tuple[bool, bool]:
    """Look for improving swaps with candidates off the shortlist; return (has_moved, is_optimal).

    Rivals, candidates whose swap for a member could gain, join the shortlist, and swaps are made within it. has_moved:
    the set has changed; is_optimal: no swap with any candidate improves it. Both are False where a limit on swaps or on
    rounds ended the search. field: (n,) what each candidate would add to the set of the search, within `error`
    """
    # Rivals join the shortlist until it contains every candidate that could improve the set, or a swap moves the set
    # and the field is stale.
    for _ in range(MAX_ROUNDS):
        # Not settled: swaps within the shortlist ended at their limit.
        if not search.settled:
            return False, False
        rivals = _find_rivals(search, field, error)
        if not len(rivals):
            return False, True
        current = search.ids
        search.short.join(rivals)
        search.chosen = np.searchsorted(search.short.ids, current)
        search.chosen, n_swaps, search.settled = search.short.run_swaps(search.chosen, 1)
        search.swaps += n_swaps
        if n_swaps:
            return True, False
    return False, False


def _find_rivals(search: _Search, h: Tensor, error: float) -> Tensor:
    """Return the candidates off the shortlist whose swap for a member improves the set, best first.

    The shortlist holds the candidates among which swaps were made so far; at most MAX_JOINING others are returned. A
    bound on each swap's gain rules out nearly all, rounded gains most others, and float64 decides the rest. h: (n,)
    what each candidate would add to the set (its linear field), within `error`
    """
    goal, shortlist, device = search.short.goal, search.short, h.device
    c, query_id, scale = goal.c, shortlist.query_id, float(goal.scale[shortlist.query_id])
    pair_bound: Tensor | float
    stays = torch.from_numpy(shortlist.marginal_values(search.chosen)).to(device)
    members = shortlist.vectors[search.chosen].to(device)
    max_norm = float(torch.linalg.vector_norm(members, dim=1).max())
    if c.matrix.unit:
        pair_bound = goal.beta * (1 + 1e-5)
    else:
        squares = c.squares[query_id] if c.squares.ndim == 2 else c.squares
        pair_bound = goal.beta * max_norm * squares.sqrt() * (1 + 1e-5)
    # Roundings of the few operations here, beside those of the field itself.
    error = error + goal.rounding * (scale + float(stays.abs().max()) + goal.beta * c.max_norm**2)
    tolerance = SWAP_TOLERANCE * scale
    # By Cauchy–Schwarz s_ij ≤ |u_i||u_j|: the best swap with j gains at most field_j + beta |u_i||u_j| less the least
    # member value.
    may_gain = h + (pair_bound + error - float(stays.min())) > tolerance
    may_gain[torch.from_numpy(shortlist.ids).to(device)] = False
    rival_ids = may_gain.nonzero().flatten()
    if not len(rival_ids):
        return rival_ids
    gain = _compute_best_swaps(shortlist, rival_ids, h, members.to(h.dtype), stays.to(h.dtype))
    error += 2 * goal.beta * c.similarity_error
    is_possible = gain > tolerance - error
    rival_ids, gain = rival_ids[is_possible], gain[is_possible]
    if len(rival_ids) > MAX_JOINING and (duplicate_of := c.duplicate_of) is not None:
        rival_ids, gain = _keep_new_kinds(duplicate_of, rival_ids, gain, search)
    if not len(rival_ids):
        return rival_ids
    set_sum = members.sum(0)

    def exact(_: Tensor, positions: Tensor) -> Tensor:
        # The best swap gain of the rivals at some positions, in float64, as `rank_exactly` asks for it.
        gain_blocks = []
        for (id_block,) in blocks(max(members.shape), rival_ids[positions]):
            batch_ids = torch.full_like(id_block, query_id)
            vectors = c.rows(batch_ids, id_block).double()
            exact_field = goal.linear * c.exact_relevance(batch_ids, id_block) - goal.beta * (vectors @ set_sum)
            gain_blocks.append(exact_field + torch.addmm(-stays, vectors, members.T, alpha=goal.beta).amax(1))
        return torch.cat(gain_blocks)

    n_joining, errors = min(len(rival_ids), MAX_JOINING), torch.full_like(gain[:1], error)
    rival_order, exact_gains = rank_exactly(gain.unsqueeze(0), n_joining, errors, exact)
    return rival_ids[rival_order[0][exact_gains[0] > tolerance]]


def _compute_best_swaps(short: Shortlist, rival_ids: Tensor, field: Tensor, members: Tensor, stays: Tensor) -> Tensor:
    """Return (m,) what the objective gains if each rival replaces the member whose swap gains most.

    In the vectors' precision. A swap gains what the rival would add, less what the member contributes, plus β times
    their inner product, as that pair does not arise. rival_ids: (m,) candidates outside the set; field: (n,) what each
    candidate would add to the set; members: (k, d) vectors of the set; stays: (k,) what each member contributes
    """
    c, swap_blocks = short.goal.c, []
    # Where most are asked for, reading all in place is faster than gathering them.
    reads_all = c.shared and 2 * len(rival_ids) > c.count
    for (block,) in blocks(max(members.shape), c.vectors if reads_all else rival_ids):
        vectors = block if reads_all else c.rows(torch.full_like(block, short.query_id), block)
        swap_blocks.append(torch.addmm(-stays.unsqueeze(1), members, vectors.T, alpha=short.goal.beta).amax(0))
    return field[rival_ids] + (torch.cat(swap_blocks)[rival_ids] if reads_all else torch.cat(swap_blocks))


def _keep_new_kinds(duplicate_of: Tensor, rival_ids: Tensor, gain: Tensor, search: _Search) -> tuple[Tensor, Tensor]:
    """Keep one rival of each group of identical vectors; return the remaining rivals and their gains.

    Rivals are candidates whose swap for a member may improve the set. None of a group is kept if the shortlist already
    has one of its vectors outside the set, as swaps can take that one. duplicate_of: (n,) lowest candidate with the
    same vector
    """
    # Spare: on the shortlist, but not in the set, so that swaps within the shortlist can take it.
    spare_ids = np.delete(search.short.ids, search.chosen)
    groups = duplicate_of[rival_ids]
    is_new_kind = ~torch.isin(groups, duplicate_of[torch.from_numpy(spare_ids).to(rival_ids.device)])
    rival_ids, gain, groups = rival_ids[is_new_kind], gain[is_new_kind], groups[is_new_kind]
    kind_order = groups.argsort(stable=True)
    is_first = torch.ones_like(kind_order, dtype=torch.bool)
    is_first[1:] = groups[kind_order][1:] != groups[kind_order][:-1]
    representative = kind_order[is_first].sort().values
    return rival_ids[representative], gain[representative]


def max_swaps(k: int) -> int:
    """Return the largest number of swaps that a search for a set of k documents may make."""
    return 200 + 20 * k
