"""Elastic nets over a large corpus: a working set of rows, and passes that prove no other row belongs to it.

A pass bounds every dual from above, in the vectors' precision or from 8-bit codes of them; whatever comes near λ₁ is
computed again in float64.
"""

import numpy as np

from engine.solvers.elastic_net.active_set import (
    COLUMNS_FULL,
    DONE,
    IN,
    INT_ZERO,
    bound_rounding,
    bound_violation,
    copy_cutoff_of,
    dot_product,
    ensure_room,
    find_cutoff,
    refactorise,
    solve_active_set,
)
from engine.solvers.elastic_net.rounding import TINY
from engine.solvers.jit import jit_reassociating

MIN_WORKING_GROWTH = 256
"""Rows that enter the working set after a pass, the worst first, or as many as it holds already."""


@jit_reassociating
def collect_near_rows(vectors, point, cutoff, inside, near_ids):
    """Collect in `near_ids` the rows outside the working set whose product with a point exceeds `cutoff`.

    The working set holds the documents that a solver looks at; those found here may have to join it. Returns their
    number. inside: (n,) True for rows of the working set
    """
    n_near = INT_ZERO
    for row_id in range(len(vectors)):
        vector = vectors[row_id]
        product = vector[0] * point[0]
        for index in range(1, len(point)):
            product += vector[index] * point[index]
        if product > cutoff and not inside[row_id]:
            near_ids[n_near] = row_id
            n_near += 1
    return n_near


