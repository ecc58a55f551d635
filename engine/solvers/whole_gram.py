"""Elastic nets over a corpus whose Gram matrix is at hand: every query at every setting in one compiled loop."""

from __future__ import annotations

import numpy as np

from engine.solvers.active_set import (
    DONE,
    FULL,
    IN,
    MOST,
    OUT,
    compiled,
    duals,
    grown,
    judge,
    larger_factor,
    minimise,
    refactor,
)

FIRST = 64
"""The view begins with so many of the most relevant, and grows by as many at a time."""


@compiled
def reached(value, among, count, wanted):
    """What the best `wanted` of the first `count` of `among` have at least."""
    if wanted >= count:
        return -np.inf
    values = np.empty(count)
    for i in range(count):
        values[i] = value[among[i]]
    return np.partition(values, count - wanted)[count - wanted]


@compiled
def by_gram(gram, scores, l1, l2, tolerance, start, start_weight):
    """The minimisers for B queries at C settings, in the order in which one leads to the next.

    gram: (n, n); scores: (B, n); l1: (B, C); l2: (C,); tolerance: (B,) what a dual may exceed l1 by; start,
    start_weight: members to begin with. Returns, for the B · C problems: ends, members, weights; ends and members of
    those off the support whose dual is λ₁, where there is no ridge; residual; gap; states; rounds.
    """
    queries, settings = l1.shape
    problems, n = queries * settings, len(gram)
    slot, everyone, nothing = np.arange(n), np.arange(n), np.empty((0, 0))
    view, inside, open_ = np.empty(n, np.int64), np.zeros(n, np.bool_), np.empty(n, np.int64)
    standing, c, z = np.zeros(n, np.int8), np.empty(n), np.empty(n + 1)
    chosen, weight = np.empty(n, np.int64), np.empty(n)
    factor = np.zeros((130, 130))
    ends, members, weights, end = np.empty(problems, np.int64), np.empty(problems, np.int64), np.empty(problems), 0
    tie_ends, ties, tied = np.empty(problems, np.int64), np.empty(16, np.int64), 0
    residual, gap = np.zeros(problems), np.zeros(problems)
    states, rounds = np.zeros(problems, np.int64), np.zeros(problems, np.int64)
    for b in range(queries):
        score, slack = scores[b], tolerance[b]
        standing[:], inside[:] = OUT, n <= 2 * FIRST
        k, m = len(start), 0
        if n > 2 * FIRST:
            least = reached(score, everyone, n, FIRST)
            for j in start:
                view[m], inside[j] = j, True
                m += 1
            for j in range(n):
                if score[j] >= least and not inside[j]:
                    view[m], inside[j] = j, True
                    m += 1
        else:
            view[:], m = everyone, n
        while len(factor) <= k + 1:
            factor = larger_factor(factor, 0)
        for i in range(k):
            chosen[i], weight[i], standing[start[i]] = start[i], start_weight[i], IN
        for a in range(settings):
            at, first, second = b * settings + a, l1[b, a], l2[a]
            if (a == 0 and k) or (a and second != l2[a - 1]):
                k = refactor(gram, slot, chosen, weight, k, standing, second, factor)
            state = FULL
            while state == FULL:
                k, _, state = minimise(
                    gram, slot, n, nothing, score, view, m, first, second, slack,
                    chosen, weight, k, standing, factor, z, c,
                )  # fmt: skip
                rounds[at] += 1
                if state == FULL:
                    if k >= MOST and second > 0:
                        break
                    factor = larger_factor(factor, k)
                    continue
                if m == n:
                    break
                duals(gram, slot, score, chosen, weight, k, everyone, n, c)
                count = 0
                for j in range(n):
                    if c[j] > first + slack and not inside[j]:
                        open_[count] = j
                        count += 1
                least = reached(c, open_, count, FIRST)
                for i in range(count):
                    if c[open_[i]] >= least:
                        view[m], inside[open_[i]] = open_[i], True
                        m += 1
                if count and state == DONE:
                    state = FULL
            states[at] = state
            residual[at], gap[at] = judge(c, n, standing, chosen, weight, k, first, second)
            members, weights = grown(members, end, k), grown(weights, end, k)
            for i in range(k):
                members[end + i], weights[end + i] = chosen[i], weight[i]
            end += k
            if second == 0:
                for j in range(n):
                    if standing[j] != IN and c[j] > first - slack:
                        ties = grown(ties, tied, 1)
                        ties[tied] = j
                        tied += 1
            ends[at], tie_ends[at] = end, tied
    return ends, members[:end], weights[:end], tie_ends, ties[:tied], residual, gap, states, rounds
