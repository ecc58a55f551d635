"""From elastic nets to rankings: what λ₁ means, the documents by weight, what fills up, and how far to trust it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CHUNK_NUMBERS, Matrix
from engine.solvers.contest import ranked
from engine.solvers.elastic_net import Solutions, by_vectors, duals, elastic_nets, only, points_of
from engine.solvers.fista import fista
from engine.solvers.regularization_path import regularization_path
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

    l1: float
    l2: float
    solver: str
    iterations: int
    scale: str
    fill: str


def reconstruct(settings: Sequence[Setting], c: Candidates, k: int) -> list[Ranking]:
    """The rankings of a batch at every setting."""
    c = by_vectors(c)
    first = c.relevance.argmax(1)
    best = c.exact_relevance(torch.arange(c.batch, device=first.device), first).cpu().numpy()
    asked = [_first_parameter(c, s, best) for s in settings]
    l1 = np.stack([values for values, _ in asked], axis=1)
    exact = [a for a, s in enumerate(settings) if s.solver == "exact"]
    solved: dict[int, Solutions] = {}
    if exact:
        found = elastic_nets(c, np.ascontiguousarray(l1[:, exact]), np.array([settings[a].l2 for a in exact]))
        every = np.arange(c.batch) * len(exact)
        solved = {a: found.take(every + place) if len(exact) > 1 else found for place, a in enumerate(exact)}
    answers = []
    for a, s in enumerate(settings):
        if a not in solved:
            solved[a] = fista(c, torch.from_numpy(l1[:, a]).to(c.queries.device), s.l2, s.iterations)
        answers.append(_ranking(c, s, solved.pop(a), l1[:, a], best, asked[a][1], k))
    return answers


def warm() -> None:
    """Run every compiled loop once, on next to nothing."""
    rows = torch.eye(64)
    # A kept matrix goes by its Gram matrix, and one asked once by its rows.
    for kept in (True, False):
        matrix = Matrix(rows, kept=kept)
        c = Candidates(matrix.vectors, rows[:1], rows[:1], matrix)
        elastic_nets(c, np.array([[0.1]]), np.array([0.1]))
    regularization_path(c, 0.1, 0.01)


def _first_parameter(c: Candidates, s: Setting, best: Array) -> tuple[Array, list[list[str]]]:
    """(B,) λ₁ as the setting means it for each query, and what is to be said of that."""
    said: list[list[str]] = [[] for _ in best]
    if s.scale == "support":
        size = math.ceil(s.l1)
        values = np.empty(c.batch)
        for b in range(c.batch):
            values[b], held = _of_size(c, b, s.l2, size, best[b])
            if held != size:
                said[b].append(f"no λ₁ gives {size} documents a weight; this one gives {held}")
        return values, said
    values = np.full(c.batch, s.l1) if s.scale == "absolute" else s.l1 * np.maximum(best, 0)
    if s.l1 == 0 and s.l2 == 0 and s.solver == "exact":
        for b in range(c.batch):
            said[b].append("λ₁ = λ₂ = 0: taken as the limit of ever smaller λ₁, as the minimiser need not be unique")
        values = np.maximum(LIMIT * best, 0)
    return values, said


def _of_size(c: Candidates, b: int, l2: float, size: int, best: float) -> tuple[float, int]:
    """λ₁ at which `size` documents have a weight, and how many do."""
    if best <= 0 or size == 0:
        return max(best, 0.0), 0
    path = regularization_path(only(c, slice(b, b + 1)), l2, LOWEST * best, size)
    return path.first_of(size)


def _ranking(
    c: Candidates, s: Setting, found: Solutions, l1: Array, best: Array, said: list[list[str]], k: int
) -> Ranking:
    index, gain = top(found, k, c)
    if s.fill == "fill":
        short = np.flatnonzero(found.counts < min(k, c.count))
        for at in range(0, len(short), step := max(1, 4 * CHUNK_NUMBERS // c.count)):
            _fill(c, found, l1, short[at : at + step], index, gain)
    return Ranking(index, gain, _info(c, s, found, l1, best, said, k))


def top(found: Solutions, k: int, c: Candidates) -> tuple[Tensor, Tensor]:
    """(B, k) the members with the largest weights, −1 where there are no more, and their weights."""
    index = torch.full((len(found), k), -1, dtype=torch.int64)
    gain = torch.zeros(len(found), k, dtype=torch.float64)
    place = np.arange(len(found.members)) - (found.ends - found.counts)[found.problem]
    kept = place < k
    rows, columns = torch.from_numpy(found.problem[kept]), torch.from_numpy(place[kept])
    index[rows, columns] = torch.from_numpy(found.members[kept])
    gain[rows, columns] = torch.from_numpy(found.weights[kept])
    return index.to(c.relevance.device), gain.to(c.relevance.device)


def _fill(c: Candidates, found: Solutions, l1: Array, short: Array, index: Tensor, gain: Tensor) -> None:
    """Complete some queries' answers by what each further document would add, u·(v − Uᵀw), the most first."""
    device, k = index.device, index.shape[1]
    own, some = only(c, torch.from_numpy(short).to(device)), found.take(short)
    points = points_of(own, some)
    score, error, exact = duals(own, points)
    score[torch.from_numpy(some.problem).to(device), torch.from_numpy(some.members).to(device)] = -torch.inf
    counts = torch.from_numpy(some.counts).to(device).unsqueeze(1)
    further, value = ranked(score, k - int(counts.min()), error, exact.exact_relevance, all_=False)
    at = torch.arange(k, device=device) - counts
    batch, column = ((at >= 0) & (at < c.count - counts)).nonzero(as_tuple=True)
    row = torch.from_numpy(short).to(device)[batch]
    index[row, column] = further[batch, at[batch, column]]
    # A float32 score may pass λ₁ by its rounding; what has no weight is never above it.
    missed = value[batch, at[batch, column]] - torch.from_numpy(l1[short]).to(device)[batch]
    gain[row, column] = missed.clamp_max(0.0)


