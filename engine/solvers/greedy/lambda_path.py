"""Every λ of a greedy selector at once: where its picks change, and the gains in between, which are lines.

With the picks before it given, the gain of a candidate, λ·a + (1−λ)·b, is a line in λ. The best of these lines, their
upper envelope, cuts an interval into pieces, each with its pick; each piece is cut again by the next pick, depth first,
with the state of every depth kept. A line that is under the best at both ends of an interval, and where the best two of
the ends cross, is nowhere the best: so a step takes three looks at all candidates (Eisner & Severance 1976), and the
rest goes on among the few lines left.

a and b come from the loops of `steps`, bit by bit. What rounding may decide is told apart from the rest: a ranking is
certain between two λ where every pick is ahead of all other candidates by more than `slack`, which is many times what
λ·a + (1−λ)·b is rounded by. Outside, next to where the picks change or where two lines all but coincide, only the
selector itself can tell.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, select_problem
from engine.matrix import GRAM_ROWS, Matrix, products
from engine.progress import raise_if_stopped
from engine.solvers.coverage import CoverageTables, iterate_ground_sets, measure_added_coverage
from engine.solvers.gram import Gram, compute_products, compute_squared_norms, corpus_gram, fill_row, transpose_vectors
from engine.solvers.greedy.steps import (
    COVERAGE,
    EXCLUDED,
    EXCLUDED_LIMIT,
    LOG_RESIDUAL,
    NEAREST,
    ROOT_RESIDUAL,
    SUM,
    find_best_gain,
    fold_pick,
    init_gains,
    init_state,
    update_gains,
)
from engine.solvers.jit import interpreting, is_interpreted, jit_exact, jit_maxima
from engine.solvers.largest import N_LANES, find_lane_maxima, find_lane_winner
from engine.solvers.lines import LambdaPath, order_lines

Array = np.ndarray

ROUNDING_SLACK = 2.0**-46
"""Largest difference that rounding can decide, relative to the gains' parts: 128 units."""
MAX_LOG_LAMBDA = 1 - 2.0**-53
"""At λ = 1 itself LOG_RESIDUAL is relevance alone, so its lines end before."""
N_GUESS_ROWS = 512
"""Rows, the most relevant, on which the picks are guessed, so that most others are excluded."""
MAX_COLUMN_NUMBERS = 1 << 26
"""Numbers of vectors up to which a corpus keeps them as columns too (256 MiB)."""
BOUND_MARGIN = 1e-12
"""Share of gains and squared lengths that a bound is wider than its formula, many times its own rounding."""
MAX_CALL_WORK, MIN_CALL_PATHS = 200_000_000, 4
"""Nodes × picks × candidates of one call of the compiled search: seconds at most; and the rankings that it reaches at
least, as each call begins with the first pick again."""
MAX_INTERPRETED_WORK = 20_000
"""Picks × candidates up to which Python follows a path in a second or two, where compilation would take fifteen."""
N_INITIAL_ROWS = 1024
"""Gram rows that fit at first where the corpus is too large for all; the room doubles when it is full."""


@jit_maxima
def collect_leaders(weight, a, b, slack, value_floor, leader_ids, n_leaders, is_listed):
    """List the candidates that may be the next pick near λ = `weight`; return the best and their number.

    A candidate's gain is λ·a + (1−λ)·b. Listed are those whose gain is within `slack`, the rounding error, of the
    largest, or at least `value_floor` where that is lower. They are appended to leader_ids[:n_leaders]; of equals the
    lowest row is the best. a, b: (n,) gains at λ = 1 and λ = 0; is_listed: (n,) True for those on the list
    """
    diversity_weight = 1 - weight
    top = find_lane_maxima(weight, a, diversity_weight, b)
    winner, largest = find_lane_winner(weight, a, diversity_weight, b, top)
    # Every candidate left has no diversity gain at all: none is listed, and relevance alone decides.
    if largest <= EXCLUDED_LIMIT:
        return find_best_gain(weight, a, b), n_leaders
    min_value = min(largest - slack, value_floor)
    # A lane holds every 64th candidate; lanes whose maximum is too small are skipped.
    for lane in range(len(top)):
        if top[lane] >= min_value:
            for item in range(lane, len(a), len(top)):
                if not is_listed[item] and weight * a[item] + diversity_weight * b[item] >= min_value:
                    is_listed[item] = True
                    leader_ids[n_leaders] = item
                    n_leaders += 1
    return winner, n_leaders


