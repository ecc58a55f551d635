"""What the CCBQP paper says of its relaxation, measured: Theorems 2.1, 2.4 and 2.5, its ends, and the cone it needs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch

from engine.candidates import without_autocast
from engine.decoder import (
    SET_SIZE,
    Decoder,
    QueryLike,
    check_dimension,
    decode_grid,
    query_batch,
    resolve_search_inputs,
)
from engine.errors import DataError, ParamError
from engine.evaluation.studies.brute_force import OBJECTIVE_WEIGHT, iterate_pools
from engine.matrix import blocks, largest_eigenvalue
from engine.params import Real, Whole
from engine.space import Space
from engine.stages import make_selector
from engine.values import Embeddings

Array = np.ndarray
LOADING = Real(1.0, "δ", 0.0, 1.0, name="loading", help="Curvature added to the relaxation.")
SIZE = Whole(3, "k", 2, 12, name="k", help="How many documents the set has.")
MOST_ROWS = 10
"""Rows whose faces are enumerated: 3ⁿ of them."""
UNIT = 1e-5
"""How far from 1 the length of a unit vector may be."""
CLOSE = 1e-9
"""Values closer than this are equal."""
PARTS = (16, 8, 4, 2, 1)
"""The largest eigenvalue is looked at on every sixteenth document, every eighth …, on all."""


@dataclass(frozen=True, kw_only=True)
class Relaxation:
    """Eq. 4 on a few documents beside eq. 2, both in the scale of eq. 2, every stationary point of it looked at."""

    integral: float  # the largest value of a set
    rows: tuple[int, ...]  # that set, ascending
    value: float  # the largest value of the relaxation
    point: tuple[float, ...]  # where that is; a set where sets reach it
    local_maxima: frozenset[tuple[int, ...]]  # the sets at which no direction ascends
    fractional: int  # number of stationary points that are no set
    saddles: int  # of these, those from which a step between two documents ascends

    @property
    def tight(self) -> bool:
        """Whether no point beats every set (Theorem 2.1)."""
        return self.value <= self.integral + CLOSE


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Where Algorithm 1 ended, at one θ and k."""

    weight: float
    k: int
    runs: int
    fractional: int  # how many ended between sets and were rounded
    capped: int  # how many were stopped by the limit of steps
    steps: float  # median number of steps
    most: int  # the largest


@dataclass(frozen=True, eq=False)
class Cone:
    """How narrow a cone a corpus lies in."""

    least: float  # the least cosine of two documents; Assumption 2.2 wants it above −1
    pair: tuple[str, str]  # theirs
    sizes: tuple[int, ...]  # documents, evenly taken from the corpus
    largest: tuple[float, ...]  # the largest eigenvalue of their Gram matrix
    slope: float | None  # of its logarithm in that of the size: 1 where it is linear in n; None of too few documents


@without_autocast
def relaxation(
    vectors: Any, query: Any, k: int = 3, *, relevance_weight: float = OBJECTIVE_WEIGHT.default, loading: float = 1.0
) -> Relaxation:
    """All stationary points of eq. 4 over x ∈ [0,1]ⁿ, Σx = k, by enumerating the faces of that polytope.

    A maximum lies inside some face, where all derivatives over its free coordinates are equal: a linear system each.
    Systems that are singular have lines of solutions of one value, which reach a smaller face. vectors: (n, d) unit
    rows, n ≤ MOST_ROWS; query: (d,); k ≥ 2, where eq. 2 has pairs. Raises ParamError or DataError.
    """
    k = SIZE.check(k)
    weight, load = OBJECTIVE_WEIGHT.check(relevance_weight), LOADING.check(loading)
    matrix, points = resolve_search_inputs(vectors, query)
    check_dimension("query", points, matrix.vectors, "the vectors", "have")
    rows, point = matrix.vectors.double().cpu().numpy(), points[0].double().cpu().numpy()
    if len(points) != 1 or np.abs(np.linalg.norm(rows, axis=1) - 1).max() > UNIT:
        raise DataError("vectors must be of unit length, and query one vector: the theorems are on such")
    if not k < len(rows) <= MOST_ROWS:
        raise ParamError(f"vectors must have {k + 1} to {MOST_ROWS} rows, k being {k}; got {len(rows)}")
    curved = (1 + load) * np.eye(len(rows)) - rows @ rows.T
    quadric = _Quadric(weight * (k - 1) * (rows @ point), 2 * (1 - weight), curved)
    scale, shift = k * (k - 1), (1 - weight) * load * k
    best: tuple[int, ...] = ()
    value, local = -math.inf, set()
    for chosen in combinations(range(len(rows)), k):
        x = np.zeros(len(rows))
        x[list(chosen)] = 1
        if (reached := quadric.value(x)) > value + CLOSE:
            best, value, top = chosen, reached, x
        if quadric.is_local_maximum(x):
            local.add(chosen)
    integral, fractional, saddles = value, 0, 0
    for x in _between(quadric, k):
        if (reached := quadric.value(x)) > value + CLOSE:
            value, top = reached, x
        if quadric.is_stationary(x):
            fractional += 1
            saddles += quadric.ascends(x)
    return Relaxation(
        integral=(integral - shift) / scale, rows=best, value=(value - shift) / scale, point=tuple(top.tolist()),
        local_maxima=frozenset(local), fractional=fractional, saddles=saddles,
    )  # fmt: skip


def on_pools(
    space: Space, queries: QueryLike, k: int = 3, pool: int = 8, *, relevance_weight: float = OBJECTIVE_WEIGHT.default
) -> Iterator[Relaxation]:
    """The relaxation on each query's pool of the most relevant documents. Raises ParamError or DataError."""
    for _, rows, point in iterate_pools(space, queries, pool):
        yield relaxation(rows, point, k, relevance_weight=relevance_weight)


