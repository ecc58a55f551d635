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
from engine.solvers.jit import exactly
from engine.solvers.largest import best_rows
from engine.solvers.quadratic.objective import TOLERANCE, Quadratic
from engine.solvers.quadratic.sets import STEPS

Array = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Ascent:
    """Where the ascent ended.

    index: (B, k) ascending candidates; steps: (B,) how many were taken; gap: (B,) the last Frank–Wolfe gap, relative
    to k times the scale of a swap; integral: (B,) whether it ended at a set, so that nothing was rounded; field, error:
    the linear field at `index` where `fresh` (B,) says so.
    """

    index: Tensor
    steps: Tensor
    gap: Tensor
    integral: Tensor
    field: Tensor
    error: Tensor
    fresh: Tensor


def ascend(p: Quadratic, loading: float) -> Ascent:
    """From x = k/n to a stationary point, which is rounded to the k largest x should it not be integral."""
    c, k = p.c, p.k
    batch, n = c.relevance.shape
    if k == n:
        index, zero = p.every.new_tensor(range(n)).expand(batch, -1), c.relevance.new_zeros(batch)
        return Ascent(
            index=index, steps=torch.zeros_like(p.every), gap=zero, integral=zero == 0, field=c.relevance, error=zero,
            fresh=zero > 0,
        )  # fmt: skip
    climbs = [_Climb(p, b, loading) for b in range(batch)]
    fields, errors = c.relevance, torch.zeros(batch, dtype=torch.float64)
    at = list(range(batch))
    for step in range(STEPS):
        some = p.every[at]
        if step == 0 and c.shared:
            h, error = _first_field(p)
        else:
            h, error = p.field(some, torch.from_numpy(np.stack([climbs[b].y for b in at])).to(c.relevance.device))
        error = error.double().cpu()
        if len(at) == batch:
            fields, errors = h, error
        else:
            fields[some], errors[at] = h, error
        numbers = h.double().cpu().numpy()
        at = [b for row, b in enumerate(at) if climbs[b].step(numbers[row], float(error[row]))]
        if not at:
            break
    fresh = [climb.whole and climb.steps > 0 for climb in climbs]
    for b in at:
        # Problems that met the cap moved after their last pass.
        fresh[b] = False
    device = c.relevance.device
    index = torch.from_numpy(np.stack([climb.rounded() for climb in climbs])).to(device)
    gaps = torch.tensor([climb.gap / max(k * climb.scale, torch.finfo(torch.float64).tiny) for climb in climbs])
    steps = torch.tensor([climb.steps for climb in climbs])
    return Ascent(
        index=index, steps=steps, gap=gaps, integral=torch.tensor([climb.whole for climb in climbs]), field=fields,
        error=errors.to(device), fresh=torch.tensor(fresh, device=device),
    )  # fmt: skip


