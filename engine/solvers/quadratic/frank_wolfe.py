"""Frank–Wolfe with exact line search on the relaxation of the quadratic objective: the CCBQP paper's Algorithm 1.

maximise θ(k−1) r·x + (1−θ) xᵀ((1+δ)D − S)x over x ∈ [0,1]ⁿ, Σx = k, where S = UUᵀ and D = diag(S): with unit rows
eq. (4). Loading is measured by D because then the relaxation is tight at δ = 1 whatever the rows' lengths: along
e_i − e_j the curvature is δ(|u_i|² + |u_j|²) + 2 u_i·u_j ≥ 0 (the paper's eq. 10).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import blocks
from engine.solvers.quadratic.objective import TOLERANCE, Quadratic
from engine.solvers.tie_breaking import ranked

STEPS = 200
"""How many steps the ascent may take, as in the authors' implementation."""


@dataclass(frozen=True, slots=True)
class Ascent:
    """Where the ascent ended.

    index: (B, k) ascending candidates; steps: (B,) how many were taken; gap: (B,) the last Frank–Wolfe gap, relative
    to k times the scale of a swap; field, error: the linear field at `index` where `fresh` (B,) says so.
    """

    index: Tensor
    steps: Tensor
    gap: Tensor
    field: Tensor
    error: Tensor
    fresh: Tensor


class _Move(NamedTuple):
    """Steps of problems `at`, (b,), toward the sets `members`, (b, k).

    sums: (b, d) of the sets' rows
    relevance: (b,) of the sets, times its factor
    mass, overlap: (b,) D over the sets, and with the weights x
    gap: (b,) the Frank–Wolfe gap
    curvature: (b,) of the objective along the step
    """

    at: Tensor
    members: Tensor
    sums: Tensor
    relevance: Tensor
    mass: Tensor
    overlap: Tensor
    gap: Tensor
    curvature: Tensor


@dataclass
class _Point:
    """The weights x, (B, n), of every problem, with what the objective needs of them.

    base: (B,) the weight of a candidate that no step has touched
    y: (B, d) Uᵀx
    relevance, quadratic: (B,) of x; the second xᵀDx
    """

    x: Tensor
    base: Tensor
    y: Tensor
    relevance: Tensor
    quadratic: Tensor

    @staticmethod
    def middle(p: Quadratic, mean: Tensor) -> _Point:
        """x = k/n, of which the rows' mean is known."""
        c, share = p.c, p.k / p.c.count
        x = torch.full(c.relevance.shape, share, dtype=torch.float64, device=c.relevance.device)
        relevance = (c.queries.double() * mean).sum(1) if c.inner_product else c.relevance.double().mean(1)
        quadratic = share**2 * c.squares.double().sum(-1).expand(c.batch).clone()
        y = (p.k * mean).expand(c.batch, -1).clone()
        return _Point(x, x[:, 0].clone(), y, p.linear * p.k * relevance, quadratic)

    def toward(self, p: Quadratic, at: Tensor, index: Tensor, load: float) -> _Move:
        """The step from here to sets."""
        sums, squares = p.sums(at, index), _squares(p, at, index)
        y, mass, overlap = self.y[at], squares.sum(1), (squares * self.x[at.unsqueeze(1), index]).sum(1)
        relevance = p.linear * p.relevance(at, index).sum(1)
        gap = (relevance - self.relevance[at]) + load * (overlap - self.quadratic[at])
        gap = gap - p.beta * ((sums * y).sum(1) - (y * y).sum(1))
        curvature = load * (mass - 2 * overlap + self.quadratic[at]) - p.beta * (sums - y).square().sum(1)
        return _Move(at, index, sums, relevance, mass, overlap, gap, curvature)

    def advance(self, move: _Move, length: Tensor) -> None:
        """Go the share `length`, (b,), of a step: x ← (1 − length) x + length · indicator."""
        at, rest = move.at, 1 - length
        added = length.unsqueeze(1).expand_as(move.members).contiguous()
        if len(at) == len(self.x):
            self.x *= rest.unsqueeze(1)
            self.x.scatter_add_(1, move.members, added)
        else:
            self.x[at] = (self.x[at] * rest.unsqueeze(1)).scatter_add_(1, move.members, added)
        self.base[at] *= rest
        self.y[at] = rest.unsqueeze(1) * self.y[at] + length.unsqueeze(1) * move.sums
        self.relevance[at] = rest * self.relevance[at] + length * move.relevance
        mixed = 2 * length * rest * move.overlap
        self.quadratic[at] = rest**2 * self.quadratic[at] + length**2 * move.mass + mixed


