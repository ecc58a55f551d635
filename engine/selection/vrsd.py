"""vrsd: vectors retrieval with similarity and diversity, Gao & Zhang 2024, Algorithm 1."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, blocks
from engine.solvers.gram import build_ranking, list_infos
from engine.solvers.resultant import select_nearest_sums, warm
from engine.solvers.tie_breaking import find_best
from engine.stages import Selector, register
from engine.values import Ranking


@register(
    "vrsd",
    title="VRSD",
    paper="Gao & Zhang 2024",
    equation=r"\arg\max_{i\notin Y} \cos\Bigl(u_i+\sum_{j\in Y}u_j,\,v\Bigr)",
    cost="k·n·d",
    order=60,
)
@dataclass(frozen=True)
class VRSD(Selector):
    """Greedily maximise the cosine between the query and the sum of the selected vectors."""

    nested = True
    sequential = True
    criterion = "cosine between the query and the sum of the set's vectors"
    first_by_scores = True

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """Pick the most relevant, then whatever brings the sum of the picks closest to the query's direction.

        Algorithm 1 of Gao & Zhang 2024 says that the cosine of the set's sum "is maximized"; as each choice is greedy,
        it need not be. `engine.optimum("vrsd", …, fix_first=True)` is the best set with the same first document, which
        their Definition 2 asks for; without fix_first it is the best of all sets. The method has no parameter, so it is
        one point in every trade-off chart.

        gain: the cosine of sum and query that the pick reached; 0 where the sum, or the query, has length 0. info:
        objective is the cosine of the sum of all picks, close_calls the number of picks that the vectors' precision
        left open (none where all is computed in float64: small corpora and pools).
        """
        c = candidates
        if c.count <= GRAM_ROWS:
            picks, cosines = select_nearest_sums(c, k)
            figures = {"objective": cosines[:, -1].tolist(), "close_calls": [0] * c.batch}
            return build_ranking(c, picks, cosines, {"candidates": [c.count] * c.batch, **figures})
        all_queries = torch.arange(c.batch, device=c.vectors.device)
        picked_ids = torch.empty(c.batch, k, dtype=torch.int64, device=c.vectors.device)
        gains = torch.empty(c.batch, k, dtype=torch.float64, device=c.vectors.device)
        close_calls = torch.zeros(c.batch, dtype=torch.int64, device=c.vectors.device)
        # A large corpus: picks by bounded float32 cosines, float64 only where their errors overlap.
        sum_race = _SumRace(c)
        for rank in range(k):
            if rank:
                cosine_scores, error = sum_race.compute_cosines()
                pick, is_close = find_best(
                    cosine_scores, error, sum_race.exact_cosines, lambda: c.matrix.duplicate_of if c.shared else None
                )
            else:
                # The first pick is the most relevant by the scorer, whatever its cosine.
                pick, is_close = find_best(c.relevance, c.relevance_error, c.exact_relevance, lambda: c.duplicate_of)
            picked_ids[:, rank], gains[:, rank] = pick, sum_race.exact_cosines(all_queries, pick)
            close_calls += is_close
            sum_race.add_picks(all_queries, pick)
        figures = {"objective": gains[:, -1].tolist(), "close_calls": close_calls.tolist()}
        return Ranking(picked_ids, gains, list_infos({"candidates": [c.count] * c.batch, **figures}))

    @classmethod
    def warm(cls) -> None:
        """Compile the solver's loops, or load them from disk, so that the first query need not wait for it."""
        # The solver module's function of this name, not this method.
        warm()


