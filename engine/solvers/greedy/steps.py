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

from engine.solvers.gram import make_row, products
from engine.solvers.jit import exactly, maxima

Array = np.ndarray

NEAREST, SUM, LOG_RESIDUAL, ROOT_RESIDUAL, COVERAGE = range(5)
OUT = -1e300
"""In a and b both: never chosen. In b alone: chosen when nothing else is left, or at weight 1."""
NOTHING_BUT_OUT = -1e200
LANES = 64
STEEP = 16.0
"""A residual with larger coefficients in the chosen rows, or under FLAT of a row's squared length, is taken from the
rows themselves: inner products would lose its digits."""
FLAT = 0.01
FAR = 1e4
"""Squared residuals this many times over or under their floor are not on the other side of it by rounding."""
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10


@maxima
def lanes(weight, a, b):
    """(LANES,) largest gain of the candidates of each residue: a single maximum would not be vectorised."""
    n, rest, top = len(a), 1 - weight, np.full(LANES, -np.inf)
    for start in range(0, n - LANES + 1, LANES):
        x, y = a[start : start + LANES], b[start : start + LANES]
        for j in range(LANES):
            value = weight * x[j] + rest * y[j]
            top[j] = value if value > top[j] else top[j]
    for i in range(n - n % LANES, n):
        top[i % LANES] = max(top[i % LANES], weight * a[i] + rest * b[i])
    return top


@maxima
def best(weight, a, b):
    """Lowest candidate with the largest gain; where b is OUT for all that are left, with the largest a."""
    n, rest, largest, at = len(a), 1 - weight, -np.inf, 0
    top = lanes(weight, a, b)
    for j in range(LANES):
        largest = max(largest, top[j])
    if largest > NOTHING_BUT_OUT:
        at = n
        for j in range(LANES):
            if top[j] == largest:
                for i in range(j, at, LANES):
                    if weight * a[i] + rest * b[i] == largest:
                        at = i
                        break
        return at
    for i in range(n):
        if a[i] > a[at]:
            at = i
    return at


@exactly
def logarithms(x, out, power):
    """out = log x of positive normal x, within 2 units, in loops that vectorise; power is scratch.

    No two of the three may share memory.
    """
    bits, mantissa, exponent = x.view(np.uint64), out.view(np.uint64), power.view(np.uint64)
    low, one, shift = np.uint64(0x000FFFFFFFFFFFFF), np.uint64(0x3FF0000000000000), np.uint64(52)
    large = np.uint64(0x4330000000000000)  # 2^52: the exponent becomes a float64 without a conversion
    for i in range(len(x)):
        mantissa[i] = (bits[i] & low) | one
        exponent[i] = (bits[i] >> shift) | large
    for i in range(len(x)):
        m = out[i]
        big = m > 1.4142135623730951
        m = m * 0.5 if big else m
        c = (power[i] - 4503599627370496.0) - (1022.0 if big else 1023.0)
        s = (m - 1) / (m + 1)
        q = s * s
        tail = q * (1 / 11 + q * (1 / 13 + q * (1 / 15 + q * (1 / 17 + q / 19))))
        p = q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + tail))))
        out[i] = c * LN2_HIGH + (c * LN2_LOW + (2 * s + 2 * s * p))


@exactly
def begin(kind, squares, relevance, k, a, state):
    """The fixed part a of all gains, and the state before the first pick."""
    for i in range(len(a)):
        a[i] = (k - 1.0) * relevance[i] if kind == SUM else relevance[i]
    nothing_chosen(kind, squares, state)


@exactly
def nothing_chosen(kind, squares, state):
    """The state before the first pick."""
    for i in range(len(state)):
        state[i] = 0.0 if kind == SUM else np.inf if kind == NEAREST else squares[i]


@maxima
def gains(kind, state, squares, floor, a, b, scratch):
    """b of all candidates from the state; who is out stays out. scratch: (2, n)."""
    n = len(state)
    if kind == LOG_RESIDUAL:
        for i in range(n):
            scratch[0, i] = max(state[i], 1e-300)
        logarithms(scratch[0, :n], b, scratch[1, :n])
        for i in range(n):
            b[i] = b[i] if state[i] > floor * squares[i] and a[i] > OUT else OUT
    elif kind == ROOT_RESIDUAL:
        for i in range(n):
            root = np.sqrt(state[i] if state[i] > floor * squares[i] else 0.0)
            b[i] = root if a[i] > OUT else OUT
    else:
        for i in range(n):
            b[i] = state[i] if a[i] > OUT else OUT