class _Climb:
    """The weights x, (n,), of one problem on their way, with what the objective needs of them.

    base: the weight of a candidate that no step has touched; whole: whether x is the set `chosen`; y: (d,) Uᵀx;
    relevance: of x, times its factor; quadratic: xᵀDx
    """

    def __init__(self, p: Quadratic, b: int, loading: float) -> None:
        c = p.c
        self.p, self.b, self.load, self.scale = p, b, p.beta * (1 + loading), float(p.scale[b])
        self.base = p.k / c.count
        self.x = np.full(c.count, self.base)
        self.chosen, self.whole, self.steps, self.gap = np.zeros(p.k, np.int64), False, 0, 0.0
        mean = _mean(c, b)
        self.y = p.k * mean
        self.vectors = c.vectors if c.shared else c.vectors[b]
        squares = c.squares if c.squares.ndim == 1 else c.squares[b]
        self.squares = np.ones(1) if c.matrix.unit else squares.double().cpu().numpy()
        self.query = c.queries[b].double().cpu().numpy() if c.inner_product else None
        own = p.k * (mean @ self.query) if self.query is not None else p.k * float(c.relevance[b].double().mean())
        self.relevance = p.linear * own
        self.quadratic = self.base**2 * (c.count if c.matrix.unit else float(squares.double().sum()))

    def step(self, h: Array, error: float) -> bool:
        """Go toward the best set by the field h of x, (n,); whether there was a gain in it."""
        p, load = self.p, self.load
        corner = self._corner(h, error)
        sums = self._sums(corner)
        squares = self._squares(corner)
        mass, overlap = squares.sum(), squares @ self.x[corner]
        if self.query is None:
            relevance = p.linear * float(
                p.c.relevance[self.b, torch.from_numpy(corner).to(p.every.device)].double().sum()
            )
        else:
            relevance = p.linear * (sums @ self.query)
        length = self.y @ self.y
        self.gap = float(
            (relevance - self.relevance) + load * (overlap - self.quadratic) - p.beta * (sums @ self.y - length)
        )
        if self.gap <= TOLERANCE * p.k * self.scale:
            self.chosen = self.chosen if self.steps else corner
            return False
        way = sums - self.y
        curvature = load * (mass - 2 * overlap + self.quadratic) - p.beta * (way @ way)
        share = 1.0 if curvature >= 0 else min(1.0, self.gap / -curvature)
        rest = 1 - share
        move(self.x, self.chosen, corner, share, self.whole)
        self.base *= rest
        self.y = rest * self.y + share * sums
        self.relevance = rest * self.relevance + share * relevance
        self.quadratic = rest**2 * self.quadratic + share**2 * mass + 2 * share * rest * overlap
        self.chosen, self.whole, self.steps = corner, share == 1, self.steps + 1
        return True

    def rounded(self) -> Array:
        """(k,) the set, or the candidates with the largest x, equal ones by gradient, then by row."""
        if self.whole or not self.steps:
            return self.chosen
        touched = np.flatnonzero(self.x != self.base)
        gradient = self._exact(touched)
        order = np.lexsort((touched, -gradient, -self.x[touched]))
        return np.sort(touched[order[: self.p.k]])

    def _corner(self, h: Array, error: float) -> Array:
        """(k,) ascending: the k largest of the gradient h + load·D·x, exactly."""
        p, unit = self.p, self.p.c.matrix.unit
        corner = np.empty(p.k, np.int64)
        bar, largest = corner_of(h, self.squares, self.load, self.x, corner)
        error += p.rounding * (self.scale + largest + self.load * p.c.max_norm**2)
        error += 0.0 if unit else 2 * self.load * p.c.similarity_error
        gradient = h + self.load * self.squares * self.x
        open_ = np.flatnonzero(np.abs(gradient - bar) <= 2 * error)
        sure = corner[gradient[corner] > bar + 2 * error]
        if len(sure) + len(open_) == p.k:
            return corner
        exact = self._exact(open_)
        best = open_[np.lexsort((open_, -exact))[: p.k - len(sure)]]
        return np.sort(np.concatenate([sure, best]))

    def _exact(self, index: Array) -> Array:
        """(m,) float64 gradient at candidates."""
        p, device = self.p, self.p.every.device
        at, y = p.every[self.b : self.b + 1], torch.from_numpy(self.y).to(device)[None]
        rows = torch.from_numpy(index).to(device)
        field: Array = p.exact_field(at, y, torch.zeros_like(rows), rows).cpu().numpy()
        field += self.load * self._squares(index) * self.x[index]
        return field

    def _squares(self, index: Array) -> Array:
        """(m,) float64 D at candidates: exactly 1 where the rows are unit rows, as the paper has it."""
        p = self.p
        if p.c.matrix.unit:
            return np.ones(len(index))
        rows = torch.from_numpy(index).to(p.every.device)
        return p.squares(p.every[self.b : self.b + 1], rows[None])[0].cpu().numpy()

    def _sums(self, corner: Array) -> Array:
        """(d,) of the rows of a set: where x is one, only what changes is added."""
        come, gone, out = corner, corner[:0], np.zeros(len(self.y))
        if self.whole:
            here, there = set(self.chosen.tolist()), set(corner.tolist())
            come, gone = (np.array(sorted(some), np.int64) for some in (there - here, here - there))
            out = self.y.copy()
        for index, sign in ((come, 1.0), (gone, -1.0)):
            if len(index) and _in_place(self.vectors):
                add_rows(self.vectors.numpy(), index, sign, out)
            elif len(index):
                rows = torch.from_numpy(index).to(self.vectors.device)
                out += sign * self.vectors[rows].double().sum(0).cpu().numpy()
        return out