class _Quadric:
    """f(x) = linear·x + beta/2 · xᵀ curved x, over x ∈ [0,1]ⁿ with a fixed sum."""

    def __init__(self, linear: Array, beta: float, curved: Array) -> None:
        self.linear, self.hessian = linear, beta * curved

    def value(self, x: Array) -> float:
        return float(self.linear @ x + x @ self.hessian @ x / 2)

    def _parted(self, x: Array) -> tuple[Array, Array, Array]:
        """The derivatives at coordinates of 1, between, and of 0."""
        g = self.linear + self.hessian @ x
        return g[x > 1 - CLOSE], g[(x >= CLOSE) & (x <= 1 - CLOSE)], g[x < CLOSE]

    def is_local_maximum(self, x: Array) -> bool:
        """Whether every member's derivative exceeds every other's (appendix B, case 2)."""
        ones, _, zeros = self._parted(x)
        return bool(ones.min() > zeros.max() + CLOSE)

    def is_stationary(self, x: Array) -> bool:
        """Whether the KKT conditions hold (eq. 15)."""
        ones, free, zeros = self._parted(x)
        least = min(ones.min(initial=math.inf), free.min(initial=math.inf))
        most = max(zeros.max(initial=-math.inf), free.max(initial=-math.inf))
        return bool(least >= most - CLOSE)

    def ascends(self, x: Array) -> bool:
        """Whether a step from one coordinate between 0 and 1 to another has positive curvature (case 1)."""
        free = np.flatnonzero((x >= CLOSE) & (x <= 1 - CLOSE))
        h = self.hessian
        return any(h[i, i] - 2 * h[i, j] + h[j, j] > CLOSE for i, j in combinations(free.tolist(), 2))


def _between(quadric: _Quadric, k: int) -> Iterator[Array]:
    """Every point that is no set and has equal derivatives over its coordinates between 0 and 1."""
    n = len(quadric.linear)
    for size in range(2, n + 1):
        for free in map(list, combinations(range(n), size)):
            system = np.zeros((size + 1, size + 1))
            system[:size, :size], system[:size, size], system[size, :size] = quadric.hessian[np.ix_(free, free)], -1, 1
            if np.linalg.cond(system) > 1 / CLOSE:
                continue
            rest = [row for row in range(n) if row not in free]
            whole = [ones for count in range(max(0, k - size + 1), k) for ones in combinations(rest, count)]
            at_one = np.zeros((n, len(whole)))
            for column, ones in enumerate(whole):
                at_one[list(ones), column] = 1
            right = np.vstack([-quadric.linear[free][:, None] - quadric.hessian[free] @ at_one, k - at_one.sum(0)])
            at_one[free] = np.linalg.solve(system, right)[:size]
            inside = ((at_one[free] > CLOSE) & (at_one[free] < 1 - CLOSE)).all(0)
            yield from at_one.T[inside]


def ends(
    space: Space,
    queries: QueryLike,
    weights: Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0),
    sizes: Sequence[int] = (5, 10, 50),
    loading: float = 1.0,
) -> Iterator[Ends]:
    """Where Algorithm 1 ends over a corpus: Theorem 2.4 lets it end between sets only at a saddle.

    weights: values of θ; sizes: of k ≥ 2. Raises ParamError or DataError.
    """
    stages = [make_selector("frank_wolfe", relevance_weight=w, loading=loading, polish=False) for w in weights]
    batch = query_batch(space, queries)
    asked = Embeddings(batch.ids, batch.vectors, space.embeddings.encoder, batch.texts)
    for k in (SET_SIZE.check(size) for size in sizes):
        if k < 2:
            raise ParamError(f"sizes must be at least 2, where the objective has pairs; got {k}")
        answers = decode_grid([Decoder(stage) for stage in stages], space, asked, k)
        for weight, answer in zip(weights, answers, strict=True):
            steps = np.array([info["iterations"] for info in answer.info])
            fractional = sum(not info["integral"] for info in answer.info)
            capped = sum(info["capped"] for info in answer.info)
            yield Ends(
                weight=weight, k=k, runs=len(steps), fractional=fractional, capped=capped,
                steps=float(np.median(steps)), most=int(steps.max()),
            )  # fmt: skip


@without_autocast
def cone(space: Space) -> Cone:
    """The least cosine of two documents, over all pairs, and how the Gram matrix's largest eigenvalue grows with n.

    The paper takes both for granted: no two documents are opposite (Assumption 2.2), and the eigenvalue "scales almost
    linearly" (§3), which makes steps by a Lipschitz constant short. Raises DataError for fewer than two documents.
    """
    rows, ids = space.vectors, space.corpus.ids
    if (n := len(rows)) < 2:
        raise DataError(f"a cone needs at least two documents; the corpus has {n}")
    unit = rows.double() / space.matrix.lengths.double().clamp_min(torch.finfo(torch.float64).tiny).unsqueeze(1)
    least, pair = math.inf, (0, 0)
    for index, block in blocks(n, torch.arange(n, device=rows.device), unit):
        cosines = block @ unit.T
        cosines[torch.arange(len(index)), index] = math.inf
        at = int(cosines.argmin())
        if (value := float(cosines.flatten()[at])) < least:
            least, pair = value, (int(index[at // n]), at % n)
    sizes = sorted({size for part in PARTS if (size := n // part) >= 2})
    largest = [largest_eigenvalue(rows[torch.arange(size, device=rows.device) * n // size]) for size in sizes]
    slope = float(np.polyfit(np.log(sizes), np.log(largest), 1)[0]) if len(sizes) > 1 and min(largest) > 0 else None
    return Cone(least, (ids[pair[0]], ids[pair[1]]), tuple(sizes), tuple(largest), slope)
