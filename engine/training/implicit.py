"""Exact elastic-net weights of a batch, differentiated by the implicit function theorem.

On the support A, which small changes leave as it is, w_A = M⁻¹ (U_A v − λ₁) with M = U_A U_Aᵀ + λ₂ I. For a loss with
gradient γ in w and g = M⁻¹ γ_A, ρ = v − Uᵀw: ∂v = U_Aᵀ g, ∂U_A = g ρᵀ − w (U_Aᵀ g)ᵀ. No iteration is remembered, only
a support and its rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import Candidates, without_autocast
from engine.matrix import GRAM_ROWS, Matrix
from engine.solvers.elastic_net.solve import Solutions, elastic_nets, residual_points, score_residuals, take_queries
from engine.training.dataset import TrainingBatch

MAX_DIRECT_ROWS = 1024
"""Up to this count of rows every query is solved over all of them; beyond, over rows that the queries share."""
FIRST_SUPPORT_SIZE = 64
"""Each query's most relevant rows that are shared from the start."""
SUPPORT_TOLERANCE = 1e-9
"""Excess of a dual over λ₁, as a share of the largest score, at which its row joins."""
GRAPH_RIDGE = 1e-6
"""Added to M where λ₂ = 0, as rows of the support may nearly depend on each other."""


@dataclass(frozen=True, eq=False)
class Support:
    """Documents with a weight in B elastic nets: their rows, the weights, and a mask of the padding."""

    members: Tensor  # (B, K) rows with a weight, the largest weight first; 0 where `mask` is False
    weights: Tensor  # (B, K) float64
    mask: Tensor  # (B, K) True for members, False for padding