@jit_exact
def find_certain_interval(a, b, line_index, left, right, slack, leader_ids, certain):
    """Find the λ in [left, right] at which one candidate's gain is the best by more than rounding.

    A candidate's gain λ·a + (1−λ)·b is a line in λ; the candidate `line_index` must lead all of `leader_ids` by more
    than `slack`. certain: (2,) receives the ends of that interval, (∞, −∞) if there is none; a, b: (n,) gains at λ = 1
    and λ = 0
    """
    certain[0], certain[1] = left, right
    value_at_start = left * a[line_index] + (1 - left) * b[line_index]
    value_at_end = right * a[line_index] + (1 - right) * b[line_index]
    # Where a lead passes `slack` between the ends, linear interpolation gives the λ from which it is certain.
    for rival in leader_ids:
        if a[rival] != a[line_index] or b[rival] != b[line_index]:
            lead_at_start = value_at_start - (left * a[rival] + (1 - left) * b[rival])
            lead_at_end = value_at_end - (right * a[rival] + (1 - right) * b[rival])
            if lead_at_start <= slack and lead_at_end <= slack:
                certain[0], certain[1] = np.inf, -np.inf
            elif lead_at_start <= slack:
                unsure_share = (slack - lead_at_start) / (lead_at_end - lead_at_start)
                certain[0] = max(certain[0], left + (right - left) * unsure_share)
            elif lead_at_end <= slack:
                unsure_share = (slack - lead_at_end) / (lead_at_start - lead_at_end)
                certain[1] = min(certain[1], right - (right - left) * unsure_share)


@jit_exact
def cut_envelope(a, b, low, high, slack, leader_ids, is_listed, ends, lines, certain):
    """Cut [low, high] into the intervals of λ on which one candidate gains most; return their number.

    A candidate's gain λ·a + (1−λ)·b is a line in λ; the best of all lines is their upper envelope, and its pieces are
    these intervals. Piece j reaches up to ends[j], candidate lines[j] is the best on it, and on certain[j] no rounding
    could decide otherwise. a, b: (n,) gains at λ = 1 and λ = 0; leader_ids, is_listed: scratch
    """
    # A line that is under the best at both ends, and under the two best of the ends where these cross, is nowhere the
    # best: three looks at all candidates find the few that may be.
    line, n_leaders = collect_leaders(low, a, b, slack, np.inf, leader_ids, 0, is_listed)
    last_line, n_leaders = collect_leaders(high, a, b, slack, np.inf, leader_ids, n_leaders, is_listed)
    steeper = (a[last_line] - b[last_line]) - (a[line] - b[line])
    if line != last_line and steeper > 0:
        crossing_at = min(max((b[line] - b[last_line]) / steeper, low), high)
        first_value = crossing_at * a[line] + (1 - crossing_at) * b[line]
        last_value = crossing_at * a[last_line] + (1 - crossing_at) * b[last_line]
        floor = min(first_value, last_value) - slack
        _, n_leaders = collect_leaders(crossing_at, a, b, slack, floor, leader_ids, n_leaders, is_listed)
    # Walk along the upper envelope from the left: from the current line to the steeper one that crosses it first.
    n_pieces, left = 0, low
    while True:
        right, next_line = high, -1
        for rival in leader_ids[:n_leaders]:
            steeper = (a[rival] - b[rival]) - (a[line] - b[line])
            if steeper > 0:
                crossing_at = max((b[line] - b[rival]) / steeper, left)
                if crossing_at < right:
                    right, next_line = crossing_at, rival
                elif crossing_at == right and next_line >= 0:
                    slope_lead = (a[rival] - b[rival]) - (a[next_line] - b[next_line])
                    if slope_lead > 0 or (slope_lead == 0 and rival < next_line):
                        next_line = rival
        # A piece of no length, where three lines meet in one point, is left out.
        if next_line < 0 or right > left:
            ends[n_pieces], lines[n_pieces] = right, line
            find_certain_interval(a, b, line, left, right, slack, leader_ids[:n_leaders], certain[n_pieces])
            n_pieces += 1
        if next_line < 0:
            break
        line, left = next_line, right
    # The scratch array goes back all False, for the next call.
    for rival in leader_ids[:n_leaders]:
        is_listed[rival] = False
    return n_pieces


