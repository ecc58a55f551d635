"""Relaxation of the CCBQP paper, measured: Theorems 2.1, 2.4 and 2.5, its end points, and the cone it needs."""

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
RELAXATION_LOADING = Real(1.0, "δ", 0.0, 1.0, name="loading", help="Curvature added to the relaxation.")
RELAXATION_SIZE = Whole(3, "k", 2, 12, name="k", help="How many documents the set has.")
MAX_FACE_ROWS = 10
"""Rows whose faces are enumerated: 3ⁿ of them."""
UNIT_TOLERANCE = 1e-5
"""Allowed difference of a unit vector's length from 1."""
VALUE_TOLERANCE = 1e-9
"""Values closer than this are equal."""
SAMPLE_STRIDES = (16, 8, 4, 2, 1)
"""The largest eigenvalue is computed on every sixteenth document, every eighth …, on all."""


@dataclass(frozen=True, kw_only=True)
class Relaxation:
    """Best set of k documents beside the best point of the relaxed problem, on one query's few documents.

    A set has weights of 0 or 1 (CCBQP paper, eq. 2), a point of the relaxed problem weights between (its eq. 4); all
    values are in the scale of eq. 2. A stationary point is one from which no direction ascends to first order.
    """

    integral: float  # the largest value of a set
    rows: tuple[int, ...]  # that set, ascending
    value: float  # the largest value of the relaxation
    point: tuple[float, ...]  # the point of that value; a set where sets reach it
    local_maxima: frozenset[tuple[int, ...]]  # the sets at which no direction ascends
    fractional: int  # number of stationary points that are no set
    saddles: int  # of these, those from which a step between two documents ascends

    @property
    def tight(self) -> bool:
        """True if no fractional weights beat the best set of documents (CCBQP paper, Theorem 2.1)."""
        return self.value <= self.integral + VALUE_TOLERANCE


@dataclass(frozen=True, kw_only=True)
class Ends:
    """End points of Algorithm 1, Frank–Wolfe, over many queries at one θ and k: sets, or points between."""

    weight: float
    k: int
    runs: int
    fractional: int  # number of runs that ended between sets and were rounded
    capped: int  # number of runs that the limit of steps stopped
    steps: float  # median number of steps
    most: int  # the largest


@dataclass(frozen=True, eq=False)
class Cone:
    """Width of the cone of directions that contains a corpus: its least cosine and largest eigenvalue."""

    least: float  # the least cosine of two documents; Assumption 2.2 wants it above −1
    pair: tuple[str, str]  # theirs
    sizes: tuple[int, ...]  # documents, evenly taken from the corpus
    largest: tuple[float, ...]  # the largest eigenvalue of their Gram matrix
    slope: float | None  # of its logarithm in that of the size: 1 where it is linear in n; None of too few documents


@without_autocast
def relaxation(
    vectors: Any, query: Any, k: int = 3, *, relevance_weight: float = OBJECTIVE_WEIGHT.default, loading: float = 1.0
) -> Relaxation:
    """Solve the relaxed choice of k documents by finding all stationary points of its objective.

    The CCBQP paper chooses the k documents of largest relevance and diversity: weights x of 0 or 1 (eq. 2). In the
    relaxed problem (eq. 4) weights may lie between, x ∈ [0,1]ⁿ with Σx = k. All sets of k documents are tried. So are
    all choices of documents with fractional weights: these must have equal derivatives at a stationary point, which is
    a linear system. vectors: (n, d) unit rows, n ≤ MAX_FACE_ROWS; query: (d,); k ≥ 2, where eq. 2 has pairs;
    relevance_weight: θ; loading: δ, added to the diagonal. Raises ParamError or DataError.
    """
    k = RELAXATION_SIZE.check(k)
    weight, loading_value = OBJECTIVE_WEIGHT.check(relevance_weight), RELAXATION_LOADING.check(loading)
    matrix, points = resolve_search_inputs(vectors, query)
    check_dimension("query", points, matrix.vectors, "the vectors", "have")
    rows, query_vector = matrix.vectors.double().cpu().numpy(), points[0].double().cpu().numpy()
    if len(points) != 1 or np.abs(np.linalg.norm(rows, axis=1) - 1).max() > UNIT_TOLERANCE:
        raise DataError("vectors must be of unit length, and query one vector: the theorems are on such")
    if not k < len(rows) <= MAX_FACE_ROWS:
        raise ParamError(f"vectors must have {k + 1} to {MAX_FACE_ROWS} rows, k being {k}; got {len(rows)}")
    # Loading adds a multiple of |x|² to the objective: a constant on sets, curvature between them. `scale` and `shift`
    # undo it and the sum over pairs.
    curvature = (1 + loading_value) * np.eye(len(rows)) - rows @ rows.T
    quadric = _Quadric(weight * (k - 1) * (rows @ query_vector), 2 * (1 - weight), curvature)
    scale, shift = k * (k - 1), (1 - weight) * loading_value * k
    best_set: tuple[int, ...] = ()
    # The weights x of the largest value so far: of all sets first, then of all points.
    max_value, best_weights, local_maxima = -math.inf, np.zeros(len(rows)), set()
    for set_rows in combinations(range(len(rows)), k):
        x = np.zeros(len(rows))
        x[list(set_rows)] = 1
        if (set_value := quadric.evaluate(x)) > max_value + VALUE_TOLERANCE:
            best_set, max_value, best_weights = set_rows, set_value, x
        if quadric.is_local_maximum(x):
            local_maxima.add(set_rows)
    # Sets come first: a fractional point becomes the maximum only if it beats every set, as Theorem 2.1 denies.
    integral, fractional, saddles = max_value, 0, 0
    for x in _iterate_fractional(quadric, k):
        if (fractional_value := quadric.evaluate(x)) > max_value + VALUE_TOLERANCE:
            max_value, best_weights = fractional_value, x
        if quadric.is_stationary(x):
            fractional += 1
            saddles += quadric.has_ascent(x)
    return Relaxation(
        integral=(integral - shift) / scale, rows=best_set, value=(max_value - shift) / scale,
        point=tuple(best_weights.tolist()), local_maxima=frozenset(local_maxima), fractional=fractional,
        saddles=saddles,
    )  # fmt: skip


