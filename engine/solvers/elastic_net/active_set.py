"""The active set of one non-negative elastic net by columns of its Gram matrix: compiled loops in float64.

Members are numbers in 0 … N − 1. What the loops share: `columns[slot[j]]`, (N,), holds the inner products of member j
with all; `chosen[:k]` are the members with a weight, `weight[:k]` their weights, `factor` the Cholesky factor of their
Gram matrix plus ridge; `standing[j]` says whether j is out, in, or depends on those that are.
"""

import numpy as np

from engine.solvers.elastic_net.rounding import EXTRA, LOST, SUMMED, TINY, UNIT
from engine.solvers.jit import compiled

OUT, IN, DEPENDENT = 0, 1, 2
DONE, FULL, CROWDED, STUCK = 0, 1, 2, 3
NONE, NOBODY = np.int64(0), np.int64(-1)
"""Typed, as the compiler makes another version for each literal number."""
MOST = 512
"""Room for an active set: beyond, Newton steps in the dimension of the vectors are faster, where there is a ridge."""
PIVOT = 1e-12
"""A member whose squared distance to the span of the others is less, of its square, depends on them: float64 noise."""
TIE = 1e-4
"""Duals that differ by less, of the tolerance, are equal: the lowest member enters."""
ADDED = 64
"""The view of a Gram matrix grows by so many at a time."""


@compiled
def dot(a, b, n):
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@compiled
def enter(factor, k, chosen, column, square, ridge):
    """Extend the factor by a member; False where it depends on the others. Row k then holds L⁻¹ of its column."""
    new = factor[k]
    for i in range(k):
        row = factor[i]
        new[i] = (column[chosen[i]] - dot(row, new, i)) / row[i]
    pivot = square + ridge - dot(new, new, k)
    if pivot <= PIVOT * (square + ridge):
        return False
    new[k] = np.sqrt(pivot)
    return True


@compiled
def leave(factor, k, place):
    """Take a member out of the factor of k: its row goes, and rotations make the rest triangular again."""
    for i in range(place, k - 1):
        for j in range(i + 2):
            factor[i, j] = factor[i + 1, j]
    for c in range(place, k - 1):
        a, b = factor[c, c], factor[c, c + 1]
        length = np.sqrt(a * a + b * b)
        cos, sin = a / length, b / length
        factor[c, c], factor[c, c + 1] = length, 0.0
        for i in range(c + 1, k - 1):
            x, y = factor[i, c], factor[i, c + 1]
            factor[i, c] = cos * x + sin * y
            factor[i, c + 1] = cos * y - sin * x


@compiled
def down(factor, k, x):
    """x ← L⁻¹ x."""
    for i in range(k):
        x[i] = (x[i] - dot(factor[i], x, i)) / factor[i, i]


@compiled
def up(factor, k, x):
    """x ← L⁻ᵀ x."""
    for back in range(k):
        i = k - 1 - back
        row = factor[i]
        x[i] /= row[i]
        value = x[i]
        for j in range(i):
            x[j] -= row[j] * value


@compiled
def drop(factor, k, chosen, weight, standing, place):
    """Take a member out of the active set; the new size. What depended on it may be free now."""
    leave(factor, k, place)
    standing[chosen[place]] = OUT
    for i in range(place, k - 1):
        chosen[i], weight[i] = chosen[i + 1], weight[i + 1]
    for j in range(len(standing)):
        if standing[j] == DEPENDENT:
            standing[j] = OUT
    return k - 1


@compiled
def duals(columns, slot, score, chosen, weight, k, view, m, c):
    """c ← score − Gram · weights for the first m members of view; all of them, where m is N."""
    n = len(score)
    if m == n:
        for j in range(n):
            c[j] = score[j]
        for i in range(k):
            column, w = columns[slot[chosen[i]]], weight[i]
            for j in range(n):
                c[j] -= column[j] * w
        return
    for v in range(m):
        c[view[v]] = score[view[v]]
    for i in range(k):
        column, w = columns[slot[chosen[i]]], weight[i]
        for v in range(m):
            c[view[v]] -= column[view[v]] * w


@compiled
def refactor(columns, slot, chosen, weight, k, standing, ridge, factor):
    """The factor of the active set anew; members that turn out to depend on others leave. Returns the size."""
    kept = NONE
    for i in range(k):
        j = chosen[i]
        column = columns[slot[j]]
        if enter(factor, kept, chosen, column, column[j], ridge):
            chosen[kept], weight[kept] = j, weight[i]
            kept += 1
        else:
            standing[j] = OUT
    return kept


@compiled
def fetch(columns, slot, rows, used, m, j):
    """Fill the column of member j over the first m from the rows, (m, d); the slots used then."""
    column, own = columns[used], rows[j]
    for i in range(m):
        column[i] = dot(rows[i], own, len(own))
    slot[j] = used
    return used + 1


