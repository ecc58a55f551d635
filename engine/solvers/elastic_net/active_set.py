"""The active set of one non-negative elastic net by columns of its Gram matrix: compiled loops in float64.

Members are numbers in 0 … N − 1. What the loops share: `columns[slots[j]]`, (N,), holds the inner products of member j
with all; `active[:n_active]` are the members with a weight, `weights[:n_active]` their weights, `factor` the Cholesky
factor of their Gram matrix plus ridge; `status[j]` says whether j is out, in, or depends on those that are.
"""

import numpy as np

from engine.solvers.elastic_net.rounding import EPS, EXTRA, SUM_FACTOR, SUM_LOSS, TINY
from engine.solvers.jit import jit_reassociating

OUT, IN, DEPENDENT = 0, 1, 2
DONE, FACTOR_FULL, COLUMNS_FULL, STUCK = 0, 1, 2, 3
INT_ZERO, NO_MEMBER = np.int64(0), np.int64(-1)
"""Typed, as the compiler makes another version for each literal number."""
MAX_ACTIVE = 512
"""Room for an active set: beyond, Newton steps in the dimension of the vectors are faster, where there is a ridge."""
PIVOT_TOLERANCE = 1e-12
"""A member whose squared distance to the span of the others is less, of its square, depends on them: float64 noise."""
TIE_TOLERANCE = 1e-4
"""Duals that differ by less, of the tolerance, are equal: the lowest member enters."""
VIEW_GROWTH = 64
"""The view of a Gram matrix grows by so many at a time."""


@jit_reassociating
def dot_product(first_vector, second_vector, length):
    """Return the inner product of the first `length` entries of two vectors."""
    product = 0.0
    for index in range(length):
        product += first_vector[index] * second_vector[index]
    return product


@jit_reassociating
def append_row(factor, n_active, active, column, square, ridge):
    """Add one document to the Cholesky factor of those with a weight; return False if it depends on them.

    Weights are solved by the factor L, where L Lᵀ is the Gram matrix of the documents with a weight, plus λ₂ on its
    diagonal. A document depends on the others if its vector is a combination of theirs; then L gets no row. column:
    inner products of the member with all; square: its squared length; ridge: λ₂.
    """
    new_row = factor[n_active]
    for index in range(n_active):
        factor_row = factor[index]
        new_row[index] = (column[active[index]] - dot_product(factor_row, new_row, index)) / factor_row[index]
    # The new row is the forward substitution of the Gram column; the pivot is the squared distance of the member to the
    # span of the others, plus the ridge.
    pivot = square + ridge - dot_product(new_row, new_row, n_active)
    if pivot <= PIVOT_TOLERANCE * (square + ridge):
        return False
    new_row[n_active] = np.sqrt(pivot)
    return True


@jit_reassociating
def remove_row(factor, n_active, removed_index):
    """Delete a row of a Cholesky factor of n_active rows, and make the rest triangular again by rotations."""
    for row_id in range(removed_index, n_active - 1):
        for column_index in range(row_id + 2):
            factor[row_id, column_index] = factor[row_id + 1, column_index]
    # Each row moved up has one entry right of the diagonal: a rotation of two columns clears it.
    for pivot in range(removed_index, n_active - 1):
        diagonal, off_diagonal = factor[pivot, pivot], factor[pivot, pivot + 1]
        hypotenuse = np.sqrt(diagonal * diagonal + off_diagonal * off_diagonal)
        cosine, sine = diagonal / hypotenuse, off_diagonal / hypotenuse
        factor[pivot, pivot], factor[pivot, pivot + 1] = hypotenuse, 0.0
        for row_id in range(pivot + 1, n_active - 1):
            pivot_entry, next_entry = factor[row_id, pivot], factor[row_id, pivot + 1]
            factor[row_id, pivot] = cosine * pivot_entry + sine * next_entry
            factor[row_id, pivot + 1] = cosine * next_entry - sine * pivot_entry


