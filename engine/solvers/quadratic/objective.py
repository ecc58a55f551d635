"""Relevance of a set less its redundancy: the objective of frank_wolfe and max_sum, in float64.

F(Y) = θ(k−1) Σ_{i∈Y} r_i − (1−θ) Σ_{i≠j∈Y} u_i·u_j, which is k(k−1) times eq. (2) of the CCBQP paper. The diagonal
stays out whatever the rows' lengths.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import blocks, products
from engine.solvers.tie_breaking import best
from engine.values import Ranking

TOLERANCE = 1e-9
"""What counts as no improvement, relative to the scale of a swap's gain."""


class Quadratic:
    """F over B problems with sets of k ≥ 2, θ = relevance_weight in [0, 1].

    `at` is always a (b,) int64 choice of problems, y a (b, d) float64 sum of weighted rows. The linear field of y,
    h_i = θ(k−1) r_i − 2(1−θ) u_i·y, is what candidates are compared by: at y = Σ_{j∈Y} u_j it is the marginal
    contribution of i ∉ Y.
    """

    def __init__(self, candidates: Candidates, k: int, relevance_weight: float) -> None:
        self.c, self.k = candidates, k
        self.linear = relevance_weight * (k - 1)
        self.beta = 2 * (1 - relevance_weight)
        self.weight = relevance_weight
        # Bound on the relative error of the few operations that follow a pass.
        self.rounding = 8 * torch.finfo(candidates.relevance.dtype).eps

    @cached_property
    def every(self) -> Tensor:
        """(B,) all problems."""
        return torch.arange(self.c.batch, device=self.c.relevance.device)

    @cached_property
    def scale(self) -> Tensor:
        """(B,) float64: no swap gains more than about this much."""
        c = self.c
        if c.inner_product:
            relevance = c.max_norm * torch.linalg.vector_norm(c.queries.double(), dim=1)
        else:
            relevance = c.relevance.abs().amax(1).double()
        scale: Tensor = (self.k - 1) * (self.weight * relevance + self.beta * c.max_norm**2)
        return scale

    def sums(self, at: Tensor, index: Tensor) -> Tensor:
        """(b, d) float64 Σ u_i over sets (b, k) of ascending candidates: k rows are read, no pass is made."""
        return torch.cat([rows.sum(1) for rows in self._members(at, index)])

    def field(self, at: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """(b, n) the linear field of y in the vectors' precision, by one pass over them, and (b,) its error bound."""
        h, error, _ = self.field_beside(at, y, self.c.vectors[:0])
        return h, error

    def field_beside(self, at: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The field of y, its error bound, and (m, n) products of all candidates with rows (m, d), by one pass.

        Only candidates that the problems share can have products beside.
        """
        c, z = self.c, self.point(at, y)
        whole = len(at) == c.batch
        error, beside = c.product_error(z), rows
        if c.shared:
            made = products(c.vectors, torch.cat([z.to(rows.dtype), rows]))
            h, beside = made[: len(at)], made[len(at) :]
        else:
            h = torch.bmm(c.vectors if whole else c.vectors[at], z.to(c.vectors.dtype).unsqueeze(2)).squeeze(2)
        if not c.inner_product:
            h = h + self.linear * (c.relevance if whole else c.relevance[at])
            error = error + self.rounding * (self.scale[at] + c.max_norm * torch.linalg.vector_norm(z, dim=1))
        return h, error, beside

    def exact_field(self, at: Tensor, y: Tensor, batch: Tensor, index: Tensor) -> Tensor:
        """(m,) float64 field at flat pairs; `batch` counts within `at`. Identical rows get identical numbers."""
        z = self.point(at, y)
        pairs = blocks(self.c.vectors.shape[-1], batch, index)
        value = torch.cat([(self.c.rows(at[b], i).double() * z[b]).sum(1) for b, i in pairs])
        return value if self.c.inner_product else value + self.linear * self.c.exact_relevance(at[batch], index)

    def squares(self, at: Tensor, index: Tensor) -> Tensor:
        """(b, k) float64 squared lengths of the members of sets."""
        return torch.cat([rows.square().sum(2) for rows in self._members(at, index)])

    def ranking(self, index: Tensor, details: Mapping[str, Sequence[Any]]) -> Ranking:
        """Sets (B, k) in the order of their marginal contributions, best first, ties by lower row.

        gain: θ(k−1) r_i − 2(1−θ) Σ_{l∈Y∖i} u_i·u_l; info: the objective in the paper's scale, θ/k Σ r_i −
        (1−θ)/(k(k−1)) Σ_{i≠j} u_i·u_j, how many candidates there were, and `details`, a list over problems each.
        """
        index = index.sort(dim=1).values
        parts = [self._marginal(a, i) for a, i in blocks(self.k * self.c.vectors.shape[-1], self.every, index)]
        marginal, value = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        order = marginal.argsort(dim=1, descending=True, stable=True)
        info = {"objective": (value / (self.k * (self.k - 1))).tolist(), **details}
        entries = zip(*info.values(), strict=True)
        return Ranking(
            index.gather(1, order),
            marginal.gather(1, order),
            tuple({**dict(zip(info, entry, strict=True)), "candidates": self.c.count} for entry in entries),
        )

    def _marginal(self, at: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """(b, k) marginal contributions of the members of sets, and the sets' (b,) values, in float64."""
        rows = next(self._members(at, index))
        relevance = (rows * self.c.queries[at].double().unsqueeze(1)).sum(2) if self.c.inner_product else None
        linear = self.linear * (self.c.relevance[at].gather(1, index).double() if relevance is None else relevance)
        others = (rows * rows.sum(1, keepdim=True)).sum(2) - rows.square().sum(2)
        return linear - self.beta * others, linear.sum(1) - self.beta / 2 * others.sum(1)

    def point(self, at: Tensor, y: Tensor) -> Tensor:
        # With r = U·q the field is one product: U·(θ(k−1) q − 2(1−θ) y).
        return self.linear * self.c.queries[at].double() - self.beta * y if self.c.inner_product else -self.beta * y

    def _members(self, at: Tensor, index: Tensor) -> Iterator[Tensor]:
        """Blocks of (b, k, d) float64 rows of the members."""
        for a, i in blocks(index.shape[1] * self.c.vectors.shape[-1], at, index):
            yield self.c.rows(a.repeat_interleave(i.shape[1]), i.flatten()).view(*i.shape, -1).double()


def most_relevant(c: Candidates) -> Ranking:
    """The answer for k = 1, where a set has no pairs: the most relevant candidate, its relevance the gain."""
    index = best(c.relevance, c.relevance_error, c.exact_relevance, lambda: c.duplicate_of)[0].unsqueeze(1)
    gain = c.exact_relevance(torch.arange(c.batch, device=index.device), index[:, 0])
    info = tuple({"objective": value, "candidates": c.count} for value in gain.tolist())
    return Ranking(index, gain.unsqueeze(1), info)