@compiled
def relax(factor, k, chosen, weight, standing, score, l1, z):
    """Move to the minimiser on the active set, dropping whoever would become negative on the way; the new size."""
    while k:
        for i in range(k):
            z[i] = score[chosen[i]] - l1
        down(factor, k, z)
        up(factor, k, z)
        step, place = 1.0, NOBODY
        for i in range(k):
            if z[i] <= 0.0:
                reach = weight[i] / (weight[i] - z[i]) if weight[i] > z[i] else 0.0
                if place < 0 or reach < step:
                    step, place = reach, i
        if place < 0:
            for i in range(k):
                weight[i] = z[i]
            return k
        for i in range(k):
            weight[i] += step * (z[i] - weight[i])
        k = drop(factor, k, chosen, weight, standing, place)
    return k


@compiled
def swap(factor, k, chosen, weight, standing, column, square, ridge, j, z):
    """Let j in where it is a combination of members: weight flows from them to j until one runs dry. The new size."""
    for i in range(k):
        z[i] = factor[k, i]
    up(factor, k, z)
    flow, place = np.inf, NOBODY
    for i in range(k):
        if z[i] > 1e-12 and weight[i] < flow * z[i]:
            flow, place = weight[i] / z[i], i
    if place < 0:
        standing[j] = DEPENDENT
        return k
    for i in range(k):
        weight[i] -= flow * z[i]
    k = drop(factor, k, chosen, weight, standing, place)
    if not enter(factor, k, chosen, column, square, ridge):
        standing[j] = DEPENDENT
        return k
    chosen[k], weight[k], standing[j] = j, flow, IN
    return k + 1


@compiled
def minimise(columns, slot, used, rows, score, view, m, l1, l2, tolerance, chosen, weight, k, standing, factor, z, c):
    """The minimiser over the first m members of view, from where the active set stands.

    Lawson and Hanson's method: relax, then let the largest violated dual in. Returns (size, slots used, state): DONE;
    FULL or CROWDED, where factor or columns have no room; STUCK, after far too many steps.
    """
    j = NOBODY
    k = relax(factor, k, chosen, weight, standing, score, l1, z)
    for _ in range(50 * m + 500):
        duals(columns, slot, score, chosen, weight, k, view, m, c)
        best, j = l1 + tolerance, NOBODY
        for v in range(m):
            i = view[v]
            if standing[i] == OUT and c[i] > best:
                best, j = c[i], i
        if j < 0:
            return k, used, DONE
        for v in range(m):
            i = view[v]
            if i < j and standing[i] == OUT and c[i] > l1 + tolerance and c[i] >= best - TIE * tolerance:
                j = i
        if k + 1 >= len(factor):
            return k, used, FULL
        if slot[j] < 0:
            if used == len(columns):
                return k, used, CROWDED
            used = fetch(columns, slot, rows, used, m, j)
        column = columns[slot[j]]
        if enter(factor, k, chosen, column, column[j], l2):
            chosen[k], weight[k], standing[j] = j, 0.0, IN
            k += 1
        else:
            k = swap(factor, k, chosen, weight, standing, column, column[j], l2, j, z)
        k = relax(factor, k, chosen, weight, standing, score, l1, z)
    return k, used, STUCK


@compiled
def rounding_of(length, chosen, weight, k, l1, query, near):
    """(share, floor): a dual less λ₁, as computed, is off by at most share · (length of its row) + floor.

    length: of the rows; near: whether the query has a dimension in common with any; if not, every dual is exactly 0.
    """
    if not near:
        return 0.0, 0.0
    d = len(query)
    size, total = np.sqrt(dot(query, query, d) + d * TINY), 1.0
    for i in range(k):
        size += weight[i] * length[chosen[i]]
        total += weight[i]
    return (d + k + EXTRA) * (UNIT * size + TINY), EXTRA * UNIT * l1 + (d + k) * TINY * total


@compiled
def judge(c, m, standing, chosen, weight, k, l1, l2, length, share, floor, worst, squares):
    """Bounds on the violation of the optimality conditions by the first m members and on the gap (0 without ridge).

    Off the support a dual may not exceed λ₁, on it it is λ₁ + λ₂ w. With g = c − λ₁ the duality gap is a sum of
    squares: Σ ((λ₂ w − g)² − g₋²) / 2λ₂ on the support, g₋ = min(g, 0), and Σ g₊² / 2λ₂ off it. share, floor: how far
    off each g may be, as `rounding_of` says; worst, squares: what other rows add.
    """
    for j in range(m):
        over = c[j] - l1 + share * length[j] + floor
        if over > 0.0 and standing[j] != IN:
            worst = max(worst, over)
            squares += over * over
    for i in range(k):
        j, pull = chosen[i], l2 * weight[i]
        error, g = share * length[j] + floor + EXTRA * UNIT * pull, c[j] - l1
        off = abs(g - pull) + error
        worst = max(worst, off)
        # a² − b² as (a − b)(a + b), which does not cancel.
        squares += (pull + 2 * error) * (pull - 2 * g) if g < -error else off * off
    return worst, (SUMMED * squares + LOST) / (2 * l2) if l2 > 0 and worst > 0 else 0.0


