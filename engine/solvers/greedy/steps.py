"""One greedy step, compiled: the gain of each method, how a pick changes it, and who is best.

The gain of candidate i is weight·a_i + (1 − weight)·b_i, where a is fixed and b follows from a state that every pick is
folded into:
    NEAREST        a = r          b = −max s_ij over the chosen      (mmr)
    SUM            a = (k−1) r    b = −2 Σ s_ij over the chosen      (max_sum)
    LOG_RESIDUAL   a = r          b = log d²                         (dpp)
    ROOT_RESIDUAL  a = r          b = d                              (ssd)
with d the distance to the span of the chosen. At or under floor·|u|² a d² is noise: for LOG_RESIDUAL such a candidate
comes after all others, by relevance; for ROOT_RESIDUAL d counts as 0. All is float64 in one fixed order of operations
over `Gram` rows, so identical candidates have identical gains, and of equals the lower row is taken.
"""

import numpy as np

from engine.solvers.gram import Gram, compute_products, fill_row
from engine.solvers.jit import jit_exact, jit_maxima
from engine.solvers.largest import find_largest

Array = np.ndarray

NEAREST, SUM, LOG_RESIDUAL, ROOT_RESIDUAL, COVERAGE = range(5)
EXCLUDED = -1e300
"""In a and b both: never chosen. In b alone: chosen when nothing else is left, or at weight 1."""
EXCLUDED_LIMIT = -1e200
MAX_COEFFICIENT_SIZE = 16.0
"""A residual with larger coefficients in the chosen rows, or under MIN_RESIDUAL_SHARE of a row's squared length, is
taken from the rows themselves: inner products would lose its digits."""
MIN_RESIDUAL_SHARE = 0.01
CLEAR_FACTOR = 1e4
"""Squared residuals this many times over or under their floor are not on the other side of it by rounding."""
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10


@jit_maxima
def find_best_gain(weight, a, b):
    """Return the candidate with the largest gain weight·a + (1 − weight)·b, the lowest row of equals.

    Where no remaining candidate has a diversity gain (b is EXCLUDED, −10³⁰⁰), the one with the largest a.
    """
    winner, largest = find_largest(weight, a, 1 - weight, b)
    if largest <= EXCLUDED_LIMIT:
        winner = 0
        for item in range(len(a)):
            if a[item] > a[winner]:
                winner = item
    return winner


@jit_exact
def compute_logarithms(x, result, exponents):
    """Compute the natural logarithm of every x > 0 into `result`, within 2 units in the last place.

    `np.log` is not vectorised by the compiler; these loops are. exponents: scratch; no two of the three arrays may
    share memory
    """
    # A float64 is mantissa · 2^exponent: split its bits, so that log x = exponent · ln 2 + log mantissa.
    bits, mantissa, exponent = x.view(np.uint64), result.view(np.uint64), exponents.view(np.uint64)
    mantissa_mask = np.uint64(0x000FFFFFFFFFFFFF)
    exponent_of_one = np.uint64(0x3FF0000000000000)
    mantissa_bits = np.uint64(52)
    exponent_offset = np.uint64(0x4330000000000000)  # 2^52: the exponent becomes a float64 without a conversion
    for position in range(len(x)):
        mantissa[position] = (bits[position] & mantissa_mask) | exponent_of_one
        exponent[position] = (bits[position] >> mantissa_bits) | exponent_offset
    for position in range(len(x)):
        # The mantissa is brought into [√½, √2), where the series of log m in (m − 1) / (m + 1) converges fast.
        reduced = result[position]
        is_large = reduced > 1.4142135623730951
        reduced = reduced * 0.5 if is_large else reduced
        exponent_value = (exponents[position] - 4503599627370496.0) - (1022.0 if is_large else 1023.0)
        ratio = (reduced - 1) / (reduced + 1)
        ratio_sq = ratio * ratio
        tail = ratio_sq * (1 / 11 + ratio_sq * (1 / 13 + ratio_sq * (1 / 15 + ratio_sq * (1 / 17 + ratio_sq / 19))))
        series = ratio_sq * (1 / 3 + ratio_sq * (1 / 5 + ratio_sq * (1 / 7 + ratio_sq * (1 / 9 + tail))))
        result[position] = exponent_value * LN2_HIGH + (exponent_value * LN2_LOW + (2 * ratio + 2 * ratio * series))


