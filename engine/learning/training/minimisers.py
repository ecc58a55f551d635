"""Exact elastic nets of a batch, and their derivatives by the implicit function theorem.

On the support A, which small changes leave as it is, w_A = M⁻¹ (U_A v − λ₁) with M = U_A U_Aᵀ + λ₂ I. For a loss with
gradient γ in w and g = M⁻¹ γ_A, ρ = v − Uᵀw: ∂v = U_Aᵀ g, ∂U_A = g ρᵀ − w (U_Aᵀ g)ᵀ, ∂λ₁ = −Σ g, ∂λ₂ = −g·w. No
iteration is remembered, only a support and its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, exactly
from engine.matrix import GRAM_ROWS, Matrix
from engine.solvers.elastic_net import Solutions, duals, elastic_nets, only, points_of

DIRECT = 1024
"""Up to so many rows every query is solved over all of them; beyond, over rows that the queries have in common."""
FIRST = 64
"""So many of each query's most relevant rows are among them from the start."""
TOLERANCE = 1e-9
"""What a dual may exceed λ₁ by, of the largest score, before its row joins."""
RIDGE = 1e-6
"""Added to M where λ₂ = 0, as rows of the support may nearly depend on each other."""


@dataclass(frozen=True, eq=False)
class Support:
    """The minimisers of B queries.

    members: (B, K) rows with a weight, the largest weight first, 0 where `there` is False; weights: (B, K) float64.
    """

    members: Tensor
    weights: Tensor
    there: Tensor

    @property
    def sizes(self) -> Tensor:
        """(B,) how many documents have a weight."""
        return self.there.sum(1)


