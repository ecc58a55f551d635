"""Non-negative elastic nets: the minimisers of ½|Uᵀw − v|² + λ₁ Σw + ½λ₂|w|² over w ≥ 0, and what proves them.

An active set in float64 finds a minimiser, over all rows by their Gram matrix where that is at hand, over a working set
of rows otherwise; where a GPU holds the vectors, or very many rows get a weight, Newton steps on the dual do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CACHED_NUMBERS, CHUNK_NUMBERS, GRAM_ROWS, blocks, gram, rounding, slices, underflow
from engine.solvers.elastic_net.dual_newton import DUAL_TOLERANCE, maximise_dual
from engine.solvers.elastic_net.rounding import EPS, EXTRA, SUM_FACTOR, SUM_LOSS, TINY

Array = np.ndarray

EQUAL_WEIGHT_TOLERANCE = 1e-10
"""Weights of one answer that differ by less, of the largest, are equal: the lower row goes first."""
MIN_START_ROWS, MAX_START_ROWS = 64, 512
"""The working set begins with so many rows, depending on the corpus."""
MIN_NEWTON_L2 = 1e-12
"""On a GPU a λ₂ under this share of the longest squared row goes the way of λ₂ = 0: Newton's systems have no digits."""
WORKING_SET_GROWTH = 1536
"""Rows by which the working set may grow at first."""
MAX_GRAM_POOL = 512
"""Pools of so many rows go by their Gram matrix."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Solutions:
    """The weights of documents that minimise P elastic nets, stored one problem after the other.

    A problem is one query at one setting (λ₁, λ₂); its members are the documents with a weight.

    ends: (P,) where the members of each problem end
    members: candidates with a weight, the largest weight first
    weights: above 0
    residual: (P,) bound on the largest violation of the optimality conditions
    gap: (P,) bound on the duality gap, NaN at λ₂ = 0
    passes: (P,) over the candidates
    tied: problem → member → its exact duplicates, any of which could stand for it at λ₂ = 0
    """

    ends: Array
    members: Array
    weights: Array
    residual: Array
    gap: Array
    passes: Array
    tied: dict[int, dict[int, list[int]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def counts(self) -> Array:
        """(P,) number of members of each problem."""
        counts = self.ends.copy()
        counts[1:] -= self.ends[:-1]
        return counts

    @cached_property
    def problem(self) -> Array:
        """(E,) number of the problem (a query at one setting) that each stored weight belongs to."""
        return np.repeat(np.arange(len(self)), self.counts)

    def take(self, problems: Array) -> Solutions:
        """Return the solutions of some problems, numbers (p,), in the order given."""
        problem_counts = self.counts[problems]
        new_ends = np.cumsum(problem_counts)
        # Positions of the members: each problem's run of positions, shifted from its new place to its old one.
        entry_ids = np.arange(problem_counts.sum()) + np.repeat(self.ends[problems] - new_ends, problem_counts)
        new_index = {int(problem): new_position for new_position, problem in enumerate(problems)}
        tied = {new_index[problem]: duplicates for problem, duplicates in self.tied.items() if problem in new_index}
        proofs = {name: getattr(self, name)[problems] for name in ("residual", "gap", "passes")}
        members, weights = self.members[entry_ids], self.weights[entry_ids]
        return Solutions(ends=new_ends, members=members, weights=weights, tied=tied, **proofs)

    @staticmethod
    def joined(parts: Sequence[Solutions]) -> Solutions:
        """Return the solutions of all parts as one, the problems of each part after those of the one before."""
        if len(parts) == 1:
            return parts[0]
        array_names = ("members", "weights", "residual", "gap", "passes")
        arrays = {array_name: np.concatenate([getattr(p, array_name) for p in parts]) for array_name in array_names}
        tied: dict[int, dict[int, list[int]]] = {}
        ends, n_problems, n_entries = [], 0, 0
        for part in parts:
            ends.append(part.ends + n_entries)
            tied |= {problem + n_problems: duplicates for problem, duplicates in part.tied.items()}
            n_problems, n_entries = n_problems + len(part), n_entries + len(part.members)
        return Solutions(ends=np.concatenate(ends), tied=tied, **arrays)

    @staticmethod
    def uncertified(ends: Array, members: Array, weights: Array) -> Solutions:
        """Return solutions with residuals, gaps and passes of 0, which the caller has still to compute."""
        zeros = np.zeros(len(ends))
        return Solutions(ends=ends, members=members, weights=weights, residual=zeros, gap=zeros, passes=zeros)


def score_by_vectors(c: Candidates) -> Candidates:
    """Return the candidates with u·query as relevance, whatever scorer chose them."""
    return c if c.inner_product else replace(c, relevance=c.products(c.queries), inner_product=True)


def take_queries(c: Candidates, queries: slice | Array | Tensor) -> Candidates:
    """Return the candidates of some of the queries, given as a slice or as numbers, as a smaller batch."""
    selection = replace(c, relevance=c.relevance[queries], queries=c.queries[queries])
    return selection if c.vectors.ndim == 2 else replace(selection, vectors=c.vectors[queries])


def elastic_nets(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """Find the exact elastic-net weights of each of B queries at each of C settings.

    Minimises ½|v − Uᵀw|² + λ₁ Σw + ½λ₂|w|² over w ≥ 0, U the documents and v the query. Problem b · C + a of the result
    is query b at setting a. l1: (B, C); l2: (C,), where l1 > 0 or l2 > 0.
    """
    if len(l2) == 1:
        return _solve_problems(score_by_vectors(c), l1, l2)
    # Each setting starts from the weights of the one before, which change least where λ₁ falls and λ₂ stays.
    setting_order = np.lexsort((-l1.mean(0), l2))
    solved = _solve_problems(score_by_vectors(c), l1[:, setting_order], l2[setting_order])
    # Put the solutions back into the caller's order of settings.
    if (setting_order[1:] < setting_order[:-1]).any():
        sorted_position = np.empty_like(setting_order)
        sorted_position[setting_order] = np.arange(len(setting_order))
        solved = solved.take((np.arange(len(l1))[:, None] * len(setting_order) + sorted_position).ravel())
    return solved


def _solve_problems(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """Solve the elastic nets of all queries at all settings on the device that holds the vectors.

    On a GPU, settings with a ridge (λ₂ > 0) are solved by Newton steps; the others go to the CPU. There all are solved
    by active sets, the documents with a weight. l1: (B, C); l2: (C,)
    """
    if c.vectors.is_cuda:
        is_ridged = l2 > MIN_NEWTON_L2 * c.max_norm**2
        if is_ridged.all():
            return _solve_by_newton(c, l1, l2)
        host_vectors = c.matrix.on_cpu if c.shared else c.vectors.cpu()
        host_candidates = replace(c, vectors=host_vectors, relevance=c.relevance.cpu(), queries=c.queries.cpu())
        # Both groups are solved apart, and their solutions sorted back by query and setting.
        setting_groups = [(np.flatnonzero(is_ridged), c), (np.flatnonzero(~is_ridged), host_candidates)]
        solved = [_solve_problems(group, l1[:, ids], l2[ids]) for ids, group in setting_groups if len(ids)]
        # Query b at setting s is problem b · C + s, of C settings.
        first_problems = np.arange(len(l1))[:, None] * len(l2)
        problem_order = np.concatenate([(first_problems + ids).ravel() for ids, _ in setting_groups])
        return Solutions.joined(solved).take(np.argsort(problem_order))
    solutions = []
    for block, uses_gram in _split_queries(c, len(l2)):
        block_candidates = c if block == slice(None) else take_queries(c, block)
        solutions.append((_solve_with_gram if uses_gram else _solve_with_rows)(block_candidates, l1[block], l2))
    return Solutions.joined(solutions)


def _split_queries(c: Candidates, n_settings: int) -> Iterator[tuple[slice, bool]]:
    """Yield blocks of queries, each with True if it is to be solved by a Gram matrix, False if by rows.

    A Gram matrix holds all inner products of the documents. Computing it pays where it is cached, or where many
    problems share it. Where each query has its own pool, each pool has its own matrix.
    """
    if c.vectors.ndim == 3:
        yield from ((slice(query_id, query_id + 1), c.count <= MAX_GRAM_POOL) for query_id in range(c.batch))
        return
    # One problem for every 16 documents is enough to repay computing the matrix.
    is_gram_ready = "gram" in vars(c.matrix) or c.matrix.cached or c.batch * n_settings * 16 >= c.count
    if c.count <= GRAM_ROWS and is_gram_ready:
        yield slice(None), True
    else:
        yield from ((slice(query_id, query_id + 1), False) for query_id in range(c.batch))


def _solve_with_gram(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """Solve the elastic nets of a block of queries by active sets on the inner products of all candidates.

    An active set holds the documents with a weight, and grows until no other document would get one. l1: (B, C); l2:
    (C,)
    """
    from engine.solvers.elastic_net.active_set import solve_by_gram

    queries = c.queries.double()
    if c.shared:
        products, scores = c.matrix.gram, _compute_exact_scores(c)
    else:
        rows = (c.vectors if c.vectors.ndim == 2 else c.vectors[0]).double()
        products, scores = gram(rows), queries @ rows.T
    max_scores = scores.abs().amax(1).numpy()
    *solution_arrays, n_rounds = solve_by_gram(
        products.numpy(), scores.numpy(), np.ascontiguousarray(l1), l2, DUAL_TOLERANCE * max_scores,
        np.ascontiguousarray(scores.topk(min(c.count, MIN_START_ROWS), dim=1).indices.numpy()), c.max_norm,
        queries.numpy(), _share_dimension(c, max_scores), _bound_active_set(c),
    )  # fmt: skip
    # All products at once count as one pass, however many rounds the loop took.
    return _collect_results(c, (*solution_arrays, np.ones_like(n_rounds)), l1, l2)


def _compute_exact_scores(c: Candidates) -> Tensor:
    """Return (B, n) float64 inner products of all documents with the queries; cached for a single query."""
    from engine.solvers.elastic_net.working_set import exact_dots

    if c.batch > 1:
        return c.queries.double() @ c.matrix.float64.T
    rows, query = c.vectors.contiguous().numpy(), c.queries[0]
    return c.matrix.cache_scores(query, lambda: torch.from_numpy(exact_dots(rows, query.double().numpy()))[None])


def _solve_with_rows(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """Solve one query's elastic nets over a few promising rows, and prove that no other gets a weight.

    For corpora too large for all inner products. l1: (1, C); l2: (C,). If these rows, the working set, outgrow the
    arrays that hold them, it starts again with arrays of twice the size.
    """
    from engine.solvers.elastic_net.active_set import COLUMNS_FULL
    from engine.solvers.elastic_net.working_set import solve_by_rows

    rows = c.vectors if c.vectors.ndim == 2 else c.vectors[0]
    # Codes, the rows in 8-bit numbers, bound products at a fraction of the memory traffic; empty where not used.
    codes, step, slack = np.empty((0, 0), np.int8), np.empty(0), np.empty(0)
    if c.shared and rows.numel() > CACHED_NUMBERS and ("codes" in vars(c.matrix) or c.matrix.cached):
        codes, step, slack = (code_array.numpy() for code_array in c.matrix.codes)
    n_start_rows = min(c.count, max(MIN_START_ROWS, min(MAX_START_ROWS, c.count // 64)))
    start_rows = c.relevance[0].topk(n_start_rows).indices.numpy()
    query, max_score = c.queries[0].double(), float(c.relevance.abs().max())
    state, max_rows = COLUMNS_FULL, len(start_rows) + WORKING_SET_GROWTH
    while state == COLUMNS_FULL:
        *solution_arrays, states, n_rounds = solve_by_rows(
            rows.contiguous().numpy(), codes, step, slack, start_rows, query.numpy(), np.ascontiguousarray(l1[0]), l2,
            DUAL_TOLERANCE * max_score, rounding(rows) * c.max_norm, underflow(rows), c.max_norm,
            bool(_share_dimension(c, np.array([max_score]))[0]), _bound_active_set(c), max_rows,
        )  # fmt: skip
        # The state of the last problem says if room ran out.
        state, max_rows = states[-1], 2 * max_rows
    # Each round was a pass over all rows, and so was the relevance that the start rows were chosen by.
    return _collect_results(c, (*solution_arrays, states, n_rounds + 1), l1, l2)


def _share_dimension(c: Candidates, max_products: Array) -> Array:
    """Return (B,) True where a query has a nonzero dimension in common with any candidate.

    Where it has none, all products are exactly 0. max_products: (B,) largest product; if not 0, nothing is looked up
    """
    overlaps: Array = max_products != 0
    for query_id in np.flatnonzero(~overlaps).tolist():
        rows = c.vectors if c.vectors.ndim == 2 else c.vectors[query_id]
        overlaps[query_id] = bool(rows[:, c.queries[query_id] != 0].any())
    return overlaps


def _bound_active_set(c: Candidates) -> int:
    """Return the number of rows to allocate for an active set, the documents with a weight.

    Without a ridge (λ₂ = 0) it holds no more members than the vectors have dimensions; with one, MAX_ACTIVE are
    allowed.
    """
    from engine.solvers.elastic_net.active_set import MAX_ACTIVE

    return 2 + min(c.count, max(MAX_ACTIVE, c.vectors.shape[-1]))


def _collect_results(c: Candidates, results: tuple[Array, ...], l1: Array, l2: Array) -> Solutions:
    """Turn the arrays that a compiled solver returned into Solutions, members sorted by weight.

    Exact copies of a document get equal weights, or all weight goes to one (see `_settle_copies`). Problems whose
    active set had no room are solved again by Newton steps. l1: (B, C); l2: (C,)
    """
    from engine.solvers.elastic_net.active_set import FACTOR_FULL

    ends, members, weights, tie_ends, ties, residual, gap, states, passes = results
    # Without a ridge (λ₂ = 0) there is no bound on the duality gap.
    gap[np.tile(l2 == 0, len(l1))] = np.nan
    solutions = Solutions(ends=ends, members=members, weights=weights, residual=residual, gap=gap, passes=passes)
    solutions = _settle_copies(c, sort_solutions(solutions), l1.ravel(), np.tile(l2, len(l1)), tie_ends, ties)
    if not (unsolved := np.flatnonzero(states == FACTOR_FULL)).size:
        return solutions
    queries, setting_ids = unsolved // len(l2), unsolved % len(l2)
    newton_solutions = _solve_queries_by_newton(take_queries(c, queries), l1[queries, setting_ids], l2[setting_ids])
    # The new solutions stand after the old ones, and take the places of those that failed.
    problem_order = np.arange(len(solutions))
    problem_order[unsolved] = len(solutions) + np.arange(len(unsolved))
    return Solutions.joined([solutions, newton_solutions]).take(problem_order)


def bound_weight_errors(gaps: Array, l2: Array | float) -> Array:
    """Return (P,) bounds √(2 gap / λ₂) on how far computed weights are from the exact ones; NaN at λ₂ = 0.

    gaps: (P,) bounds on the duality gap, by which an answer's objective may exceed the minimum
    """
    # The objective is λ₂-strongly convex, so ½ λ₂ |w − w*|² is at most the gap.
    with np.errstate(over="ignore", invalid="ignore"):
        distance: Array = np.sqrt(2.0) * np.sqrt(gaps) / np.sqrt(l2)
    return distance


def _settle_copies(c: Candidates, solved: Solutions, l1: Array, l2: Array, tie_ends: Array, ties: Array) -> Solutions:
    """Give exact copies of a document equal weights at λ₂ > 0, and all weight to the lowest one at λ₂ = 0.

    Solvers may give the weight of several copies to any one of them. l1, l2: (P,); ties: candidates that may be copies
    of a member (a document with a weight) and have no weight, those of problem p up to tie_ends[p]. Solutions that
    change get a new certificate.
    """
    # The minimiser gives copies equal weights, so two documents whose exact weights provably differ are no copies.
    next_problem = solved.problem[1:]
    may_be_equal = solved.weights[:-1] - solved.weights[1:] <= 2 * bound_weight_errors(solved.gap, l2)[next_problem]
    may_be_equal &= next_problem == solved.problem[:-1]
    if not len(ties) and not may_be_equal.any():
        return solved
    may_have_copies = np.diff(tie_ends, prepend=0) > 0
    may_have_copies[next_problem[may_be_equal]] = True
    members, weights = np.split(solved.members, solved.ends[:-1]), np.split(solved.weights, solved.ends[:-1])
    tied: dict[int, dict[int, list[int]]] = {}
    changed = []
    for problem in np.flatnonzero(may_have_copies).tolist():
        row_ids = np.concatenate([members[problem], ties[tie_ends[problem - 1] if problem else 0 : tie_ends[problem]]])
        # Rows get the number of their group of exact copies, groups in the order of their first rows.
        row_id = torch.from_numpy(row_ids).to(c.vectors.device)
        rows = c.rows(torch.full_like(row_id, problem * c.batch // len(solved)), row_id).cpu().numpy()
        group_by_bytes: dict[bytes, int] = {}
        copy_group = np.array([group_by_bytes.setdefault(row.tobytes(), len(group_by_bytes)) for row in rows])
        group_positions = np.flatnonzero(copy_group <= copy_group[: len(members[problem])].max())
        # Rows that copy no document with a weight drop out.
        row_ids, copy_group = row_ids[group_positions], copy_group[group_positions]
        # Without two rows in one group there are no copies, and nothing changes.
        group_weights = np.bincount(copy_group[: len(members[problem])], weights[problem])
        if len(group_weights) == len(row_ids):
            continue
        if l2[problem] > 0:
            members[problem], weights[problem] = row_ids, (group_weights / np.bincount(copy_group))[copy_group]
            changed.append(problem)
        else:
            copies = [sorted(row_ids[copy_group == group].tolist()) for group in range(len(group_weights))]
            members[problem], weights[problem] = np.array([lowest for lowest, *_ in copies]), group_weights
            tied[problem] = {lowest: duplicates for lowest, *duplicates in copies if duplicates}
    ends = np.cumsum([len(problem_members) for problem_members in members])
    merged = replace(solved, ends=ends, members=np.concatenate(members), weights=np.concatenate(weights), tied=tied)
    solved = sort_solutions(merged)
    if changed:
        changed_candidates = take_queries(c, np.array(changed) * c.batch // len(solved))
        proofs = compute_certificate(changed_candidates, solved.take(np.array(changed)), l1[changed], l2[changed])
        solved.residual[changed], solved.gap[changed] = proofs
        solved.passes[changed] += 1
    return solved


def sort_solutions(solved: Solutions) -> Solutions:
    """Sort each problem's documents by weight, the lower row first where weights are almost equal."""
    if not len(solved.members):
        return solved
    if len(solved) == 1:
        entry_order = np.lexsort((solved.members, -solved.weights))
        problem, sorted_weights = np.zeros_like(entry_order), solved.weights[entry_order]
        max_weights = sorted_weights[:1]
    else:
        entry_order = np.lexsort((solved.members, -solved.weights, solved.problem))
        problem, sorted_weights = solved.problem[entry_order], solved.weights[entry_order]
        max_weights = np.zeros(len(solved))
        np.maximum.at(max_weights, problem, sorted_weights)
    # A run of weights, each within reach of the one before, counts as one weight.
    is_new_weight = np.ones(len(entry_order), dtype=np.int64)
    is_new_weight[1:] = problem[1:] != problem[:-1]
    is_new_weight[1:] |= sorted_weights[:-1] - sorted_weights[1:] > EQUAL_WEIGHT_TOLERANCE * max_weights[problem[1:]]
    if not is_new_weight.all():
        entry_order = entry_order[np.lexsort((solved.members[entry_order], np.cumsum(is_new_weight)))]
    return replace(solved, members=solved.members[entry_order], weights=solved.weights[entry_order])