@jit_exact
def init_gains(kind, squares, relevance, k, a, state):
    """Set the relevance part a of all gains, and each candidate's state before the first pick, in place.

    The state is what the diversity part follows from: similarity to the picks, or distance to their span. kind: the
    method; a is relevance, times k − 1 for SUM
    """
    for item in range(len(a)):
        a[item] = (k - 1.0) * relevance[item] if kind == SUM else relevance[item]
    init_state(kind, squares, state)


@jit_exact
def init_state(kind, squares, state):
    """Set each candidate's state, from which its diversity gain follows, to that before the first pick.

    SUM adds up similarities from 0, NEAREST takes a minimum from ∞, and the methods by residual subtract from the
    squared length what the picks explain.
    """
    for item in range(len(state)):
        if kind == SUM:
            state[item] = 0.0
        elif kind == NEAREST:
            state[item] = np.inf
        else:
            state[item] = squares[item]


@jit_maxima
def update_gains(kind, state, squares, floor, a, b, scratch):
    """Compute the diversity part b of all gains from the candidates' states; excluded ones stay excluded.

    The state is a squared distance to the span of the picks for LOG_RESIDUAL and ROOT_RESIDUAL; for the other methods
    it is b itself. floor: at or under this share of its squared length a squared residual is noise; scratch: (2, n)
    """
    n = len(state)
    if kind == LOG_RESIDUAL:
        # Rounding may leave a squared distance at 0 or below, which has no logarithm; such are excluded afterwards.
        for item in range(n):
            scratch[0, item] = max(state[item], 1e-300)
        compute_logarithms(scratch[0, :n], b, scratch[1, :n])
        for item in range(n):
            b[item] = b[item] if state[item] > floor * squares[item] and a[item] > EXCLUDED else EXCLUDED
    elif kind == ROOT_RESIDUAL:
        for item in range(n):
            distance = np.sqrt(state[item] if state[item] > floor * squares[item] else 0.0)
            b[item] = distance if a[item] > EXCLUDED else EXCLUDED
    else:
        for item in range(n):
            b[item] = state[item] if a[item] > EXCLUDED else EXCLUDED


@jit_exact
def orthonormalise_picks(columns, picks, n_picks, floor, basis):
    """Compute an orthonormal basis of the picks' vectors, in order, in `basis`, (d, n_picks).

    A pick whose squared residual is at or under `floor` of its squared length adds only noise, and gets zeros. Returns
    True if every residual is far from that floor, so that computing it in another way could not decide otherwise.
    columns: (d, n) the vectors of all candidates
    """
    d, coefs, is_clear = len(columns), np.empty(n_picks), True
    for rank in range(n_picks):
        residual, full_square, square_left = columns[:, picks[rank]].astype(np.float64), 0.0, 0.0
        for axis in range(d):
            full_square += residual[axis] * residual[axis]
        # Twice: the first pass leaves rounding along the basis that a short residual would magnify.
        for _ in range(2):
            coefs[:rank] = 0.0
            for axis in range(d):
                for j in range(rank):
                    coefs[j] += residual[axis] * basis[axis, j]
            for axis in range(d):
                for j in range(rank):
                    residual[axis] -= coefs[j] * basis[axis, j]
        for axis in range(d):
            square_left += residual[axis] * residual[axis]
        # At or under floor · |u|² the residual is noise, and the pick adds no direction.
        scale = 1 / np.sqrt(square_left) if square_left > floor * full_square else 0.0
        for axis in range(d):
            basis[axis, rank] = residual[axis] * scale
        is_far = square_left >= CLEAR_FACTOR * floor * full_square or square_left <= floor * full_square / CLEAR_FACTOR
        is_clear = is_clear and is_far
    return is_clear