@jit_reassociating
def solve_lower(factor, n_active, vector):
    """Solve L x = vector in place, with the first n_active rows of the lower triangular factor L."""
    for row_id in range(n_active):
        vector[row_id] = (vector[row_id] - dot_product(factor[row_id], vector, row_id)) / factor[row_id, row_id]


@jit_reassociating
def solve_upper(factor, n_active, vector):
    """Solve Lᵀ x = vector in place, with the first n_active rows of the lower triangular factor L."""
    # From the last entry up: once one is known, its part is taken from those above.
    for n_solved in range(n_active):
        row_id = n_active - 1 - n_solved
        factor_row = factor[row_id]
        vector[row_id] /= factor_row[row_id]
        solved_entry = vector[row_id]
        for column_index in range(row_id):
            vector[column_index] -= factor_row[column_index] * solved_entry


@jit_reassociating
def drop_member(factor, n_active, active, weights, status, removed_index):
    """Take the weight from one document, and its row out of the Cholesky factor; return the new number.

    active, weights: the first n_active documents with a weight, called active, and those weights; factor: of the active
    documents' Gram matrix; removed_index: position in `active`. Documents that could not enter because their vectors
    were combinations of the active ones' (DEPENDENT) may enter again.
    """
    remove_row(factor, n_active, removed_index)
    status[active[removed_index]] = OUT
    for index in range(removed_index, n_active - 1):
        active[index], weights[index] = active[index + 1], weights[index + 1]
    for member in range(len(status)):
        if status[member] == DEPENDENT:
            status[member] = OUT
    return n_active - 1


@jit_reassociating
def compute_duals(columns, slots, scores, active, weights, n_active, viewed, n_view, dual_of):
    """Write into `dual_of` the dual of each document: its score less Gram · weights.

    The dual of a document is its inner product with the residual, what the weighted documents leave of the query; at
    the minimum none exceeds λ₁ unless the document has a weight. scores: (N,) inner products with the query; columns:
    rows of the Gram matrix, that of document i at slots[i]; active, weights: the first n_active documents with a
    weight, and those weights; viewed: the first n_view are the documents to compute, all where n_view = N
    """
    n_members = len(scores)
    if n_view == n_members:
        for member in range(n_members):
            dual_of[member] = scores[member]
        for index in range(n_active):
            column, weight = columns[slots[active[index]]], weights[index]
            for member in range(n_members):
                dual_of[member] -= column[member] * weight
        return
    # A view of few documents: only their entries are read and written.
    for v in range(n_view):
        dual_of[viewed[v]] = scores[viewed[v]]
    for index in range(n_active):
        column, weight = columns[slots[active[index]]], weights[index]
        for v in range(n_view):
            dual_of[viewed[v]] -= column[viewed[v]] * weight


@jit_reassociating
def refactorise(columns, slots, active, weights, n_active, status, ridge, factor):
    """Rebuild the Cholesky factor of the documents with a weight for another λ₂; return their new number.

    λ₂ is the ridge, added to the diagonal of the Gram matrix that is factored, so the old factor cannot be reused.
    Documents whose vectors are now combinations of the others' lose their weight.
    """
    n_independent = INT_ZERO
    for index in range(n_active):
        member = active[index]
        column = columns[slots[member]]
        if append_row(factor, n_independent, active, column, column[member], ridge):
            active[n_independent], weights[n_independent] = member, weights[index]
            n_independent += 1
        else:
            status[member] = OUT
    return n_independent


@jit_reassociating
def fill_column(columns, slots, rows, used, n, member):
    """Compute a document's products with the first n rows, as a new column; return the columns in use.

    slots: position of each document's column in `columns`, set here
    """
    column, member_row = columns[used], rows[member]
    for row_id in range(n):
        column[row_id] = dot_product(rows[row_id], member_row, len(member_row))
    slots[member] = used
    return used + 1


