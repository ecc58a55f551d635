"""Sets by the quadratic objective on the rows of a Gram matrix: Algorithm 1, greedy and swaps, compiled.

With linear = θ(k−1) and beta = 2(1−θ), a set Y has the value linear·Σ r_i − beta/2 Σ_{i≠j} s_ij. Identical rows have
identical products, so they tie to the last bit and every choice takes the lower row.
"""

import numpy as np

from engine.solvers.gram import Gram, fill_row
from engine.solvers.greedy.steps import SUM, choose_for_queries
from engine.solvers.jit import jit_exact
from engine.solvers.largest import find_largest, select_best_rows

Array = np.ndarray

N_FIGURES = 7
"""A set is described by its value, the ascent's steps and gap, how many swaps were made, whether none is left, from how
many sets it was sought, and whether the ascent ended at a set."""
N_SCRATCH_ARRAYS = 4
"""Number of (n,) arrays that the loops need."""
MAX_ASCENT_STEPS = 200
"""Largest number of steps of an ascent, as in the authors' implementation."""


@jit_exact
def ascend_on_gram(
    columns: Array, rows: Array, filled: Array, loads: Array, mean_products: Array, r: Array, linear: float,
    beta: float, loading: float, tolerance: float, max_steps: int, set_ids: Array, scratch: Array,
) -> tuple[int, float, bool]:  # fmt: skip
    """Find a set of k documents by the Frank–Wolfe method: relevant, and unlike one another on average.

    Every document starts with the weight x = k/n; each step moves all weights toward the k documents with the largest
    gradient. Returns the number of steps, the last gap (a bound on what a step can gain), and True if it ended at a
    set. columns: (d, n) vectors; rows, filled: (n, n) their products, and which rows are there; r: (n,) relevance,
    times `linear` in the objective; beta: factor of similarities; loads: (n,) squared lengths, the diagonal matrix D;
    mean_products: (n,) products with the mean row; loading: δ, the extra weight of the term xᵀDx. A point that
    is no set is rounded to the k largest x, equal ones by gradient, into `set_ids`.
    """
    n, k = len(r), len(set_ids)
    weights, sum_products, gradient, corner_products = scratch[0], scratch[1], scratch[2], scratch[3]
    is_marked, heap, corner = np.zeros(n, np.bool_), np.empty(k, np.int64), np.empty(k, np.int64)
    # Up to date beside x: each document's product with y, the weighted sum of all vectors, the relevance of x, Σ D x²,
    # and the squared length of y.
    load, initial_weight = beta * (1 + loading), k / n
    relevance, loaded_sq, norm_sq = 0.0, 0.0, 0.0
    for item in range(n):
        weights[item] = initial_weight
        sum_products[item] = k * mean_products[item]
        relevance += r[item]
        loaded_sq += loads[item]
        norm_sq += mean_products[item]
    relevance *= initial_weight
    loaded_sq *= initial_weight * initial_weight
    norm_sq *= k * initial_weight
    integral, n_steps, gap = False, 0, 0.0
    while True:
        for item in range(n):
            gradient[item] = (linear * r[item] - beta * sum_products[item]) + load * loads[item] * weights[item]
        if n_steps == max_steps:
            break
        select_best_rows(gradient, gradient, heap, is_marked, corner)
        corner_relevance, corner_loads, overlap, corner_along = 0.0, 0.0, 0.0, 0.0
        for member in corner:
            corner_relevance += r[member]
            corner_loads += loads[member]
            overlap += loads[member] * weights[member]
            corner_along += sum_products[member]
        # The Frank–Wolfe gap, gradient · (corner − x), bounds what any feasible point gains to first order.
        gain = linear * (corner_relevance - relevance) + load * (overlap - loaded_sq)
        gap = gain - beta * (corner_along - norm_sq)
        if gap <= tolerance * k:
            break
        if integral:  # Only what changes is added up.
            for position in range(n):
                corner_products[position] = sum_products[position]
            for member in corner:
                is_marked[member] = True
            for member in set_ids:
                if not is_marked[member]:
                    member_row = rows[member]
                    for position in range(n):
                        corner_products[position] -= member_row[position]
            for member in corner:
                is_marked[member] = False
        else:
            corner_products[:] = 0.0
        for member in corner:
            if not (integral and weights[member] == 1.0):
                fill_row(columns, rows, filled, member)
                member_row = rows[member]
                for position in range(n):
                    corner_products[position] += member_row[position]
        corner_square = 0.0
        for member in corner:
            corner_square += corner_products[member]
        # Exact line search: along the direction the objective is gap · t + ½ curvature · t², so t = −gap / curvature,
        # at most 1, where it is concave.
        curvature = load * (corner_loads - 2 * overlap + loaded_sq)
        curvature -= beta * (corner_square - 2 * corner_along + norm_sq)
        step_size = 1.0 if curvature >= 0 else min(1.0, gap / -curvature)
        integral = step_size == 1.0
        decay = 1 - step_size
        for item in range(n):
            weights[item] *= decay
            sum_products[item] = decay * sum_products[item] + step_size * corner_products[item]
        for member in corner:
            weights[member] += step_size
        relevance = decay * relevance + step_size * corner_relevance
        loaded_sq = decay * decay * loaded_sq + step_size * step_size * corner_loads + 2 * step_size * decay * overlap
        norm_sq = decay * decay * norm_sq + step_size * step_size * corner_square + 2 * step_size * decay * corner_along
        for position in range(k):
            set_ids[position] = corner[position]
        n_steps += 1
    if n_steps == 0:
        for position in range(k):
            set_ids[position] = corner[position]
    elif not integral:
        select_best_rows(weights, gradient, heap, is_marked, set_ids)
    return n_steps, gap, integral