@jit_exact
def add_direction(columns, rows, row_slots, squares, picks, rank, state, floor, along, coefficients):
    """Compute all candidates' products with the direction that a pick adds to the span of those before.

    They become along[rank]; zeros where the pick adds no direction. The products follow from the picks' Gram rows
    (their products with all candidates) without the vectors, unless digits would be lost. row_slots: positions in
    `rows` of the picks' Gram rows; state: (n,) squared distances to the span before; along: (k, n), its earlier rows
    those of earlier picks; coefficients: (k, k), row `rank` of which becomes that unit vector as a combination of the
    picks
    """
    pick, new_products, n, factors = picks[rank], along[rank], len(state), coefficients[rank]
    factors[:] = 0.0
    new_products[:] = 0.0
    if not state[pick] > floor * squares[pick]:
        return
    # Gram–Schmidt in coefficients of the picked rows: the products of the new pick with the earlier directions are
    # already in `along`.
    for earlier in range(rank):
        for position in range(earlier + 1):
            factors[position] -= along[earlier, pick] * coefficients[earlier, position]
    factors[rank] = 1.0
    inverse_length, coefficient_size = 1 / np.sqrt(state[pick]), 0.0
    for earlier in range(rank + 1):
        factors[earlier] *= inverse_length
        coefficient_size += abs(factors[earlier]) * np.sqrt(squares[picks[earlier]])
    # Where digits would cancel, the direction is made from the vectors themselves.
    if coefficient_size > MAX_COEFFICIENT_SIZE or state[pick] < MIN_RESIDUAL_SHARE * squares[pick]:
        basis = np.empty((len(columns), rank + 1))
        orthonormalise_picks(columns, picks, rank + 1, floor, basis)
        compute_products(columns, basis[:, rank].copy().reshape(1, -1), along[rank : rank + 1])
        return
    # Four rows a pass: each pass reads and writes `new_products` once.
    earlier = 0
    while earlier + 3 <= rank:
        m0, m1, m2, m3 = factors[earlier], factors[earlier + 1], factors[earlier + 2], factors[earlier + 3]
        g0 = rows[row_slots[earlier]]
        g1 = rows[row_slots[earlier + 1]]
        g2 = rows[row_slots[earlier + 2]]
        g3 = rows[row_slots[earlier + 3]]
        for position in range(n):
            new_products[position] += (m0 * g0[position] + m1 * g1[position]) + (m2 * g2[position] + m3 * g3[position])
        earlier += 4
    while earlier <= rank:
        m0, g0 = factors[earlier], rows[row_slots[earlier]]
        for position in range(n):
            new_products[position] += m0 * g0[position]
        earlier += 1


@jit_maxima
def fold_pick(kind, columns, rows, row_slots, squares, picks, rank, old_state, new_state, floor, along, coefficients):
    """Update the candidates' state by a pick whose products with all are rows[row_slots[rank]].

    The state, from which diversity gains follow, is by method minus the largest similarity to a pick (NEAREST), minus
    twice the sum of similarities (SUM) or the squared distance to the span of the picks. old_state, new_state: (n,)
    before and after, which may be one array. along, coefficients: for the methods by distance, orthonormal directions
    of the earlier picks' span, as products with the candidates, (k, n), and as combinations of the picks, (k, k); this
    pick's direction is added to both
    """
    n, pick_row = len(old_state), rows[row_slots[rank]]
    if kind == NEAREST:
        for item in range(n):
            new_state[item] = min(old_state[item], -pick_row[item])
    elif kind == SUM:
        for item in range(n):
            new_state[item] = old_state[item] - 2 * pick_row[item]
    else:
        # Each direction that joins the span takes its squared product off the squared distance (Pythagoras).
        add_direction(columns, rows, row_slots, squares, picks, rank, old_state, floor, along, coefficients)
        new_products = along[rank]
        for item in range(n):
            new_state[item] = old_state[item] - new_products[item] * new_products[item]