@exactly
def supports(rows: Tensor, queries: Tensor, l1: float, l2: float) -> Support:
    """The minimisers of ½|Uᵀw − v|² + λ₁ Σw + ½λ₂|w|² over w ≥ 0: rows U (n, d), queries (B, d); l1 > 0 or l2 > 0."""
    matrix = Matrix(rows.detach(), kept=True)
    queries = queries.detach()
    c = Candidates(matrix.vectors, queries @ matrix.vectors.T, queries, matrix)
    if c.count <= DIRECT or rows.is_cuda:
        return _padded(_solved(c, l1, l2), rows.device)
    # Few enough queries that the rows which they have in common can go by their Gram matrix.
    size = max(1, GRAM_ROWS // (2 * FIRST))
    parts = [_together(only(c, slice(at, at + size)), l1, l2) for at in range(0, c.batch, size)]
    return _padded(Solutions.joined(parts), rows.device)


def _solved(c: Candidates, l1: float, l2: float) -> Solutions:
    return elastic_nets(c, np.full((c.batch, 1), l1), np.array([l2]))


def _together(c: Candidates, l1: float, l2: float) -> Solutions:
    """The minimisers of a few queries over many rows: over a few rows, until all others are proven to have no weight.

    One product a round verifies all queries; rows that it cannot decide are scored again in float64.
    """
    least = TOLERANCE * c.relevance.abs().amax(1).double()
    some = c.relevance.topk(min(FIRST, c.count), dim=1).indices.flatten().unique()
    while True:
        part = Matrix(c.vectors[some], kept=len(some) <= GRAM_ROWS)
        found = _solved(Candidates(part.vectors, c.relevance[:, some], c.queries, part), l1, l2)
        found = Solutions(
            found.ends, some.numpy()[found.members], found.weights, found.residual, found.gap, found.passes, {}
        )
        points = points_of(c, found)
        score, error, exact = duals(c, points)
        open_ = score > (l1 - error).unsqueeze(1)
        open_[:, some] = False
        batch, row = open_.nonzero(as_tuple=True)
        bad = exact.exact_relevance(batch, row) > l1 + least[batch]
        if not bool(bad.any()):
            return found
        some = torch.cat([some, row[bad]]).unique()


def _padded(found: Solutions, device: torch.device) -> Support:
    width = max(1, int(found.counts.max()))
    place = np.arange(len(found.members)) - (found.ends - found.counts)[found.problem]
    members = np.zeros((len(found), width), np.int64)
    weights = np.zeros((len(found), width))
    members[found.problem, place], weights[found.problem, place] = found.members, found.weights
    there = np.arange(width) < found.counts[:, None]
    return Support(*(torch.from_numpy(part).to(device) for part in (members, weights, there)))


class Implicit(torch.autograd.Function):
    """(B, m) weights of a support as a function of rows U (m, d), queries (B, d), λ₁ and λ₂; m ≥ all of its members."""

    @staticmethod
    def forward(ctx, rows, queries, l1, l2, support: Support) -> Tensor:
        weights = queries.new_zeros(len(queries), len(rows))
        weights.scatter_add_(1, support.members, support.weights.to(weights.dtype))
        ctx.save_for_backward(rows, queries, weights, support.members, support.there)
        ctx.ridge = number(l2) or RIDGE
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        rows, queries, weights, members, there = ctx.saved_tensors
        # The system is small and may be ill-conditioned: float64.
        active = rows[members].double()
        curve = (active @ active.mT) * (there.unsqueeze(1) & there.unsqueeze(2))
        curve = curve + torch.diag_embed(torch.where(there, ctx.ridge, 1.0).double())
        asked = gradient.gather(1, members).double() * there
        factor = torch.linalg.cholesky_ex(curve)[0]
        found = torch.cholesky_solve(asked.unsqueeze(2), factor).squeeze(2) * there
        pull = torch.zeros_like(weights).scatter_add_(1, members, found.to(weights.dtype))
        of_queries = pull @ rows
        of_rows = pull.T @ (queries - weights @ rows) - weights.T @ of_queries if ctx.needs_input_grad[0] else None
        of_l1 = -pull.sum() if ctx.needs_input_grad[2] else None
        of_l2 = -(pull * weights).sum() if ctx.needs_input_grad[3] else None
        return of_rows, of_queries, of_l1, of_l2, None


def weights_of(rows: Tensor, queries: Tensor, l1: Tensor | float, l2: Tensor | float) -> Tensor:
    """(B, n) exact weights, differentiable in rows U (n, d), queries (B, d), and λ₁, λ₂ where they are tensors."""
    return Implicit.apply(rows, queries, l1, l2, supports(rows, queries, number(l1), number(l2)))


def number(penalty: Tensor | float) -> float:
    """A penalty without its graph."""
    return float(penalty.detach()) if isinstance(penalty, Tensor) else float(penalty)


@dataclass(frozen=True, eq=False)
class Solved:
    """Weights of B queries with their graph, over the m rows that gradients can reach.

    rows: (m, d) those rows; queries: (B, d); weights: (B, m); relevant: (B, m) which are relevant; beyond: how many
    documents besides these the corpus has, none of which has a weight.
    """

    rows: Tensor
    queries: Tensor
    weights: Tensor
    relevant: Tensor
    beyond: int


def solved(
    everything: Tensor,
    encode: Callable[[Tensor], Tensor],
    queries: Tensor,
    query: Tensor,
    document: Tensor,
    l1: float,
    l2: float,
) -> Solved:
    """Exact weights with a graph on the rows of the supports and of the relevant documents only, which is exact: no
    other row has a gradient.

    everything: (n, d) all rows, as they are now; encode: (m,) positions → these rows with their graph; queries: (B, d)
    with theirs; query, document: (P,) pairs of a query and a relevant row.
    """
    found = supports(everything, queries, l1, l2)
    some, at = torch.cat([found.members[found.there], document]).unique(return_inverse=True)
    count = int(found.there.sum())
    members = torch.zeros_like(found.members)
    members[found.there] = at[:count]
    rows = encode(some)
    relevant = torch.zeros(len(queries), len(some), dtype=torch.bool, device=rows.device)
    relevant[query, at[count:]] = True
    weights = Implicit.apply(rows, queries, l1, l2, Support(members, found.weights, found.there))
    return Solved(rows, queries, weights, relevant, len(everything) - len(some))