@jit_exact
def refresh_gains(a, b, low, high, slack, is_stale, rows, coverage, share, sums):
    """Compute the coverage gain b of every candidate that may be the best pick at a λ in [low, high].

    A candidate's coverage gain is how much closer it brings the documents to their nearest pick. The other candidates
    keep an upper bound from an earlier pick, since these gains only fall as picks are added (Minoux 1978). is_stale:
    (n,) True where b is such a bound; rows: all pairwise products; coverage: (n,) similarity of each document to its
    nearest pick; share: factor of a gain; sums: scratch
    """
    # At each end the best by bound is computed exactly until the best is one that is exact already.
    points, winners = np.array([low, high, low]), np.zeros(3, np.int64)
    for point_id in range(2):
        weight, maxima = points[point_id], find_lane_maxima(points[point_id], a, 1 - points[point_id], b)
        winner, _ = find_lane_winner(weight, a, 1 - weight, b, maxima)
        while is_stale[winner]:
            b[winner], is_stale[winner] = share * measure_added_coverage(rows[winner], coverage, sums), False
            # A gain fell in one lane: the maxima of the others stand.
            lane = winner % len(maxima)
            maxima[lane] = -np.inf
            for item in range(lane, len(a), len(maxima)):
                maxima[lane] = max(maxima[lane], weight * a[item] + (1 - weight) * b[item])
            winner, _ = find_lane_winner(weight, a, 1 - weight, b, maxima)
        winners[point_id] = winner
    low_winner, high_winner = winners[0], winners[1]
    slope_difference = (a[high_winner] - b[high_winner]) - (a[low_winner] - b[low_winner])
    if low_winner != high_winner and slope_difference > 0:
        points[2] = min(max((b[low_winner] - b[high_winner]) / slope_difference, low), high)
    winners[2] = low_winner
    # Three λ decide what `cut_envelope` reads: whoever may reach the best there is computed exactly.
    for point_id in range(3):
        weight, winner = points[point_id], winners[point_id]
        min_value = weight * a[winner] + (1 - weight) * b[winner] - 2 * slack
        maxima = find_lane_maxima(weight, a, 1 - weight, b)
        for lane in range(len(maxima)):
            if maxima[lane] >= min_value:
                for item in range(lane, len(a), len(maxima)):
                    if is_stale[item] and weight * a[item] + (1 - weight) * b[item] >= min_value:
                        b[item], is_stale[item] = share * measure_added_coverage(rows[item], coverage, sums), False


@jit_exact
def load_rows(columns, rows, filled, row_slot, n_used, picks):
    """Compute the missing Gram rows (products with all candidates) of some picks in one call.

    One call for all is faster than one a pick. Stops where `rows` has no more room. row_slot: (n,) position of each
    candidate's row, −1 for none; n_used: (1,) number of positions in use
    """
    first_slot, n_new = n_used[0], 0
    for item in picks:
        if row_slot[item] < 0 and first_slot + n_new < len(rows):
            row_slot[item] = first_slot + n_new
            n_new += 1
    points = np.empty((n_new, len(columns)))
    for item in picks:
        if row_slot[item] >= first_slot:
            for axis in range(len(columns)):
                points[row_slot[item] - first_slot, axis] = columns[axis, item]
    compute_products(columns, points, rows[first_slot : first_slot + n_new])
    for row_id in range(first_slot, first_slot + n_new):
        filled[row_id] = True
    n_used[0] += n_new


@jit_exact
def has_mark(marks, low, high):
    """Return True if one of the ascending `marks` lies in [low, high], or if there are no marks at all.

    Marks are the λ that a caller wants to know about; without any, every λ is wanted.
    """
    for mark in marks:
        if low <= mark <= high:
            return True
    return len(marks) == 0


@jit_exact
def double_capacity(array):
    """Return a copy of a two-dimensional array with room for twice the rows."""
    larger = np.empty((2 * len(array), array.shape[1]), array.dtype)
    for row_id in range(len(array)):
        for column_index in range(array.shape[1]):
            larger[row_id, column_index] = array[row_id, column_index]
    return larger