class _SumRace:
    """The sum of each query's chosen vectors, and the cosine to the query that each candidate would give.

    Queries count as unit vectors, and rows are taken times `scale`, the power of two (so that nothing is rounded) that
    brings the longest to a length in [½, 1): no square overflows.
    """

    def __init__(self, c: Candidates) -> None:
        """Scale queries to unit length and rows to at most length 1, and bound the errors of their products.

        The cosines of all candidates after each pick follow from these products, and the bounds say which cosines
        rounding may have put in the wrong order. Sets `along`, (B, n), products of unit queries and scaled rows, −∞ for
        picks; `error`, (B,), a bound on their rounding; `reach`, (B,), the summed lengths of the picks, which the
        rounding of their sum is relative to.
        """
        dtype_info = torch.finfo(c.vectors.dtype)
        self.c = c
        # frexp gives the exponent of the longest row; the clamp keeps the power of two finite for rows near 0.
        self.scale = math.ldexp(1.0, -math.frexp(max(c.max_norm, 2.0**-100))[1])
        self.vector_sum = c.queries.new_zeros(c.queries.shape, dtype=torch.float64)
        self.reach = self.vector_sum.new_zeros(c.batch)

        # Divided by the largest entry first, so that no square under- or overflows in the length.
        unit_queries = c.queries.double()
        max_entries = unit_queries.abs().amax(1).clamp_min(torch.finfo(torch.float64).tiny)
        unit_queries = unit_queries / max_entries.unsqueeze(1)
        query_lengths = torch.linalg.vector_norm(unit_queries, dim=1)
        self.is_zero_query = query_lengths == 0
        self.unit_queries = unit_queries / torch.where(self.is_zero_query, 1, query_lengths).unsqueeze(1)
        query_lengths = (max_entries * query_lengths).clamp_min(dtype_info.tiny)

        # Where another scorer gave the relevance, the cosine still is the vectors'.
        by_vectors = c if c.inner_product else replace(c, relevance=c.products(c.queries), inner_product=True)
        self.along = (by_vectors.relevance * self.scale).mul_((1 / query_lengths).to(c.vectors.dtype).unsqueeze(1))
        # One buffer for all picks: fresh memory costs as much as what is written to it.
        self.score_buffer = torch.empty_like(self.along)
        self.error = by_vectors.relevance_error.double() * self.scale / query_lengths
        # Stored unit rows count as exactly 1 long, up to the 8 units of float32 that Matrix.unit allows.
        self.squares = None if c.matrix.unit else (c.squares.sqrt() * self.scale) ** 2
        # A length within 8 eps of 1 has a square within 17 eps of it.
        allowed = 17 * torch.finfo(torch.float32).eps if c.matrix.unit else 0.0
        self.squares_error = max(c.similarity_error, allowed) * self.scale**2
        # The steps after the products, and what float64 itself rounds in sums of d terms.
        self.rounding_error = 8 * dtype_info.eps + 2 * (c.queries.shape[1] + 8) * torch.finfo(torch.float64).eps

    def add_picks(self, queries: Tensor, picks: Tensor) -> None:
        """Add each query's pick to its sum of vectors and to the sum's length without cancellation (`reach`).

        The pick is excluded from further picks by a product of −∞ with the query.
        """
        rows = self.c.rows(queries, picks).double() * self.scale
        self.vector_sum += rows
        self.reach += torch.linalg.vector_norm(rows, dim=1)
        self.along[queries, picks] = -torch.inf

    def compute_cosines(self) -> tuple[Tensor, Tensor]:
        """Return (B, n) cosines of query and sum with each candidate, and their error, (B,) or (B, n).

        In the vectors' precision, by one pass over them. With v the query of length 1, u the candidate, t the sum of
        the picks and s = |t| + 1: cos = x/√y, x = (u·v + t·v)/s, y = |t + u|²/s² = (|t|² + 2u·t + |u|²)/s².
        """
        c, dtype = self.c, self.c.vectors.dtype
        sum_lengths = torch.linalg.vector_norm(self.vector_sum, dim=1)
        normaliser = sum_lengths + 1
        point = (self.vector_sum / normaliser.unsqueeze(1)).to(dtype)

        def column(x: Tensor) -> Tensor:
            """Return numbers, one a query, as a (B, 1) column in the vectors' precision."""
            return x.to(dtype).unsqueeze(1)

        x_error = self.error / normaliser + self.rounding_error
        point_error = replace(c, queries=point, inner_product=True).relevance_error.double()
        y_error = 2 * self.scale * point_error / normaliser + self.squares_error / normaliser**2 + self.rounding_error
        squared_lengths, unit_square = c.products(point), self.scale**2 if self.squares is None else 0.0
        torch.addcmul(
            column((sum_lengths**2 + unit_square) / normaliser**2), squared_lengths,
            column(2 * self.scale / normaliser), out=squared_lengths,
        )  # fmt: skip
        if self.squares is not None:
            squared_lengths.addcmul_(self.squares, column(1 / normaliser**2))
        # Under four errors of y anything from −1 to 1 is possible. Above them |1/√y − 1/√ŷ| ≤ 0.77·error/ŷ^1.5 and
        # 1/√y ≤ 1.16/√ŷ, whence the bound on x/√y, |x/√ŷ| being at most 1.2.
        min_square = column(4 * y_error)
        # Only where a length is that small does each candidate get a bound of its own, in more passes over the scores.
        is_any_small = bool((squared_lengths.amin(1, keepdim=True) < min_square.clamp_min(1 / 16)).any())
        is_tiny = squared_lengths <= min_square if is_any_small else None
        inverse_lengths = (squared_lengths if is_tiny is None else torch.maximum(squared_lengths, min_square)).rsqrt_()
        max_inverse = inverse_lengths.amax(1, keepdim=True) if is_tiny is None else inverse_lengths
        error = max_inverse * (1.2 * column(x_error) + column(y_error) * max_inverse)
        error = error.squeeze(1) if is_tiny is None else torch.where(is_tiny, 3, error)
        # Every cosine to a zero query is 0: a negative error calls that decided, for the lowest row.
        error[self.is_zero_query] = -1
        query_offset = column((self.vector_sum * self.unit_queries).sum(1) / normaliser)
        torch.addcmul(query_offset, self.along, column(1 / normaliser), out=self.score_buffer)
        return self.score_buffer.mul_(inverse_lengths), error

    def exact_cosines(self, queries: Tensor, doc_ids: Tensor) -> Tensor:
        """Return (m,) float64 cosines between a query and its sum with one more document, for m such pairs."""
        cosine_blocks = []
        for block, id_block in blocks(self.vector_sum.shape[1], queries, doc_ids):
            vectors = self.c.rows(block, id_block).double() * self.scale
            vector_sums = vectors + self.vector_sum[block]
            sum_lengths = (vector_sums * vector_sums).sum(1).sqrt()
            # What is left of rows that cancel is the rounding of their sum, and points nowhere.
            noise_lengths = 1e-14 * (self.reach[block] + (vectors * vectors).sum(1).sqrt())
            products = (vector_sums * self.unit_queries[block]).sum(1)
            cosines = products / sum_lengths.clamp_min(torch.finfo(torch.float64).tiny)
            cosine_blocks.append(torch.where(sum_lengths <= noise_lengths, 0.0, cosines))
        return torch.cat(cosine_blocks)