@jit_reassociating
def relax_support(factor, n_active, active, weights, status, scores, l1, minimiser):
    """Move the weights to the minimiser over the documents with a weight; return their new number.

    Documents whose weight would become negative leave on the way. factor: Cholesky factor of the set; scores: products
    of all with the query; minimiser: scratch
    """
    while n_active:
        # On the support the conditions are linear: (G + λ₂ I) w = score − λ₁, solved by the Cholesky factor.
        for index in range(n_active):
            minimiser[index] = scores[active[index]] - l1
        solve_lower(factor, n_active, minimiser)
        solve_upper(factor, n_active, minimiser)
        # Go from the feasible weights toward the minimiser as far as all stay non-negative: the first weight to reach 0
        # blocks, and its member leaves.
        step_size, blocking_index = 1.0, NO_MEMBER
        for index in range(n_active):
            if minimiser[index] <= 0.0:
                allowed_step = (
                    weights[index] / (weights[index] - minimiser[index]) if weights[index] > minimiser[index] else 0.0
                )
                if blocking_index < 0 or allowed_step < step_size:
                    step_size, blocking_index = allowed_step, index
        if blocking_index < 0:
            for index in range(n_active):
                weights[index] = minimiser[index]
            return n_active
        for index in range(n_active):
            weights[index] += step_size * (minimiser[index] - weights[index])
        n_active = drop_member(factor, n_active, active, weights, status, blocking_index)
    return n_active


@jit_reassociating
def swap_member(factor, n_active, active, weights, status, column, square, ridge, entering, coefs):
    """Let a document that is a combination of the weighted ones replace one of them; return their number.

    Weight moves from the weighted documents to the entering one until one of them has none left, and leaves the set.
    The entering document stays out, marked DEPENDENT, if no weight can move, or if the factor still has no row for it.
    coefs: scratch
    """
    for index in range(n_active):
        coefs[index] = factor[n_active, index]
    solve_upper(factor, n_active, coefs)
    # The refused row of the factor gives the combination. Along it the fit does not change and Σw falls, so weight
    # moves until the first giver is empty; without a giver nothing can improve.
    moved_weight, emptied_index = np.inf, NO_MEMBER
    for index in range(n_active):
        if coefs[index] > 1e-12 and weights[index] < moved_weight * coefs[index]:
            moved_weight, emptied_index = weights[index] / coefs[index], index
    if emptied_index < 0:
        status[entering] = DEPENDENT
        return n_active
    for index in range(n_active):
        weights[index] -= moved_weight * coefs[index]
    n_active = drop_member(factor, n_active, active, weights, status, emptied_index)
    if not append_row(factor, n_active, active, column, square, ridge):
        status[entering] = DEPENDENT
        return n_active
    active[n_active], weights[n_active], status[entering] = entering, moved_weight, IN
    return n_active + 1


