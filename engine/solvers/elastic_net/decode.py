"""From elastic nets to rankings: what λ₁ means, the documents by weight, what fills up, and how far to trust it."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CHUNK_NUMBERS, Matrix
from engine.solvers.elastic_net.fista import fista
from engine.solvers.elastic_net.path import regularization_path
from engine.solvers.elastic_net.solve import Solutions, bounds, by_vectors, duals, elastic_nets, only, points_of
from engine.solvers.tie_breaking import ranked
from engine.values import Ranking

Array = np.ndarray

CERTIFIED = 1e-6
"""The residual, of the best score, up to which an answer counts as the minimiser."""
LIMIT = 1e-7
"""λ₁ in place of 0 where λ₂ is 0 too, of the best score: the limit of ever smaller λ₁."""
LOWEST = 1e-6
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
    """The rankings of a batch at every setting."""
    c = by_vectors(c)
    first = c.relevance.argmax(1)
    best = c.exact_relevance(torch.arange(c.batch, device=first.device), first).cpu().numpy()
    first_parameters = [_first_parameter(c, s, best) for s in settings]
    l1 = np.stack([values for values, _ in first_parameters], axis=1)
    exact = [a for a, s in enumerate(settings) if s.solver == "exact"]
    solved: dict[int, Solutions] = {}
    if exact:
        together = elastic_nets(c, np.ascontiguousarray(l1[:, exact]), np.array([settings[a].l2 for a in exact]))
        every = np.arange(c.batch) * len(exact)
        solved = {a: together.take(every + place) if len(exact) > 1 else together for place, a in enumerate(exact)}
    answers = []
    for a, s in enumerate(settings):
        if a not in solved:
            solved[a] = fista(c, torch.from_numpy(l1[:, a]).to(c.queries.device), s.l2, s.iterations)
        answers.append(_ranking(c, s, solved.pop(a), l1[:, a], best, first_parameters[a][1], k))
    return answers


def warm() -> None:
    """Run every compiled loop once, on next to nothing."""
    rows = torch.eye(64)
    # A cached matrix goes by its Gram matrix, and one used once by its rows.
    for cached in (True, False):
        matrix = Matrix(rows, cached=cached)
        c = Candidates(matrix.vectors, rows[:1], rows[:1], matrix)
        elastic_nets(c, np.array([[0.1]]), np.array([0.1]))
    regularization_path(c, 0.1, 0.01)


def _first_parameter(c: Candidates, s: Setting, best: Array) -> tuple[Array, list[list[str]]]:
    """(B,) λ₁ as the setting means it for each query, and messages on that."""
    messages: list[list[str]] = [[] for _ in best]
    if s.scale == "support":
        size = math.ceil(s.l1)
        values = np.empty(c.batch)
        for b in range(c.batch):
            values[b], support = max(best[b], 0.0), 0
            if best[b] > 0 and size:
                path = regularization_path(only(c, slice(b, b + 1)), s.l2, LOWEST * best[b], size)
                values[b], support = path.first_of(size)
            if support != size:
                messages[b].append(f"no λ₁ gives {size} documents a weight; this one gives {support}")
        return values, messages
    values = np.full(c.batch, s.l1) if s.scale == "absolute" else s.l1 * np.maximum(best, 0)
    if s.l1 == 0 and s.l2 == 0 and s.solver == "exact":
        for texts in messages:
            texts.append("λ₁ = λ₂ = 0: taken as the limit of ever smaller λ₁, as the minimiser need not be unique")
        values = np.maximum(LIMIT * best, 0)
    return values, messages


def _ranking(
    c: Candidates, s: Setting, solved: Solutions, l1: Array, best: Array, messages: list[list[str]], k: int
) -> Ranking:
    index, gain = top(solved, k, c)
    if s.fill == "fill":
        short = np.flatnonzero(solved.counts < min(k, c.count))
        for start in range(0, len(short), step := max(1, 4 * CHUNK_NUMBERS // c.count)):
            _fill(c, solved, l1, short[start : start + step], index, gain)
    return Ranking(index, gain, _info(c, s, solved, l1, best, messages, k))


def top(solved: Solutions, k: int, c: Candidates) -> tuple[Tensor, Tensor]:
    """(B, k) the members with the largest weights, −1 where there are no more, and their weights."""
    index = torch.full((len(solved), k), -1, dtype=torch.int64)
    gain = torch.zeros(len(solved), k, dtype=torch.float64)
    place = np.arange(len(solved.members)) - (solved.ends - solved.counts)[solved.problem]
    first = place < k
    rows, columns = torch.from_numpy(solved.problem[first]), torch.from_numpy(place[first])
    index[rows, columns] = torch.from_numpy(solved.members[first])
    gain[rows, columns] = torch.from_numpy(solved.weights[first])
    return index.to(c.relevance.device), gain.to(c.relevance.device)


def _fill(c: Candidates, solved: Solutions, l1: Array, short: Array, index: Tensor, gain: Tensor) -> None:
    """Complete some queries' answers by what each further document would add, u·(v − Uᵀw), the most first."""
    device, k = index.device, index.shape[1]
    queries = torch.from_numpy(short).to(device)
    c, solved = only(c, queries), solved.take(short)
    score, error, exact = duals(c, points_of(c, solved))
    score[torch.from_numpy(solved.problem).to(device), torch.from_numpy(solved.members).to(device)] = -torch.inf
    counts = torch.from_numpy(solved.counts).to(device).unsqueeze(1)
    further, value = ranked(score, k - int(counts.min()), error, exact.exact_relevance, all_=False)
    place = torch.arange(k, device=device) - counts
    batch, column = ((place >= 0) & (place < c.count - counts)).nonzero(as_tuple=True)
    index[queries[batch], column] = further[batch, place[batch, column]]
    # A float32 score may pass λ₁ by its rounding; what has no weight is never above it.
    missed = value[batch, place[batch, column]] - torch.from_numpy(l1[short]).to(device)[batch]
    gain[queries[batch], column] = missed.clamp_max(0.0)