@jit_exact
def swap_members(
    columns: Array, rows: Array, filled: Array, squares: Array, r: Array, linear: float, beta: float, tolerance: float,
    max_swaps: int, set_ids: Array, scratch: Array,
) -> tuple[int, bool, float]:  # fmt: skip
    """Improve a set of k documents, `set_ids`, by swapping a member for another, the best swap first.

    It ends when none gains more than `tolerance`, or after `max_swaps`. Returns (number of swaps, True if no swap is
    left, value of the set). r: (n,) relevance, times `linear` in the objective; beta: factor of the similarities;
    squares: (n,) squared lengths; scratch: rows of n numbers to work in
    """
    n, k = len(r), len(set_ids)
    field, rival_field = scratch[0], scratch[1]
    for item in range(n):
        field[item] = linear * r[item]
    max_norm = np.sqrt(squares.max())
    for member in set_ids:
        fill_row(columns, rows, filled, member)
        member_row = rows[member]
        for column in range(n):
            field[column] -= beta * member_row[column]
    for column in range(n):
        rival_field[column] = field[column]
    for member in set_ids:
        rival_field[member] = -np.inf
    # field[j] = linear r_j − beta Σ_{l∈Y} s_jl; without member i it is field[j] + beta s_ij, which is what a rival in
    # its place contributes.
    n_swaps, optimal = 0, k == n
    while not optimal:
        best_gain, leaving_rank, entering = tolerance, -1, -1
        # With the weight 0 the second array adds nothing: this is the largest of `rival_field` alone.
        _, max_rival = find_largest(1.0, rival_field, 0.0, field)
        for rank in range(k):
            item = set_ids[rank]
            member_value = field[item] + beta * squares[item]
            # What no rival can exceed, and what rounding may take from that.
            if max_rival + beta * max_norm * np.sqrt(squares[item]) - member_value + 1e-3 * tolerance < best_gain:
                continue
            rival, rival_value = find_largest(1.0, rival_field, beta, rows[item])
            swap_gain = rival_value - member_value
            # Of equal members the highest row leaves.
            if swap_gain > best_gain or (swap_gain == best_gain and leaving_rank >= 0 and item > set_ids[leaving_rank]):
                best_gain, leaving_rank, entering = swap_gain, rank, rival
        if leaving_rank < 0:
            optimal = True
        elif n_swaps == max_swaps:
            break
        else:
            leaving = set_ids[leaving_rank]
            fill_row(columns, rows, filled, entering)
            leaving_row, entering_row = rows[leaving], rows[entering]
            for column in range(n):
                change = beta * (leaving_row[column] - entering_row[column])
                field[column] += change
                rival_field[column] += change
            rival_field[leaving], rival_field[entering], set_ids[leaving_rank] = field[leaving], -np.inf, entering
            n_swaps += 1
    relevance, pair_total = 0.0, 0.0
    for member in set_ids:
        relevance += r[member]
        member_row = rows[member]
        for column in set_ids:
            pair_total += member_row[column]
        pair_total -= squares[member]
    return n_swaps, optimal, linear * relevance - beta / 2 * pair_total