@jit_exact
def follow_pieces(
    kind, columns, rows, filled, row_slot, n_used, squares, relevance, k, window, floor, by_relevance, low, high,
    slack, marks, max_nodes, solo_gain, pair_gain, pair_ready,
):  # fmt: skip
    """Find one query's k greedy picks at every λ in [low, high], as intervals of λ with equal picks.

    Returns arrays over the m intervals that hold a mark, from the left, and two values: (m, 3) the interval's end, then
    from where to where rounding could not change its picks; (m, k) picks; (m, 2, k) their gains at λ = 1 and 0; the λ
    up to which all is done, `high` unless more than `max_nodes` nodes are needed; and False if there was no room for a
    Gram row, so that the caller has to make room and call again from `low`. The search is depth
    first: a node is an interval of λ with the pick that is best on it, and the next pick cuts the interval again. kind:
    the method; columns: (d, n) vectors; rows: (r, n) products with all candidates, row row_slot[i] those of candidate i
    where filled; n_used: (1,) rows in use; squares, relevance: (n,); window: number of last picks that count, 0 for
    all; floor: share of its squared length up to which a vector's squared distance to the picks' span counts as noise;
    by_relevance: the first pick is the most relevant; slack: differences that rounding may decide; marks: ascending λ
    of interest, none for all; solo_gain, pair_gain, pair_ready: what documents cover alone and beside one other (see
    `CoverageTables`).
    """
    # A gain is λ·a + (1−λ)·b; a of chosen candidates is EXCLUDED, and a_all still has it. Methods by residual hold the
    # distance of each candidate to the span of the picks beside its gain.
    n, by_residual = len(relevance), kind in (LOG_RESIDUAL, ROOT_RESIDUAL)
    a, a_all, states, scratch = np.empty(n), np.empty(n), np.empty((k, n)), np.empty((2, n if by_residual else 0))
    along, coefficients = np.empty((k if by_residual else 0, n)), np.empty((k if by_residual else 0, k))
    # What a window leaves out starts the span anew: that of the picks on the way here is still needed.
    window_along = np.empty((window if by_residual else 0, n))
    window_coefficients = np.empty((window if by_residual else 0, window))
    leader_ids, is_listed = np.empty(n, np.int64), np.zeros(n, np.bool_)
    ends, lines, certain = np.empty(n), np.empty(n, np.int64), np.empty((n, 2))
    # Nodes to come, the leftmost on top: left, right, certain from and to, b of the pick; its depth and itself.
    node_bounds, node_picks = np.empty((1024, 5)), np.empty((1024, 2), np.int64)
    piece_bounds, piece_picks, piece_lines = np.empty((256, 3)), np.empty((256, k), np.int64), np.empty((256, 2 * k))
    path_picks, held_slots, path_values = np.empty(k, np.int64), np.empty(k, np.int64), np.empty(k)
    # Coverage gains are costly, so b holds upper bounds, and only candidates that may win are computed.
    is_coverage, share, lanes, is_stale = kind == COVERAGE, k / n, np.empty(N_LANES), np.zeros(n, np.bool_)
    upper = np.empty((k if is_coverage else 0, n))
    init_gains(kind, squares, relevance, k, a, states[0])
    for item in range(n):
        a_all[item] = a[item]
    b = np.zeros(n)
    if is_coverage:
        states[0] = 0.0
        b = upper[0]
        for item in range(n):
            b[item] = share * solo_gain[item]
    if by_residual:
        update_gains(kind, states[0], squares, floor, a, b, scratch)
    if by_relevance:
        pick = find_best_gain(1.0, relevance, relevance)
        # The most relevant is the first pick at every λ: one piece.
        ends[0], lines[0], certain[0, 0], certain[0, 1], n_pieces = high, pick, low, high, 1
    else:
        n_pieces = cut_envelope(a, b, low, high, slack, leader_ids, is_listed, ends, lines, certain)
    left, sure_from, sure_to, depth, top, n_done, n_taken, has_room = low, low, high, 0, 0, 0, 0, True
    n_nodes, reached = 0, high
    while True:
        while top + n_pieces > len(node_bounds):
            node_bounds, node_picks = double_capacity(node_bounds), double_capacity(node_picks)
        # The pieces go onto the stack from the right, so that the leftmost is taken first.
        stack_base = top
        for position in range(n_pieces - 1, -1, -1):
            node_bounds[top, 0], node_bounds[top, 1] = ends[position - 1] if position else left, ends[position]
            if not has_mark(marks, node_bounds[top, 0], node_bounds[top, 1]):
                continue
            node_bounds[top, 2] = max(sure_from, certain[position, 0])
            node_bounds[top, 3] = min(sure_to, certain[position, 1])
            node_bounds[top, 4] = b[lines[position]] if b[lines[position]] > EXCLUDED_LIMIT else a_all[lines[position]]
            node_picks[top, 0], node_picks[top, 1] = depth, lines[position]
            top += 1
        if top > stack_base + 1 and depth < k - 1 and len(row_slot) > len(rows):
            load_rows(columns, rows, filled, row_slot, n_used, node_picks[stack_base:top, 1].copy())
        if not top:
            break
        # All to the left of the next node is done, so that another call can go on from there.
        if n_nodes >= max_nodes and node_bounds[top - 1, 0] > low:
            reached = node_bounds[top - 1, 0]
            break
        top -= 1
        n_nodes += 1
        # Take the leftmost node; picks deeper than it belong to another branch and become candidates again.
        left, right, sure_from, sure_to, value = node_bounds[top]
        node_rank, pick = node_picks[top]
        for position in range(node_rank, n_taken):
            a[path_picks[position]] = a_all[path_picks[position]]
        n_taken = depth = node_rank + 1
        path_picks[node_rank], path_values[node_rank] = pick, value
        # A leaf: all k picks are known, and the interval with its lines is one piece of the answer.
        if depth == k:
            if n_done == len(piece_bounds):
                piece_bounds, piece_picks = double_capacity(piece_bounds), double_capacity(piece_picks)
                piece_lines = double_capacity(piece_lines)
            piece_bounds[n_done, 0], piece_bounds[n_done, 1], piece_bounds[n_done, 2] = right, sure_from, sure_to
            for rank in range(k):
                piece_picks[n_done, rank], piece_lines[n_done, rank] = path_picks[rank], a_all[path_picks[rank]]
                piece_lines[n_done, k + rank] = path_values[rank]
            n_done, n_pieces = n_done + 1, 0
            continue
        if row_slot[pick] < 0:
            load_rows(columns, rows, filled, row_slot, n_used, path_picks[node_rank:depth])
        held_slots[node_rank] = row_slot[pick]
        if row_slot[pick] < 0:
            has_room = False
            break
        # A row that is not there yet is one of a small corpus, where candidate i has row i.
        fill_row(columns, rows, filled, row_slot[pick])
        # Exclude the pick, then compute the gains of the others after it, in the state of this depth.
        a[pick] = EXCLUDED
        old_state, new_state, window_first, first_folded = states[node_rank], states[depth], 0, node_rank
        span_products, span_coefficients = along, coefficients
        if window and depth > window:
            old_state, window_first, first_folded = new_state, depth - window, 0
            span_products, span_coefficients = window_along, window_coefficients
            init_state(kind, squares, new_state)
        for position in range(depth if is_coverage else first_folded, depth - window_first):
            fold_pick(
                kind, columns, rows, held_slots[window_first:], squares, path_picks[window_first:], position, old_state,
                new_state, floor, span_products, span_coefficients,
            )  # fmt: skip
            old_state = new_state
        if by_residual:
            update_gains(kind, new_state, squares, floor, a, b, scratch)
        elif is_coverage:
            b = upper[depth]
            for item in range(n):
                new_state[item], b[item] = max(old_state[item], rows[pick, item]), upper[node_rank, item]
            b[pick], is_stale[:] = EXCLUDED, True
            if depth == 1:
                # The first pick lowers nearly every gain, and each branch after it would find that out anew.
                if not pair_ready[pick]:
                    for item in range(n):
                        pair_gain[pick, item] = measure_added_coverage(rows[item], new_state, lanes)
                    pair_ready[pick] = True
                for item in range(n):
                    b[item] = share * pair_gain[pick, item] if a[item] > EXCLUDED else EXCLUDED
            else:
                refresh_gains(a, b, left, right, slack, is_stale, rows, new_state, share, lanes)
        else:
            for position in range(depth):
                new_state[path_picks[position]] = EXCLUDED
            b = new_state
        n_pieces = cut_envelope(a, b, left, right, slack, leader_ids, is_listed, ends, lines, certain)
    return piece_bounds[:n_done], piece_picks[:n_done], piece_lines[:n_done].reshape(n_done, 2, k), reached, has_room