def _info(
    c: Candidates, s: Setting, found: Solutions, l1: Array, best: Array, said: list[list[str]], k: int
) -> tuple[dict[str, Any], ...]:
    ridged = s.l2 > 0
    bound = np.sqrt(2 * found.gap / s.l2) if ridged else np.full(len(found), np.nan)
    residual = found.residual + (l1 - s.l1 if s.l1 == s.l2 == 0 and s.scale == "absolute" else 0)
    certified = residual <= CERTIFIED * np.abs(best)
    common = {"candidates": c.count, "l2": s.l2, "solver": s.solver}
    if s.solver == "fista":
        common["iterations"] = s.iterations
    columns = zip(
        l1.tolist(), found.counts.tolist(), residual.tolist(), found.gap.tolist(), bound.tolist(), certified.tolist(),
        _ordered(found, bound, k), found.passes.tolist(), best.tolist(), said, strict=True,
    )  # fmt: skip
    answers = []
    for b, (first, support, off, gap, reach, sure, ordered, passes, top, messages) in enumerate(columns):
        tied = found.tied.get(b)
        if tied and c.pool is not None:
            rows = c.pool[b].tolist()
            tied = {rows[i]: [rows[j] for j in others] for i, others in tied.items()}
        if not support:
            messages = [*messages, _why_empty(first, top)]
        answers.append(
            common
            | {
                "l1": first,
                "support": support,
                "residual": off,
                "gap": gap if ridged else None,
                "bound": reach if ridged else None,
                "ordered": ordered if ridged else None,
                "certified": sure,
                "tied": tied or {},
                "passes": passes,
                "messages": messages,
            }
        )
    return tuple(answers)


def _why_empty(l1: float, best: float) -> str:
    if best <= 0:
        return f"the best score, {best:.3g}, is not above 0: no document gets a weight"
    if l1 >= best:
        return f"λ₁ = {l1:.3g} is not below the best score, {best:.3g}: no document gets a weight"
    return "no document gets a weight"


def _ordered(found: Solutions, bound: Array, k: int) -> list[int]:
    """How many leading weights of each problem are further apart than the bound on their errors allows to swap."""
    if not len(found.members):
        return [0] * len(found)
    problem, weights = found.problem, found.weights
    last = np.append(problem[1:] != problem[:-1], True)
    # The last weight is compared with 0, which everything left out has.
    after = np.append(weights[1:], 0.0)
    after[last] = 0.0
    with np.errstate(invalid="ignore"):
        open_ = ~(weights - after > 2 * bound[problem])
    place = np.arange(len(weights)) - (found.ends - found.counts)[problem]
    first = np.minimum(found.counts, k)
    np.minimum.at(first, problem[open_], place[open_])
    return first.tolist()