@jit_exact
def bound_outside_gain(outside, in_z, move_square):
    """Bound max_sum's gain of all candidates outside the pool, after picks moved their sum by Δ.

    At the start a candidate u gains u·z, z = (k−1)·weight·query − β·(sum of the chosen); each pick p moves z by −βp.
    outside: the largest gain at the start, β = 2·(1 − weight), the longest row, the length of z (0 where there is none,
    as gains are no inner products); in_z: the product of Δ with z; move_square: |Δ|². With a_j = u_j·z/|z| ≤ τ outside,
    u_j·(z − βΔ) ≤ A a + B √(L² − a²), A = |z| − β Δ·z/|z|, B = β |Δ − its part along z|.
    """
    max_outside, beta, max_norm, point_norm = outside[0], outside[1], outside[2], outside[3]
    plain_bound = max_outside + beta * max_norm * np.sqrt(max(move_square, 0.0) * (1 + 1e-12))
    if point_norm == 0 or max_outside == -np.inf:
        return plain_bound
    parallel_part = in_z / point_norm
    # What is left of two squares that cancel has their rounding.
    parallel_gain = point_norm - beta * parallel_part
    orthogonal_gain = beta * np.sqrt(
        max(move_square - parallel_part * parallel_part, 0.0) + 1e-13 * (move_square + parallel_part * parallel_part)
    )
    # The maximum of A a + B √(L² − a²) over a ≤ τ: at its peak a = L A / √(A² + B²) if τ allows that, else at τ.
    cosine = min(max(max_outside / point_norm, -max_norm), max_norm)
    gain_norm = np.hypot(parallel_gain, orthogonal_gain)
    if cosine * gain_norm >= max_norm * parallel_gain:
        return min(plain_bound, max_norm * gain_norm)
    return min(plain_bound, parallel_gain * cosine + orthogonal_gain * np.sqrt(max_norm * max_norm - cosine * cosine))


@jit_maxima
def choose_picks(
    kind, columns, rows, filled, squares, relevance, k, weight, window, floor, by_relevance,
    outside, along_point, picks, scores, n_done, stop_rank,
):  # fmt: skip
    """Make one query's greedy picks from n_done on up to `stop_rank`, while none outside could be as good.

    The candidates may be a pool of a larger corpus. A candidate's gain is weight·a + (1 − weight)·b, where b, what
    diversity adds, follows from a state that changes with each pick. Returns the number of picks made, and the rank of
    the first pick without any diversity gain (b is EXCLUDED), −1 for none. window: only this many last picks count, 0
    for all; by_relevance: the first pick is the most relevant, which is among the candidates; outside: bounds on gains
    outside the pool, (4,), as `bound_outside_gain` takes them (methods other than SUM use the first number only);
    along_point: (n,) products of the candidates with that function's point z; picks, scores: (k,) written in place.
    """
    # Methods by residual compute b from a state of its own array, the squared distance to the picks' span; for the
    # others the state is b.
    n, by_residual, past_rank = len(relevance), kind in (LOG_RESIDUAL, ROOT_RESIDUAL), -1
    a, state, scratch = np.empty(n), np.empty(n), np.empty((2, n if by_residual else 0))
    b = np.empty(n) if by_residual else state
    along = np.empty((stop_rank if by_residual else 0, n))
    coefficients = np.empty((stop_rank, stop_rank) if by_residual else (0, 0))
    start_state, in_z, move_square = np.empty(n if kind == SUM else 0), 0.0, 0.0
    init_gains(kind, squares, relevance, k, a, state)
    for rank in range(stop_rank):
        if rank >= n_done:
            is_first = rank == 0 and by_relevance
            if by_residual:
                update_gains(kind, state, squares, floor, a, b, scratch)
            p = find_best_gain(1.0, relevance, relevance) if is_first else find_best_gain(weight, a, b)
            score = weight * a[p] + ((1 - weight) * b[p] if by_residual or not is_first else 0.0)
            # A pick stands only while it beats the bound on everything outside the pool.
            outside_bound = bound_outside_gain(outside, in_z, move_square) if kind == SUM else outside[0]
            if not is_first and score <= outside_bound:
                return rank, past_rank
            if score < EXCLUDED_LIMIT:
                past_rank, score = rank if past_rank < 0 else past_rank, a[p]
            picks[rank], scores[rank] = p, score
            # The bound outside knows of a first pick by relevance.
            if kind == SUM and not is_first:
                in_z += along_point[p]
                move_square += squares[p] + start_state[p] - state[p]
        # Picks that were made before this call are folded in as well, to reach the state after them.
        p = picks[rank]
        a[p] = EXCLUDED
        if rank + 1 == stop_rank:
            break
        fill_row(columns, rows, filled, p)
        start = max(0, rank + 1 - window) if window else 0
        if start:
            # What the window left out counts no longer: the state is made anew.
            init_state(kind, squares, state)
        for i in range(0 if start else rank, rank + 1 - start):
            recent = picks[start:]
            fold_pick(kind, columns, rows, recent, squares, recent, i, state, state, floor, along, coefficients)
        if not by_residual:
            for i in range(rank if start == 0 else 0, rank + 1):
                state[picks[i]] = EXCLUDED
        # The bound outside holds after the picks made before this call, one by relevance among them: Δ, the sum of the
        # picks since, is counted from there.
        if kind == SUM and (rank + 1 == n_done or rank == 0):
            for item in range(n):
                start_state[item] = state[item]
    return stop_rank, past_rank


