"""The exact optimum of a set objective by enumeration: what the heuristics are measured against."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.errors import DataError, ParamError
from engine.matrix import CHUNK_NUMBERS, Matrix
from engine.params import Choice, Whole, checked
from engine.stages import RELEVANCE_WEIGHT
from engine.values import real_tensor

WEIGHT = replace(RELEVANCE_WEIGHT, symbol="θ")
MOST_SETS = 5_000_000
"""How many sets are enumerated at most: minutes."""
OBJECTIVE = Choice(
    default="frank_wolfe",
    options=("vrsd", "frank_wolfe", "max_sum", "dpp"),
    symbol="objective",
    name="objective",
    help="What the set maximises.",
)
SIZE = Whole(5, "k", 1, 1_000_000, name="k", help="How many documents the set has.")

Value = Callable[[Tensor, Tensor], Tensor]
"""((m, k) relevances, (m, k, k) inner products) of m sets to their (m,) values."""


@dataclass(frozen=True)
class Optimum:
    """The best of all sets."""

    index: tuple[int, ...]  # its rows, ascending
    value: float  # its objective
    worst: float  # the lowest objective of any set
    sets: int  # how many there are


@without_autocast
def optimum(objective: str, vectors: Any, query: Any, k: int = 5, **params: Any) -> Optimum:
    """The best set of k rows for one query, by enumeration in float64; of equal ones the first in row order.

    objective: "vrsd", cos(Σ u_i, query), 0 where the sum is zero; "frank_wolfe" or "max_sum", θ/k Σ r_i −
    (1−θ)/(k(k−1)) Σ_{i≠j} u_i·u_j, at k = 1 relevance (the objective those two report); "dpp", θ Σ r_i + (1−θ) log
    det of the Gram matrix, −inf where that is singular. vectors: (n, d); query: (d,); relevance_weight: θ, for all
    but vrsd. Raises ParamError where there are more than MOST_SETS sets, and ParamError or DataError for bad input.
    """
    objective = OBJECTIVE.check(objective)
    params = checked((WEIGHT,) if objective != "vrsd" else (), params, objective)
    rows = Matrix(real_tensor(vectors, "vectors")).vectors.double()
    point = real_tensor(query, "query").double().to(rows.device)
    if point.ndim != 1 or point.shape[0] != rows.shape[1]:
        raise DataError(f"query must be one vector of the vectors' {rows.shape[1]} numbers; got {tuple(point.shape)}")
    point = Matrix(point.unsqueeze(0), "query").vectors[0]
    k = min(SIZE.check(k), len(rows))
    if (sets := math.comb(len(rows), k)) > MOST_SETS:
        raise ParamError(
            f"k and the rows of vectors must make at most {MOST_SETS:,} sets to be enumerated; got k = {k} of "
            f"{len(rows)} rows, {sets:,} sets; take fewer rows (the most relevant, say) or a smaller k"
        )
    value = _value(objective, params.get("relevance_weight", WEIGHT.default), k, point)
    return _enumerated(rows @ point, rows @ rows.T, k, value, sets)


def _enumerated(relevance: Tensor, gram: Tensor, k: int, value: Value, sets: int) -> Optimum:
    every = combinations(range(len(relevance)), k)
    best, best_value, worst = (), -math.inf, math.inf
    step = max(1, CHUNK_NUMBERS // (4 * k * k))
    for done in range(0, sets, step):
        count = min(step, sets - done)
        flat = np.fromiter(chain.from_iterable(islice(every, count)), np.int64, count * k)
        block = torch.from_numpy(flat).view(count, k).to(relevance.device)
        values = value(relevance[block], gram[block.unsqueeze(2), block.unsqueeze(1)])
        top = int(values.argmax())
        if not best or float(values[top]) > best_value:
            best, best_value = tuple(block[top].tolist()), float(values[top])
        worst = min(worst, float(values.min()))
    return Optimum(best, best_value, worst, sets)


def _value(objective: str, weight: float, k: int, query: Tensor) -> Value:
    length = float(query.norm())

    def cosine(relevance: Tensor, gram: Tensor) -> Tensor:
        sizes = gram.sum((1, 2)).clamp_min(0).sqrt() * length
        return torch.where(sizes > 0, relevance.sum(1) / sizes, 0.0)

    def mean(relevance: Tensor, gram: Tensor) -> Tensor:
        if k == 1:
            return relevance[:, 0]
        pairs = gram.sum((1, 2)) - gram.diagonal(dim1=1, dim2=2).sum(1)
        return weight / k * relevance.sum(1) - (1 - weight) / (k * (k - 1)) * pairs

    def volume(relevance: Tensor, gram: Tensor) -> Tensor:
        if weight == 1:
            return relevance.sum(1)
        sign, log = torch.linalg.slogdet(gram)
        return weight * relevance.sum(1) + (1 - weight) * torch.where(sign > 0, log, -math.inf)

    return {"vrsd": cosine, "dpp": volume}.get(objective, mean)
