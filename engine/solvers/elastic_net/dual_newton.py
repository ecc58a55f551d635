"""Non-negative elastic nets by Newton steps on the dual, many at a time on any device; for λ₂ > 0.

The dual function of a residual ρ, ρ·v − ½|ρ|² − |[Uρ − λ₁]₊|² / 2λ₂, is concave with one kink a row: where the rows
above λ₁ stay the same it is quadratic, and a Newton step, the step of a primal-dual active set, ends there.
"""

import torch
from torch import Tensor

from engine.candidates import Candidates

FIRST = 512
"""The working set begins with so many of the most relevant rows and doubles at most."""
TOLERANCE = 1e-11
"""What a dual may exceed λ₁ by, of the largest score."""
STEPS, HALVINGS = 300, 40
ENOUGH = 1e-13
"""A gradient shorter than this, of the query's length, is rounding."""


def ascend(c: Candidates, l1: Tensor, l2: Tensor) -> tuple[Tensor, Tensor, int]:
    """Weights (B, m), 0 where there is none, of the rows (B, m), and how many passes over the candidates it took.

    l1, l2: (B,) float64, l2 > 0. One problem a query. Rows outside the working set are proven to have no weight.
    """
    query = c.queries.double()
    width = min(c.count, FIRST)
    members = c.relevance.topk(width, dim=1).indices
    every = torch.arange(c.batch, device=members.device).unsqueeze(1)
    used = torch.ones_like(members, dtype=torch.bool)
    scale = c.relevance.abs().amax(1).double()
    point, passes = query.clone(), 0
    while True:
        rows = _rows(c, every, members).mul_(used.unsqueeze(2))
        point, weight = _maximised(rows, used, query, point, l1, l2)
        # The residual that the weights leave, not the one that they came from.
        point = query - torch.einsum("bm,bmd->bd", weight, rows)
        score = c.products(point.to(c.vectors.dtype))
        passes += 1
        above = score > (l1 - c.product_error(point)).unsqueeze(1)
        above[every.expand_as(members)[used], members[used]] = False
        batch, index = above.nonzero(as_tuple=True)
        value = (_rows(c, batch, index) * point[batch]).sum(-1)
        # The copies of a row with a weight join it, however little λ₂ lifts their dual above λ₁.
        lift = l2 * torch.where(weight > 0, weight, torch.inf).amin(1)
        slack = TOLERANCE * scale
        bad = value > (l1 + torch.minimum(lift - slack, slack))[batch]
        if not bool(bad.any()):
            return weight, members, passes
        members, used = _extended(members, used, batch[bad], index[bad], value[bad])


def _rows(c: Candidates, batch: Tensor, index: Tensor) -> Tensor:
    return (c.vectors[index] if c.vectors.ndim == 2 else c.vectors[batch, index]).double()


def _extended(members: Tensor, used: Tensor, batch: Tensor, index: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """The working sets with the worst rows added, at most as many as they hold."""
    order = value.argsort(descending=True)
    order = order[batch[order].argsort(stable=True)]
    batch, index = batch[order], index[order]
    counts = torch.bincount(batch, minlength=len(members))
    place = torch.arange(len(batch), device=batch.device) - (counts.cumsum(0) - counts)[batch]
    most = members.shape[1]
    width = min(most, int(counts.max()))
    more, known = members.new_zeros(len(members), width), torch.zeros_like(used[:, :1]).repeat(1, width)
    kept = place < width
    more[batch[kept], place[kept]], known[batch[kept], place[kept]] = index[kept], True
    return torch.cat([members, more], 1), torch.cat([used, known], 1)


def _maximised(
    rows: Tensor, used: Tensor, query: Tensor, point: Tensor, l1: Tensor, l2: Tensor
) -> tuple[Tensor, Tensor]:
    """The maximiser of the dual over the working sets, (B, d), and the weights there, (B, m)."""
    first, second = l1.unsqueeze(1), l2.unsqueeze(1)
    unit = torch.eye(query.shape[1], dtype=query.dtype, device=query.device)
    small = ENOUGH * torch.linalg.vector_norm(query, dim=1)
    height = torch.einsum("bmd,bd->bm", rows, point) - first
    for _ in range(STEPS):
        excess = torch.where(used, height.clamp_min(0), 0)
        slope = query - point - torch.einsum("bm,bmd->bd", excess, rows) / second
        active = rows * (excess > 0).unsqueeze(2)
        curve = unit + active.mT @ active / second.unsqueeze(2)
        step = torch.cholesky_solve(slope.unsqueeze(2), torch.linalg.cholesky(curve)).squeeze(2)
        climb = torch.where(used, torch.einsum("bmd,bd->bm", rows, step), 0)
        step = step * _far(height, climb, query - point, step, l2).unsqueeze(1)
        point = point + step
        height = torch.einsum("bmd,bd->bm", rows, point) - first
        if bool((torch.linalg.vector_norm(step, dim=1) <= small).all()):
            break
    return point, torch.where(used, height.clamp_min(0), 0) / second


def _far(height: Tensor, climb: Tensor, left: Tensor, step: Tensor, l2: Tensor) -> Tensor:
    """(B,) how many steps to go: to where the dual, concave along the line, stops rising; 1 where no kink is passed."""
    rise, bend = (left * step).sum(1), (step * step).sum(1)

    def slope(share: Tensor) -> Tensor:
        excess = torch.addcmul(height, climb, share.unsqueeze(1)).clamp_min(0)
        return rise - share * bend - (excess * climb).sum(1) / l2

    low, high = torch.zeros_like(l2), torch.full_like(l2, 2)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        up = slope(middle) > 0
        low, high = torch.where(up, middle, low), torch.where(up, high, middle)
    same = ((height > 0) == (height + climb > 0)).all(1)
    return torch.where(same, 1.0, (low + high) / 2)
