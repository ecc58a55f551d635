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
    """The parameters of one decoder."""

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
    """Return the rankings of a batch of queries at every setting."""
    c = score_by_vectors(c)
    best_rows = c.relevance.argmax(1)
    best = c.exact_relevance(torch.arange(c.batch, device=best_rows.device), best_rows).cpu().numpy()
    first_parameters = [_resolve_l1(c, setting, best) for setting in settings]
    l1 = np.stack([l1_values for l1_values, _ in first_parameters], axis=1)
    # All exact settings are solved together: they share products, and one setting starts from another's solution.
    exact_settings = [setting_id for setting_id, setting in enumerate(settings) if setting.solver == "exact"]
    solved: dict[int, Solutions] = {}
    if exact_settings:
        exact_solutions = elastic_nets(
            c,
            np.ascontiguousarray(l1[:, exact_settings]),
            np.array([settings[setting_id].l2 for setting_id in exact_settings]),
        )
        query_offsets = np.arange(c.batch) * len(exact_settings)
        solved = {
            setting_id: exact_solutions.take(query_offsets + rank) if len(exact_settings) > 1 else exact_solutions
            for rank, setting_id in enumerate(exact_settings)
        }
    answers = []
    for setting_id, setting in enumerate(settings):
        if setting_id not in solved:
            solved[setting_id] = run_fista(
                c, torch.from_numpy(l1[:, setting_id]).to(c.queries.device), setting.l2, setting.iterations
            )
        answers.append(
            _rank_solutions(
                c, setting, solved.pop(setting_id), l1[:, setting_id], best, first_parameters[setting_id][1], k
            )
        )
    return answers


def warm() -> None:
    """Compile every loop, or load what was compiled, by solving two tiny problems and a path."""
    identity = torch.eye(64)
    # A cached matrix goes by its Gram matrix, and one used once by its rows.
    for is_cached in (True, False):
        unit_matrix = Matrix(identity, cached=is_cached)
        c = Candidates(unit_matrix.vectors, identity[:1], identity[:1], unit_matrix)
        elastic_nets(c, np.array([[0.1]]), np.array([0.1]))
    regularization_path(c, 0.1, 0.01)


def _resolve_l1(c: Candidates, setting: Setting, best: Array) -> tuple[Array, list[list[str]]]:
    """Translate a setting's l1 (absolute, share or support size) into λ₁ for each query, (B,), with messages."""
    messages: list[list[str]] = [[] for _ in best]
    if setting.scale == "support":
        target_size = math.ceil(setting.l1)
        l1_values = np.empty(c.batch)
        for query_id in range(c.batch):
            l1_values[query_id], support_size = max(best[query_id], 0.0), 0
            if best[query_id] > 0 and target_size:
                path = regularization_path(
                    take_queries(c, slice(query_id, query_id + 1)), setting.l2, MIN_SUPPORT_L1 * best[query_id],
                    target_size,
                )  # fmt: skip
                l1_values[query_id], support_size = path.first_of(target_size)
            if support_size != target_size:
                messages[query_id].append(
                    f"no λ₁ gives {target_size} documents a weight; this one gives {support_size}"
                )
        return l1_values, messages
    l1_values = np.full(c.batch, setting.l1) if setting.scale == "absolute" else setting.l1 * np.maximum(best, 0)
    if setting.l1 == 0 and setting.l2 == 0 and setting.solver == "exact":
        for query_messages in messages:
            query_messages.append(
                "λ₁ = λ₂ = 0: taken as the limit of ever smaller λ₁, as the minimiser need not be unique"
            )
        l1_values = np.maximum(ZERO_PENALTY_SHARE * best, 0)
    return l1_values, messages


