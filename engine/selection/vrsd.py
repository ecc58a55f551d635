"""vrsd: vectors retrieval with similarity and diversity, Gao & Zhang 2024, Algorithm 1."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.matrix import GRAM_ROWS, blocks
from engine.solvers.gram import ranking
from engine.solvers.resultant import nearest_sums, warm
from engine.solvers.tie_breaking import best
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
    """One document at a time: the sum of all chosen points where the query points."""

    nested = True
    first_by_scores = True

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """First the most relevant, then whatever brings the chosen documents' sum closest to the query's direction.

        The paper's Algorithm 1 says that the set's cosine "is maximized"; it is a greedy choice, and need not be:
        `engine.optimum("vrsd", …, fix_first=True)` is the set that Definition 2 asks for, with the same first
        document, and without fix_first the best of all sets. No parameter: one point on every frontier.

        gain: the cosine of sum and query that the pick reached; 0 where the sum, or the query, has length 0.
        info: objective is the cosine of the whole sum, close_calls how many picks the vectors' precision left
        open (none where all is computed in float64: small corpora and pools).
        """
        c = candidates
        if c.count <= GRAM_ROWS:
            index, cosine = nearest_sums(c, k)
            info = tuple(
                {"candidates": c.count, "objective": value, "close_calls": 0} for value in cosine[:, -1].tolist()
            )
            return ranking(c, index, cosine, info)
        every = torch.arange(c.batch, device=c.relevance.device)
        chosen = torch.empty(c.batch, k, dtype=torch.int64, device=c.relevance.device)
        gain = torch.empty(c.batch, k, dtype=torch.float64, device=c.relevance.device)
        close_calls = torch.zeros(c.batch, dtype=torch.int64, device=c.relevance.device)
        race = _Race(c)
        for step in range(k):
            if step:
                score, error = race.cosines()
                pick, close = best(score, error, race.exact, lambda: c.matrix.duplicate_of if c.shared else None)
            else:
                pick, close = best(c.relevance, c.relevance_error, c.exact_relevance, lambda: c.duplicate_of)
            chosen[:, step], gain[:, step] = pick, race.exact(every, pick)
            close_calls += close
            race.add(every, pick)
        ends = zip(gain[:, -1].tolist(), close_calls.tolist(), strict=True)
        info = tuple({"candidates": c.count, "objective": value, "close_calls": n} for value, n in ends)
        return Ranking(chosen, gain, info)

    @classmethod
    def warm(cls) -> None:
        """Compile the loops, or load what was compiled."""
        warm()


class _Race:
    """The sum of each problem's chosen rows, and the cosine to the query that each candidate would give it.

    Queries count as unit vectors, and rows are taken times `scale`, the power of two (so that nothing is rounded) that
    brings the longest to a length in [½, 1): no square overflows.
    """

    def __init__(self, c: Candidates) -> None:
        kind = torch.finfo(c.vectors.dtype)
        self.c = c
        self.scale = math.ldexp(1.0, -math.frexp(max(c.max_norm, 2.0**-100))[1])
        self.sum = c.queries.new_zeros(c.queries.shape, dtype=torch.float64)
        self.travelled = self.sum.new_zeros(c.batch)

        points = c.queries.double()
        largest = points.abs().amax(1).clamp_min(torch.finfo(torch.float64).tiny)
        points = points / largest.unsqueeze(1)
        length = torch.linalg.vector_norm(points, dim=1)
        self.dead = length == 0
        self.query = points / torch.where(self.dead, 1, length).unsqueeze(1)
        length = (largest * length).clamp_min(kind.tiny)

        # Where another scorer gave the relevance, the cosine still is the vectors'.
        inner = c if c.inner_product else replace(c, relevance=c.products(c.queries), inner_product=True)
        self.along = (inner.relevance * self.scale).mul_((1 / length).to(c.vectors.dtype).unsqueeze(1))
        self.score = torch.empty_like(self.along)  # one buffer: fresh memory costs as much as what is written to it
        self.along_error = inner.relevance_error.double() * self.scale / length
        # Stored unit rows count as exactly 1 long, up to the 8 units of float32 that Matrix.unit allows.
        self.squares = None if c.matrix.unit else (c.squares.sqrt() * self.scale) ** 2
        allowed = 17 * torch.finfo(torch.float32).eps if c.matrix.unit else 0.0
        self.squares_error = max(c.similarity_error, allowed) * self.scale**2
        # The steps after the products, and what float64 itself rounds in sums of d terms.
        self.rough = 8 * kind.eps + 2 * (c.queries.shape[1] + 8) * torch.finfo(torch.float64).eps

    def add(self, batch: Tensor, pick: Tensor) -> None:
        """Add each problem's pick to its sum, and take it out of the race."""
        rows = self.c.rows(batch, pick).double() * self.scale
        self.sum += rows
        self.travelled += torch.linalg.vector_norm(rows, dim=1)
        self.along[batch, pick] = -torch.inf

    def cosines(self) -> tuple[Tensor, Tensor]:
        """(B, n) cosines in the vectors' precision, one pass over them, and their error, (B,) or (B, n).

        With t the sum and s = |t| + 1: cos = x/√y, x = (u·v + t·v)/s, y = |t + u|²/s² = (|t|² + 2u·t + |u|²)/s².
        """
        c, kind = self.c, self.c.vectors.dtype
        length = torch.linalg.vector_norm(self.sum, dim=1)
        s = length + 1
        point = (self.sum / s.unsqueeze(1)).to(kind)

        def column(x: Tensor) -> Tensor:
            return x.to(kind).unsqueeze(1)

        x_error = self.along_error / s + self.rough
        point_error = replace(c, queries=point, inner_product=True).relevance_error.double()
        y_error = 2 * self.scale * point_error / s + self.squares_error / s**2 + self.rough
        y, own = c.products(point), self.scale**2 if self.squares is None else 0.0
        torch.addcmul(column((length**2 + own) / s**2), y, column(2 * self.scale / s), out=y)
        if self.squares is not None:
            y.addcmul_(self.squares, column(1 / s**2))
        # Under four errors of y anything from −1 to 1 is possible. Above them |1/√y − 1/√ŷ| ≤ 0.77·error/ŷ^1.5 and
        # 1/√y ≤ 1.16/√ŷ, whence the bound on x/√y, |x/√ŷ| being at most 1.2.
        floor = column(4 * y_error)
        lost = y <= floor if bool((y.amin(1, keepdim=True) < floor.clamp_min(1 / 16)).any()) else None
        inverse = (y if lost is None else torch.maximum(y, floor)).rsqrt_()
        width = inverse.amax(1, keepdim=True) if lost is None else inverse
        error = width * (1.2 * column(x_error) + column(y_error) * width)
        error = error.squeeze(1) if lost is None else torch.where(lost, 3, error)
        # Every cosine to a zero query is 0: a negative error calls that decided, for the lowest row.
        error[self.dead] = -1
        towards = column((self.sum * self.query).sum(1) / s)
        return torch.addcmul(towards, self.along, column(1 / s), out=self.score).mul_(inverse), error

    def exact(self, batch: Tensor, index: Tensor) -> Tensor:
        """(m,) float64 cosines at flat (problem, candidate) pairs."""
        parts = []
        for b, i in blocks(self.sum.shape[1], batch, index):
            own = self.c.rows(b, i).double() * self.scale
            total = own + self.sum[b]
            length = (total * total).sum(1).sqrt()
            # What is left of rows that cancel is the rounding of their sum, and points nowhere.
            noise = 1e-14 * (self.travelled[b] + (own * own).sum(1).sqrt())
            cosine = (total * self.query[b]).sum(1) / length.clamp_min(torch.finfo(torch.float64).tiny)
            parts.append(torch.where(length <= noise, 0.0, cosine))
        return torch.cat(parts)