@jit_reassociating
def solve_active_set(
    columns, slots, used, rows, scores, viewed, n_view, l1, l2, tolerance, active, weights, n_active, status, factor,
    scratch, dual_of,
):  # fmt: skip
    """Find the elastic-net weights over the documents `viewed[:n_view]`, from the present weights on.

    Lawson and Hanson's method: solve for the weights, then admit the document whose dual (its product with what is left
    of the query) exceeds λ₁ most. columns, slots: Gram rows and their positions, of which `used` are filled; active,
    weights: the first n_active documents with a weight, and those weights; factor: the Cholesky factor of their Gram
    matrix; status: (N,) IN, OUT or DEPENDENT; scratch, dual_of: overwritten. Returns (number with a weight, columns in
    use, state): DONE; FACTOR_FULL or COLUMNS_FULL, where factor or columns have no room; STUCK, after far too many
    steps.
    """
    entering = NO_MEMBER
    n_active = relax_support(factor, n_active, active, weights, status, scores, l1, scratch)
    # Each round lowers the objective strictly, so no active set recurs; the cap guards against rounding alone.
    for _ in range(50 * n_view + 500):
        compute_duals(columns, slots, scores, active, weights, n_active, viewed, n_view, dual_of)
        largest_dual, entering = l1 + tolerance, NO_MEMBER
        for index in range(n_view):
            member = viewed[index]
            if status[member] == OUT and dual_of[member] > largest_dual:
                largest_dual, entering = dual_of[member], member
        if entering < 0:
            return n_active, used, DONE
        # Duals within the tie tolerance count as equal, and the lowest member enters, so that rounding does not choose
        # among copies.
        for index in range(n_view):
            member = viewed[index]
            if (
                member < entering
                and status[member] == OUT
                and dual_of[member] > l1 + tolerance
                and dual_of[member] >= largest_dual - TIE_TOLERANCE * tolerance
            ):
                entering = member
        if n_active + 1 >= len(factor):
            return n_active, used, FACTOR_FULL
        if slots[entering] < 0:
            if used == len(columns):
                return n_active, used, COLUMNS_FULL
            used = fill_column(columns, slots, rows, used, n_view, entering)
        column = columns[slots[entering]]
        if append_row(factor, n_active, active, column, column[entering], l2):
            active[n_active], weights[n_active], status[entering] = entering, 0.0, IN
            n_active += 1
        else:
            n_active = swap_member(
                factor, n_active, active, weights, status, column, column[entering], l2, entering, scratch
            )
        n_active = relax_support(factor, n_active, active, weights, status, scores, l1, scratch)
    return n_active, used, STUCK


@jit_reassociating
def bound_rounding(norms, active, weights, n_active, l1, query, overlaps):
    """Return a relative and an absolute bound on the rounding of a dual less λ₁, for certificates.

    A dual is a document's product with what the weights leave of the query. Its error is at most relative · (length of
    the row) + absolute. norms: lengths of the rows; overlaps: True if the query has a dimension in common with any; if
    not, every dual is 0.
    """
    if not overlaps:
        return 0.0, 0.0
    d = len(query)
    # A dual is a sum of d products with a residual made of the query and n_active rows: standard forward error
    # analysis, one rounding for each dimension and each member.
    magnitude, weight_sum = np.sqrt(dot_product(query, query, d) + d * TINY), 1.0
    for index in range(n_active):
        magnitude += weights[index] * norms[active[index]]
        weight_sum += weights[index]
    return (d + n_active + EXTRA) * (EPS * magnitude + TINY), EXTRA * EPS * l1 + (d + n_active) * TINY * weight_sum


@jit_reassociating
def bound_violation(
    dual_of, n_members, status, active, weights, n_active, l1, l2, norms, rel_error, abs_error, worst, squares
):
    """Bound how far weights violate the optimality conditions, and the duality gap (0 without ridge).

    The support are the documents with a weight w. At the minimum, a dual off the support is at most λ₁, and one on it
    is λ₁ + λ₂ w. With g = dual − λ₁ the duality gap is a sum of squares: Σ ((λ₂ w − g)² − g₋²) / 2λ₂ on the support, g₋
    = min(g, 0), and Σ g₊² / 2λ₂ off it. rel_error, abs_error: how far off each g may be, as `bound_rounding` says;
    worst, squares: what other rows add.
    """
    for member in range(n_members):
        violation = dual_of[member] - l1 + rel_error * norms[member] + abs_error
        if violation > 0.0 and status[member] != IN:
            worst = max(worst, violation)
            squares += violation * violation
    # On the support both signs of g − λ₂ w violate the condition.
    for index in range(n_active):
        member, ridge_pull = active[index], l2 * weights[index]
        dual_error, excess = rel_error * norms[member] + abs_error + EXTRA * EPS * ridge_pull, dual_of[member] - l1
        deviation = abs(excess - ridge_pull) + dual_error
        worst = max(worst, deviation)
        # a² − b² as (a − b)(a + b), which does not cancel.
        squares += (
            (ridge_pull + 2 * dual_error) * (ridge_pull - 2 * excess) if excess < -dual_error else deviation * deviation
        )
    return worst, (SUM_FACTOR * squares + SUM_LOSS) / (2 * l2) if l2 > 0 and worst > 0 else 0.0