def _info(
    c: Candidates, s: Setting, solved: Solutions, l1: Array, best: Array, messages: list[list[str]], k: int
) -> tuple[dict[str, Any], ...]:
    residual = solved.residual + (l1 - s.l1 if s.l1 == s.l2 == 0 and s.scale == "absolute" else 0)
    none = [None] * len(solved)
    columns: dict[str, list[Any]] = {
        "l1": l1.tolist(),
        "support": solved.counts.tolist(),
        "residual": residual.tolist(),
        "gap": none,
        "bound": none,
        "ordered": none,
        "certified": (residual <= CERTIFIED * np.abs(best)).tolist(),
        "tied": [solved.tied.get(b, {}) for b in range(len(solved))],
        "passes": solved.passes.tolist(),
        "messages": messages,
    }
    if s.l2 > 0:
        bound = bounds(solved.gap, s.l2)
        proofs = solved.gap.tolist(), bound.tolist(), _ordered(solved, bound, k)
        # As large as all weights together, it says nothing of any.
        said = ((bound < np.bincount(solved.problem, solved.weights, len(solved))) | (bound == 0)).tolist()
        for name, values in zip(("gap", "bound", "ordered"), proofs, strict=True):
            columns[name] = [value if so else None for value, so in zip(values, said, strict=True)]
    common: dict[str, Any] = {"candidates": c.count, "l2": s.l2, "solver": s.solver}
    if s.solver == "fista":
        common["iterations"] = s.iterations
    answers = [common | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for b, answer in enumerate(answers):
        if answer["tied"] and c.pool is not None:
            rows = c.pool[b].tolist()
            answer["tied"] = {rows[i]: [rows[j] for j in others] for i, others in answer["tied"].items()}
        if not answer["support"]:
            answer["messages"] = [*answer["messages"], _why_empty(answer["l1"], float(best[b]))]
    return tuple(answers)


def _why_empty(l1: float, best: float) -> str:
    if best <= 0:
        return f"the best score, {best:.3g}, is not above 0: no document gets a weight"
    if l1 >= best:
        return f"λ₁ = {l1:.3g} is not below the best score, {best:.3g}: no document gets a weight"
    return "no document gets a weight"


def _ordered(solved: Solutions, bound: Array, k: int) -> list[int]:
    """How many leading weights of each problem are further apart than the bound on their errors allows to swap."""
    if not len(solved.members):
        return [0] * len(solved)
    problem, weights = solved.problem, solved.weights
    # Each is compared with the largest that should follow; the last one with 0, which everything left out has.
    after = np.zeros(len(weights))
    after[:-1] = np.where(problem[1:] == problem[:-1], weights[np.lexsort((-weights, problem))[1:]], 0.0)
    open_ = ~(weights - after > 2 * bound[problem])
    place = np.arange(len(weights)) - (solved.ends - solved.counts)[problem]
    first = np.minimum(solved.counts, k)
    np.minimum.at(first, problem[open_], place[open_])
    return [int(count) for count in first]