@jit_reassociating
def collect_near_codes(codes, step, slack, point, cutoff, max_norm, inside, near_ids):
    """Collect, from 8-bit codes, rows whose product with a point may exceed `cutoff`; return their number.

    Only documents that are not `inside` the working set, written to `near_ids`. Row j is step[j] · codes[j] up to
    slack[j] in length, and none is longer than max_norm. The point becomes whole numbers too, so that all sums are
    exact; what either form may miss lowers the cutoff.
    """
    d = len(point)
    integer_point = np.empty(d, np.int16)
    max_entry, square = 0.0, 0.0
    for index in range(d):
        max_entry = max(max_entry, abs(point[index]))
        square += point[index] * point[index]
    # No sum of d products leaves 32 bits.
    integer_step = max(max_entry, 1e-300) / min(32767, (2**31 - 1) // (127 * d))
    lost_square = 0.0
    for index in range(d):
        integer_point[index] = np.int16(np.rint(point[index] / integer_step))
        lost_square += (point[index] - integer_step * integer_point[index]) ** 2
    # By Cauchy–Schwarz the rounding of the point costs at most |rounding| · max_norm, and that of a row slack[j] ·
    # |point|.
    cutoff -= np.sqrt(lost_square) * max_norm
    point_norm = np.sqrt(square)
    n_near = INT_ZERO
    for row_id in range(len(codes)):
        code_row, integer_product = codes[row_id], np.int32(0)
        for index in range(d):
            integer_product += np.int32(code_row[index]) * np.int32(integer_point[index])
        # Cut to 32 bits the sum is made in 32 bits, three times as fast.
        if (
            np.int32(integer_product) * step[row_id] * integer_step > cutoff - slack[row_id] * point_norm
            and not inside[row_id]
        ):
            near_ids[n_near] = row_id
            n_near += 1
    return n_near


@jit_reassociating
def exact_dot(vector, point):
    """Return the product of a row with a float64 point, in float64."""
    product = 0.0
    for index in range(len(point)):
        product += np.float64(vector[index]) * point[index]
    return product


@jit_reassociating
def exact_dots(vectors, point):
    """Return the products of all rows with a float64 point, in float64."""
    products = np.empty(len(vectors))
    for row_id in range(len(vectors)):
        products[row_id] = exact_dot(vectors[row_id], point)
    return products


@jit_reassociating
def solve_by_rows(
    vectors, codes, step, slack, start_rows, query, l1, l2, tolerance, rounding, underflow, max_norm, overlaps,
    capacity, max_rows,
):  # fmt: skip
    """Find one query's elastic-net weights at C settings on few documents, proven against all others.

    After each solution a pass over all vectors finds documents that would get a weight; they join the working set until
    there are none. Each setting starts from the one before. vectors: (n, d); codes, step, slack: their 8-bit form,
    codes (0, 0) where there is none; start_rows: rows for the working set to begin with; query: (d,) float64; l1, l2:
    (C,); tolerance: what a dual, a product with the residual, may exceed l1 by; rounding · |point| + underflow: bound
    on the error of a product in the vectors' precision; max_norm: no row is longer; overlaps: True if the query has a
    dimension in common with any; capacity, max_rows: room for documents with a weight, and for the working set.
    Returns, for the C settings: ends, members, weights; ends and members of documents without a weight that may be
    copies of one with a weight; residuals; gaps; states, the last of which is COLUMNS_FULL where there was not room
    enough; rounds, the number of passes.
    """
    n, d = vectors.shape
    inside, near_ids, excesses = np.zeros(n, np.bool_), np.empty(n, np.int64), np.empty(n)
    ids = np.empty(max_rows, np.int64)
    slots = np.full(max_rows, -1)
    scores = np.empty(max_rows)
    status = np.zeros(max_rows, np.int8)
    working_rows = np.empty((max_rows, d))
    dual_of = np.empty(max_rows)
    scratch = np.empty(max_rows + 1)
    viewed = np.arange(max_rows)
    norms = np.empty(max_rows)
    columns = np.empty((2 * capacity, max_rows))
    column_owner = np.empty(2 * capacity, np.int64)
    used = INT_ZERO
    n_working = INT_ZERO
    active = np.empty(max_rows, np.int64)
    weights = np.empty(max_rows)
    factor = np.zeros((capacity, capacity))
    n_active = INT_ZERO
    point, rounded_point = np.empty(d), np.empty(d, vectors.dtype)

    n_settings = len(l1)
    ends = np.empty(n_settings, np.int64)
    all_members = np.empty(n_settings, np.int64)
    all_weights = np.empty(n_settings)
    n_out = INT_ZERO
    tie_ends, ties, n_ties = np.empty(n_settings, np.int64), np.empty(16, np.int64), INT_ZERO
    residuals, gaps = np.zeros(n_settings), np.zeros(n_settings)
    states, rounds = np.zeros(n_settings, np.int64), np.zeros(n_settings, np.int64)
    for index in range(len(start_rows)):
        near_ids[index] = start_rows[index]
    n_entering = len(start_rows)
    for setting in range(n_settings):
        if setting > 0 and l2[setting] != l2[setting - 1]:
            n_active = refactorise(columns, slots, active, weights, n_active, status, l2[setting], factor)
        lower, ridge, unsolved = l1[setting], l2[setting], True
        while unsolved:
            if n_working + n_entering > max_rows:
                states[n_settings - 1] = COLUMNS_FULL
                return ends, all_members, all_weights, tie_ends, ties, residuals, gaps, states, rounds
            for index in range(n_working, n_working + n_entering):
                source_row, row = vectors[near_ids[index - n_working]], working_rows[index]
                ids[index], inside[near_ids[index - n_working]] = near_ids[index - n_working], True
                for axis in range(d):
                    row[axis] = source_row[axis]
                scores[index], norms[index] = dot_product(row, query, d), np.sqrt(dot_product(row, row, d) + d * TINY)
                # The columns in use get an entry for every row that joins; new columns are filled by `fill_column`.
                for slot in range(used):
                    columns[slot, index] = dot_product(working_rows[column_owner[slot]], row, d)
            n_working += n_entering
            columns_before = used
            n_active, used, state = solve_active_set(
                columns, slots, used, working_rows[:n_working], scores[:n_working], viewed, n_working, lower, ridge,
                tolerance, active, weights, n_active, status, factor, scratch, dual_of,
            )  # fmt: skip
            if state == COLUMNS_FULL:
                states[n_settings - 1] = COLUMNS_FULL
                return ends, all_members, all_weights, tie_ends, ties, residuals, gaps, states, rounds
            if used > columns_before:
                for member in range(n_working):
                    if slots[member] >= columns_before:
                        column_owner[slots[member]] = member
            # The residual v − Uᵀw, whose products with the rows are the duals.
            for axis in range(d):
                point[axis] = query[axis]
            for index in range(n_active):
                row, weight = working_rows[active[index]], weights[index]
                for axis in range(d):
                    point[axis] -= weight * row[axis]
            rel_error, abs_error = bound_rounding(norms, active, weights, n_active, lower, query, overlaps)
            margin = max(tolerance, 2 * (rel_error * max_norm + abs_error))
            # A row whose rounded product stays under this cutoff has a dual under λ₁, and is no copy of a member: it
            # needs no float64 product.
            cutoff = lower - (rounding * np.sqrt(dot_product(point, point, d)) + underflow) - margin
            if len(codes):
                n_near = collect_near_codes(codes, step, slack, point, cutoff, max_norm, inside, near_ids)
            else:
                for axis in range(d):
                    rounded_point[axis] = point[axis]
                n_near = collect_near_rows(vectors, rounded_point, cutoff, inside, near_ids)
            rounds[setting] += 1
            worst, squares, ties_end, n_entering = 0.0, 0.0, n_ties, INT_ZERO
            copy_cutoff = copy_cutoff_of(weights, n_active, lower, ridge, margin)
            for index in range(n_near):
                row = vectors[near_ids[index]]
                dual = exact_dot(row, point)
                excess = dual - lower
                violation = excess + rel_error * np.sqrt(exact_dot(row, row) + d * TINY) + abs_error
                if violation > 0:
                    worst = max(worst, violation)
                    squares += violation * violation
                if excess > tolerance:
                    near_ids[n_entering], excesses[n_entering] = near_ids[index], excess
                    n_entering += 1
                elif dual > copy_cutoff:
                    ties = ensure_room(ties, ties_end, 1)
                    ties[ties_end] = near_ids[index]
                    ties_end += 1
            unsolved = n_entering > 0 and state == DONE
            # At most a doubling a pass: later passes have better duals to choose rows by.
            cutoff, n_added = find_cutoff(excesses, n_entering, max(MIN_WORKING_GROWTH, n_working)), INT_ZERO
            for index in range(n_entering):
                if excesses[index] >= cutoff and n_added < n_working + MIN_WORKING_GROWTH:
                    near_ids[n_added] = near_ids[index]
                    n_added += 1
            n_entering = n_added
        states[setting], n_entering = state, INT_ZERO
        for member in range(n_working):
            dual_of[member] = dot_product(working_rows[member], point, d)
        residuals[setting], gaps[setting] = bound_violation(
            dual_of, n_working, status, active, weights, n_active, lower, ridge, norms, rel_error, abs_error, worst,
            squares,
        )  # fmt: skip
        n_ties = ties_end
        for member in range(n_working):
            if dual_of[member] > copy_cutoff and status[member] != IN:
                ties = ensure_room(ties, n_ties, 1)
                ties[n_ties] = ids[member]
                n_ties += 1
        all_members, all_weights = ensure_room(all_members, n_out, n_active), ensure_room(all_weights, n_out, n_active)
        for index in range(n_active):
            all_members[n_out + index], all_weights[n_out + index] = ids[active[index]], weights[index]
        n_out += n_active
        ends[setting], tie_ends[setting] = n_out, n_ties
    return ends, all_members[:n_out], all_weights[:n_out], tie_ends, ties[:n_ties], residuals, gaps, states, rounds