@jit_reassociating
def copy_cutoff_of(weights, n_active, l1, l2, tolerance):
    """Return the dual (product with the residual) that any copy of a document with a weight reaches.

    That is the least λ₁ + λ₂ w, less the tolerance. So only documents whose dual reaches it have to be compared with
    those that have a weight w to find exact copies. ∞ if no document has a weight.
    """
    smallest_weight = np.inf
    for index in range(n_active):
        smallest_weight = min(smallest_weight, weights[index])
    return l1 + l2 * smallest_weight - tolerance if n_active else np.inf


@jit_reassociating
def ensure_room(array, n_used, n_more):
    """Return an array with room for `n_more` entries after its first `n_used`: itself, or a larger copy."""
    if n_used + n_more <= len(array):
        return array
    larger = np.empty(2 * (n_used + n_more), array.dtype)
    for index in range(n_used):
        larger[index] = array[index]
    return larger


@jit_reassociating
def find_cutoff(excesses, n_violations, max_count):
    """Return a cutoff that at least one, and no more than about max_count, of positive excesses reach.

    So that only the worst violators of the optimality conditions join at a time: those whose dual exceeds λ₁ most. Only
    the first n_violations of `excesses` are read; if these are at most max_count, the cutoff is 0 and all join.
    """
    largest = 0.0
    for index in range(n_violations):
        largest = max(largest, excesses[index])
    cutoff = largest
    # The cutoff falls by tenths from the largest excess until it would admit too many.
    while n_violations > max_count:
        lower_cutoff, n_reached = 0.9 * cutoff, INT_ZERO
        for index in range(n_violations):
            if excesses[index] >= lower_cutoff:
                n_reached += 1
        if n_reached > max_count:
            return cutoff
        cutoff = lower_cutoff
    return 0.0