class _Rows:
    """Gram rows (products of a candidate with all): of every one in a small corpus, else of picks.

    columns: (d, n) the vectors; squares: (n,) squared lengths; rows, filled: the Gram rows, and which are computed;
    row_slot: (n,) position in `rows` of each candidate's row, −1 for none
    """

    def __init__(self, columns: Array, squares: Array, rows: Array, filled: Array) -> None:
        self.columns, self.squares, self.rows, self.filled = columns, squares, rows, filled
        # With room for all, candidate i has row i.
        self.row_slot = np.arange(len(rows)) if len(rows) == len(squares) else np.full(len(squares), -1)

    @classmethod
    def from_vectors(cls, vectors: Tensor, gram: Gram | None = None, matrix: Matrix | None = None) -> "_Rows":
        """Take the rows of `gram`, or of a new Gram matrix if the vectors, (n, d), are few.

        For a large corpus, make room for the rows of a few picks only; `grow` doubles it. matrix: the corpus that has
        just these vectors, which keeps what all queries share
        """
        n = len(vectors)
        if gram is None and n <= GRAM_ROWS:
            gram = Gram(vectors)
        if gram is not None:
            return cls(gram.columns, gram.squares, gram.rows, gram.filled)
        compute_columns = partial(transpose_vectors, vectors)
        is_cached = matrix is not None and vectors.numel() <= MAX_COLUMN_NUMBERS
        columns = matrix.derive("columns", compute_columns) if matrix and is_cached else compute_columns()
        squares = compute_squared_norms(columns) if matrix is None else _load_squares(matrix, columns)
        n_rows = min(n, N_INITIAL_ROWS)
        return cls(columns, squares, np.empty((n_rows, n)), np.zeros(n_rows, np.bool_))

    def grow(self) -> None:
        """Make room for twice as many rows."""
        self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        self.filled = np.concatenate([self.filled, np.zeros_like(self.filled)])

    def preload(self, picks: Array) -> None:
        """Compute the Gram rows of some candidates together, and forget those of all others, if not all have room."""
        if len(self.rows) == len(self.row_slot):
            return
        while len(self.rows) < len(picks):
            self.grow()
        self.row_slot[:], self.filled[:] = -1, False
        pick_vectors = np.ascontiguousarray(self.columns[:, picks].T, dtype=np.float64)
        compute_products(self.columns, pick_vectors, self.rows[: len(picks)])
        self.row_slot[picks], self.filled[: len(picks)] = np.arange(len(picks)), True

    def score(self, c: Candidates, ids: Array | slice = slice(None)) -> Array:
        """Return the (n,) float64 relevance of all vectors, which are candidates `ids` of a problem of one query."""
        if not c.inner_product:
            scores: Array = c.relevance[0].double().cpu().numpy()[ids]
            return scores
        relevance = np.empty(len(self.row_slot))
        compute_products(self.columns, c.queries.double().cpu().numpy(), relevance[None])
        return relevance


