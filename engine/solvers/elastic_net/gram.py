"""Elastic nets over a corpus whose Gram matrix is at hand: every query at every setting in one compiled loop."""

import numpy as np

from engine.solvers.elastic_net.active_set import (
    DONE,
    IN,
    NONE,
    OUT,
    copied,
    duals,
    grown,
    judge,
    minimise,
    refactor,
    rounding_of,
    threshold,
)
from engine.solvers.elastic_net.rounding import TINY
from engine.solvers.jit import compiled

ADDED = 64
"""The view grows by so many at a time."""


@compiled
def by_gram(gram, scores, l1, l2, tolerance, first, norm, query, near, size):
    """The minimisers for B queries at C settings, in the order in which one leads to the next.

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
