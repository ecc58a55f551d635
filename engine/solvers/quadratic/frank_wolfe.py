"""Frank–Wolfe with exact line search on the relaxation of the quadratic objective: the CCBQP paper's Algorithm 1.

maximise θ(k−1) r·x + (1−θ) xᵀ((1+δ)D − S)x over x ∈ [0,1]ⁿ, Σx = k, where S = UUᵀ and D = diag(S): with unit rows
eq. (4). Loading is measured by D because then the relaxation is tight at δ = 1 whatever the rows' lengths: along
e_i − e_j the curvature is δ(|u_i|² + |u_j|²) + 2 u_i·u_j ≥ 0 (the paper's eq. 10).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import products
from engine.solvers.jit import jit_exact
from engine.solvers.largest import select_best_rows
from engine.solvers.quadratic.objective import SWAP_TOLERANCE, Quadratic
from engine.solvers.quadratic.sets import MAX_ASCENT_STEPS

Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Ascent:
    """The sets of k documents, one a query, that Frank–Wolfe steps ended at.

    index: (B, k) ascending candidates; steps: (B,) number taken; gap: (B,) the last Frank–Wolfe gap, relative to k
    times the scale of a swap; integral: (B,) True where it ended at a set, so that nothing was rounded; field, error:
    the linear field (what each candidate would add to the objective) at `index`, where `is_field_current` (B,).
    """

    index: Tensor
    steps: Tensor
    gap: Tensor
    integral: Tensor
    field: Tensor
    error: Tensor
    is_field_current: Tensor


def run_frank_wolfe(goal: Quadratic, loading: float) -> Ascent:
    """Find a set of k documents for each query by Frank–Wolfe steps over all candidates' weights.

    Weights x start at k/n each and climb the objective, relaxed from sets to weights in [0, 1] that sum to k, until no
    step gains anything. goal: the objective; loading: δ, the curvature added to the relaxation. Where the end is no
    set, the k largest x are taken.
    """
    c, k = goal.c, goal.k
    n_queries, n = c.relevance.shape
    device = c.vectors.device
    # All candidates are the only set: nothing to climb, and no field was computed.
    if k == n:
        set_ids, zeros = goal.query_ids.new_tensor(range(n)).expand(n_queries, -1), c.relevance.new_zeros(n_queries)
        return Ascent(
            index=set_ids, steps=torch.zeros_like(goal.query_ids), gap=zeros, integral=zeros == 0, field=c.relevance,
            error=zeros, is_field_current=zeros > 0,
        )  # fmt: skip
    climbs = [_Climb(goal, query_id, loading) for query_id in range(n_queries)]
    linear_fields, errors = c.relevance, torch.zeros(n_queries, dtype=torch.float64)
    active = list(range(n_queries))
    for step in range(MAX_ASCENT_STEPS):
        active_ids = goal.query_ids[active]
        # All problems start at the same point, whose products the matrix caches.
        if step == 0 and c.shared:
            field, error = _first_field(goal)
        else:
            weighted = torch.from_numpy(np.stack([climbs[query_id].weighted for query_id in active])).to(device)
            field, error = goal.compute_field(active_ids, weighted)
        error = error.double().cpu()
        if len(active) == n_queries:
            linear_fields, errors = field, error
        else:
            linear_fields[active_ids], errors[active] = field, error
        # A problem stays active while its step gained something.
        moves = zip(active, field.double().cpu().numpy(), error.tolist(), strict=True)
        active = [query_id for query_id, *field_and_error in moves if climbs[query_id].step(*field_and_error)]
        if not active:
            break
    # Problems that met the cap moved after their last pass.
    is_current = [climb.integral and climb.steps > 0 and i not in active for i, climb in enumerate(climbs)]
    set_ids = torch.from_numpy(np.stack([climb.round_weights() for climb in climbs])).to(device)
    gaps = torch.tensor([climb.gap / max(k * climb.scale, torch.finfo(torch.float64).tiny) for climb in climbs])
    steps = torch.tensor([climb.steps for climb in climbs])
    return Ascent(
        index=set_ids, steps=steps, gap=gaps, integral=torch.tensor([climb.integral for climb in climbs]),
        field=linear_fields, error=errors.to(device), is_field_current=torch.tensor(is_current, device=device),
    )  # fmt: skip


class _Climb:
    """The weights x, (n,), that Frank–Wolfe steps give one query's candidates, and sums over them.

    base: the weight of a candidate that no step has touched; integral: whether x is the set `current`; weighted: (d,) y
    = Uᵀx; relevance: of x, times its factor; quadratic: xᵀDx
    """

    def __init__(self, goal: Quadratic, query_id: int, loading: float) -> None:
        """Start with equal weights x = k/n, whose weighted sum of vectors is k times the mean vector.

        Also computes the sums over x that each step brings up to date: relevance and xᵀDx, where D has the squared
        lengths of the vectors on its diagonal. goal: the objective; query_id: number of the problem; loading: δ, the
        extra weight of D in the objective; the larger, the more often the steps end at a set
        """
        c = goal.c
        self.goal, self.query_id, self.queries = goal, query_id, goal.query_ids[query_id : query_id + 1]
        # The factor of xᵀDx: β takes out each vector's product with itself, and βδ is the loading.
        self.load, self.scale, self.base = goal.beta * (1 + loading), float(goal.scale[query_id]), goal.k / c.count
        self.weights = np.full(c.count, self.base)
        self.current, self.integral, self.steps, self.gap = np.zeros(goal.k, np.int64), False, 0, 0.0
        mean_vector = _mean_candidate(c, query_id)
        self.weighted = goal.k * mean_vector
        self.vectors = c.vectors if c.shared else c.vectors[query_id]
        squares = c.squares if c.squares.ndim == 1 else c.squares[query_id]
        self.squares = np.ones(1) if c.matrix.unit else squares.double().cpu().numpy()
        self.query = c.queries[query_id].double().cpu().numpy() if c.inner_product else None
        mean_score = c.relevance[query_id].double().mean().item() if self.query is None else mean_vector @ self.query
        self.relevance = goal.linear * (goal.k * mean_score)
        self.quadratic = self.base**2 * (c.count if c.matrix.unit else float(squares.double().sum()))

    def step(self, field: Array, error: float) -> bool:
        """Move the weights x toward the best set of k candidates; return False if no step gains anything.

        One step of Frank–Wolfe: the corner is the set of k candidates with the largest gradients at x, which is the
        best set for the linearised objective. The weights go toward it as far as the objective rises. field: (n,) what
        each candidate would add to the objective at x, within `error`
        """
        goal, load = self.goal, self.load
        corner = self._corner(field, error)
        corner_sum = self._sum_corner(corner)
        corner_squares = self._squares(corner)
        corner_total, overlap = corner_squares.sum(), corner_squares @ self.weights[corner]
        if self.query is None:
            relevance = goal.linear * float(goal.c.relevance[self.query_id, self._to_device(corner)].double().sum())
        else:
            relevance = goal.linear * (corner_sum @ self.query)
        # The gap, gradient · (corner − x), bounds what the objective can still gain to first order.
        gain = (relevance - self.relevance) + load * (overlap - self.quadratic)
        self.gap = float(gain - goal.beta * (corner_sum @ self.weighted - self.weighted @ self.weighted))
        if self.gap <= SWAP_TOLERANCE * goal.k * self.scale:
            self.current = self.current if self.steps else corner
            return False
        direction = corner_sum - self.weighted
        # Exact line search of Algorithm 1: a full step where the objective is convex along the direction, else gap /
        # |curvature|, at most 1.
        curvature = load * (corner_total - 2 * overlap + self.quadratic) - goal.beta * (direction @ direction)
        step_size = 1.0 if curvature >= 0 else min(1.0, self.gap / -curvature)
        decay = 1 - step_size
        move_weights(self.weights, self.current, corner, step_size, self.integral)
        self.base *= decay
        self.weighted = decay * self.weighted + step_size * corner_sum
        self.relevance = decay * self.relevance + step_size * relevance
        self.quadratic = decay**2 * self.quadratic + step_size**2 * corner_total + 2 * step_size * decay * overlap
        self.current, self.integral, self.steps = corner, step_size == 1, self.steps + 1
        return True

    def round_weights(self) -> Array:
        """Return (k,) the candidates with the largest weights x, in ascending order of rows.

        Of equal weights, the larger gradient goes first, then the lower row. Where the steps ended at a set, its k
        members have all the weight, and it is returned.
        """
        if self.integral or not self.steps:
            return self.current
        # Candidates that a step went toward, at least k, have more weight than the untouched ones.
        touched = np.flatnonzero(self.weights != self.base)
        gradient = self._exact_gradient(touched)
        weight_order = np.lexsort((touched, -gradient, -self.weights[touched]))
        return np.sort(touched[weight_order[: self.goal.k]])

    def _corner(self, field: Array, error: float) -> Array:
        """Return the corner to step toward: the k candidates with the largest gradient, ascending.

        The gradient is the field, (n,) what each candidate would add to the objective, plus load · squared length ·
        weight x. `error` bounds the rounding of the field; where it leaves a candidate open, float64 decides.
        """
        goal, has_unit_rows = self.goal, self.goal.c.matrix.unit
        corner = np.empty(goal.k, np.int64)
        threshold, largest = find_corner(field, self.squares, self.load, self.weights, corner)
        error += goal.rounding * (self.scale + largest + self.load * goal.c.max_norm**2)
        error += 0.0 if has_unit_rows else 2 * self.load * goal.c.similarity_error
        gradient = field + self.load * self.squares * self.weights
        # Only candidates within twice the error of the threshold can be on the wrong side; their gradients are computed
        # in float64.
        open_ids = np.flatnonzero(np.abs(gradient - threshold) <= 2 * error)
        sure_ids = corner[gradient[corner] > threshold + 2 * error]
        if len(sure_ids) + len(open_ids) == goal.k:
            return corner
        exact_gradient = self._exact_gradient(open_ids)
        best_open = open_ids[np.lexsort((open_ids, -exact_gradient))[: goal.k - len(sure_ids)]]
        return np.sort(np.concatenate([sure_ids, best_open]))

    def _exact_gradient(self, doc_ids: Array) -> Array:
        """Return the (m,) gradient of the relaxed objective at some candidates, in float64."""
        weighted, row_ids = self._to_device(self.weighted)[None], self._to_device(doc_ids)
        # All candidates belong to the one query at position 0 of `self.queries`.
        query_positions = torch.zeros_like(row_ids)
        field = self.goal.compute_exact_field(self.queries, weighted, query_positions, row_ids)
        gradient: Array = field.cpu().numpy() + self.load * self._squares(doc_ids) * self.weights[doc_ids]
        return gradient

    def _squares(self, doc_ids: Array) -> Array:
        """Return (m,) float64 squared lengths of candidates: exactly 1 for unit rows, as in the paper."""
        if self.goal.c.matrix.unit:
            return np.ones(len(doc_ids))
        return self.goal.squares(self.queries, self._to_device(doc_ids)[None])[0].cpu().numpy()

    def _sum_corner(self, corner: Array) -> Array:
        """Return the (d,) sum of the vectors of a corner, the set to step toward.

        Where the weights are those of a set already, only the rows in one of the two sets and not in the other are
        read.
        """
        added_ids, removed_ids, vector_sum = corner, corner[:0], np.zeros(len(self.weighted))
        if self.integral:
            added_ids, removed_ids = np.setdiff1d(corner, self.current), np.setdiff1d(self.current, corner)
            vector_sum = self.weighted.copy()
        for changed_ids, sign in ((added_ids, 1.0), (removed_ids, -1.0)):
            if len(changed_ids) and _is_readable_in_place(self.vectors):
                add_rows(self.vectors.numpy(), changed_ids, sign, vector_sum)
            elif len(changed_ids):
                vector_sum += sign * self.vectors[self._to_device(changed_ids)].double().sum(0).cpu().numpy()
        return vector_sum

    def _to_device(self, array: Array) -> Tensor:
        """Return an array as a tensor on the device of the vectors."""
        return torch.from_numpy(array).to(self.vectors.device)


def _mean_candidate(c: Candidates, query_id: int) -> Array:
    """Return the (d,) float64 mean vector of one query's candidates; cached where all queries share them."""
    if c.shared:
        return c.matrix.derive("mean", lambda: _mean_vector(c.vectors))
    return _mean_vector(c.vectors[query_id])


