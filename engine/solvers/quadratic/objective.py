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
from engine.solvers.gram import list_infos
from engine.solvers.tie_breaking import rank_exactly
from engine.values import Ranking

SWAP_TOLERANCE = 1e-9
"""Largest gain of a swap that counts as none, relative to the scale of gains."""


class Quadratic:
    """The objective of a set of k ≥ 2 documents, relevance less redundancy, for each of B queries.

    F(Y) = θ(k−1) Σ r_i − (1−θ) Σ_{i≠j} u_i·u_j over the set Y, θ = relevance_weight in [0, 1]. `queries` is always a
    (b,) int64 choice of problems, `weighted` y, a (b, d) float64 sum of weighted rows. The linear field of y, h_i =
    θ(k−1) r_i − 2(1−θ) u_i·y, is what candidates are compared by: at y = Σ_{j∈Y} u_j it is the marginal contribution of
    i ∉ Y.
    """

    def __init__(self, candidates: Candidates, k: int, relevance_weight: float) -> None:
        """Take candidates, set size k and θ; derive the factors of relevance and of similarities."""
        self.c, self.k = candidates, k
        # The factors θ(k−1) of a relevance and 2(1−θ) of a pair's similarity in the objective.
        self.linear = relevance_weight * (k - 1)
        self.beta = 2 * (1 - relevance_weight)
        self.weight = relevance_weight
        # Bound on the relative error of the few operations that follow a pass.
        self.rounding = 8 * torch.finfo(candidates.relevance.dtype).eps

    @cached_property
    def query_ids(self) -> Tensor:
        """(B,) int64, 0 … B − 1: the numbers of all queries, each of which is one problem."""
        return torch.arange(self.c.batch, device=self.c.vectors.device)

    @cached_property
    def scale(self) -> Tensor:
        """(B,) float64, about the largest gain of a swap of two documents: what tolerances are relative to."""
        c = self.c
        if c.inner_product:
            relevance = c.max_norm * torch.linalg.vector_norm(c.queries.double(), dim=1)
        else:
            relevance = c.relevance.abs().amax(1).double()
        # A swap changes one relevance, weighted by θ(k−1), and k − 1 similarities, weighted by 2(1−θ).
        scale: Tensor = (self.k - 1) * (self.weight * relevance + self.beta * c.max_norm**2)
        return scale

    def sum_rows(self, queries: Tensor, set_ids: Tensor) -> Tensor:
        """Return (b, d) float64 sums of the vectors of sets, (b, k) ascending candidates, one set a query.

        Only the members' rows are read: no pass is made over all.
        """
        return torch.cat([rows.sum(1) for rows in self._members(queries, set_ids)])

    def compute_field(self, queries: Tensor, weighted: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the linear field, (b, n), of some problems by one pass, and its error bounds, (b,).

        The field is what each candidate would add to a set whose members' vectors sum to `weighted`, (b, d); it has the
        vectors' precision. queries: (b,) numbers of the problems
        """
        c, points = self.c, self.field_points(queries, weighted)
        rounded_points, error = points.to(c.vectors.dtype), c.product_error(points)
        is_full_batch = len(queries) == c.batch
        if c.shared:
            field = products(c.vectors, rounded_points)
        else:
            vectors = c.vectors if is_full_batch else c.vectors[queries]
            field = torch.bmm(vectors, rounded_points.unsqueeze(2)).squeeze(2)
        if not c.inner_product:
            field = field + self.linear * (c.relevance if is_full_batch else c.relevance[queries])
            error = error + self.rounding * (self.scale[queries] + c.max_norm * torch.linalg.vector_norm(points, dim=1))
        return field, error

    def compute_exact_field(self, queries: Tensor, weighted: Tensor, query_id: Tensor, doc_ids: Tensor) -> Tensor:
        """Return the (m,) float64 linear field of single candidates: what each would add to its problem's set.

        queries: (b,) numbers of problems; weighted: (b, d) the sums of their sets' vectors; query_id, doc_ids: (m,)
        pairs of a position in `queries` and a candidate. Identical rows get identical numbers.
        """
        points, parts = self.field_points(queries, weighted), []
        for block, id_block in blocks(self.c.vectors.shape[-1], query_id, doc_ids):
            parts.append((self.c.rows(queries[block], id_block).double() * points[block]).sum(1))
        if self.c.inner_product:
            return torch.cat(parts)
        return torch.cat(parts) + self.linear * self.c.exact_relevance(queries[query_id], doc_ids)

    def squares(self, queries: Tensor, set_ids: Tensor) -> Tensor:
        """Return (b, k) float64 squared lengths of the members of sets."""
        return torch.cat([rows.square().sum(2) for rows in self._members(queries, set_ids)])

    def build_ranking(self, set_ids: Tensor, details: Mapping[str, Sequence[Any]]) -> Ranking:
        """Rank the members of sets, (B, k), by what each contributes to the objective, ties by lower row.

        gain: θ(k−1) r_i − 2(1−θ) Σ_{l∈Y∖i} u_i·u_l; info: the objective in the paper's scale, θ/k Σ r_i −
        (1−θ)/(k(k−1)) Σ_{i≠j} u_i·u_j, the number of candidates, and `details`, a list over problems each.
        """
        set_ids = set_ids.sort(dim=1).values
        pairs = blocks(self.k * self.c.vectors.shape[-1], self.query_ids, set_ids)
        value_blocks = [self._marginal_values(query_block, set_block) for query_block, set_block in pairs]
        marginals, set_values = (torch.cat(parts) for parts in zip(*value_blocks, strict=True))
        member_order = marginals.argsort(dim=1, descending=True, stable=True)
        columns = {"objective": (set_values / (self.k * (self.k - 1))).tolist(), **details}
        info = list_infos({**columns, "candidates": [self.c.count] * self.c.batch})
        return Ranking(set_ids.gather(1, member_order), marginals.gather(1, member_order), info)

    def _marginal_values(self, queries: Tensor, set_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return (b, k) what each member adds to its set's objective, and (b,) the objectives, in float64.

        The objective is θ(k−1) Σ r_i − (1−θ) Σ_{i≠j} u_i·u_j. set_ids: (b, k) members of one set a query, few enough to
        fit one block, as only the first block of vectors is read
        """
        member_rows = next(self._members(queries, set_ids))
        if self.c.inner_product:
            relevance = (member_rows * self.c.queries[queries].double().unsqueeze(1)).sum(2)
        else:
            relevance = self.c.relevance[queries].gather(1, set_ids).double()
        relevance_part = self.linear * relevance
        # Per member Σ_{j≠i} u_i·u_j: its product with the sum of all members, less that with itself.
        pair_sums = (member_rows * member_rows.sum(1, keepdim=True)).sum(2) - member_rows.square().sum(2)
        return relevance_part - self.beta * pair_sums, relevance_part.sum(1) - self.beta / 2 * pair_sums.sum(1)

    def field_points(self, queries: Tensor, weighted: Tensor) -> Tensor:
        """Return (b, d) float64 points whose inner products with the rows are the linear field.

        The field is what each candidate would add to a set whose vectors sum to `weighted`, (b, d). Where relevance is
        no inner product, its part is missing and is added by the caller.
        """
        # With r = U·q the field is one product: U·(θ(k−1) q − 2(1−θ) y).
        points = -self.beta * weighted
        return self.linear * self.c.queries[queries].double() + points if self.c.inner_product else points

    def _members(self, queries: Tensor, set_ids: Tensor) -> Iterator[Tensor]:
        """Yield (b, k, d) float64 vectors of the members of sets, in blocks that fit the memory budget."""
        for block, set_block in blocks(set_ids.shape[1] * self.c.vectors.shape[-1], queries, set_ids):
            rows = self.c.rows(block.repeat_interleave(set_block.shape[1]), set_block.flatten())
            yield rows.view(*set_block.shape, -1).double()


def select_most_relevant(c: Candidates) -> Ranking:
    """Rank each query's most relevant candidate alone: the answer for k = 1, where a set has no pairs.

    Its gain is its relevance.
    """
    best_ids, gain = rank_exactly(c.relevance, 1, c.relevance_error, c.exact_relevance)
    info = tuple({"objective": relevance, "candidates": c.count} for relevance in gain[:, 0].tolist())
    return Ranking(best_ids, gain, info)
