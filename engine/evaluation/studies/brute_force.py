"""The exact optimum of a set objective by enumeration: what the heuristics are measured against."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.decoder import POOL, QueryLike, query_batch, select
from engine.errors import DataError, ParamError
from engine.matrix import CHUNK_NUMBERS, Matrix
from engine.params import Choice, Flag, Whole, check_values, values_of
from engine.space import Space
from engine.stages import RELEVANCE_WEIGHT, make_selector
from engine.values import real_tensor

WEIGHT = replace(RELEVANCE_WEIGHT, symbol="θ")
MOST_SETS = 5_000_000
"""How many sets are enumerated at most: minutes."""
ENUMERATED = 18
"""Documents of a pool whose sets are enumerated: 8,568 of five."""
ROUNDING = 1e-9
"""Objectives closer than this, of the larger one, are the same."""
OBJECTIVE = Choice(
    default="frank_wolfe",
    options=("vrsd", "frank_wolfe", "max_sum", "dpp"),
    symbol="objective",
    name="objective",
    help="What the set maximises.",
)
SIZE = Whole(5, "k", 1, 1_000_000, name="k", help="How many documents the set has.")
FIX_FIRST = Flag(
    default=False,
    symbol="d₀",
    name="fix_first",
    help="Only sets that hold the most relevant document count, as the paper's Definition 2 has it.",
)

Value = Callable[[Tensor, Tensor], Tensor]
"""((m, k) relevances, (m, k, k) inner products) of m sets to their (m,) values."""


@dataclass(frozen=True)
class Optimum:
    """The best of all sets."""

    index: tuple[int, ...]  # its rows, ascending
    value: float  # its objective
    worst: float  # the lowest objective of any set
    sets: int  # how many there are


@dataclass(frozen=True)
class OptimumGap:
    """A selector's set beside the best one."""

    index: tuple[int, ...]  # its rows, ascending
    value: float  # its objective
    best: Optimum

    @property
    def share(self) -> float:
        """What it lacks of the objective's range, from 0 (an optimum) to 1 (as bad as any set); NaN of an infinite one.

        Two sums of the same numbers in another order differ by their rounding, which is no gap.
        """
        ends = self.best.value, self.best.worst
        lacking, width = ends[0] - self.value, ends[0] - ends[1]
        if self.value == ends[0] or lacking <= ROUNDING * max(abs(end) for end in ends if math.isfinite(end)):
            return 0.0
        return lacking / width if math.isfinite(width) else math.nan


@without_autocast
def optimum(objective: str, vectors: Any, query: Any, k: int = 5, **params: Any) -> Optimum:
    """The best set of k rows for one query, by enumeration in float64; of equal ones the first in row order.

    objective: "vrsd", cos(Σ u_i, query), 0 where the sum is zero; "frank_wolfe" or "max_sum", θ/k Σ r_i −
    (1−θ)/(k(k−1)) Σ_{i≠j} u_i·u_j, at k = 1 relevance (the objective those two report); "dpp", θ Σ r_i + (1−θ) log
    det of the Gram matrix, −inf where that is singular. vectors: (n, d); query: (d,); relevance_weight: θ, for all
    but vrsd; fix_first: for vrsd alone, only sets count that hold the row with the largest inner product, of equal
    ones the first. The VRSD paper's Definition 2 fixes that document, d₀, and its Algorithm 1 begins with it; without,
    the default, every set counts, which is a wider problem than the paper's. Raises ParamError where there are more
    than MOST_SETS sets, and ParamError or DataError for bad input.
    """
    objective = OBJECTIVE.check(objective)
    params = check_values((FIX_FIRST,) if objective == "vrsd" else (WEIGHT,), params, objective)
    rows = Matrix(real_tensor(vectors, "vectors")).vectors.double()
    point = real_tensor(query, "query").double().to(rows.device)
    if point.ndim != 1 or point.shape[0] != rows.shape[1]:
        raise DataError(f"query must be one vector of the vectors' {rows.shape[1]} numbers; got {tuple(point.shape)}")
    point = Matrix(point.unsqueeze(0), "query").vectors[0]
    k = min(SIZE.check(k), len(rows))
    relevance = rows @ point
    fixed = [int(relevance.argmax())] if params.get("fix_first", FIX_FIRST.default) else []
    free = [row for row in range(len(rows)) if row not in fixed]
    if (sets := math.comb(len(free), k - len(fixed))) > MOST_SETS:
        raise ParamError(
            f"k and the rows of vectors must make at most {MOST_SETS:,} sets to be enumerated; got k = {k} of "
            f"{len(rows)} rows, {sets:,} sets; take fewer rows (the most relevant, say) or a smaller k"
        )
    value = _value(objective, params.get("relevance_weight", WEIGHT.default), k, point)
    return _enumerated(relevance, rows @ rows.T, (fixed, free), k, value)


def optimum_gap(
    name: str, vectors: Any, query: Any, k: int = 5, *, fix_first: bool = False, **params: Any
) -> OptimumGap:
    """How far a selector's set is from the best by its own objective: one that `optimum` enumerates.

    name, params: the selector and its parameters; vectors, query, fix_first: as `optimum` takes them. Raises ParamError
    or DataError.
    """
    stage = make_selector(OBJECTIVE.check(name), **params)
    own = {key: value for key, value in values_of(stage).items() if key == WEIGHT.name}
    if name == "vrsd" or fix_first:
        own["fix_first"] = fix_first
    best = optimum(name, vectors, query, k, **own)
    index = sorted(select(stage, vectors, query, len(best.index)).index[0].tolist())
    rows, point = (real_tensor(given, "vectors").double().cpu() for given in (vectors, query))
    some = rows[index]
    value = _value(name, own.get(WEIGHT.name, WEIGHT.default), len(index), point)
    return OptimumGap(tuple(index), float(value((some @ point)[None], (some @ some.T)[None])), best)


def pools(space: Space, queries: QueryLike, pool: int = ENUMERATED) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Each query's id, its most relevant documents in float64, (pool, d), and its point: what can be enumerated."""
    batch = query_batch(space, queries)
    depth = min(POOL.check(pool) or ENUMERATED, len(space))
    index = select("top_k", space.matrix.vectors, batch.vectors, depth).index
    for name, rows, point in zip(batch.ids, index, batch.vectors, strict=True):
        yield name, space.vectors[rows].double(), point.double()


def _enumerated(relevance: Tensor, gram: Tensor, members: tuple[list[int], list[int]], k: int, value: Value) -> Optimum:
    """The best set; members: rows that are in every set, and rows that the others are of."""
    fixed, free = members
    size = k - len(fixed)
    every, sets = combinations(free, size), math.comb(len(free), size)
    best, best_value, worst = (), -math.inf, math.inf
    step = max(1, CHUNK_NUMBERS // (4 * k * k))
    first = torch.tensor(fixed, dtype=torch.int64)
    for done in range(0, sets, step):
        count = min(step, sets - done)
        flat = np.fromiter(chain.from_iterable(islice(every, count)), np.int64, count * size)
        block = torch.cat([first.expand(count, -1), torch.from_numpy(flat).view(count, size)], 1).to(relevance.device)
        values = value(relevance[block], gram[block.unsqueeze(2), block.unsqueeze(1)])
        top = int(values.argmax())
        if not best or float(values[top]) > best_value:
            best, best_value = tuple(sorted(block[top].tolist())), float(values[top])
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