def _load_squares(matrix: Matrix, columns: Array | None = None) -> Array:
    """Return the (n,) float64 squared lengths of a corpus's vectors; columns: the vectors, if they are at hand."""
    compute_columns = partial(transpose_vectors, matrix.vectors)
    return matrix.derive("squares", lambda: compute_squared_norms(compute_columns() if columns is None else columns))


def lambda_paths(
    kind: int, c: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = (), *, floor: float = 0.0,
    window: int | None = None,
) -> list[LambdaPath]:  # fmt: skip
    """Return each query's greedy picks at every λ of an interval, as pieces with equal picks.

    A piece is a part of the interval, from one λ to another, in which the picks are the same. kind: the method, NEAREST
    (mmr), SUM (max_sum), LOG_RESIDUAL (dpp) or ROOT_RESIDUAL (ssd); floor: a document counts as a linear combination of
    the picks, which adds no diversity, if its squared distance to their span is at most this share of its squared
    length, as a smaller one is noise; window: only the last so many picks count, None for all; marks: the ascending λ
    that the caller will look up, empty for all λ. A piece that contains no mark is left out, and the next piece then
    begins where the left-out one did.

    For SUM picks are in the order of what each member of the set contributes to its objective, and gains are these
    contributions.
    """
    settings = kind, k, interval, floor, window if window and window < k else 0, marks
    load_shared = cache(lambda: _Rows.from_vectors(c.vectors, corpus_gram(c), c.matrix))
    paths = []
    for query_id in range(c.batch):
        load_rows = load_shared if c.shared else partial(_Rows.from_vectors, c.vectors[query_id])
        paths.append(_trace_problem(select_problem(c, query_id), load_rows, *settings))
    return paths


def _trace_problem(
    c: Candidates, load_rows: Callable[[], _Rows], kind: int, k: int, interval: tuple[float, float], floor: float,
    window: int, marks: Sequence[float],
) -> LambdaPath:  # fmt: skip
    """Return the path of the one query of `c`; load_rows: returns the Gram rows of all candidates.

    For the others see `lambda_paths`; window: 0 for all picks. In a large corpus the path among the most relevant
    documents excludes most others as picks: then it is that of all. Else it tells most picks of all in advance, whose
    rows take half the time if they are computed together.
    """
    vectors, picks, settings = c.vectors if c.shared else c.vectors[0], np.empty(0, np.int64), (c.matrix.unit, marks)
    # Later picks can raise a gain again where similarities are summed, or where the first one leaves a window.
    has_bounds = c.shared and kind != SUM and (c.matrix.unit or kind == NEAREST) and not window and not marks
    ids = _list_most_relevant(c, k) if c.count > GRAM_ROWS else np.arange(c.count)
    while 2 * len(ids) <= c.count:
        near_rows = _Rows.from_vectors(vectors.index_select(0, torch.from_numpy(ids).to(vectors.device)))
        near_rows.preload(np.searchsorted(ids, picks))
        relevance = near_rows.score(c, ids)
        slack = _bound_slack(kind, _load_squares(c.matrix) if has_bounds else near_rows.squares, relevance, k, floor)
        path = _trace_path(kind, near_rows, relevance, k, interval, slack, floor, window, *settings)
        path = replace(path, picks=ids[path.picks])
        picks = np.unique(path.picks)
        new_ids = np.union1d(ids, _find_rivals(kind, c, path, slack) if has_bounds else np.arange(c.count))
        if len(new_ids) == len(ids):
            return path
        ids = new_ids
    rows = load_rows()
    rows.preload(picks)
    relevance = rows.score(c)
    slack = _bound_slack(kind, rows.squares, relevance, k, floor)
    return _trace_path(kind, rows, relevance, k, interval, slack, floor, window, *settings)


def _list_most_relevant(c: Candidates, k: int) -> Array:
    """List some hundred most relevant candidates, k at least, and that of the largest |relevance|, ascending."""
    relevance, tie_width = c.relevance[0].double().cpu().numpy(), 2 * float(c.relevance_error[0])
    n, size, magnitude = len(relevance), min(len(relevance), max(k, N_GUESS_ROWS)), np.abs(relevance)
    ascending = np.partition(relevance, [n - size, n - k])
    is_near = relevance >= min(ascending[n - size], ascending[n - k] - tie_width)
    return np.flatnonzero(is_near | (magnitude >= magnitude.max() - tie_width))


