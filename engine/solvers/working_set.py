"""Elastic nets over a large corpus: a working set of rows, and passes that prove no other row belongs to it.

A pass bounds every dual from above, in the vectors' precision or from 8-bit codes of them; whatever comes near λ₁ is
computed again in float64.
"""

from __future__ import annotations

import numpy as np

from engine.solvers.active_set import (
    DONE,
    FULL,
    IN,
    MOST,
    compiled,
    dot,
    grown,
    judge,
    larger_factor,
    minimise,
    refactor,
)

ADDED = 256
"""So many of the worst rows enter the working set after a pass, or as many as it holds already."""


@compiled
def near_by_rows(vectors, point, least, inside, found):
    """How many rows outside the working set have a product with the point above `least`; found: which."""
    count = 0
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
    count = 0
    for j in range(len(codes)):
        row, total = codes[j], np.int32(0)
        for i in range(d):
            total += np.int32(row[i]) * np.int32(whole[i])
        if total * step[j] * unit > least - slack[j] * length and not inside[j]:
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
def larger_columns(columns, slots, room):
    """The columns with more slots, or longer."""
    larger = np.empty((max(slots, len(columns)), max(room, columns.shape[1])))
    larger[: len(columns), : columns.shape[1]] = columns
    return larger


@compiled
def by_rows(vectors, codes, step, slack, first, query, l1, l2, tolerance, rounding, underflow, norm, start_weight):
    """The minimisers for one query at C settings, in the order in which one leads to the next.

    vectors: (n, d); codes, step, slack: their 8-bit form, codes (0, 0) where there is none; first: rows for the working
    set to begin with; query: (d,) float64; l1, l2: (C,); tolerance: what a dual may exceed l1 by; rounding · |point| +
    underflow: bound on the error of a product in the vectors' precision; norm: no row is longer; start_weight: weights
    of the first few of `first`. Returns what `by_gram` does; a round is a pass.
    """
    n, d = vectors.shape
    inside, found = np.zeros(n, np.bool_), np.empty(n, np.int64)
    room = 2 * len(first) + ADDED
    ids, slot, score = np.empty(room, np.int64), np.full(room, -1), np.empty(room)
    rows, c, standing = np.empty((room, d)), np.empty(room), np.zeros(room, np.int8)
    columns, owner, used, m, k = np.empty((64, room)), np.empty(64, np.int64), 0, 0, 0
    chosen, weight, z, view = np.empty(room, np.int64), np.empty(room), np.empty(room + 1), np.arange(room)
    factor = np.zeros((66, 66))
    point, small = np.empty(d), np.empty(d, vectors.dtype)

    settings = len(l1)
    ends, members, weights, end = np.empty(settings, np.int64), np.empty(settings, np.int64), np.empty(settings), 0
    tie_ends, ties, tied = np.empty(settings, np.int64), np.empty(16, np.int64), 0
    residual, gap = np.zeros(settings), np.zeros(settings)
    states, rounds = np.zeros(settings, np.int64), np.zeros(settings, np.int64)
    new, count, seen = first, len(first), 0
    for a in range(settings):
        if a and l2[a] != l2[a - 1]:
            k = refactor(columns, slot, chosen, weight, k, standing, l2[a], factor)
        state = FULL
        while state == FULL:
            if count:
                if m + count > room:
                    old, room = room, 2 * (m + count)
                    ids, score, chosen = grown(ids, m, room - m), grown(score, m, room - m), grown(chosen, k, room - k)
                    weight, c, z, view = grown(weight, k, room - k), np.empty(room), np.empty(room + 1), np.arange(room)
                    wider_slot, wider_standing, wider_rows = (
                        np.full(room, -1),
                        np.zeros(room, np.int8),
                        np.empty((room, d)),
                    )
                    wider_slot[:old], wider_standing[:old], wider_rows[:m] = slot, standing, rows[:m]
                    slot, standing, rows = wider_slot, wider_standing, wider_rows
                    columns = larger_columns(columns, 0, room)
                for i in range(m, m + count):
                    ids[i], inside[new[i - m]] = new[i - m], True
                    rows[i] = vectors[new[i - m]]
                    score[i] = dot(rows[i], query, d)
                for s in range(used):
                    for i in range(m, m + count):
                        columns[s, i] = dot(rows[owner[s]], rows[i], d)
                m, count = m + count, 0
                if seen == 0 and len(start_weight):
                    k = len(start_weight)
                    while len(factor) <= k + 1:
                        factor = larger_factor(factor, 0)
                    columns, owner = larger_columns(columns, 2 * k, 0), grown(owner, 0, 2 * k)
                    for i in range(k):
                        chosen[i], weight[i], standing[i], slot[i], owner[i] = i, start_weight[i], IN, i, i
                        for j in range(m):
                            columns[i, j] = dot(rows[i], rows[j], d)
                    used = k
                    k = refactor(columns, slot, chosen, weight, k, standing, l2[a], factor)
                seen += 1
            before = used
            k, used, state = minimise(
                columns, slot, used, rows[:m], score[:m], view, m, l1[a], l2[a], tolerance,
                chosen, weight, k, standing, factor, z, c,
            )  # fmt: skip
            for j in range(m if used > before else 0):
                if slot[j] >= before:
                    owner[slot[j]] = j
            if state == FULL:
                if k >= MOST and l2[a] > 0:
                    break
                if k + 1 >= len(factor):
                    factor = larger_factor(factor, k)
                else:
                    columns, owner = larger_columns(columns, 2 * len(columns), 0), grown(owner, used, len(columns))
                continue
            point[:] = query
            for i in range(k):
                own, w = rows[chosen[i]], weight[i]
                for t in range(d):
                    point[t] -= w * own[t]
            least = l1[a] - (rounding * np.sqrt(dot(point, point, d)) + underflow)
            if len(codes):
                near = near_by_codes(codes, step, slack, point, least, norm, inside, found)
            else:
                for t in range(d):
                    small[t] = point[t]
                near = near_by_rows(vectors, small, least, inside, found)
            rounds[a] += 1
            worst, squares, value, others = 0.0, 0.0, np.empty(near), tied
            for i in range(near):
                dual = exact_product(vectors[found[i]], point)
                if dual > l1[a]:
                    worst = max(worst, dual - l1[a])
                    squares += (dual - l1[a]) ** 2
                if dual > l1[a] + tolerance:
                    found[count], value[count] = found[i], dual
                    count += 1
                elif l2[a] == 0 and dual > l1[a] - tolerance:
                    ties = grown(ties, others, 1)
                    ties[others] = found[i]
                    others += 1
            if count and state == DONE:
                new = found[:count][np.argsort(-value[:count])[: max(ADDED, m)]].copy()
                count, state = len(new), FULL
        states[a] = state
        if state != FULL:
            for j in range(m):
                c[j] = dot(rows[j], point, d)
            own_worst, own_gap = judge(c, m, standing, chosen, weight, k, l1[a], l2[a])
            residual[a] = max(worst, own_worst)
            gap[a] = own_gap + (squares / (2 * l2[a]) if l2[a] > 0 else 0.0)
            tied = others
            if l2[a] == 0:
                for j in range(m):
                    if standing[j] != IN and c[j] > l1[a] - tolerance:
                        ties = grown(ties, tied, 1)
                        ties[tied] = ids[j]
                        tied += 1
        members, weights = grown(members, end, k), grown(weights, end, k)
        for i in range(k):
            members[end + i], weights[end + i] = ids[chosen[i]], weight[i]
        end += k
        ends[a], tie_ends[a], count = end, tied, 0
    return ends, members[:end], weights[:end], tie_ends, ties[:tied], residual, gap, states, rounds