def _mean_vector(vectors: Tensor) -> Array:
    """Return the (d,) float64 mean of vectors, (n, d).

    Contiguous vectors in the CPU's memory are summed by a compiled loop, without a float64 copy of them.
    """
    if not _is_readable_in_place(vectors):
        return vectors.double().mean(0).cpu().numpy()
    vector_sum = np.zeros(vectors.shape[1])
    add_rows(vectors.numpy(), np.arange(len(vectors)), 1.0, vector_sum)
    return vector_sum / len(vectors)


def _is_readable_in_place(vectors: Tensor) -> bool:
    """Return True if NumPy can read a tensor without a copy."""
    return vectors.is_cpu and vectors.is_contiguous()


def _first_field(goal: Quadratic) -> tuple[Tensor, Tensor]:
    """Return what each candidate would add to the objective at the start, (B, n), and error bounds, (B,).

    At the start all weights are equal, so the field follows from the products of the rows with their mean vector. These
    are cached with the matrix, so that no pass over the rows is made.
    """
    c = goal.c
    mean_vector = torch.from_numpy(_mean_candidate(c, 0)).to(c.vectors.device)
    mean_products = c.matrix.derive("centrality", lambda: products(c.vectors, mean_vector.to(c.vectors.dtype)[None]))
    field = torch.sub(goal.linear * c.relevance, mean_products, alpha=goal.beta * goal.k)
    error = goal.linear * c.relevance_error + c.product_error(goal.beta * goal.k * mean_vector[None])
    field_size = goal.scale + goal.beta * goal.k * c.max_norm * float(torch.linalg.vector_norm(mean_vector))
    return field, error + goal.rounding * field_size


