"""Greedy on the quadratic objective, exactly, with far fewer passes over a large corpus than picks.

After a pass at y₀ the best candidates form a pool. At a later y the pool is scored alone, and what lies outside is
bounded: with z₀ = θ(k−1) q − 2(1−θ) y₀ and a_j = u_j·z₀/|z₀| ≤ τ outside, u_j·(z₀ − 2(1−θ)Δ) ≤ A a + B √(L² − a²),
where Δ = y − y₀, A = |z₀| − 2(1−θ) Δ·z₀/|z₀|, B = 2(1−θ) |Δ − its part along z₀| and no row is longer than L. Where
the pool's best does not exceed that bound, a new pass is made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.solvers.contest import best
from engine.solvers.quadratic import Quadratic

DENSE = 4096
"""Up to so many candidates every pick makes a pass, all problems together."""
POOL = 1024
"""How many candidates beyond 2k a pool holds."""
TOGETHER = 64
"""So many problems have pools at a time."""


def greedy(p: Quadratic) -> Tensor:
    """(B, k) candidates in the order of the picks: the most relevant, then the largest θ(k−1) r_i − 2(1−θ) u_i·y."""
    pooled = p.c.count > max(DENSE, 4 * (POOL + 2 * p.k))
    return torch.cat([_in_step(p, at, pooled) for at in p.every.split(TOGETHER if pooled else p.c.batch)])


def _in_step(p: Quadratic, at: Tensor, pooled: bool) -> Tensor:
    """The picks of some problems, which share the passes that their pools leave necessary."""
    chosen = torch.empty(len(at), p.k, dtype=torch.int64, device=at.device)
    y = torch.zeros(len(at), p.c.vectors.shape[-1], dtype=torch.float64, device=at.device)
    pools: list[_Pool | None] = [None] * len(at)
    for step in range(p.k):
        left = torch.arange(len(at), device=at.device)
        if pooled:
            picks = [pool and pool.pick(y[i : i + 1], chosen[i, :step]) for i, pool in enumerate(pools)]
            for i, pick in enumerate(picks):
                if pick is not None:
                    chosen[i, step] = pick
            left = left[[pick is None for pick in picks]]
        if len(left):
            chosen[left, step], h, error = _dense_pick(p, at[left], y[left], chosen[left, :step])
            h.scatter_(1, chosen[left, step].unsqueeze(1), -torch.inf)
            # The first pick is by relevance alone: at θ = 0 its scores are no field.
            if pooled and (step or p.weight > 0):
                for row, i in enumerate(left.tolist()):
                    # A pool that served no pick is not replaced at once: pooling may not pay here.
                    idle = pools[i] is not None and not pools[i].served
                    pools[i] = None if idle else _Pool.of(p, at[i : i + 1], y[i : i + 1], h[row], float(error[row]))
        y += p.c.rows(at, chosen[:, step]).double()
    return chosen


def _dense_pick(p: Quadratic, at: Tensor, y: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The pick of each problem, the scores it was made by, −inf where chosen already, and their error bounds."""
    c = p.c
    if chosen.shape[1] == 0:
        h, error = c.relevance[at], c.relevance_error[at]
        pick = best(h, error, lambda b, i: c.exact_relevance(at[b], i), lambda: c.twins)[0]
        return pick, p.linear * h, p.linear * error + p.rounding * p.scale[at]
    h, error = p.field(at, y)
    h.scatter_(1, chosen, -torch.inf)
    return best(h, error, lambda b, i: p.exact_field(at, y, b, i), lambda: c.twins)[0], h, error


@dataclass
class _Pool:
    """The best candidates of one problem at y = start, ascending, and a bound on the field of all others there."""

    p: Quadratic
    at: Tensor
    start: Tensor
    ids: Tensor
    rows: Tensor
    outside: float
    served: int = 0

    @staticmethod
    def of(p: Quadratic, at: Tensor, y: Tensor, h: Tensor, error: float) -> _Pool:
        value, ids = h.topk(POOL + 2 * p.k + 1)
        ids = ids[:-1].sort().values
        return _Pool(p, at, y.clone(), ids, p.c.rows(at.expand(len(ids)), ids), float(value[-1]) + error)

    def pick(self, y: Tensor, chosen: Tensor) -> Tensor | None:
        """The best candidate of all at y, or None where the pool cannot tell."""
        p, c = self.p, self.p.c
        z = p.point(self.at, y)
        h = (self.rows @ z[0].to(self.rows.dtype)).unsqueeze(0)
        error = c.product_error(z)
        if not c.inner_product:
            h = h + p.linear * c.relevance[self.at][:, self.ids]
            error = error + p.rounding * (p.scale[self.at] + c.norm * torch.linalg.vector_norm(z, dim=1))
        h[0, torch.isin(self.ids, chosen)] = -torch.inf
        zero = torch.zeros_like(self.at)
        winner = self.ids[best(h, error, lambda b, i: p.exact_field(self.at, y, b, self.ids[i]))[0]]
        margin = float(p.exact_field(self.at, y, zero, winner)) - self._beyond(y)
        if not margin > 1e-12 * float(p.scale[self.at]):
            return None
        self.served += 1
        return winner[0]

    def _beyond(self, y: Tensor) -> float:
        """No candidate outside the pool has a larger field at y."""
        p, moved = self.p, (y - self.start)[0]
        longest = p.c.norm * (1 + 1e-5)
        far = self.outside + p.beta * longest * float(moved.norm())
        z = p.point(self.at, self.start)[0]
        length = float(z.norm())
        if not p.c.inner_product or length == 0:
            return far
        along = float(moved @ z) / length
        a = length - p.beta * along
        b = p.beta * float((moved - (along / length) * z).norm())
        top = min(max(self.outside / length, -longest), longest)
        if top * math.hypot(a, b) >= longest * a:
            return min(far, longest * math.hypot(a, b))
        return min(far, a * top + b * math.sqrt(longest**2 - top**2))
