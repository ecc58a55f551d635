"""From elastic nets to rankings: what λ₁ means, the documents by weight, what fills up, and how far to trust it."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CHUNK_NUMBERS, Matrix
from engine.solvers.elastic_net.fista import run_fista
from engine.solvers.elastic_net.path import regularization_path
from engine.solvers.elastic_net.solve import (
    Solutions,
    bound_weight_errors,
    elastic_nets,
    residual_points,
    score_by_vectors,
    score_residuals,
    take_queries,
)
from engine.solvers.gram import list_infos
from engine.solvers.tie_breaking import rank_exactly
from engine.values import Ranking

Array = np.ndarray

CERTIFIED_TOLERANCE = 1e-6
"""The residual, of the best score, up to which an answer counts as the minimiser."""
ZERO_PENALTY_SHARE = 1e-7
"""λ₁ in place of 0 where λ₂ is 0 too, of the best score: the limit of ever smaller λ₁."""
MIN_SUPPORT_L1 = 1e-6
"""A support of some size is looked for down to this λ₁, of the best score."""


class Setting(Protocol):
    """The parameters of one elastic-net selector, nnn, as its class declares them."""

    @property
    def l1(self) -> float: ...
    @property
    def l2(self) -> float: ...
    @property
    def solver(self) -> str: ...
    @property
    def iterations(self) -> int: ...
    @property
    def scale(self) -> str: ...
    @property
    def fill(self) -> str: ...


def reconstruct(settings: Sequence[Setting], c: Candidates, k: int) -> list[Ranking]:
    """Return one Ranking a setting: documents by the weights with which they rebuild the query's vector.

    The weights are those of a non-negative elastic net; a document without a weight is not returned, unless the setting
    fills up to k.
    """
    c = score_by_vectors(c)
    best_rows = c.relevance.argmax(1)
    best = c.exact_relevance(torch.arange(c.batch, device=best_rows.device), best_rows).cpu().numpy()
    l1_columns, messages = zip(*(_resolve_l1(c, setting, best) for setting in settings), strict=True)
    l1 = np.stack(l1_columns, axis=1)
    # All exact settings are solved together: they share products, and one setting starts from another's solution.
    exact_settings = [index for index, setting in enumerate(settings) if setting.solver == "exact"]
    solved: dict[int, Solutions] = {}
    if exact_settings:
        exact_l2 = np.array([settings[index].l2 for index in exact_settings])
        exact_solutions = elastic_nets(c, np.ascontiguousarray(l1[:, exact_settings]), exact_l2)
        # Query b at the exact setting number s is problem b · (number of exact settings) + s.
        first_problems = np.arange(c.batch) * len(exact_settings)
        solved = {index: exact_solutions.take(first_problems + rank) for rank, index in enumerate(exact_settings)}
    answers = []
    for index, setting in enumerate(settings):
        if index not in solved:
            lam1 = torch.from_numpy(l1[:, index]).to(c.queries.device)
            solved[index] = run_fista(c, lam1, setting.l2, setting.iterations)
        answers.append(_rank_solutions(c, setting, solved.pop(index), l1[:, index], best, messages[index], k))
    return answers


def warm() -> None:
    """Compile the Numba loops of elastic nets, or load them from disk, by solving tiny problems.

    So that a user's first query need not wait for the compiler.
    """
    identity = torch.eye(64)
    # A cached matrix goes by its Gram matrix, and one used once by its rows.
    for is_cached in (True, False):
        unit_matrix = Matrix(identity, cached=is_cached)
        c = Candidates(unit_matrix.vectors, identity[:1], identity[:1], unit_matrix)
        elastic_nets(c, np.array([[0.1]]), np.array([0.1]))
    regularization_path(c, 0.1, 0.01)


def _resolve_l1(c: Candidates, setting: Setting, best: Array) -> tuple[Array, list[list[str]]]:
    """Translate a setting's l1 into each query's λ₁, (B,), and messages about requests that cannot be met.

    setting.scale says what l1 is: λ₁ itself ("absolute"), a share of the best score, or the number of documents that
    should get a weight ("support"). best: (B,) the best scores, at and above which no document gets a weight
    """
    messages: list[list[str]] = [[] for _ in best]
    if setting.scale == "support":
        # A λ₁ for a number of documents is looked up on the path of the query's weights over all λ₁.
        size, l1_values = math.ceil(setting.l1), np.empty(c.batch)
        for query_id in range(c.batch):
            l1_values[query_id], n_weighted = max(best[query_id], 0.0), 0
            if best[query_id] > 0 and size:
                query, min_level = take_queries(c, slice(query_id, query_id + 1)), MIN_SUPPORT_L1 * best[query_id]
                l1_values[query_id], n_weighted = regularization_path(query, setting.l2, min_level, size).first_of(size)
            if n_weighted != size:
                messages[query_id].append(f"no λ₁ gives {size} documents a weight; this one gives {n_weighted}")
        return l1_values, messages
    l1_values = np.full(c.batch, setting.l1) if setting.scale == "absolute" else setting.l1 * np.maximum(best, 0)
    # Without any penalty many weights may be equally good: a tiny λ₁ takes the place of 0.
    if setting.l1 == 0 and setting.l2 == 0 and setting.solver == "exact":
        note = "λ₁ = λ₂ = 0: taken as the limit of ever smaller λ₁, as the minimiser need not be unique"
        l1_values, messages = np.maximum(ZERO_PENALTY_SHARE * best, 0), [[note] for _ in best]
    return l1_values, messages


def _rank_solutions(
    c: Candidates, setting: Setting, solved: Solutions, l1: Array, best: Array, messages: list[list[str]], k: int
) -> Ranking:
    """Build one setting's Ranking from elastic-net weights: documents by weight, with info.

    Where fewer than k have a weight, others fill up to k if the setting says so. l1: (B,) λ₁ as used; best: (B,) best
    scores; messages: notes of each query
    """
    index, gain = take_largest_weights(solved, k, c)
    if setting.fill == "fill":
        short_queries = np.flatnonzero(solved.counts < min(k, c.count))
        block_size = max(1, 4 * CHUNK_NUMBERS // c.count)
        for start in range(0, len(short_queries), block_size):
            _fill_answers(c, solved, l1, short_queries[start : start + block_size], index, gain)
    return Ranking(index, gain, _describe_answers(c, setting, solved, l1, best, messages, k))


def take_largest_weights(solved: Solutions, k: int, c: Candidates) -> tuple[Tensor, Tensor]:
    """Return the documents with the k largest weights, and those weights, each (B, k).

    Where fewer than k have a weight, the rest is document −1 with the weight 0. solved: sorted, largest weights first
    """
    # Members stand by falling weight, one problem after the other.
    index = torch.full((len(solved), k), -1, dtype=torch.int64)
    gain = torch.zeros(len(solved), k, dtype=torch.float64)
    rank_in_problem = np.arange(len(solved.members)) - (solved.ends - solved.counts)[solved.problem]
    is_in_top = rank_in_problem < k
    problem, rank_index = torch.from_numpy(solved.problem[is_in_top]), torch.from_numpy(rank_in_problem[is_in_top])
    index[problem, rank_index] = torch.from_numpy(solved.members[is_in_top])
    gain[problem, rank_index] = torch.from_numpy(solved.weights[is_in_top])
    return index.to(c.vectors.device), gain.to(c.vectors.device)


def _fill_answers(c: Candidates, solved: Solutions, l1: Array, query_ids: Array, index: Tensor, gain: Tensor) -> None:
    """Complete answers shorter than k, in place, by the documents nearest to getting a weight.

    These have the largest products with the residual, what the weights leave of the query. l1: (B,); query_ids: the
    queries with short answers; index, gain: (B, k). A filled document's gain is u·(v − Uᵀw) − λ₁, at most 0.
    """
    device, k = index.device, index.shape[1]
    queries, lam1 = torch.from_numpy(query_ids).to(device), torch.from_numpy(l1[query_ids]).to(device)
    c, solved = take_queries(c, queries), solved.take(query_ids)
    products, error, exact_scorer = score_residuals(c, residual_points(c, solved))
    products[torch.from_numpy(solved.problem).to(device), torch.from_numpy(solved.members).to(device)] = -torch.inf
    n_weighted = torch.from_numpy(solved.counts).to(device).unsqueeze(1)
    n_missing = k - int(n_weighted.min())
    fill_rows, fill_products = rank_exactly(products, n_missing, error, exact_scorer.exact_relevance, rescore_all=False)
    fill_ranks = torch.arange(k, device=device) - n_weighted
    query_id, rank_index = ((fill_ranks >= 0) & (fill_ranks < c.count - n_weighted)).nonzero(as_tuple=True)
    fill_entries = query_id, fill_ranks[query_id, rank_index]
    index[queries[query_id], rank_index] = fill_rows[fill_entries]
    # A float32 score may pass λ₁ by its rounding; what has no weight is never above it.
    gain[queries[query_id], rank_index] = (fill_products[fill_entries] - lam1[query_id]).clamp_max(0.0)


def _describe_answers(
    c: Candidates, setting: Setting, solved: Solutions, l1: Array, best: Array, messages: list[list[str]], k: int
) -> tuple[dict[str, Any], ...]:
    """Return the info of each query's answer: λ₁, support size, certificate, ties and messages.

    The figures that cannot be proved of the weights are None. solved: the weights; l1: (B,) λ₁ as used; best: (B,) best
    scores; messages: notes of each query; k: number of documents returned
    """
    residuals = solved.residual
    # Where λ₁ = λ₂ = 0 is solved at a tiny λ₁ instead, that λ₁ itself is part of the violation.
    if setting.l1 == setting.l2 == 0 and setting.scale == "absolute":
        residuals = residuals + (l1 - setting.l1)
    no_values = [None] * len(solved)
    columns: dict[str, list[Any]] = {"l1": l1.tolist(), "support": solved.counts.tolist()}
    columns |= {"residual": residuals.tolist(), "gap": no_values, "bound": no_values, "ordered": no_values}
    columns["certified"] = (residuals <= CERTIFIED_TOLERANCE * np.abs(best)).tolist()
    columns["tied"] = [solved.tied.get(query_id, {}) for query_id in range(len(solved))]
    columns |= {"passes": solved.passes.tolist(), "messages": messages}
    if setting.l2 > 0:
        error_bounds = bound_weight_errors(solved.gap, setting.l2)
        n_ordered = _count_ordered_weights(solved, error_bounds, k)
        # An array of objects, as it takes numbers and None.
        proofs = np.array([solved.gap.tolist(), error_bounds.tolist(), n_ordered], object)
        # A bound as large as all weights together says nothing of any.
        is_informative = (error_bounds < np.bincount(solved.problem, solved.weights, len(solved))) | (error_bounds == 0)
        proofs[:, ~is_informative] = None
        columns |= dict(zip(("gap", "bound", "ordered"), proofs.tolist(), strict=True))
    common: dict[str, Any] = {"candidates": c.count, "l2": setting.l2, "solver": setting.solver}
    if setting.solver == "fista":
        common["iterations"] = setting.iterations
    answers = tuple(common | answer for answer in list_infos(columns))
    for query_id, answer in enumerate(answers):
        # Candidates of a pool are numbered within it; info names rows of the corpus.
        if answer["tied"] and c.pool is not None:
            row_ids = c.pool[query_id].tolist()
            ties = answer["tied"].items()
            answer["tied"] = {row_ids[lowest]: [row_ids[copy] for copy in copies] for lowest, copies in ties}
        if not answer["support"]:
            answer["messages"] = [*answer["messages"], _explain_empty_answer(answer["l1"], float(best[query_id]))]
    return answers


def _explain_empty_answer(l1: float, best_score: float) -> str:
    """Return the message that says why no document got a weight in a query's answer, for its info."""
    if best_score <= 0:
        return f"the best score, {best_score:.3g}, is not above 0: no document gets a weight"
    if l1 >= best_score:
        return f"λ₁ = {l1:.3g} is not below the best score, {best_score:.3g}: no document gets a weight"
    return "no document gets a weight"


def _count_ordered_weights(solved: Solutions, error_bounds: Array, k: int) -> list[int]:
    """Return how many of each query's first k documents are certainly in the right order by weight.

    error_bounds: (P,) distance of the weights from the minimiser; two that differ by more than twice that are in order
    """
    if not len(solved.members):
        return [0] * len(solved)
    problems, weights = solved.problem, solved.weights
    # Each is compared with the largest that should follow; the last one with 0, which everything left out has.
    next_weights = np.zeros(len(weights))
    next_weights[:-1] = np.where(problems[1:] == problems[:-1], weights[np.lexsort((-weights, problems))[1:]], 0.0)
    # Two weights, each off by at most the bound, keep their order if they differ by more than twice the bound.
    is_uncertain = ~(weights - next_weights > 2 * error_bounds[problems])
    rank_in_problem = np.arange(len(weights)) - (solved.ends - solved.counts)[problems]
    n_certain = np.minimum(solved.counts, k)
    np.minimum.at(n_certain, problems[is_uncertain], rank_in_problem[is_uncertain])
    return [int(count) for count in n_certain]