def ascend(p: Quadratic, loading: float) -> Ascent:
    """From x = k/n to a stationary point, which is rounded to the k largest x should it not be integral."""
    c, k = p.c, p.k
    batch, n = c.relevance.shape
    if k == n:
        index, zero = p.every.new_tensor(range(n)).expand(batch, -1), c.relevance.new_zeros(batch)
        return Ascent(index, torch.zeros_like(p.every), zero, c.relevance, zero, zero > 0)
    load = p.beta * (1 + loading)
    mean, mean_length = _mean(c)
    point = _Point.middle(p, mean)
    index = torch.zeros(batch, k, dtype=torch.int64, device=c.relevance.device)
    steps, gap = torch.zeros_like(index[:, 0]), torch.zeros_like(point.base)
    fields, errors = torch.empty_like(c.relevance), torch.zeros_like(point.base)
    integral = torch.zeros_like(point.base, dtype=torch.bool)
    at = p.every
    for step in range(STEPS):
        if step == 0 and c.shared:
            h, error = _first_field(p, point.y, mean_length)
        else:
            h, error = p.field(at, point.y[at])
        fields[at], errors[at] = h, error.double()
        move = point.toward(p, at, _oracle(p, at, point.y, point.x, h, error, load), load)
        gap[at] = move.gap
        moving = move.gap > TOLERANCE * k * p.scale[at]
        index[at] = torch.where((~moving & integral[at]).unsqueeze(1), index[at], move.members)
        if not bool(moving.any()):
            break
        if not bool(moving.all()):
            move = _Move(*(part[moving] for part in move))
        at = move.at
        length = torch.where(move.curvature >= 0, 1.0, (move.gap / -move.curvature).clamp(max=1.0))
        point.advance(move, length)
        integral[at] = length == 1
        steps[at] += 1
    else:
        # Problems that met the cap moved after their last pass.
        errors[at] = torch.nan
    fresh = integral & ~errors.isnan()
    for b in (~integral & (steps > 0)).nonzero().flatten().tolist():
        index[b] = _rounded(p, p.every[b : b + 1], point, load)
    return Ascent(index, steps, gap / (k * p.scale).clamp_min(torch.finfo(torch.float64).tiny), fields, errors, fresh)


def _oracle(p: Quadratic, at: Tensor, y: Tensor, x: Tensor, h: Tensor, error: Tensor, load: float) -> Tensor:
    """(b, k) ascending: the k largest of the gradient h + load·D·x, exactly."""
    c = p.c
    part = x if len(at) == c.batch else x[at]
    squares = c.squares if c.shared or len(at) == c.batch else c.squares[at]
    score = torch.add(h, (part.to(h.dtype) * squares), alpha=load)
    error = error + p.rounding * (p.scale[at] + score.abs().amax(1) + load * c.max_norm**2)
    if not c.matrix.unit:
        error = error + 2 * load * c.similarity_error

    def exact(batch: Tensor, i: Tensor) -> Tensor:
        squares = _squares(p, at[batch], i.unsqueeze(1)).squeeze(1)
        return p.exact_field(at, y[at], batch, i) + load * squares * x[at[batch], i]

    return ranked(score, p.k, error, exact, all_=False)[0].sort(dim=1).values


def _rounded(p: Quadratic, at: Tensor, point: _Point, load: float) -> Tensor:
    """(k,) the candidates of one problem with the largest x, equal ones by gradient, then by row."""
    x = point.x[at[0]]
    touched = (x != point.base[at]).nonzero().flatten()
    weights = x[touched]
    gradient = p.exact_field(at, point.y[at], torch.zeros_like(touched), touched)
    gradient += load * _squares(p, at.expand(len(touched)), touched.unsqueeze(1)).squeeze(1) * weights
    order = gradient.argsort(descending=True, stable=True)
    order = order[weights[order].argsort(descending=True, stable=True)]
    return touched[order[: p.k]].sort().values


def _squares(p: Quadratic, at: Tensor, index: Tensor) -> Tensor:
    """(b, k) float64 D at the members: exactly 1 where the rows are unit rows, as the paper has it."""
    if p.c.matrix.unit:
        return torch.ones(index.shape, dtype=torch.float64, device=index.device)
    return p.squares(at, index)


def _mean(c: Candidates) -> tuple[Tensor, float]:
    """The mean candidate, (d,) shared or (B, d), float64, and the norm that bounds centrality's rounding."""
    if c.shared:
        return c.matrix.mean, float(torch.linalg.vector_norm(c.matrix.mean))
    pools = blocks(c.count * c.vectors.shape[-1], c.vectors)
    return torch.cat([pool.double().mean(1) for (pool,) in pools]), 0.0


def _first_field(p: Quadratic, y: Tensor, length: float) -> tuple[Tensor, Tensor]:
    """The field at x = k/n of all problems without a pass: the matrix keeps U·mean(U)."""
    c = p.c
    h = p.linear * c.relevance - p.beta * p.k * c.matrix.centrality
    error = p.linear * c.relevance_error + c.product_error(p.beta * y)
    size = p.scale + p.beta * p.k * c.max_norm * length
    return h, error + p.rounding * size
