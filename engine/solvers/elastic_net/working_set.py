"""Elastic nets over a large corpus: a working set of rows, and passes that prove no other row belongs to it.

A pass bounds every dual from above, in the vectors' precision or from 8-bit codes of them; whatever comes near λ₁ is
computed again in float64.
"""

import numpy as np

from engine.solvers.elastic_net.active_set import (
    CROWDED,
    DONE,
    IN,
    NONE,
    copied,
    dot,
    grown,
    judge,
    minimise,
    refactor,
    rounding_of,
    threshold,
)
from engine.solvers.elastic_net.rounding import TINY
from engine.solvers.jit import compiled

ADDED = 256
"""So many of the worst rows enter the working set after a pass, or as many as it holds already."""


@compiled
def near_by_rows(vectors, point, least, inside, found):
    """How many rows outside the working set have a product with the point above `least`; found: which."""
    count = NONE
    for j in range(len(vectors)):
        row = vectors[j]
        total = row[0] * point[0]
        for i in range(1, len(point)):
            total += row[i] * point[i]
        if total > least and not inside[j]:
            found[count] = j
            count += 1
    return count


@compiled
def near_by_codes(codes, step, slack, point, least, norm, inside, found):
    """The same from 8-bit codes: row j is step[j] · codes[j] up to slack[j], and none is longer than norm.

    The point becomes whole numbers too, so that all sums are exact; what either form may miss widens the net.
    """
    d = len(point)
    whole = np.empty(d, np.int16)
    largest, squares = 0.0, 0.0
    for i in range(d):
        largest = max(largest, abs(point[i]))
        squares += point[i] * point[i]
    # No sum of d products leaves 32 bits.
    unit = max(largest, 1e-300) / min(32767, (2**31 - 1) // (127 * d))
    missing = 0.0
    for i in range(d):
        whole[i] = np.int16(np.rint(point[i] / unit))
        missing += (point[i] - unit * whole[i]) ** 2
    least -= np.sqrt(missing) * norm
    length = np.sqrt(squares)
    count = NONE
    for j in range(len(codes)):
        row, total = codes[j], np.int32(0)
        for i in range(d):
            total += np.int32(row[i]) * np.int32(whole[i])
        # Cut to 32 bits the sum is made in 32 bits, three times as fast.
        if np.int32(total) * step[j] * unit > least - slack[j] * length and not inside[j]:
            found[count] = j
            count += 1
    return count


@compiled
def exact_product(row, point):
    """The product of a row with a float64 point, in float64."""
    total = 0.0
    for i in range(len(point)):
        total += np.float64(row[i]) * point[i]
    return total


@compiled
def exact_products(vectors, point):
    """The products of all rows with a float64 point, in float64."""
    found = np.empty(len(vectors))
    for j in range(len(vectors)):
        found[j] = exact_product(vectors[j], point)
    return found


@compiled
def by_rows(vectors, codes, step, slack, first, query, l1, l2, tolerance, rounding, underflow, norm, close, size, room):
    """The minimisers for one query at C settings, in the order in which one leads to the next.

    vectors: (n, d); codes, step, slack: their 8-bit form, codes (0, 0) where there is none; first: rows for the working
    set to begin with; query: (d,) float64; l1, l2: (C,); tolerance: what a dual may exceed l1 by; rounding · |point| +
    underflow: bound on the error of a product in the vectors' precision; norm: no row is longer; close: whether
    the query has a dimension in common with any; size, room: for the active and the working set. Returns what `by_gram`
    does, a round being a pass; the last state is CROWDED where there was not room enough.
    """
    n, d = vectors.shape
    inside, found, value = np.zeros(n, np.bool_), np.empty(n, np.int64), np.empty(n)
    ids, slot, score, standing = np.empty(room, np.int64), np.full(room, -1), np.empty(room), np.zeros(room, np.int8)
    rows, c, z, view = np.empty((room, d)), np.empty(room), np.empty(room + 1), np.arange(room)
    length = np.empty(room)
    columns, owner, used, m = np.empty((2 * size, room)), np.empty(2 * size, np.int64), NONE, NONE
    chosen, weight, factor, k = np.empty(room, np.int64), np.empty(room), np.zeros((size, size)), NONE
    point, small = np.empty(d), np.empty(d, vectors.dtype)

    settings = len(l1)
    ends, members, weights, end = np.empty(settings, np.int64), np.empty(settings, np.int64), np.empty(settings), NONE
    tie_ends, ties, tied = np.empty(settings, np.int64), np.empty(16, np.int64), NONE
    residual, gap = np.zeros(settings), np.zeros(settings)
    states, rounds = np.zeros(settings, np.int64), np.zeros(settings, np.int64)
    for i in range(len(first)):
        found[i] = first[i]
    count = len(first)
    for a in range(settings):
        if a > 0 and l2[a] != l2[a - 1]:
            k = refactor(columns, slot, chosen, weight, k, standing, l2[a], factor)
        lower, ridge, more = l1[a], l2[a], True
        while more:
            if m + count > room:
                states[settings - 1] = CROWDED
                return ends, members, weights, tie_ends, ties, residual, gap, states, rounds
            for i in range(m, m + count):
                own, row = vectors[found[i - m]], rows[i]
                ids[i], inside[found[i - m]] = found[i - m], True
                for t in range(d):
                    row[t] = own[t]
                score[i], length[i] = dot(row, query, d), np.sqrt(dot(row, row, d) + d * TINY)
                for s in range(used):
                    columns[s, i] = dot(rows[owner[s]], row, d)
            m += count
            before = used
            k, used, state = minimise(
                columns, slot, used, rows[:m], score[:m], view, m, lower, ridge, tolerance,
                chosen, weight, k, standing, factor, z, c,
            )  # fmt: skip
            if state == CROWDED:
                states[settings - 1] = CROWDED
                return ends, members, weights, tie_ends, ties, residual, gap, states, rounds
            if used > before:
                for j in range(m):
                    if slot[j] >= before:
                        owner[slot[j]] = j
            for t in range(d):
                point[t] = query[t]
            for i in range(k):
                row, w = rows[chosen[i]], weight[i]
                for t in range(d):
                    point[t] -= w * row[t]
            share, floor = rounding_of(length, chosen, weight, k, lower, query, close)
            reach = max(tolerance, 2 * (share * norm + floor))
            least = lower - (rounding * np.sqrt(dot(point, point, d)) + underflow) - reach
            if len(codes):
                near = near_by_codes(codes, step, slack, point, least, norm, inside, found)
            else:
                for t in range(d):
                    small[t] = point[t]
                near = near_by_rows(vectors, small, least, inside, found)
            rounds[a] += 1
            worst, squares, others, count = 0.0, 0.0, tied, NONE
            twin = copied(weight, k, lower, ridge, reach)
            for i in range(near):
                row = vectors[found[i]]
                dual = exact_product(row, point)
                off = dual - lower
                over = off + share * np.sqrt(exact_product(row, row) + d * TINY) + floor
                if over > 0:
                    worst = max(worst, over)
                    squares += over * over
                if off > tolerance:
                    found[count], value[count] = found[i], off
                    count += 1
                elif dual > twin:
                    ties = grown(ties, others, 1)
                    ties[others] = found[i]
                    others += 1
            more = count > 0 and state == DONE
            least, kept = threshold(value, count, max(ADDED, m)), NONE
            for i in range(count):
                if value[i] >= least and kept < m + ADDED:
                    found[kept] = found[i]
                    kept += 1
            count = kept
        states[a], count = state, NONE
        for j in range(m):
            c[j] = dot(rows[j], point, d)
        residual[a], gap[a] = judge(
            c, m, standing, chosen, weight, k, lower, ridge, length, share, floor, worst, squares
        )  # fmt: skip
        tied = others
        for j in range(m):
            if c[j] > twin and standing[j] != IN:
                ties = grown(ties, tied, 1)
                ties[tied] = ids[j]
                tied += 1
        members, weights = grown(members, end, k), grown(weights, end, k)
        for i in range(k):
            members[end + i], weights[end + i] = ids[chosen[i]], weight[i]
        end += k
        ends[a], tie_ends[a] = end, tied
    return ends, members[:end], weights[:end], tie_ends, ties[:tied], residual, gap, states, rounds