@jit_reassociating
def solve_by_gram(gram, scores, l1, l2, tolerances, start_members, max_norm, queries, overlaps, capacity):
    """Find the elastic-net weights of B queries at C settings (λ₁, λ₂) on the products of all n documents.

    Each setting starts from the solution of the one before. Only a view of promising documents is looked at; those
    outside that would get a weight join it until there are none. gram: (n, n); scores: (B, n); l1: (B, C); l2: (C,);
    tolerances: (B,) what a dual, a product with the residual, may exceed l1 by; start_members: (B, m) the first view;
    max_norm: no row is longer; queries: (B, d); overlaps: (B,) True if a query has a dimension in common with any row;
    capacity: room for documents with a weight. Returns, for the B · C problems: ends, members, weights; ends and
    members of documents without a weight that may be copies of one with a weight; residuals; gaps; states; rounds.
    """
    n_queries, n_settings = l1.shape
    n_problems, n, d = n_queries * n_settings, len(gram), queries.shape[1]
    # Filled where it is needed: to read all of a diagonal takes as long as many steps.
    norms = np.zeros(n)
    slots, all_rows, no_rows = np.arange(n), np.arange(n), np.empty((0, 0))
    viewed = np.empty(n, np.int64)
    inside = np.zeros(n, np.bool_)
    violators = np.empty(n, np.int64)
    excesses = np.empty(n)
    status, dual_of, scratch = np.zeros(n, np.int8), np.empty(n), np.empty(n + 1)
    active, weights = np.empty(n, np.int64), np.empty(n)
    factor = np.zeros((capacity, capacity))
    ends = np.empty(n_problems, np.int64)
    all_members = np.empty(n_problems, np.int64)
    all_weights = np.empty(n_problems)
    n_out = INT_ZERO
    tie_ends, ties, n_ties = np.empty(n_problems, np.int64), np.empty(16, np.int64), INT_ZERO
    residuals, gaps = np.zeros(n_problems), np.zeros(n_problems)
    states, rounds = np.zeros(n_problems, np.int64), np.zeros(n_problems, np.int64)
    for query_id in range(n_queries):
        score, tolerance = scores[query_id], tolerances[query_id]
        for member in range(n):
            status[member], inside[member] = OUT, False
        n_view, n_active = INT_ZERO, INT_ZERO
        for member in start_members[query_id]:
            viewed[n_view], inside[member] = member, True
            n_view += 1
        for setting in range(n_settings):
            problem, lower, ridge = query_id * n_settings + setting, l1[query_id, setting], l2[setting]
            # The factor contains the ridge: another λ₂ needs another factor, for the weights of the setting before.
            if setting > 0 and ridge != l2[setting - 1]:
                n_active = refactorise(gram, slots, active, weights, n_active, status, ridge, factor)
            unsolved = True
            while unsolved:
                n_active, _, state = solve_active_set(
                    gram, slots, n, no_rows, score, viewed, n_view, lower, ridge, tolerance,
                    active, weights, n_active, status, factor, scratch, dual_of,
                )  # fmt: skip
                rounds[problem] += 1
                unsolved = False
                if n_view < n or state != DONE:
                    compute_duals(gram, slots, score, active, weights, n_active, all_rows, n, dual_of)
                # Optimal over the view is optimal over all rows unless a dual outside exceeds λ₁: the worst of those
                # join, and the view is solved again.
                if n_view < n:
                    n_violators = INT_ZERO
                    for member in range(n):
                        if not inside[member] and dual_of[member] > lower + tolerance:
                            violators[n_violators], excesses[n_violators] = member, dual_of[member] - lower
                            n_violators += 1
                    unsolved = n_violators > 0 and state == DONE
                    cutoff, max_viewed = find_cutoff(excesses, n_violators, VIEW_GROWTH), n_view + VIEW_GROWTH
                    for index in range(n_violators):
                        if excesses[index] >= cutoff and n_view < max_viewed:
                            viewed[n_view], inside[violators[index]] = violators[index], True
                            n_view += 1
            states[problem] = state
            for index in range(n_active):
                norms[active[index]] = np.sqrt(gram[active[index], active[index]] + d * TINY)
            rel_error, abs_error = bound_rounding(
                norms, active, weights, n_active, lower, queries[query_id], overlaps[query_id]
            )
            # Duals further than this below λ₁ cannot matter to the certificate, so their norms are not needed.
            margin = max(tolerance, 2 * (rel_error * max_norm + abs_error))
            for member in range(n):
                if dual_of[member] > lower - margin:
                    norms[member] = np.sqrt(gram[member, member] + d * TINY)
            residuals[problem], gaps[problem] = bound_violation(
                dual_of, n, status, active, weights, n_active, lower, ridge, norms, rel_error, abs_error, 0.0, 0.0
            )  # fmt: skip
            all_members = ensure_room(all_members, n_out, n_active)
            all_weights = ensure_room(all_weights, n_out, n_active)
            for index in range(n_active):
                all_members[n_out + index], all_weights[n_out + index] = active[index], weights[index]
            n_out += n_active
            # Documents without a weight whose dual is as high as a member's may be exact copies of it.
            cutoff = copy_cutoff_of(weights, n_active, lower, ridge, margin)
            for member in range(n):
                if dual_of[member] > cutoff and status[member] != IN:
                    ties = ensure_room(ties, n_ties, 1)
                    ties[n_ties] = member
                    n_ties += 1
            ends[problem], tie_ends[problem] = n_out, n_ties
    return ends, all_members[:n_out], all_weights[:n_out], tie_ends, ties[:n_ties], residuals, gaps, states, rounds