@jit_exact
def sort_by_marginal(
    columns: Array, rows: Array, filled: Array, squares: Array, r: Array, linear: float, beta: float, set_ids: Array,
    gains: Array,
) -> float:  # fmt: skip
    """Sort a set in place by what each member contributes to the objective, and write that to `gains`.

    Returns the set's value. r: (n,) relevance, times `linear` in the objective; beta: factor of the similarities
    """
    k = len(set_ids)
    for member in set_ids:
        fill_row(columns, rows, filled, member)
    relevance, pair_total = 0.0, 0.0
    for rank in range(k):
        member, row_total = set_ids[rank], 0.0
        member_row = rows[member]
        for other in set_ids:
            row_total += member_row[other]
        relevance += r[member]
        pair_total += row_total - squares[member]
        gains[rank] = linear * r[member] - beta * (row_total - squares[member])
    # Insertion sort: by contribution, and by row where they are equal.
    for rank in range(1, k):
        member, gain, slot = set_ids[rank], gains[rank], rank
        while slot and (gains[slot - 1] < gain or (gains[slot - 1] == gain and set_ids[slot - 1] > member)):
            gains[slot], set_ids[slot] = gains[slot - 1], set_ids[slot - 1]
            slot -= 1
        gains[slot], set_ids[slot] = gain, member
    return linear * relevance - beta / 2 * pair_total