def _mean(c: Candidates, b: int) -> Array:
    """(d,) float64 mean candidate of a problem."""
    if c.shared:
        return c.matrix.derive("mean", lambda: _mean_row(c.vectors))
    return _mean_row(c.vectors[b])


def _mean_row(vectors: Tensor) -> Array:
    if not _in_place(vectors):
        return vectors.double().mean(0).cpu().numpy()
    out = np.zeros(vectors.shape[1])
    add_rows(vectors.numpy(), np.arange(len(vectors)), 1.0, out)
    return out / len(vectors)


def _in_place(vectors: Tensor) -> bool:
    return vectors.is_cpu and vectors.is_contiguous()


def _first_field(p: Quadratic) -> tuple[Tensor, Tensor]:
    """The field at x = k/n of all problems without a pass: the matrix keeps U·mean(U)."""
    c = p.c
    mean = torch.from_numpy(_mean(c, 0)).to(c.relevance.device)
    central = c.matrix.derive("centrality", lambda: products(c.vectors, mean.to(c.vectors.dtype)[None]))
    h = torch.sub(p.linear * c.relevance, central, alpha=p.beta * p.k)
    error = p.linear * c.relevance_error + c.product_error(p.beta * p.k * mean[None])
    size = p.scale + p.beta * p.k * c.max_norm * float(torch.linalg.vector_norm(mean))
    return h, error + p.rounding * size


@exactly
def corner_of(h: Array, squares: Array, load: float, x: Array, corner: Array) -> tuple[float, float]:
    """The rows with the largest h + load·D·x, into `corner`; the least of those, and the largest of all in size."""
    n = len(h)
    gradient, marks, heap = np.empty(n), np.zeros(n, np.bool_), np.empty(len(corner), np.int64)
    for i in range(n):
        gradient[i] = h[i] + load * (squares[i] if len(squares) > 1 else 1.0) * x[i]
    best_rows(gradient, gradient, heap, marks, corner)
    largest = 0.0
    for i in range(n):
        size = abs(gradient[i])
        largest = size if size > largest else largest
    return gradient[heap[0]], largest


@exactly
def move(x: Array, chosen: Array, corner: Array, share: float, whole: bool) -> None:
    """x ← (1 − share) x + share · indicator of `corner`; whole: x is the indicator of `chosen`."""
    if share == 1.0 and whole:
        for i in chosen:
            x[i] = 0.0
    else:
        for i in range(len(x)):
            x[i] *= 1 - share
    for i in corner:
        x[i] += share


@exactly
def add_rows(vectors: Array, index: Array, sign: float, out: Array) -> None:
    """Add some rows of vectors of any precision, times a sign, to `out`, (d,), in float64."""
    d, last = len(out), len(index) - len(index) % 4
    for place in range(0, last, 4):
        a, b = vectors[index[place]], vectors[index[place + 1]]
        c, e = vectors[index[place + 2]], vectors[index[place + 3]]
        for j in range(d):
            out[j] += sign * ((np.float64(a[j]) + np.float64(b[j])) + (np.float64(c[j]) + np.float64(e[j])))
    for place in range(last, len(index)):
        row = vectors[index[place]]
        for j in range(d):
            out[j] += sign * np.float64(row[j])