def _find_rivals(kind: int, c: Candidates, path: LambdaPath, slack: float) -> Array:
    """List the candidates, ascending, that may be picked somewhere on a path that was traced without most of them.

    After the first pick, which is that of all λ, gains only fall: a candidate is no rival whose gain there is below
    that of every later pick of the path, at each λ.
    """
    # For LOG_RESIDUAL relevance decides alone at λ = 1, and a pick without a diversity gain excludes nobody.
    starts = np.append(path.start, path.ends[:-1])
    is_compared = starts < (MAX_LOG_LAMBDA if kind == LOG_RESIDUAL else np.inf)
    positions, later_gains = np.stack([starts, path.ends])[:, is_compared], path.gains[is_compared, :, 1:]
    if kind == LOG_RESIDUAL and (later_gains[:, 0] == later_gains[:, 1]).any():
        return np.arange(c.count)
    pick_gains = positions[:, :, None] * later_gains[:, 0] + (1 - positions)[:, :, None] * later_gains[:, 1]
    corners: list[tuple[float, float]] = []
    # Gains are lines in λ, so only the corners of the lower convex hull of the picks' least gains matter.
    for x, y in sorted(
        zip(positions.ravel().tolist(), pick_gains.min(2, initial=np.inf).ravel().tolist(), strict=True)
    ):
        while len(corners) > 1 and (corners[-1][0] - corners[-2][0]) * (y - corners[-2][1]) <= (
            corners[-1][1] - corners[-2][1]
        ) * (x - corners[-2][0]):
            corners.pop()
        corners.append((x, y))
    # Upper bounds of all candidates' gains at λ = 1 and at λ = 0.
    first_pick = int(path.picks[0, 0])
    a = c.relevance[0].double().cpu().numpy() + float(c.relevance_error[0])
    similarities = products(c.vectors, c.vectors[first_pick : first_pick + 1])[0].double().cpu().numpy()
    if kind == NEAREST:
        b = c.similarity_error - similarities
    else:
        squares = _load_squares(c.matrix)
        explained = np.maximum(np.abs(similarities) - c.similarity_error, 0) ** 2 / squares[first_pick]
        distance_sq = np.maximum(squares - explained, 0) + BOUND_MARGIN * squares
        b = np.sqrt(distance_sq) if kind == ROOT_RESIDUAL else np.log(np.maximum(distance_sq, 1e-300))
    is_rival, margin = np.zeros(c.count, np.bool_), slack / ROUNDING_SLACK * BOUND_MARGIN
    for lam, least_gain in corners:
        is_rival |= lam * a + (1 - lam) * b >= least_gain - margin
    return np.flatnonzero(is_rival)


def coverage_paths(
    c: Candidates, k: int, interval: tuple[float, float], size: int, marks: Sequence[float] = ()
) -> list[LambdaPath]:
    """Return each query's picks by facility location at every λ, as pieces with equal picks.

    The picks come from the `size` most relevant documents, and are to cover these alone. Candidate i gains
    λ a + (1−λ) b, where a is its relevance and b = k/size Σ_j max(0, s_ij − the largest similarity of j to the picks).
    """
    paths = []
    for _, ground_ids, tables, query_relevances in iterate_ground_sets(c, size):
        ground_rows = _Rows(tables.columns, tables.rows.diagonal().copy(), tables.rows, tables.filled)
        for relevance in query_relevances:
            slack = _bound_slack(COVERAGE, ground_rows.squares, relevance, k, 0.0)
            ground_path = _trace_path(
                COVERAGE, ground_rows, relevance, k, interval, slack, floor=0.0, window=0, has_unit_rows=False,
                marks=marks, tables=tables,
            )  # fmt: skip
            paths.append(replace(ground_path, picks=ground_ids[ground_path.picks]))
    return paths