@compiled
def copied(weight, k, l1, l2, slack):
    """Rows off the support whose dual is not above this are no copies of members, whose duals are λ₁ + λ₂ w."""
    least = np.inf
    for i in range(k):
        least = min(least, weight[i])
    return l1 + l2 * least - slack if k else np.inf


@compiled
def grown(array, used, more):
    """The array with room for `more` entries beyond the `used` ones."""
    if used + more <= len(array):
        return array
    larger = np.empty(2 * (used + more), array.dtype)
    for i in range(used):
        larger[i] = array[i]
    return larger


@compiled
def threshold(value, count, most):
    """A value that at least one, and at most about `most`, of the first `count` values, all above 0, reach."""
    worst = 0.0
    for i in range(count):
        worst = max(worst, value[i])
    least = worst
    while count > most:
        lower, reached = 0.9 * least, NONE
        for i in range(count):
            if value[i] >= lower:
                reached += 1
        if reached > most:
            return least
        least = lower
    return 0.0


@compiled
def by_gram(gram, scores, l1, l2, tolerance, first, norm, query, near, size):
    """The minimisers for B queries at C settings of a Gram matrix at hand, in the order in which one leads to the next.

    gram: (n, n); scores: (B, n); l1: (B, C); l2: (C,); tolerance: (B,) what a dual may exceed l1 by; first: (B, m) the
    members looked at first; norm: no row is longer; query: (B, d); near: (B,) whether it has a dimension in common with
    any row; size: room for an active set.
    Returns, for the B · C problems: ends, members, weights; ends and members of those off the support that may be
    copies of one on it; residual; gap; states; rounds.
    """
    queries, settings = l1.shape
    problems, n, d = queries * settings, len(gram), query.shape[1]
    # Filled where it is needed: to read all of a diagonal takes as long as many steps.
    length = np.zeros(n)
    slot, everyone, nothing = np.arange(n), np.arange(n), np.empty((0, 0))
    view, inside, open_, value = np.empty(n, np.int64), np.zeros(n, np.bool_), np.empty(n, np.int64), np.empty(n)
    standing, c, z = np.zeros(n, np.int8), np.empty(n), np.empty(n + 1)
    chosen, weight = np.empty(n, np.int64), np.empty(n)
    factor = np.zeros((size, size))
    ends, members, weights, end = np.empty(problems, np.int64), np.empty(problems, np.int64), np.empty(problems), NONE
    tie_ends, ties, tied = np.empty(problems, np.int64), np.empty(16, np.int64), NONE
    residual, gap = np.zeros(problems), np.zeros(problems)
    states, rounds = np.zeros(problems, np.int64), np.zeros(problems, np.int64)
    for b in range(queries):
        score, slack = scores[b], tolerance[b]
        for j in range(n):
            standing[j], inside[j] = OUT, False
        m, k = NONE, NONE
        for j in first[b]:
            view[m], inside[j] = j, True
            m += 1
        for a in range(settings):
            at, lower, ridge = b * settings + a, l1[b, a], l2[a]
            if a > 0 and ridge != l2[a - 1]:
                k = refactor(gram, slot, chosen, weight, k, standing, ridge, factor)
            more = True
            while more:
                k, _, state = minimise(
                    gram, slot, n, nothing, score, view, m, lower, ridge, slack,
                    chosen, weight, k, standing, factor, z, c,
                )  # fmt: skip
                rounds[at] += 1
                more = False
                if m < n or state != DONE:
                    duals(gram, slot, score, chosen, weight, k, everyone, n, c)
                if m < n:
                    count = NONE
                    for j in range(n):
                        if not inside[j] and c[j] > lower + slack:
                            open_[count], value[count] = j, c[j] - lower
                            count += 1
                    more = count > 0 and state == DONE
                    least, most = threshold(value, count, ADDED), m + ADDED
                    for i in range(count):
                        if value[i] >= least and m < most:
                            view[m], inside[open_[i]] = open_[i], True
                            m += 1
            states[at] = state
            for i in range(k):
                length[chosen[i]] = np.sqrt(gram[chosen[i], chosen[i]] + d * TINY)
            share, floor = rounding_of(length, chosen, weight, k, lower, query[b], near[b])
            reach = max(slack, 2 * (share * norm + floor))
            for j in range(n):
                if c[j] > lower - reach:
                    length[j] = np.sqrt(gram[j, j] + d * TINY)
            residual[at], gap[at] = judge(
                c, n, standing, chosen, weight, k, lower, ridge, length, share, floor, 0.0, 0.0
            )  # fmt: skip
            members, weights = grown(members, end, k), grown(weights, end, k)
            for i in range(k):
                members[end + i], weights[end + i] = chosen[i], weight[i]
            end += k
            least = copied(weight, k, lower, ridge, reach)
            for j in range(n):
                if c[j] > least and standing[j] != IN:
                    ties = grown(ties, tied, 1)
                    ties[tied] = j
                    tied += 1
            ends[at], tie_ends[at] = end, tied
    return ends, members[:end], weights[:end], tie_ends, ties[:tied], residual, gap, states, rounds