@exactly
def orthonormal(columns, chosen, count, floor, basis):
    """basis (d, count) = the unit vector that each chosen row adds to the span of those before, zeros for noise.

    Whether each is far from the floor, so that nothing that computes it otherwise can take it for the other.
    """
    d, inner, clear = len(columns), np.empty(count), True
    for at in range(count):
        row, whole, square = columns[:, chosen[at]].astype(np.float64), 0.0, 0.0
        for x in range(d):
            whole += row[x] * row[x]
        # Twice: the first pass leaves rounding along the basis that a short residual would magnify.
        for _ in range(2):
            inner[:at] = 0.0
            for x in range(d):
                for j in range(at):
                    inner[j] += row[x] * basis[x, j]
            for x in range(d):
                for j in range(at):
                    row[x] -= inner[j] * basis[x, j]
        for x in range(d):
            square += row[x] * row[x]
        scale = 1 / np.sqrt(square) if square > floor * whole else 0.0
        for x in range(d):
            basis[x, at] = row[x] * scale
        clear = clear and (square >= FAR * floor * whole or square <= floor * whole / FAR)
    return clear


@exactly
def new_direction(columns, rows, held, squares, chosen, t, state, floor, along, coefficients):
    """along[t]: inner products of all candidates with the unit vector that pick t adds to the span.

    held: where in rows those of the chosen are; along: (k, n) of the earlier picks too; coefficients: (k, k), row t of
    which becomes that vector in the chosen rows.
    """
    p, e, n, own = chosen[t], along[t], len(state), coefficients[t]
    own[:] = 0.0
    e[:] = 0.0
    if not state[p] > floor * squares[p]:
        return
    for j in range(t):
        for i in range(j + 1):
            own[i] -= along[j, p] * coefficients[j, i]
    own[t] = 1.0
    inverse, size = 1 / np.sqrt(state[p]), 0.0
    for j in range(t + 1):
        own[j] *= inverse
        size += abs(own[j]) * np.sqrt(squares[chosen[j]])
    if size > STEEP or state[p] < FLAT * squares[p]:
        basis = np.empty((len(columns), t + 1))
        orthonormal(columns, chosen, t + 1, floor, basis)
        products(columns, basis[:, t].copy().reshape(1, -1), along[t : t + 1])
        return
    j = 0
    while j + 3 <= t:
        m0, m1, m2, m3 = own[j], own[j + 1], own[j + 2], own[j + 3]
        g0, g1, g2, g3 = rows[held[j]], rows[held[j + 1]], rows[held[j + 2]], rows[held[j + 3]]
        for i in range(n):
            e[i] += (m0 * g0[i] + m1 * g1[i]) + (m2 * g2[i] + m3 * g3[i])
        j += 4
    while j <= t:
        m0, g0 = own[j], rows[held[j]]
        for i in range(n):
            e[i] += m0 * g0[i]
        j += 1


@maxima
def fold(kind, columns, rows, made, squares, chosen, t, before, after, floor, along, coefficients):
    """The state after pick t = chosen[t]; `after` may be the array `before`."""
    make_row(columns, rows, made, chosen[t])
    fold_held(kind, columns, rows, chosen, squares, chosen, t, before, after, floor, along, coefficients)


@maxima
def fold_held(kind, columns, rows, held, squares, chosen, t, before, after, floor, along, coefficients):
    """The same with Gram rows of some candidates only: that of chosen[l] is rows[held[l]]."""
    n, g = len(before), rows[held[t]]
    if kind == NEAREST:
        for i in range(n):
            after[i] = min(before[i], -g[i])
    elif kind == SUM:
        for i in range(n):
            after[i] = before[i] - 2 * g[i]
    else:
        new_direction(columns, rows, held, squares, chosen, t, before, floor, along, coefficients)
        e = along[t]
        for i in range(n):
            after[i] = before[i] - e[i] * e[i]


@exactly
def beyond(outside, along, moved):
    """No candidate outside the pool has a larger SUM gain after the chosen moved by a vector.

    outside: the largest gain at the start, β = 2·(1 − weight), the longest row, the length of the field's point z (0
    where there is none); along: the inner product of the move with z; moved: its squared length. With a_j = u_j·z/|z| ≤
    τ outside, u_j·(z − βΔ) ≤ A a + B √(L² − a²), A = |z| − β Δ·z/|z|, B = β |Δ − its part along z|.
    """
    top, beta, longest, length = outside[0], outside[1], outside[2], outside[3]
    far = top + beta * longest * np.sqrt(max(moved, 0.0) * (1 + 1e-12))
    if length == 0 or top == -np.inf:
        return far
    part = along / length
    # What is left of two squares that cancel has their rounding.
    a, b = length - beta * part, beta * np.sqrt(max(moved - part * part, 0.0) + 1e-13 * (moved + part * part))
    cosine = min(max(top / length, -longest), longest)
    whole = np.hypot(a, b)
    if cosine * whole >= longest * a:
        return min(far, longest * whole)
    return min(far, a * cosine + b * np.sqrt(longest * longest - cosine * cosine))