def _trace_path(
    kind: int, rows: _Rows, relevance: Array, k: int, interval: tuple[float, float], slack: float, floor: float,
    window: int, has_unit_rows: bool, marks: Sequence[float] = (), tables: CoverageTables | None = None,
) -> LambdaPath:  # fmt: skip
    """Return the picks and gains of one query at every λ of an interval, as pieces with equal picks.

    kind: the method, as in `steps`; rows: Gram rows; relevance: (n,); slack: differences that rounding may decide;
    floor: a squared distance to the picks' span is noise up to this share of the vector's squared length; window:
    number of last picks that count, 0 for all;
    has_unit_rows: all vectors have length 1, so that the most relevant is the first pick at every λ; marks: the λ of
    interest, none for all; tables: what documents cover, for COVERAGE only
    """
    low, high = interval
    path_end = min(high, MAX_LOG_LAMBDA) if kind == LOG_RESIDUAL else high
    by_relevance = k == 1 or kind in (NEAREST, SUM) or has_unit_rows
    is_complete, inner_marks = low > path_end, np.array([mark for mark in marks if low <= mark <= path_end])
    no_tables = np.empty(0), np.empty((0, 0)), np.empty(0, np.bool_)
    coverage_arrays = no_tables if tables is None else (tables.solo_gain, tables.pair_gain, tables.pair_ready)
    # bounds: end of each piece, and from where to where no rounding decides; lines: gains at λ = 1 and at λ = 0.
    parts = [(np.empty((0, 3)), np.empty((0, k), np.int64), np.empty((0, 2, k)))]
    part_start, max_nodes = low, max(MIN_CALL_PATHS * k, MAX_CALL_WORK // (k * len(relevance)))
    while not is_complete:
        # Compiled code cannot be interrupted: it returns after some nodes, and goes on from there if anybody waits.
        raise_if_stopped("the path was stopped")
        n_used = np.array([int(rows.row_slot.max()) + 1])
        # Looked at anew for each part: the loop may have been compiled meanwhile.
        runs_interpreted = k * len(relevance) <= MAX_INTERPRETED_WORK and is_interpreted(follow_pieces)
        with interpreting() if runs_interpreted else nullcontext():
            *part, reached, has_room = follow_pieces(
                kind, rows.columns, rows.rows, rows.filled, rows.row_slot, n_used, rows.squares, relevance, k, window,
                floor, by_relevance, part_start, path_end, slack, inner_marks, max_nodes, *coverage_arrays,
            )  # fmt: skip
        # The loop gives up where it has no room for a Gram row; it starts again with twice as much, all rows kept.
        if not has_room:
            rows.grow()
            continue
        parts.append(tuple(part))
        part_start, is_complete = reached, reached >= path_end
    bounds, picks, lines = map(np.concatenate, zip(*parts, strict=True))
    if kind == SUM:
        return _order_sets(rows, relevance, low, bounds, picks, slack)
    if high > path_end:
        # Beyond path_end relevance outweighs any difference of logarithms: the k most relevant are picked.
        top_ids = np.argsort(-relevance, kind="stable")[:k]
        bounds = np.concatenate([bounds, [[high, np.inf, -np.inf]]])
        picks, lines = np.concatenate([picks, top_ids[None]]), np.concatenate([lines, [[relevance[top_ids]] * 2]])
    return LambdaPath(low, bounds[:, 0], picks, lines, bounds[:, 1:])


def _bound_slack(kind: int, squares: Array, relevance: Array, k: int, floor: float) -> float:
    """Bound the difference of two gains that rounding can decide, from the size of the candidates' gains.

    kind: the method; squares: (n,) squared lengths; relevance: (n,); floor: share of its squared length up to
    which a vector's squared distance to the picks' span counts as noise
    """
    max_square, max_relevance = float(squares.max()), float(np.abs(relevance).max())
    gain_size = max_relevance + max_square
    if kind == SUM:
        gain_size = (k - 1) * (max_relevance + 2 * max_square) or max_relevance
    elif kind == COVERAGE:
        gain_size = max_relevance + k * max_square
    elif kind == LOG_RESIDUAL:
        min_square = float(squares[squares > 0].min(initial=max_square)) * floor
        gain_size = max_relevance + max(abs(math.log(max(square, 1e-300))) for square in (max_square, min_square))
    elif kind == ROOT_RESIDUAL:
        gain_size = max_relevance + math.sqrt(max_square)
    return ROUNDING_SLACK * gain_size


def _order_sets(rows: _Rows, relevance: Array, low: float, bounds: Array, picks: Array, slack: float) -> LambdaPath:
    """Order the set of every piece of max_sum's path by what each member contributes to the set's score.

    A piece is an interval of λ with one set; it is cut where the order changes. A member's line is a_i = (k−1) r_i at λ
    = 1 and b_i = −2 Σ s_ij over the other members at λ = 0; for k = 1 relevance. bounds: (m, 3) end, certain from,
    certain to of each piece; picks: (m, k)
    """
    k = picks.shape[1]
    first_member, second_member = np.triu_indices(k, 1)
    similarities = np.zeros((len(picks), k, k))
    # The rows of all but the last pick are there, and s_ij = s_ji.
    pair_products = rows.rows[rows.row_slot[picks[:, first_member]], picks[:, second_member]]
    similarities[:, first_member, second_member] = similarities[:, second_member, first_member] = pair_products
    similarities[:, range(k), range(k)] = rows.squares[picks]
    # Members by ascending row, as ties go to the earlier one.
    member_order = picks.argsort(1)
    members = np.take_along_axis(picks, member_order, 1)
    similarities = np.take_along_axis(similarities, member_order[:, :, None], 1)
    similarities = np.take_along_axis(similarities, member_order[:, None], 2)
    # Summed with the diagonal, identical members have identical sums.
    b = -2 * (similarities.sum(2) - rows.squares[members])
    a = (k - 1) * relevance[members] if k > 1 else relevance[members]
    lines = np.stack([a, b if k > 1 else a], 1)
    return order_lines(low, bounds[:, 0], bounds[:, 1:], members, lines, k, slack)