def _rank_solutions(
    c: Candidates, setting: Setting, solved: Solutions, l1: Array, best: Array, messages: list[list[str]], k: int
) -> Ranking:
    index, gain = take_largest_weights(solved, k, c)
    if setting.fill == "fill":
        short_queries = np.flatnonzero(solved.counts < min(k, c.count))
        for start in range(0, len(short_queries), step := max(1, 4 * CHUNK_NUMBERS // c.count)):
            _fill_answers(c, solved, l1, short_queries[start : start + step], index, gain)
    return Ranking(index, gain, _describe_answers(c, setting, solved, l1, best, messages, k))


def take_largest_weights(solved: Solutions, k: int, c: Candidates) -> tuple[Tensor, Tensor]:
    """Return (B, k) the members with the largest weights, −1 where there are no more, and their weights."""
    index = torch.full((len(solved), k), -1, dtype=torch.int64)
    gain = torch.zeros(len(solved), k, dtype=torch.float64)
    rank_in_problem = np.arange(len(solved.members)) - (solved.ends - solved.counts)[solved.problem]
    is_in_top = rank_in_problem < k
    problem, rank_index = torch.from_numpy(solved.problem[is_in_top]), torch.from_numpy(rank_in_problem[is_in_top])
    index[problem, rank_index] = torch.from_numpy(solved.members[is_in_top])
    gain[problem, rank_index] = torch.from_numpy(solved.weights[is_in_top])
    return index.to(c.relevance.device), gain.to(c.relevance.device)


def _fill_answers(
    c: Candidates, solved: Solutions, l1: Array, short_queries: Array, index: Tensor, gain: Tensor
) -> None:
    """Complete answers shorter than k by u·(v − Uᵀw), what each further document would add, largest first."""
    device, k = index.device, index.shape[1]
    queries = torch.from_numpy(short_queries).to(device)
    c, solved = take_queries(c, queries), solved.take(short_queries)
    products, error, exact_scorer = score_residuals(c, residual_points(c, solved))
    products[torch.from_numpy(solved.problem).to(device), torch.from_numpy(solved.members).to(device)] = -torch.inf
    n_weighted = torch.from_numpy(solved.counts).to(device).unsqueeze(1)
    fill_rows, fill_products = rank_exactly(
        products, k - int(n_weighted.min()), error, exact_scorer.exact_relevance, rescore_all=False
    )
    fill_ranks = torch.arange(k, device=device) - n_weighted
    query_id, rank_index = ((fill_ranks >= 0) & (fill_ranks < c.count - n_weighted)).nonzero(as_tuple=True)
    index[queries[query_id], rank_index] = fill_rows[query_id, fill_ranks[query_id, rank_index]]
    # A float32 score may pass λ₁ by its rounding; what has no weight is never above it.
    shortfall = (
        fill_products[query_id, fill_ranks[query_id, rank_index]]
        - torch.from_numpy(l1[short_queries]).to(device)[query_id]
    )
    gain[queries[query_id], rank_index] = shortfall.clamp_max(0.0)


def _describe_answers(
    c: Candidates, setting: Setting, solved: Solutions, l1: Array, best: Array, messages: list[list[str]], k: int
) -> tuple[dict[str, Any], ...]:
    # Where λ₁ = λ₂ = 0 is solved at a tiny λ₁ instead, that λ₁ itself is part of the violation.
    residuals = solved.residual + (
        l1 - setting.l1 if setting.l1 == setting.l2 == 0 and setting.scale == "absolute" else 0
    )
    no_values = [None] * len(solved)
    columns: dict[str, list[Any]] = {
        "l1": l1.tolist(),
        "support": solved.counts.tolist(),
        "residual": residuals.tolist(),
        "gap": no_values,
        "bound": no_values,
        "ordered": no_values,
        "certified": (residuals <= CERTIFIED_TOLERANCE * np.abs(best)).tolist(),
        "tied": [solved.tied.get(query_id, {}) for query_id in range(len(solved))],
        "passes": solved.passes.tolist(),
        "messages": messages,
    }
    if setting.l2 > 0:
        error_bounds = bound_weight_errors(solved.gap, setting.l2)
        proofs = solved.gap.tolist(), error_bounds.tolist(), _count_ordered_weights(solved, error_bounds, k)
        # As large as all weights together, it says nothing of any.
        is_informative = (
            (error_bounds < np.bincount(solved.problem, solved.weights, len(solved))) | (error_bounds == 0)
        ).tolist()
        for column_name, proof_values in zip(("gap", "bound", "ordered"), proofs, strict=True):
            columns[column_name] = [
                proof_value if informative else None
                for proof_value, informative in zip(proof_values, is_informative, strict=True)
            ]
    common: dict[str, Any] = {"candidates": c.count, "l2": setting.l2, "solver": setting.solver}
    if setting.solver == "fista":
        common["iterations"] = setting.iterations
    answers = [
        common | dict(zip(columns, problem_values, strict=True))
        for problem_values in zip(*columns.values(), strict=True)
    ]
    for query_id, answer in enumerate(answers):
        if answer["tied"] and c.pool is not None:
            pool_rows = c.pool[query_id].tolist()
            answer["tied"] = {
                pool_rows[position]: [pool_rows[duplicate] for duplicate in duplicates]
                for position, duplicates in answer["tied"].items()
            }
        if not answer["support"]:
            answer["messages"] = [*answer["messages"], _explain_empty_answer(answer["l1"], float(best[query_id]))]
    return tuple(answers)


def _explain_empty_answer(l1: float, best_score: float) -> str:
    if best_score <= 0:
        return f"the best score, {best_score:.3g}, is not above 0: no document gets a weight"
    if l1 >= best_score:
        return f"λ₁ = {l1:.3g} is not below the best score, {best_score:.3g}: no document gets a weight"
    return "no document gets a weight"


def _count_ordered_weights(solved: Solutions, error_bounds: Array, k: int) -> list[int]:
    """Count the leading weights of each problem that differ by more than twice the bound on their errors."""
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
