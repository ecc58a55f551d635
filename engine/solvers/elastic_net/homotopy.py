"""The minimisers at every λ₁ of one elastic net: straight lines between kinks, followed downwards in compiled loops."""

import numpy as np

from engine.solvers.elastic_net.active_set import (
    DEPENDENT,
    DONE,
    IN,
    NOBODY,
    NONE,
    OUT,
    down,
    drop,
    duals,
    enter,
    fetch,
    grown,
    minimise,
    up,
)
from engine.solvers.jit import compiled

REST = 1e-10
"""What a condition may be off by at the end of a segment, of the largest score, before the segment is begun anew."""


@compiled
def follow(gram, rows, score, l2, lowest, wanted, most):
    """The path of one problem over m members, from the largest score down to `lowest`.

    gram: (m, m), or (0, 0) where rows, (m, d), make the columns that are needed; wanted: stop after a segment with so
    many members, 0 for never; most: stop after so many segments. Returns levels (T + 1,), falling: segment t holds
    between levels t and t + 1; ends (T,), members, p and q: there the weights are p − λ₁ q; and whether the end was
    reached.
    """
    m = len(score)
    # Room for all, most of which is never touched and so never there.
    slot, columns, used = np.full(m, -1), gram, NONE
    if len(gram):
        slot, used = np.arange(m), NONE + m
    else:
        columns = np.empty((m, m))
    everyone, nobody = np.arange(m), np.empty(0, np.int64)
    factor, z, c, a = np.zeros((m + 2, m + 2)), np.empty(m + 1), np.empty(m), np.empty(m)
    chosen, weight, standing = np.empty(m, np.int64), np.empty(m), np.zeros(m, np.int8)
    levels, ends = np.empty(64), np.empty(64, np.int64)
    members, ps, qs = np.empty(256, np.int64), np.empty(256), np.empty(256)
    p, q = np.empty(m + 1), np.empty(m + 1)
    k, end, segments, idle, nudge = NONE, NONE, NONE, NONE, 0.0
    top = score.max() if m else 0.0
    scale = np.abs(score).max() if m else 0.0
    level, entry_level, joined, dropped = top, top, NOBODY, NOBODY
    levels[0] = level
    if level <= lowest:
        return levels[:1], ends[:0], nobody, ps[:0], qs[:0], True
    begin = True
    while segments < most:
        if begin:
            # Where several things happen at once, or rounding spoilt a step: solved a little further down.
            nudge = max(10 * nudge, REST * scale)
            below = max(lowest, level - nudge)
            k, used, state = minimise(
                columns, slot, used, rows, score, everyone, m, below, l2, 1e-3 * REST * scale,
                chosen, weight, k, standing, factor, z, c,
            )  # fmt: skip
            begin, joined, dropped, idle = False, NOBODY, NOBODY, NONE
            if state != DONE:
                return levels[: segments + 1], ends[:segments], members[:end], ps[:end], qs[:end], False
        for i in range(k):
            p[i], q[i] = score[chosen[i]], 1.0
        down(factor, k, p)
        down(factor, k, q)
        up(factor, k, p)
        up(factor, k, q)
        if joined >= 0:
            # A member enters with weight 0. Next to a near copy of it, p and q are large, and their rounding alone can
            # make p − λ₁ q negative there. That error lies along L⁻ᵀ e, which hardly moves any dual: it is taken out.
            for i in range(k):
                z[i] = 0.0
            z[k - 1] = factor[k - 1, k - 1]
            up(factor, k, z)
            entry_weight = p[k - 1] - entry_level * q[k - 1]
            for i in range(k):
                p[i] -= entry_weight * z[i]
        duals(columns, slot, score, chosen, p, k, everyone, m, a)
        z[:m] = 0.0
        duals(columns, slot, z[:m], chosen, q, k, everyone, m, c)
        # c_j = a_j − λ₁ c[j]: the second product has the other sign.
        event, who, below = 0, NOBODY, lowest
        for i in range(k):
            if q[i] < 0 and chosen[i] != joined:
                at = min(p[i] / q[i], level)
                if at > below:
                    event, who, below = 2, i, at
        for j in range(m):
            if standing[j] == OUT and j != dropped and 1.0 + c[j] > 1e-12:
                at = min(a[j] / (1.0 + c[j]), level)
                if at > below:
                    event, who, below = 1, j, at
        least = 0.0
        for i in range(k):
            least = min(least, p[i] - below * q[i])
        if dropped >= 0:
            least = min(least, below - (a[dropped] - below * c[dropped]))
        idle = idle + 1 if below == level else 0
        if (least < -REST * scale or idle > 2 * k + 20) and nudge < 1e-4 * scale:
            for i in range(k):
                weight[i] = max(p[i] - level * q[i], 0.0)
            begin = True
            continue
        if below < level or segments == 0:
            levels, ends = grown(levels, segments + 1, 1), grown(ends, segments, 1)
            members, ps, qs = grown(members, end, k), grown(ps, end, k), grown(qs, end, k)
            for i in range(k):
                members[end + i], ps[end + i], qs[end + i] = chosen[i], p[i], q[i]
            end += k
            ends[segments], levels[segments + 1] = end, below
            segments += 1
            nudge = 0.0
            if wanted and k == wanted and level - below > 1e-9 * scale:
                break
        level = below
        if event == 0:
            break
        for i in range(k):
            weight[i] = max(p[i] - level * q[i], 0.0)
        if event == 2:
            dropped, joined = chosen[who], NOBODY
            k = drop(factor, k, chosen, weight, standing, who)
            continue
        if slot[who] < 0:
            used = fetch(columns, slot, rows, used, m, who)
        if enter(factor, k, chosen, columns[slot[who]], columns[slot[who]][who], l2):
            chosen[k], weight[k], standing[who] = who, 0.0, IN
            k, joined, dropped, entry_level = k + 1, who, NOBODY, level
        elif 1.0 + c[who] < 1e-6:
            standing[who] = DEPENDENT
        else:
            begin = True
    return levels[: segments + 1], ends[:segments], members[:end], ps[:end], qs[:end], segments < most