@without_autocast
def supports(rows: Tensor, queries: Tensor, l1: float, l2: float) -> Support:
    """Solve the elastic net of each query over all documents; return which get a weight, and how much.

    It minimises ½|Uᵀw − v|² + λ₁ Σw + ½λ₂|w|² over w ≥ 0 for document rows U (n, d) and queries v (B, d). Exact, and
    without a gradient. A small corpus is solved whole for each query; in a large one, queries are solved in groups over
    the documents that could get a weight.
    """
    # Solved on detached vectors: the gradient comes from the implicit function theorem, not through the solver.
    matrix = Matrix(rows.detach(), cached=True)
    queries = queries.detach()
    c = Candidates(matrix.vectors, queries @ matrix.vectors.T, queries, matrix)
    if c.count <= MAX_DIRECT_ROWS or rows.is_cuda:
        return _pad_supports(_solve_directly(c, l1, l2), rows.device)
    # So few queries per group that the inner products of all their documents can be stored.
    group_size = max(1, GRAM_ROWS // (2 * FIRST_SUPPORT_SIZE))
    groups = [take_queries(c, slice(start, start + group_size)) for start in range(0, c.batch, group_size)]
    parts = [_solve_shared(group, l1, l2) for group in groups]
    return _pad_supports(Solutions.joined(parts), rows.device)


def _solve_directly(c: Candidates, l1: float, l2: float) -> Solutions:
    """Return the exact elastic-net weights of each query of a batch over all of its candidates."""
    return elastic_nets(c, np.full((c.batch, 1), l1), np.array([l2]))


def _solve_shared(c: Candidates, l1: float, l2: float) -> Solutions:
    """Solve the elastic nets of a few queries exactly over a small set of documents that they share.

    It begins with the most relevant documents of each query and grows until no other one can have a weight. One matrix
    product a round verifies all queries; documents that it cannot decide are scored again in float64.
    """
    tolerance = SUPPORT_TOLERANCE * c.relevance.abs().amax(1).double()
    rows = c.relevance.topk(min(FIRST_SUPPORT_SIZE, c.count), dim=1).indices.flatten().unique()
    while True:
        part = Matrix(c.vectors[rows], cached=len(rows) <= GRAM_ROWS)
        # Member numbers of `local` count the rows of this small set.
        local = _solve_directly(Candidates(part.vectors, c.relevance[:, rows], c.queries, part), l1, l2)
        solutions = replace(local, members=rows.numpy()[local.members], tied={})
        # A row outside stays without weight where its dual, the product with the residual v − Uᵀw, is at most λ₁.
        score, error, exact = score_residuals(c, residual_points(c, solutions))
        # By the rounded product the dual may exceed λ₁.
        is_undecided = score > (l1 - error).unsqueeze(1)
        is_undecided[:, rows] = False
        query_index, row_index = is_undecided.nonzero(as_tuple=True)
        is_violated = exact.exact_relevance(query_index, row_index) > l1 + tolerance[query_index]
        if not bool(is_violated.any()):
            return solutions
        # The rows only ever grow, so this ends at the latest with all of them.
        rows = torch.cat([rows, row_index[is_violated]]).unique()


def _pad_supports(solutions: Solutions, device: torch.device) -> Support:
    """Pad the solutions, stored as one flat list of members, to a (B, K) Support on a device.

    K is at least 1, so that gathers have a column.
    """
    width = max(1, int(solutions.counts.max()))
    # The index of each member within its own problem: flat index minus the start of the problem.
    position = np.arange(len(solutions.members)) - (solutions.ends - solutions.counts)[solutions.problem]
    members = np.zeros((len(solutions), width), np.int64)
    weights = np.zeros((len(solutions), width))
    members[solutions.problem, position] = solutions.members
    weights[solutions.problem, position] = solutions.weights
    mask = np.arange(width) < solutions.counts[:, None]
    return Support(*(torch.from_numpy(padded_array).to(device) for padded_array in (members, weights, mask)))


class Implicit(torch.autograd.Function):
    """Elastic-net weights (B, m) of a solved support, with gradients by the implicit function theorem.

    A function of rows U (m, d) and queries (B, d) at λ₂, where the m rows hold all members of the support.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, queries: Tensor, l2: float, support: Support) -> Tensor:
        """Return the (B, m) elastic-net weights of B queries over m documents, from their solved support.

        The support lists the documents that have a weight. Gradients come from the implicit function theorem: `ctx`
        carries what the backward pass needs.
        """
        # Added, not set: the padding points at row 0 with weight 0, and must not overwrite a member there.
        weights = queries.new_zeros(len(queries), len(rows))
        weights.scatter_add_(1, support.members, support.weights.to(weights.dtype))
        ctx.save_for_backward(rows, queries, weights, support.members, support.mask)
        # Without λ₂ the system of the backward pass could be singular.
        ctx.ridge = l2 or GRAPH_RIDGE
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Return a loss's gradients in the document rows U and the queries v, from the one in the weights w.

        The weights w are the elastic net's. On the documents A whose weight is above 0 they have a closed form, w_A =
        M⁻¹ (U_A v − λ₁) with M = U_A U_Aᵀ + λ₂ I, so that no solver step needs to be differentiated. With γ the given
        gradient, g = M⁻¹ γ_A, and the residual ρ = v − Uᵀw, the gradients are ∂v = U_Aᵀ g and ∂U_A = g ρᵀ − w (U_Aᵀ
        g)ᵀ. gradient: γ, (B, m)
        """
        # members: (B, s) the documents A of each query, padded to one size s; mask: False where that is padding.
        rows, queries, weights, members, mask = ctx.saved_tensors
        # The system is small and may be ill-conditioned: float64.
        active = rows[members].double()
        # The matrix M of each query. Padding gets the rows and columns of the identity matrix, so that M stays
        # invertible.
        system = (active @ active.mT) * (mask.unsqueeze(1) & mask.unsqueeze(2))
        system = system + torch.diag_embed(torch.where(mask, ctx.ridge, 1.0).double())
        gamma = gradient.gather(1, members).double() * mask
        # cholesky_ex does not check for errors, which would make a GPU wait for the result.
        factor, _errors = torch.linalg.cholesky_ex(system)
        solved = torch.cholesky_solve(gamma.unsqueeze(2), factor).squeeze(2) * mask
        # Summed over the queries of the batch as matrix products.
        g = torch.zeros_like(weights).scatter_add_(1, members, solved.to(weights.dtype))
        query_grad = g @ rows
        row_grad = g.T @ (queries - weights @ rows) - weights.T @ query_grad if ctx.needs_input_grad[0] else None
        # λ₂ and the support get no gradient.
        return row_grad, query_grad, None, None


def implicit_weights(rows: Tensor, queries: Tensor, l2: float, support: Support) -> Tensor:
    """Compute the weights of a support, (B, m), differentiable in rows (m, d) and queries (B, d)."""
    weights: Tensor = Implicit.apply(rows, queries, l2, support)  # type: ignore[no-untyped-call]  # torch: bare
    return weights


@dataclass(frozen=True, eq=False)
class WeightGraph:
    """Elastic-net weights of B queries with their gradient graph, over the m rows that it can reach."""

    rows: Tensor  # (m, d) those rows
    queries: Tensor  # (B, d)
    weights: Tensor  # (B, m)
    relevant: Tensor  # (B, m) True for relevant rows
    beyond: int  # count of the corpus's other documents, none of which has a weight


def weight_graph(
    all_rows: Tensor, encode: Callable[[Tensor], Tensor], queries: Tensor, batch: TrainingBatch, l1: float, l2: float
) -> WeightGraph:
    """Compute exact elastic-net weights of a batch, with gradients for the few documents that need one.

    These are the documents that get a weight (the support) and the relevant ones: no other has a gradient. all_rows:
    (n, d) all document rows, without a graph; encode: (m,) positions → their rows, with a graph; queries: (B, d) of the
    batch, with theirs; l1, l2: the penalties λ₁ and λ₂.
    """
    support = supports(all_rows, queries, l1, l2)
    # `columns` maps every member, and then every relevant document, to its row among the few that are encoded.
    positions, columns = torch.cat([support.members[support.mask], batch.document]).unique(return_inverse=True)
    n_members = int(support.mask.sum())
    members = torch.zeros_like(support.members)
    members[support.mask] = columns[:n_members]
    rows, relevant = encode(positions), batch.relevance(columns[n_members:], len(positions))
    weights = implicit_weights(rows, queries, l2, Support(members, support.weights, support.mask))
    return WeightGraph(rows, queries, weights, relevant, beyond=len(all_rows) - len(positions))