@jit_exact
def find_corner(field: Array, squares: Array, load: float, weights: Array, corner: Array) -> tuple[float, float]:
    """Write the k rows with the largest gradient, field + load · squares · weights, to `corner`.

    The corner, (k,) ascending, is the set that a Frank–Wolfe step goes toward. Returns the smallest gradient among
    them, and the largest magnitude of all. squares: (n,), or (1,) for unit rows
    """
    n = len(field)
    gradient, is_marked, heap = np.empty(n), np.zeros(n, np.bool_), np.empty(len(corner), np.int64)
    for item in range(n):
        gradient[item] = field[item] + load * (squares[item] if len(squares) > 1 else 1.0) * weights[item]
    select_best_rows(gradient, gradient, heap, is_marked, corner)
    max_magnitude = 0.0
    for item in range(n):
        magnitude = abs(gradient[item])
        max_magnitude = magnitude if magnitude > max_magnitude else max_magnitude
    # The root of the heap is the worst of the best.
    return gradient[heap[0]], max_magnitude


@jit_exact
def move_weights(weights: Array, current: Array, corner: Array, share: float, integral: bool) -> None:
    """Move weights in place toward a set: x ← (1 − share) · x + share on the members of `corner`.

    integral: x has weight only on `current`, so that a full step needs to clear only those
    """
    if share == 1.0 and integral:
        for item in current:
            weights[item] = 0.0
    else:
        for item in range(len(weights)):
            weights[item] *= 1 - share
    for item in corner:
        weights[item] += share


@jit_exact
def add_rows(vectors: Array, row_ids: Array, sign: float, vector_sum: Array) -> None:
    """Add some rows of vectors of any precision, times a sign, to `vector_sum`, (d,), in float64."""
    # Four rows a pass, so that the sum is read and written once for them.
    d, last_block = len(vector_sum), len(row_ids) - len(row_ids) % 4
    for position in range(0, last_block, 4):
        first_row, second_row = vectors[row_ids[position]], vectors[row_ids[position + 1]]
        third_row, fourth_row = vectors[row_ids[position + 2]], vectors[row_ids[position + 3]]
        for axis in range(d):
            first_pair = np.float64(first_row[axis]) + np.float64(second_row[axis])
            second_pair = np.float64(third_row[axis]) + np.float64(fourth_row[axis])
            vector_sum[axis] += sign * (first_pair + second_pair)
    for position in range(last_block, len(row_ids)):
        row = vectors[row_ids[position]]
        for axis in range(d):
            vector_sum[axis] += sign * np.float64(row[axis])