def relax_pools(
    space: Space, queries: QueryLike, k: int = 3, pool: int = 8, *, relevance_weight: float = OBJECTIVE_WEIGHT.default
) -> Iterator[Relaxation]:
    """Yield for each query the relaxed choice of k among its `pool` best documents, solved exactly.

    Relaxed: documents may be chosen in part, by weights between 0 and 1. Raises ParamError or DataError.
    """
    for _query_id, rows, point in iterate_pools(space, queries, pool):
        yield relaxation(rows, point, k, relevance_weight=relevance_weight)


class _Quadric:
    """A quadratic objective over weights x of documents, and tests of points: is it a maximum, a saddle.

    f(x) = linear·x + beta/2 · xᵀ curved x over x ∈ [0,1]ⁿ with a fixed sum.
    """

    def __init__(self, linear: Array, beta: float, curved: Array) -> None:
        self.linear, self.hessian = linear, beta * curved

    def evaluate(self, x: Array) -> float:
        return float(self.linear @ x + x @ self.hessian @ x / 2)

    def _split_gradient(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the derivatives at weights x in three parts: of weights of 1, strictly between, and of 0."""
        slope = self.linear + self.hessian @ x
        is_one, is_zero = x > 1 - VALUE_TOLERANCE, x < VALUE_TOLERANCE
        return slope[is_one], slope[~is_one & ~is_zero], slope[is_zero]

    def is_local_maximum(self, x: Array) -> bool:
        """Return True if a set of documents, as weights x ∈ {0,1}ⁿ, is better than any weights close to it.

        That holds if every member's derivative exceeds every other document's derivative: then any shift of weight from
        a member to another document lowers the objective (CCBQP paper, appendix B, case 2).
        """
        ones, _free, zeros = self._split_gradient(x)
        return bool(ones.min() > zeros.max() + VALUE_TOLERANCE)

    def is_stationary(self, x: Array) -> bool:
        """Return True if no small shift of weight between documents raises the objective to first order.

        These are the Karush–Kuhn–Tucker conditions (CCBQP paper, eq. 15). A shift takes from a weight above 0 and adds
        to one below 1. x: weights in [0, 1] with the sum k
        """
        # The derivatives of weights of 1, of weights strictly between, and of weights of 0.
        ones, free, zeros = self._split_gradient(x)
        min_inside = min(ones.min(initial=math.inf), free.min(initial=math.inf))
        max_outside = max(zeros.max(initial=-math.inf), free.max(initial=-math.inf))
        return bool(min_inside >= max_outside - VALUE_TOLERANCE)

    def has_ascent(self, x: Array) -> bool:
        """Return True if the objective rises where weight is shifted between some two documents.

        Only documents with fractional weights count, strictly between 0 and 1. At a stationary x their first
        derivatives agree, so the objective rises only where its curvature is positive: x is then no maximum but a
        saddle point (CCBQP paper, appendix B, case 1).
        """
        fractional = np.flatnonzero((x >= VALUE_TOLERANCE) & (x <= 1 - VALUE_TOLERANCE))
        hessian, pairs = self.hessian, combinations(fractional.tolist(), 2)
        # The curvature along e_i − e_j, which keeps the sum of the weights.
        return any(hessian[i, i] - 2 * hessian[i, j] + hessian[j, j] > VALUE_TOLERANCE for i, j in pairs)


def _iterate_fractional(quadric: _Quadric, k: int) -> Iterator[Array]:
    """Yield the document weights x ∈ [0,1]ⁿ, Σx = k, that may be stationary, with some fractional ones.

    Fractional weights, strictly between 0 and 1, must have equal derivatives; the others are 0 or 1. All choices of
    fractional documents are tried, and of documents with the weight 1; a linear system gives the fractional weights.
    quadric: the objective, linear·x + ½ xᵀ hessian x; k: number of documents that the weights add up to
    """
    n_rows = len(quadric.linear)
    for size in range(2, n_rows + 1):
        for free in map(list, combinations(range(n_rows), size)):
            # Equal derivatives over the fractional documents, with the multiplier of Σx = k as the last unknown.
            system = np.zeros((size + 1, size + 1))
            system[:size, :size], system[:size, size], system[size, :size] = quadric.hessian[np.ix_(free, free)], -1, 1
            # A singular system has a line of solutions with equal values. Its ends have fewer fractional weights, so
            # that they are found in other turns of the loop.
            if np.linalg.cond(system) > 1 / VALUE_TOLERANCE:
                continue
            fixed = np.setdiff1d(range(n_rows), free).tolist()
            # Fractional weights are strictly between 0 and 1, so k − size < number of ones < k; one system serves all.
            one_sets = [ones for n_ones in range(max(0, k - size + 1), k) for ones in combinations(fixed, n_ones)]
            points = np.zeros((n_rows, len(one_sets)))
            for column, ones in enumerate(one_sets):
                points[list(ones), column] = 1
            right_side = np.vstack([-quadric.linear[free][:, None] - quadric.hessian[free] @ points, k - points.sum(0)])
            points[free] = np.linalg.solve(system, right_side)[:size]
            is_inside = ((points[free] > VALUE_TOLERANCE) & (points[free] < 1 - VALUE_TOLERANCE)).all(0)
            yield from points.T[is_inside]


def measure_ends(
    space: Space,
    queries: QueryLike,
    weights: Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0),
    sizes: Sequence[int] = (5, 10, 50),
    loading: float = 1.0,
) -> Iterator[Ends]:
    """Measure where Frank–Wolfe, Algorithm 1, ends on a corpus: at sets, or at fractional weights.

    Frank–Wolfe maximises relevance plus diversity (CCBQP paper) over weights of documents in [0, 1] that add up to k.
    By its Theorem 2.4 fractional weights at the end are a saddle point: no step improves them to first order, though
    they are no maximum. Yield one result for each k and θ, over all queries. weights: values of θ, the weight of
    relevance; sizes: of k ≥ 2; loading: added to the diagonal of the objective's matrix. Raises ParamError or
    DataError.
    """
    # Without the search for a better set that follows Frank–Wolfe, the polish.
    selectors = [make_selector("frank_wolfe", relevance_weight=w, loading=loading, polish=False) for w in weights]
    batch = query_batch(space, queries)
    queries_embedded = Embeddings(batch.ids, batch.vectors, space.embeddings.encoder, batch.texts)
    for k in map(SET_SIZE.check, sizes):
        if k < 2:
            raise ParamError(f"sizes must be at least 2, where the objective has pairs; got {k}")
        answers = decode_grid(list(map(Decoder, selectors)), space, queries_embedded, k)
        for weight, answer in zip(weights, answers, strict=True):
            runs = [(info["iterations"], not info["integral"], info["capped"]) for info in answer.info]
            # Capped: ended at the limit of iterations.
            steps, is_fractional, is_capped = np.array(runs).T
            yield Ends(
                weight=weight, k=k, runs=len(runs), fractional=int(is_fractional.sum()), capped=int(is_capped.sum()),
                steps=float(np.median(steps)), most=int(steps.max()),
            )  # fmt: skip


@without_autocast
def measure_cone(space: Space) -> Cone:
    """Compute the least cosine of two documents, and how the Gram matrix's top eigenvalue grows with n.

    Both show how narrow the cone is that the embeddings lie in. The CCBQP paper takes both for granted: no two
    documents are opposite (Assumption 2.2), and the eigenvalue "scales almost linearly" (§3). A large eigenvalue makes
    steps by a Lipschitz constant short. Raises DataError for fewer than two documents.
    """
    rows, ids = space.vectors, space.corpus.ids
    if (n_documents := len(rows)) < 2:
        raise DataError(f"a cone needs at least two documents; the corpus has {n_documents}")
    unit_rows = rows.double() / space.matrix.lengths.double().clamp_min(torch.finfo(torch.float64).tiny).unsqueeze(1)
    min_cosine, pair = math.inf, (0, 0)
    for block_rows, block in blocks(n_documents, torch.arange(n_documents, device=rows.device), unit_rows):
        cosines = block @ unit_rows.T
        # A document's cosine with itself is no pair's.
        cosines[torch.arange(len(block_rows)), block_rows] = math.inf
        # The index is into the flattened block, whose row and column are the two documents.
        position = int(cosines.argmin())
        block_minimum = float(cosines.flatten()[position])
        if block_minimum < min_cosine:
            min_cosine, pair = block_minimum, (int(block_rows[position // n_documents]), position % n_documents)
    # Samples of these sizes, evenly spread over the corpus.
    sizes = sorted({n_documents // stride for stride in SAMPLE_STRIDES if n_documents // stride >= 2})
    largest = [largest_eigenvalue(rows[torch.arange(size, device=rows.device) * n_documents // size]) for size in sizes]
    slope = float(np.polyfit(np.log(sizes), np.log(largest), 1)[0]) if len(sizes) > 1 and min(largest) > 0 else None
    return Cone(min_cosine, (ids[pair[0]], ids[pair[1]]), tuple(sizes), tuple(largest), slope)
