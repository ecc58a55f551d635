"""Frank–Wolfe with exact line search on the relaxation of the quadratic objective: the CCBQP paper's Algorithm 1.

maximise θ(k−1) r·x + (1−θ) xᵀ((1+δ)D − S)x over x ∈ [0,1]ⁿ, Σx = k, where S = UUᵀ and D = diag(S): with unit rows
eq. (4). Loading is measured by D because then the relaxation is tight at δ = 1 whatever the rows' lengths: along
e_i − e_j the curvature is δ(|u_i|² + |u_j|²) + 2 u_i·u_j ≥ 0 (the paper's eq. 10).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import CHUNK_NUMBERS
from engine.solvers.contest import ranked
from engine.solvers.quadratic import TOLERANCE, Quadratic

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


def ascend(p: Quadratic, loading: float) -> Ascent:
    """From x = k/n to a stationary point, which is rounded to the k largest x should it not be integral."""
    c, k = p.c, p.k
    batch, n = c.relevance.shape
    if k == n:
        index, zero = p.every.new_tensor(range(n)).expand(batch, -1), c.relevance.new_zeros(batch)
        return Ascent(index, torch.zeros_like(p.every), zero, c.relevance, zero, zero > 0)
    load = p.beta * (1 + loading)
    x = torch.full((batch, n), k / n, dtype=torch.float64, device=c.relevance.device)
    mean, y_error = _mean(c)
    y = (k * mean).expand(batch, -1).clone()
    relevance = p.linear * k * _mean_relevance(c, mean)
    quadratic = (k / n) ** 2 * c.squares.double().sum(-1).expand(batch).clone()
    # What a candidate that no step has touched holds.
    base = torch.full((batch,), k / n, dtype=torch.float64, device=x.device)
    index = torch.zeros(batch, k, dtype=torch.int64, device=x.device)
    steps = torch.zeros_like(index[:, 0])
    gap = torch.zeros_like(base)
    fields, errors = torch.empty_like(c.relevance), torch.zeros_like(base)
    integral = torch.zeros_like(base, dtype=torch.bool)
    at = p.every
    for step in range(STEPS):
        if step == 0 and c.shared:
            h, error = _first_field(p, y, y_error)
        else:
            h, error = p.field(at, y[at])
        fields[at], errors[at] = h, error.double()
        found = _oracle(p, at, y, x, h, error, load)
        toward = p.sums(at, found)
        squares = _squares(p, at, found)
        held = x[at.unsqueeze(1), found]
        here, mass, overlap = y[at], squares.sum(1), (squares * held).sum(1)
        gain = p.linear * p.relevance(at, found).sum(1)
        gaps = (
            (gain - relevance[at])
            + load * (overlap - quadratic[at])
            - p.beta * ((toward * here).sum(1) - (here * here).sum(1))
        )
        curvature = load * (mass - 2 * overlap + quadratic[at]) - p.beta * (toward - here).square().sum(1)
        gap[at] = gaps
        moving = gaps > TOLERANCE * k * p.scale[at]
        index[at] = torch.where((~moving & integral[at]).unsqueeze(1), index[at], found)
        if not bool(moving.all()):
            kept = moving.nonzero().flatten()
            if not len(kept):
                break
            at, found, toward, gain, mass, overlap, gaps, curvature = (
                t[kept] for t in (at, found, toward, gain, mass, overlap, gaps, curvature)
            )
        length = torch.where(curvature >= 0, 1.0, (gaps / -curvature).clamp(max=1.0))
        rest = 1 - length
        _move(x, at, found, length)
        base[at] *= rest
        y[at] = rest.unsqueeze(1) * y[at] + length.unsqueeze(1) * toward
        relevance[at] = rest * relevance[at] + length * gain
        quadratic[at] = rest**2 * quadratic[at] + length**2 * mass + 2 * length * rest * overlap
        integral[at] = length == 1
        steps[at] += 1
    else:
        # Problems that met the cap moved after their last pass.
        errors[at] = torch.nan
    fresh = integral & ~errors.isnan()
    for b in (~integral & (steps > 0)).nonzero().flatten().tolist():
        index[b] = _rounded(p, p.every[b : b + 1], y, x[b], base[b], load)
    return Ascent(index, steps, gap / (k * p.scale).clamp_min(torch.finfo(torch.float64).tiny), fields, errors, fresh)


def _oracle(p: Quadratic, at: Tensor, y: Tensor, x: Tensor, h: Tensor, error: Tensor, load: float) -> Tensor:
    """(b, k) ascending: the k largest of the gradient h + load·D·x, exactly."""
    c = p.c
    part = x if len(at) == c.batch else x[at]
    squares = c.squares if c.shared or len(at) == c.batch else c.squares[at]
    score = torch.add(h, (part.to(h.dtype) * squares), alpha=load)
    error = error + p.rounding * (p.scale[at] + score.abs().amax(1) + load * c.norm**2)
    if not c.matrix.unit:
        error = error + 2 * load * c.similarity_error

    def exact(batch: Tensor, i: Tensor) -> Tensor:
        own = _squares(p, at[batch], i.unsqueeze(1)).squeeze(1)
        return p.exact_field(at, y[at], batch, i) + load * own * x[at[batch], i]

    return ranked(score, p.k, error, exact, all_=False)[0].sort(dim=1).values


def _rounded(p: Quadratic, at: Tensor, y: Tensor, x: Tensor, base: Tensor, load: float) -> Tensor:
    """(k,) the candidates with the largest x, equal ones by gradient, then by row."""
    touched = (x != base).nonzero().flatten()
    held = x[touched]
    none = torch.zeros_like(touched)
    gradient = p.exact_field(at, y[at], none, touched)
    gradient += load * _squares(p, at.expand(len(touched)), touched.unsqueeze(1)).squeeze(1) * held
    order = gradient.argsort(descending=True, stable=True)
    order = order[held[order].argsort(descending=True, stable=True)]
    return touched[order[: p.k]].sort().values


def _move(x: Tensor, at: Tensor, found: Tensor, length: Tensor) -> None:
    # x ← (1 − length) x + length · indicator, in place.
    if len(at) == len(x):
        x *= (1 - length).unsqueeze(1)
        x.scatter_add_(1, found, length.unsqueeze(1).expand_as(found).contiguous())
    else:
        moved = x[at] * (1 - length).unsqueeze(1)
        x[at] = moved.scatter_add_(1, found, length.unsqueeze(1).expand_as(found).contiguous())


def _squares(p: Quadratic, at: Tensor, index: Tensor) -> Tensor:
    """(b, k) float64 D at the members: exactly 1 where the rows are unit rows, as the paper has it."""
    if p.c.matrix.unit:
        return torch.ones(index.shape, dtype=torch.float64, device=index.device)
    return p.squares(at, index)


def _mean(c: Candidates) -> tuple[Tensor, float]:
    """The mean candidate, (d,) shared or (B, d), float64, and the norm that bounds centrality's rounding."""
    if c.shared:
        return c.matrix.mean, float(torch.linalg.vector_norm(c.matrix.mean))
    size = max(1, CHUNK_NUMBERS // (c.count * c.vectors.shape[-1]))
    return torch.cat([part.double().mean(1) for part in c.vectors.split(size)]), 0.0


def _mean_relevance(c: Candidates, mean: Tensor) -> Tensor:
    if c.inner_product:
        return (c.queries.double() * mean).sum(1)
    return c.relevance.double().mean(1)


def _first_field(p: Quadratic, y: Tensor, length: float) -> tuple[Tensor, Tensor]:
    """The field at x = k/n of all problems without a pass: the matrix keeps U·mean(U)."""
    c = p.c
    h = p.linear * c.relevance - p.beta * p.k * c.matrix.centrality
    error = p.linear * c.relevance_error + c.product_error(p.beta * y)
    size = p.scale + p.beta * p.k * c.norm * length
    return h, error + p.rounding * size