def choose_for_queries(
    kind: int, gram: Gram, relevance: Array, k: int, weights: Array, window: int, floor: float, by_relevance: bool
) -> tuple[Array, Array, Array]:
    """Choose k documents greedily for each of B queries at each of L weights λ, among all documents.

    Returns picks and scores, (B, L, k), and (B, L) the first rank without a diversity gain, −1 for none. gram: the
    vectors' products, filled as far as they are needed; relevance: (B, n); for the others see `choose_picks`
    """
    n_queries, n = relevance.shape
    picks, scores = np.empty((n_queries, len(weights), k), np.int64), np.empty((n_queries, len(weights), k))
    past_ranks = np.empty((n_queries, len(weights)), np.int64)
    no_products = np.zeros(n)
    squares = gram.squares if kind in (LOG_RESIDUAL, ROOT_RESIDUAL) else no_products  # lengths count for these alone
    # All candidates are in the matrix: nothing outside can beat a pick.
    no_outside = np.array([-np.inf, 0.0, 0.0, 0.0])
    for query_id in range(n_queries):
        for weight_id in range(len(weights)):
            _, past_ranks[query_id, weight_id] = choose_picks(
                kind, gram.columns, gram.rows, gram.filled, squares, relevance[query_id], k, weights[weight_id],
                window, floor, by_relevance, no_outside, no_products, picks[query_id, weight_id],
                scores[query_id, weight_id], 0, k,
            )  # fmt: skip
    return picks, scores, past_ranks


@jit_exact
def fold_state_bound(kind, pick_products, error, state):
    """Lower the upper bounds on all candidates' states, (n,), by some picks, in place.

    A state is what a diversity gain follows from (see `fold_pick`), so a bound on it bounds the gain.
    pick_products: (p, n) products of the picks with all candidates, each within `error`; for a residual method those of
    orthonormal points that span the picks
    """
    for products in pick_products:
        for item in range(len(state)):
            if kind == NEAREST:
                state[item] = min(state[item], error - products[item])
            elif kind == SUM:
                state[item] += 2 * (error - products[item])
            else:
                min_product = max(abs(products[item]) - error, 0.0)
                state[item] -= min_product * min_product


@jit_exact
def compute_upper_bounds(kind, relevance, error, state, squares, k, weight, floor):
    """Return (n,) upper bounds on all candidates' gains, from rounded relevance and bounds on their state.

    kind: the method; relevance: (n,) within `error`; state: (n,) upper bounds on what the diversity part b follows
    from; squares: (n,) upper bounds on squared lengths; floor: share of its squared length up to which a vector's
    squared distance to the picks' span counts as noise
    """
    n = len(state)
    a, b, unused_state, scratch = np.empty(n), np.empty(n), np.empty(n), np.empty((2, n))
    init_gains(kind, squares, relevance, k, a, unused_state)
    # Relevance enters with its error, so that a bound holds for the exact gain as well.
    for item in range(n):
        a[item] += error * (k - 1.0 if kind == SUM else 1.0)
    # Squares are rounded too: what may be above the floor counts as above it.
    update_gains(kind, state, squares, 0.1 * floor, a, b, scratch)
    for item in range(n):
        relevance_part, diversity_part = weight * a[item], (1 - weight) * b[item]
        b[item] = relevance_part + diversity_part + 1e-12 * (abs(relevance_part) + abs(diversity_part))
    return b