def _solve_by_newton(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """Solve every query at every setting by Newton steps on the dual, as many at a time as memory allows.

    l1: (B, C); l2: (C,), all above 0
    """
    n_settings, n_problems = len(l2), l1.size
    parts = []
    for problem_block in slices(n_problems, 4 * c.vectors.shape[-1] * min(MAX_START_ROWS, c.vectors.shape[-1])):
        queries, setting_ids = np.divmod(np.arange(problem_block.start, problem_block.stop), n_settings)
        parts.append(_solve_queries_by_newton(take_queries(c, queries), l1[queries, setting_ids], l2[setting_ids]))
    return Solutions.joined(parts)


def _solve_queries_by_newton(c: Candidates, l1: Array, l2: Array) -> Solutions:
    """Solve each query's elastic net at its own λ₁ and λ₂ by Newton steps: l1, l2 (B,), l2 > 0."""
    lam1, lam2 = (torch.from_numpy(penalties).to(c.queries.device) for penalties in (l1, l2))
    weights, members, n_passes = maximise_dual(c, lam1, lam2)
    solved = certify_weights(c, weights, members, l1, l2, n_passes + 1)
    # Copies of documents with a weight have joined the working set: there are no others to add.
    return _settle_copies(c, solved, l1, l2, np.zeros(c.batch, np.int64), np.empty(0, np.int64))


def certify_weights(c: Candidates, weights: Tensor, members: Tensor, l1: Array, l2: Array, n_passes: int) -> Solutions:
    """Turn weights, (B, m), of the rows `members`, (B, m), into Solutions with proven error bounds.

    l1, l2: (B,); n_passes: number of passes over the candidates to report
    """
    query_id, column_index = (weights > 0).nonzero(as_tuple=True)
    ends = torch.bincount(query_id, minlength=c.batch).cumsum(0).cpu().numpy()
    row_ids = members[query_id, column_index].cpu().numpy()
    weight_values = weights[query_id, column_index].double().cpu().numpy()
    sorted_answers = sort_solutions(Solutions.uncertified(ends, row_ids, weight_values))
    residual, gap = compute_certificate(c, sorted_answers, l1, l2)
    return replace(sorted_answers, residual=residual, gap=gap, passes=np.full(c.batch, n_passes))


def residual_points(c: Candidates, solved: Solutions) -> Tensor:
    """Return (P, d) float64 residuals v − Uᵀw: what the weighted documents leave of each query.

    The P problems are B queries at C settings: query b at setting s is problem b · C + s.
    """
    return _residual_points_with_size(c, solved)[0]


def _residual_points_with_size(c: Candidates, solved: Solutions) -> tuple[Tensor, Tensor]:
    """Return (P, d) residuals v − Uᵀw of the queries, and (P,) the scale of their rounding errors.

    The scale is |v| + Σ w|u|; it is 0 only where all inner products of the query with documents are exactly 0.
    """
    query_id = torch.arange(len(solved), device=c.queries.device) // (len(solved) // c.batch)
    overlaps = torch.from_numpy(_share_dimension(c, c.relevance.any(1).cpu().numpy())).to(query_id.device)
    residuals, magnitudes = c.queries.double()[query_id], (_row_norms(c.queries) * overlaps)[query_id]
    problems = torch.from_numpy(solved.problem).to(residuals.device)
    members = torch.from_numpy(solved.members).to(residuals.device)
    weights = torch.from_numpy(solved.weights).to(residuals.device)
    for problem, member, weight in blocks(residuals.shape[1], problems, members, weights):
        rows = c.rows(query_id[problem], member).double()
        magnitudes.index_add_(0, problem, _row_norms(rows).mul_(weight))
        residuals.index_add_(0, problem, rows.mul_(weight.unsqueeze(1)), alpha=-1)
    return residuals, magnitudes


def _row_norms(rows: Tensor) -> Tensor:
    """Return (m,) float64 lengths of rows, (m, d), rounded up by what underflow may lose."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return norms.add_(math.sqrt(rows.shape[1] * TINY))


def score_residuals(c: Candidates, points: Tensor) -> tuple[Tensor, Tensor, Candidates]:
    """Return (P, n) products of all candidates with points, (P,) error bounds, and an exact scorer.

    points: (P, d) float64, P a multiple of the number of queries: those of query b stand together. The scorer is the
    candidates with the points as queries, for single products in float64.
    """
    query_id = torch.arange(len(points), device=points.device) // (len(points) // c.batch)
    vectors = c.vectors if c.vectors.ndim == 2 else c.vectors[query_id]
    # Relevance is not read where it is an inner product, so that of one query will do.
    exact_scorer = replace(c, queries=points, vectors=vectors, relevance=c.relevance[:1], inner_product=True)
    return exact_scorer.products(points.to(c.vectors.dtype)), exact_scorer.product_error(points), exact_scorer


def compute_certificate(c: Candidates, solved: Solutions, l1: Array, l2: Array) -> tuple[Array, Array]:
    """Return (P,) bounds on violations of the optimality conditions, and (P,) on the duality gaps.

    The P problems are elastic nets, each with a query v and weights w of the documents U. With the gradient g = U(v −
    Uᵀw) − λ₁, weights are optimal if g = λ₂ w for documents with a weight and g ≤ 0 for all others; the gap, by which
    the objective may exceed its minimum, is NaN at λ₂ = 0 (for its bound see `active_set.bound_violation`). solved:
    weights of any solver; l1, l2: (P,) λ₁ and λ₂. All in float64: products come in the vectors' precision first, and
    only those that may exceed λ₁ are computed again.
    """
    points, magnitudes = _residual_points_with_size(c, solved)
    device, d = points.device, points.shape[1]
    lam1, lam2 = torch.from_numpy(l1).to(device), torch.from_numpy(l2).to(device)
    problems, members = torch.from_numpy(solved.problem).to(device), torch.from_numpy(solved.members).to(device)
    member_weights = torch.from_numpy(solved.weights).to(device)
    n_terms = torch.from_numpy(solved.counts).to(device) + d
    weight_sums = torch.ones_like(lam1).index_add_(0, problems, member_weights)
    # Bounds on the rounding of a product less λ₁: rel_error times the row's length, plus abs_error.
    rel_error = torch.where(magnitudes > 0, (n_terms + EXTRA) * (EPS * magnitudes + TINY), 0)
    abs_error = torch.where(magnitudes > 0, EXTRA * EPS * lam1 + n_terms * TINY * weight_sums, 0)
    # Rows whose rounded product stays under the cutoff by more than the error of the pass satisfy g ≤ 0 and add nothing
    # to either bound.
    cutoff = lam1 - 2 * (rel_error * c.max_norm + abs_error)
    residuals, squares = lam1.new_zeros(len(solved)), lam1.new_zeros(len(solved))
    n_settings = len(solved) // c.batch
    step = max(1, CHUNK_NUMBERS // max(c.count, d) // n_settings) * n_settings
    for start in range(0, len(solved), step):
        block = slice(start // n_settings, (start + step) // n_settings)
        products, error, exact_scorer = score_residuals(take_queries(c, block), points[start : start + step])
        may_exceed = products > (cutoff[start : start + step] - error).unsqueeze(1)
        is_in_block = (problems >= start) & (problems < start + step)
        support = problems[is_in_block] - start, members[is_in_block]
        may_exceed[support] = True
        dense_weights = torch.zeros(products.shape, dtype=torch.float64, device=device)
        dense_weights[support] = member_weights[is_in_block]
        problem, row_id = may_exceed.nonzero(as_tuple=True)
        dual_of, norms = _score_pairs(exact_scorer, problem, row_id)
        pair_weights, problem = dense_weights[problem, row_id], problem + start
        ridge_pull = lam2[problem] * pair_weights
        error = rel_error[problem] * norms + abs_error[problem] + EXTRA * EPS * ridge_pull
        excess = dual_of - lam1[problem]
        deviation = (torch.where(pair_weights > 0, (excess - ridge_pull).abs(), excess) + error).clamp_min_(0)
        is_below = (pair_weights > 0) & (excess < -error)
        residuals.scatter_reduce_(0, problem, deviation, "amax")
        # Below λ₁ on the support a term of the gap is a difference of squares, which is factored so as not to cancel.
        terms = torch.where(is_below, (ridge_pull + 2 * error) * (ridge_pull - 2 * excess), deviation * deviation)
        squares.index_add_(0, problem, terms)
    gaps = torch.where(lam2 > 0, (SUM_FACTOR * squares + SUM_LOSS * (residuals > 0).double()) / (2 * lam2), torch.nan)
    return residuals.cpu().numpy(), gaps.cpu().numpy()


def _score_pairs(c: Candidates, problem: Tensor, row_id: Tensor) -> tuple[Tensor, Tensor]:
    """Return (m,) float64 products of queries with rows at (problem, row) pairs, and the rows' lengths."""
    values, lengths = [], []
    for problem_block, row_block in blocks(c.vectors.shape[-1], problem, row_id):
        rows = c.rows(problem_block, row_block).double()
        lengths.append(_row_norms(rows))
        values.append(rows.mul_(c.queries[problem_block]).sum(1))
    return torch.cat(values), torch.cat(lengths)