class SetsOnGram:
    """The search for sets of k documents among those of one Gram matrix: greedy start, Frank–Wolfe, swaps."""

    def __init__(self, gram: Gram, loads: Array, k: int, max_swaps: int) -> None:
        """Take a Gram matrix, whose rows are filled when needed, and make scratch arrays for the loops.

        loads: (n,) factor of each document's squared weight in the Frank–Wolfe relaxation, its squared length; k: size
        of a set; max_swaps: number of swaps a set may take
        """
        self.gram, self.loads, self.k, self.max_swaps = gram, loads, k, max_swaps
        self.arrays = gram.columns, gram.rows, gram.filled, gram.squares
        self.scratch = np.empty((N_SCRATCH_ARRAYS, len(loads)))

    def start_greedily(self, relevance: Array, weight: float) -> Array:
        """Return (k,) the greedy set: the most relevant document, then always the one that adds most.

        relevance: (n,); weight: θ, the share of relevance
        """
        # No window, no noise floor, the first pick by relevance.
        picks, _, _ = choose_for_queries(SUM, self.gram, relevance[None], self.k, np.array([weight]), 0, 0.0, True)
        return np.asarray(picks[0, 0])

    def ascend(self, relevance: Array, weight: float, delta: float, tolerance: float) -> tuple[Array, int, float, bool]:
        """Find a set by Frank–Wolfe steps from equal weights; return (set_ids, n_steps, gap, is_integral).

        gap: the last step's bound on what a further step can gain; is_integral: True if the steps ended at a set, False
        if the weights had to be rounded to one. relevance: (n,);
        weight: θ; delta: δ, the extra weight on the diagonal; tolerance: gap that counts as none
        """
        set_ids, linear_weights = np.empty(self.k, np.int64), (weight * (self.k - 1), 2 * (1 - weight))
        n_steps, gap, integral = ascend_on_gram(
            *self.arrays[:3], self.loads, self.gram.mean_products, relevance, *linear_weights, delta, tolerance,
            MAX_ASCENT_STEPS, set_ids, self.scratch,
        )  # fmt: skip
        return set_ids, n_steps, gap, integral

    def improve_by_swaps(
        self, relevance: Array, weight: float, tolerance: float, set_ids: Array, n_starts: int, figures: Array
    ) -> Array:
        """Return the best set of k documents that swaps reach from `set_ids`, (k,), and write its `figures`.

        n_starts: 1, or 3 to swap from the greedy set and from the set of the ascent at δ = 0 as well. Entries 0, 3, 4
        and 5 of `figures` become the set's value, number of swaps, True if no swap improves it, and number of starts
        """
        trial_sets, linear_weights = [set_ids.copy()], (weight * (self.k - 1), 2 * (1 - weight))
        if n_starts == 3:
            trial_sets += [self.start_greedily(relevance, weight), self.ascend(relevance, weight, 0.0, tolerance)[0]]
        for start_index, trial_set in enumerate(trial_sets):
            n_swaps, optimal, set_value = swap_members(
                *self.arrays, relevance, *linear_weights, tolerance, self.max_swaps, trial_set, self.scratch
            )
            if start_index == 0 or set_value > figures[0] + tolerance:
                figures[0], figures[3], figures[4], set_ids = set_value, n_swaps, optimal, trial_set
        figures[5] = len(trial_sets)
        return set_ids


def find_sets(
    search: SetsOnGram, relevance: Array, score_bounds: Array, settings: Array, tolerance: float, set_ids: Array,
    gains: Array, figures: Array,
) -> None:  # fmt: skip
    """Find a set of k documents for each of B queries at L settings; write it with its gains and figures.

    set_ids, gains: (B, L, k) and figures: (B, L, N_FIGURES) are written in place. relevance: (B, n); score_bounds: (B,
    2) the largest absolute relevance, and that of any similarity; settings: (L, 4) θ, δ, 1 where greed (not the ascent)
    begins, and the number of sets that swaps start from. Figures: value, ascent steps, gap, swaps, swap-optimal,
    starts, integral.
    """
    k = search.k
    for query_id, scores in enumerate(relevance):
        for setting_id, (weight, delta, starts_greedily, n_starts) in enumerate(settings.tolist()):
            beta = 2 * (1 - weight)
            swap_scale = (k - 1) * (weight * score_bounds[query_id, 0] + beta * score_bounds[query_id, 1])
            set_figures, swap_tolerance = figures[query_id, setting_id], tolerance * swap_scale
            set_figures[:] = 0.0
            # A set of all documents is the only one: swap-optimal, from one start, and not rounded.
            if k == len(scores):
                best_set, set_figures[4:] = np.arange(k), 1.0
            elif starts_greedily:
                best_set = search.start_greedily(scores, weight)
            else:
                best_set, n_steps, gap, is_integral = search.ascend(scores, weight, delta, swap_tolerance)
                relative_gap = gap / max(k * swap_scale, np.finfo(np.float64).tiny)
                set_figures[1], set_figures[2], set_figures[6] = n_steps, relative_gap, is_integral
            if n_starts and k < len(scores):
                best_set = search.improve_by_swaps(scores, weight, swap_tolerance, best_set, int(n_starts), set_figures)
            set_ids[query_id, setting_id] = best_set
            linear, set_gains = weight * (k - 1), gains[query_id, setting_id]
            set_value = sort_by_marginal(*search.arrays, scores, linear, beta, set_ids[query_id, setting_id], set_gains)
            set_figures[0] = set_value / (k * (k - 1))
