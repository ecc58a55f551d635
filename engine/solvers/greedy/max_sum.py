"""Greedy on the quadratic objective, exactly, with far fewer passes over a large corpus than picks.

After a pass at y₀ the best candidates form a pool. At a later y the pool is scored alone, and what lies outside is
bounded: with z₀ = θ(k−1) q − 2(1−θ) y₀ and a_j = u_j·z₀/|z₀| ≤ τ outside, u_j·(z₀ − 2(1−θ)Δ) ≤ A a + B √(L² − a²),
where Δ = y − y₀, A = |z₀| − 2(1−θ) Δ·z₀/|z₀|, B = 2(1−θ) |Δ − its part along z₀| and no row is longer than L. Where
the pool's best does not exceed it, a new pass is made, in which picks that the pool guesses are multiplied too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.solvers.quadratic.objective import Quadratic
from engine.solvers.tie_breaking import best

DENSE = 4096
"""Up to so many candidates every pick makes a pass, all problems together."""
POOL = 1024
"""How many candidates beyond 2k a pool holds."""
AHEAD = 4
"""How many picks a pool guesses before a pass."""
TOGETHER = 32
"""So many problems have pools, and share passes, at a time."""


def greedy(p: Quadratic) -> Tensor:
    """(B, k) candidates in the order of the picks: the most relevant, then the largest θ(k−1) r_i − 2(1−θ) u_i·y."""
    if p.c.count <= max(DENSE, 4 * (POOL + 2 * p.k)):
        return _in_step(p)
    return torch.cat([_with_pools(p, at) for at in p.every.split(TOGETHER)])


def _in_step(p: Quadratic) -> Tensor:
    """The picks of all problems, a pass each."""
    c = p.c
    chosen = torch.empty(c.batch, p.k, dtype=torch.int64, device=p.every.device)
    chosen[:, 0] = _most_relevant(p, p.every)
    y = c.rows(p.every, chosen[:, 0]).double()
    for step in range(1, p.k):
        h, error = p.field(p.every, y)
        h.scatter_(1, chosen[:, :step], -torch.inf)
        chosen[:, step] = _best(p, p.every, y, h, error)
        y += c.rows(p.every, chosen[:, step]).double()
    return chosen


def _with_pools(p: Quadratic, at: Tensor) -> Tensor:
    """The picks of some problems, which share the passes that their pools leave necessary."""
    runs = [_Run.of(p, at[i : i + 1], pick) for i, pick in enumerate(_most_relevant(p, at))]
    while waiting := [run for run in runs if not run.coasted()]:
        guesses = [run.guesses() for run in waiting]
        rows = [p.c.rows(run.at.expand(len(g)), g) for run, g in zip(waiting, guesses, strict=True)]
        some, y = torch.cat([run.at for run in waiting]), torch.cat([run.y for run in waiting])
        h, error, products = p.field_beside(some, y, torch.cat(rows))
        parts = products.split([len(g) for g in guesses]) if p.c.shared else [products] * len(waiting)
        for row, run in enumerate(waiting):
            run.advance(h[row : row + 1], error[row : row + 1], guesses[row], parts[row])
    return torch.stack([run.chosen for run in runs])


def _most_relevant(p: Quadratic, at: Tensor) -> Tensor:
    c = p.c
    exact = lambda b, i: c.exact_relevance(at[b], i)  # noqa: E731
    return best(c.relevance[at], c.relevance_error[at], exact, lambda: c.duplicate_of)[0]


def _best(p: Quadratic, at: Tensor, y: Tensor, h: Tensor, error: Tensor) -> Tensor:
    return best(h, error, lambda b, i: p.exact_field(at, y, b, i), lambda: p.c.duplicate_of)[0]


@dataclass
class _Run:
    """One problem, `done` picks on the way: y is their sum."""

    p: Quadratic
    at: Tensor
    chosen: Tensor
    done: int
    y: Tensor
    pool: _Pool | None = None

    @staticmethod
    def of(p: Quadratic, at: Tensor, pick: Tensor) -> _Run:
        """After the first pick, which is by relevance alone."""
        run = _Run(p, at, torch.empty(p.k, dtype=torch.int64, device=at.device), 0, torch.zeros((), device=at.device))
        run.y = torch.zeros(1, p.c.vectors.shape[-1], dtype=torch.float64, device=at.device)
        h, error = p.linear * p.c.relevance[at], p.linear * p.c.relevance_error[at] + p.rounding * p.scale[at]
        h[0, pick] = -torch.inf
        # With θ > 0 these scores are the field at y = 0.
        run.pool = _Pool.of(p, at, run.y, h[0], float(error)) if p.weight > 0 else None
        run.take(pick)
        return run

    def take(self, pick: Tensor) -> None:
        self.chosen[self.done] = pick
        self.done += 1
        self.y = self.y + self.p.c.rows(self.at, pick.view(1)).double()

    def coasted(self) -> bool:
        """Picks as long as the pool can tell; whether that was all."""
        while self.done < self.p.k:
            pick = None if self.pool is None else self.pool.pick(self.y, self.chosen[: self.done])
            if pick is None:
                return False
            self.take(pick)
        return True

    def guesses(self) -> Tensor:
        """What the pool alone would pick next, save the last pick: nothing comes after it."""
        most = min(AHEAD, self.p.k - self.done - 1)
        if self.pool is None or most <= 0 or not self.p.c.shared:
            return self.chosen[:0]
        return self.pool.guesses(self.y, self.chosen[: self.done], most)

    def advance(self, h: Tensor, error: Tensor, guesses: Tensor, products: Tensor) -> None:
        """Picks by the field at y, (1, n), and on for as long as the guesses were right; then a new pool."""
        p, c = self.p, self.p.c
        h[0, self.chosen[: self.done]] = -torch.inf
        for step in range(len(guesses) + 1):
            start = self.y
            pick = _best(p, self.at, start, h, error)
            h[0, pick] = -torch.inf
            self.take(pick)
            if step == len(guesses) or int(pick) != int(guesses[step]):
                break
            size = p.scale[self.at] + c.max_norm * torch.linalg.vector_norm(p.point(self.at, start), dim=1)
            error = error + p.beta * c.similarity_error + p.rounding * (size + p.beta * c.max_norm**2)
            h.sub_(products[step], alpha=p.beta)
        self.pool = _Pool.of(p, self.at, start, h[0], float(error)) if self.done < p.k else None


@dataclass(frozen=True)
class _Pool:
    """The best candidates of one problem at y = start, ascending, and a bound on the field of all others there."""

    p: Quadratic
    at: Tensor
    start: Tensor
    ids: Tensor
    rows: Tensor
    outside: float

    @staticmethod
    def of(p: Quadratic, at: Tensor, y: Tensor, h: Tensor, error: float) -> _Pool:
        value, ids = h.topk(POOL + 2 * p.k + 1)
        ids = ids[:-1].sort().values
        return _Pool(p, at, y, ids, p.c.rows(at.expand(len(ids)), ids), float(value[-1]) + error)

    def pick(self, y: Tensor, chosen: Tensor) -> Tensor | None:
        """The best candidate of all at y, or None where the pool cannot tell."""
        p, at = self.p, self.at
        h, error = self._field(y, chosen)
        place = best(h, error, lambda b, i: p.exact_field(at, y, b, self.ids[i]))[0]
        winner = self.ids[place]
        margin = float(p.exact_field(at, y, torch.zeros_like(at), winner)) - self._beyond(y)
        return winner[0] if margin > 1e-12 * float(p.scale[at]) else None

    def guesses(self, y: Tensor, chosen: Tensor, most: int) -> Tensor:
        """What greedy on the pool alone picks from y on."""
        h = self._field(y, chosen)[0][0]
        found = []
        for _ in range(most):
            place = int(h.argmax())
            found.append(place)
            h = h - self.p.beta * (self.rows @ self.rows[place])
            h[place] = -torch.inf
        return self.ids[found]

    def _field(self, y: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """(1, m) the field of the pool at y, −inf where chosen, and its error bound."""
        p, c = self.p, self.p.c
        z = p.point(self.at, y)
        h, error = (self.rows @ z[0].to(self.rows.dtype)).unsqueeze(0), c.product_error(z)
        if not c.inner_product:
            h = h + p.linear * c.relevance[self.at][:, self.ids]
            error = error + p.rounding * (p.scale[self.at] + c.max_norm * torch.linalg.vector_norm(z, dim=1))
        h[0, torch.isin(self.ids, chosen)] = -torch.inf
        return h, error

    def _beyond(self, y: Tensor) -> float:
        """No candidate outside the pool has a larger field at y."""
        p, moved = self.p, (y - self.start)[0]
        longest = p.c.max_norm * (1 + 1e-5)
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