@maxima
def choose(
    kind, columns, rows, made, squares, relevance, k, weight, window, floor, by_relevance,
    outside, along_point, chosen, scores, done, stop,
):  # fmt: skip
    """Continue picks chosen[:done] up to `stop`, or to where a candidate outside could equal the best.

    window: only the last so many picks count, 0 for all; by_relevance: the first pick is the most relevant, which is
    among the candidates; outside: see `beyond`, of which the others need the first number; along_point: (n,) products
    with z there. Returns how many are chosen, and the first pick whose b is OUT, −1 for none.
    """
    n, keeps, past = len(relevance), kind in (LOG_RESIDUAL, ROOT_RESIDUAL), -1
    a, state, scratch = np.empty(n), np.empty(n), np.empty((2, n if keeps else 0))
    b = np.empty(n) if keeps else state
    along, coefficients = np.empty((stop if keeps else 0, n)), np.empty((stop, stop) if keeps else (0, 0))
    at_start, in_z, moved = np.empty(n if kind == SUM else 0), 0.0, 0.0
    begin(kind, squares, relevance, k, a, state)
    for t in range(stop):
        if t >= done:
            first = t == 0 and by_relevance
            if keeps:
                gains(kind, state, squares, floor, a, b, scratch)
            p = best(1.0 if first else weight, relevance if first else a, relevance if first else b)
            score = weight * a[p] + ((1 - weight) * b[p] if keeps or not first else 0.0)
            if not first and score <= (beyond(outside, in_z, moved) if kind == SUM else outside[0]):
                return t, past
            if score < NOTHING_BUT_OUT:
                past, score = t if past < 0 else past, a[p]
            chosen[t], scores[t] = p, score
            # The bound outside knows of a first pick by relevance.
            if kind == SUM and not first:
                in_z += along_point[p]
                moved += squares[p] + at_start[p] - state[p]
        p = chosen[t]
        a[p] = OUT
        if t + 1 == stop:
            break
        start = max(0, t + 1 - window) if window else 0
        if start:
            # What the window left out counts no longer: the state is made anew.
            nothing_chosen(kind, squares, state)
        for j in range(0 if start else t, t + 1 - start):
            fold(kind, columns, rows, made, squares, chosen[start:], j, state, state, floor, along, coefficients)
        if not keeps:
            for j in range(t if start == 0 else 0, t + 1):
                state[chosen[j]] = OUT
        if kind == SUM and (t + 1 == done or t == 0):
            for i in range(n):
                at_start[i] = state[i]
    return stop, past


def choose_many(
    kind: int, columns: Array, rows: Array, made: Array, squares: Array, relevance: Array, k: int, weights: Array,
    window: int, floor: float, by_relevance: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """(B, L, k) picks of each query, relevance (B, n), at each weight; their scores; (B, L) first picks past b."""
    batch, n = relevance.shape
    chosen, scores = np.empty((batch, len(weights), k), np.int64), np.empty((batch, len(weights), k))
    past, nothing, outside = np.empty((batch, len(weights)), np.int64), np.zeros(n), np.array([-np.inf, 0.0, 0.0, 0.0])
    for q in range(batch):
        for at in range(len(weights)):
            _, past[q, at] = choose(
                kind, columns, rows, made, squares, relevance[q], k, weights[at], window, floor, by_relevance,
                outside, nothing, chosen[q, at], scores[q, at], 0, k,
            )  # fmt: skip
    return chosen, scores, past


@exactly
def fold_bound(kind, inner, error, state):
    """Fold picks into an upper bound on the state: their inner products (p, n) with all candidates, each within error.

    Of a residual method they are with orthonormal points of the picks.
    """
    for product in inner:
        for i in range(len(state)):
            if kind == NEAREST:
                state[i] = min(state[i], error - product[i])
            elif kind == SUM:
                state[i] += 2 * (error - product[i])
            else:
                least = max(abs(product[i]) - error, 0.0)
                state[i] -= least * least


@exactly
def upper_bounds(kind, relevance, error, state, squares, k, weight, floor):
    """(n,) upper bounds on all gains, from one on each state; relevance is within error."""
    n = len(state)
    a, b, nothing, scratch = np.empty(n), np.empty(n), np.empty(n), np.empty((2, n))
    begin(kind, squares, relevance, k, a, nothing)
    for i in range(n):
        a[i] += error * (k - 1.0 if kind == SUM else 1.0)
    # Squares are rounded too: what may be above the floor counts as above it.
    gains(kind, state, squares, 0.1 * floor, a, b, scratch)
    for i in range(n):
        value, rest = weight * a[i], (1 - weight) * b[i]
        b[i] = value + rest + 1e-12 * (abs(value) + abs(rest))
    return b
