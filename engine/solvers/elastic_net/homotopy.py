"""The minimisers at every λ₁ of one elastic net: straight lines between kinks, followed downwards in compiled loops."""

import numpy as np

from engine.solvers.elastic_net.active_set import (
    DEPENDENT,
    DONE,
    IN,
    INT_ZERO,
    NO_MEMBER,
    OUT,
    append_row,
    compute_duals,
    drop_member,
    ensure_room,
    fill_column,
    solve_active_set,
    solve_lower,
    solve_upper,
)
from engine.solvers.jit import jit_reassociating

RESTART_TOLERANCE = 1e-10
"""Largest error of a condition at the end of a segment, of the largest score; above it the segment is repeated."""
NO_EVENT, ENTRY, DEPARTURE = range(3)
"""Events that end a segment: the lowest λ₁ asked for, a document that gets a weight, or one that loses it."""


@jit_reassociating
def follow_path(gram, rows, scores, l2, min_level, target_size, max_segments):
    """Follow one query's elastic-net weights over m documents, from the largest λ₁ down to `min_level`.

    The weights are straight lines in λ₁ between kinks, where a document enters or leaves; a stretch between two kinks
    is a segment. gram: (m, m), or (0, 0) where rows, (m, d), make the columns that are needed; target_size: stop after
    a segment with so many members, 0 for never. Returns (levels, ends, members, p, q, finished): levels, (T + 1,)
    falling λ₁, where segment t lies between levels t and t + 1; ends, (T,), where segment t's entries end in members, p
    and q: on it the weight of a member is p − λ₁ q; finished, True if min_level was reached within max_segments.
    """
    n_members = len(scores)
    # Room for all documents; most of it is never written to, and so takes no memory.
    slots, columns, used = np.full(n_members, -1), gram, INT_ZERO
    if len(gram):
        slots, used = np.arange(n_members), INT_ZERO + n_members
    else:
        columns = np.empty((n_members, n_members))
    all_rows, no_members = np.arange(n_members), np.empty(0, np.int64)
    factor = np.zeros((n_members + 2, n_members + 2))
    scratch = np.empty(n_members + 1)
    q_products = np.empty(n_members)
    p_products = np.empty(n_members)
    active, weights, status = np.empty(n_members, np.int64), np.empty(n_members), np.zeros(n_members, np.int8)
    levels, ends = np.empty(64), np.empty(64, np.int64)
    all_members, all_p, all_q = np.empty(256, np.int64), np.empty(256), np.empty(256)
    p, q = np.empty(n_members + 1), np.empty(n_members + 1)
    n_active, n_out, n_segments, n_idle, nudge = INT_ZERO, INT_ZERO, INT_ZERO, INT_ZERO, 0.0
    max_score = scores.max() if n_members else 0.0
    scale = np.abs(scores).max() if n_members else 0.0
    level, entry_level, joined, dropped_member = max_score, max_score, NO_MEMBER, NO_MEMBER
    levels[0] = level
    if level <= min_level:
        return levels[:1], ends[:0], no_members, all_p[:0], all_q[:0], True
    must_restart = True
    while n_segments < max_segments:
        if must_restart:
            # Where several things happen at once, or rounding spoilt a step: solved a little further down.
            nudge = max(10 * nudge, RESTART_TOLERANCE * scale)
            next_level = max(min_level, level - nudge)
            n_active, used, state = solve_active_set(
                columns, slots, used, rows, scores, all_rows, n_members, next_level, l2,
                1e-3 * RESTART_TOLERANCE * scale, active, weights, n_active, status, factor, scratch, q_products,
            )  # fmt: skip
            must_restart, joined, dropped_member, n_idle = False, NO_MEMBER, NO_MEMBER, INT_ZERO
            if state != DONE:
                return (
                    levels[: n_segments + 1], ends[:n_segments], all_members[:n_out], all_p[:n_out], all_q[:n_out],
                    False,
                )  # fmt: skip
        # Two solves with one factor: on the support the weights are p − λ₁ q, where (G + λ₂ I) p = score and
        # (G + λ₂ I) q = 1.
        for index in range(n_active):
            p[index], q[index] = scores[active[index]], 1.0
        solve_lower(factor, n_active, p)
        solve_lower(factor, n_active, q)
        solve_upper(factor, n_active, p)
        solve_upper(factor, n_active, q)
        if joined >= 0:
            # A member enters with weight 0. Next to a near copy of it, p and q are large, and their rounding alone can
            # make p − λ₁ q negative there. That error lies along L⁻ᵀ e, which hardly moves any dual: it is taken out.
            for index in range(n_active):
                scratch[index] = 0.0
            scratch[n_active - 1] = factor[n_active - 1, n_active - 1]
            solve_upper(factor, n_active, scratch)
            entry_weight = p[n_active - 1] - entry_level * q[n_active - 1]
            for index in range(n_active):
                p[index] -= entry_weight * scratch[index]
        compute_duals(columns, slots, scores, active, p, n_active, all_rows, n_members, p_products)
        scratch[:n_members] = 0.0
        compute_duals(columns, slots, scratch[:n_members], active, q, n_active, all_rows, n_members, q_products)
        # The dual of document j is p_products[j] − λ₁ q_products[j], as q_products is minus the Gram matrix times q.
        # The segment ends at the largest λ₁ below, at which a weight p − λ₁ q reaches 0 (departure) or an outside
        # dual reaches λ₁ (entry).
        event, event_id, next_level = NO_EVENT, NO_MEMBER, min_level
        for index in range(n_active):
            if q[index] < 0 and active[index] != joined:
                event_level = min(p[index] / q[index], level)
                if event_level > next_level:
                    event, event_id, next_level = DEPARTURE, index, event_level
        for member in range(n_members):
            if status[member] == OUT and member != dropped_member and 1.0 + q_products[member] > 1e-12:
                event_level = min(p_products[member] / (1.0 + q_products[member]), level)
                if event_level > next_level:
                    event, event_id, next_level = ENTRY, member, event_level
        min_slack = 0.0
        for index in range(n_active):
            min_slack = min(min_slack, p[index] - next_level * q[index])
        if dropped_member >= 0:
            dropped_dual = p_products[dropped_member] - next_level * q_products[dropped_member]
            min_slack = min(min_slack, next_level - dropped_dual)
        # Conditions off by more than rounding, or many events at one level, mean a degenerate kink: the path restarts a
        # little further down.
        n_idle = n_idle + 1 if next_level == level else 0
        if (min_slack < -RESTART_TOLERANCE * scale or n_idle > 2 * n_active + 20) and nudge < 1e-4 * scale:
            for index in range(n_active):
                weights[index] = max(p[index] - level * q[index], 0.0)
            must_restart = True
            continue
        if next_level < level or n_segments == 0:
            levels, ends = ensure_room(levels, n_segments + 1, 1), ensure_room(ends, n_segments, 1)
            all_members = ensure_room(all_members, n_out, n_active)
            all_p, all_q = ensure_room(all_p, n_out, n_active), ensure_room(all_q, n_out, n_active)
            for index in range(n_active):
                entry = n_out + index
                all_members[entry], all_p[entry], all_q[entry] = active[index], p[index], q[index]
            n_out += n_active
            ends[n_segments], levels[n_segments + 1] = n_out, next_level
            n_segments += 1
            nudge = 0.0
            if target_size and n_active == target_size and level - next_level > 1e-9 * scale:
                break
        level = next_level
        if event == NO_EVENT:
            break
        for index in range(n_active):
            weights[index] = max(p[index] - level * q[index], 0.0)
        if event == DEPARTURE:
            dropped_member, joined = active[event_id], NO_MEMBER
            n_active = drop_member(factor, n_active, active, weights, status, event_id)
            continue
        # A document enters, if the Cholesky factor has a row for it.
        if slots[event_id] < 0:
            used = fill_column(columns, slots, rows, used, n_members, event_id)
        if append_row(factor, n_active, active, columns[slots[event_id]], columns[slots[event_id]][event_id], l2):
            active[n_active], weights[n_active], status[event_id] = event_id, 0.0, IN
            n_active, joined, dropped_member, entry_level = n_active + 1, event_id, NO_MEMBER, level
        # It depends on the others: harmless if its dual moves along with λ₁, else the active set must change.
        elif 1.0 + q_products[event_id] < 1e-6:
            status[event_id] = DEPENDENT
        else:
            must_restart = True
    return (
        levels[: n_segments + 1], ends[:n_segments], all_members[:n_out], all_p[:n_out], all_q[:n_out],
        n_segments < max_segments,
    )  # fmt: skip
