"""mmr: maximal marginal relevance, Carbonell & Goldstein 1998, eq. 1."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.candidates import Candidates
from engine.params import Real, declare
from engine.solvers.contest import best
from engine.stages import Selector, register
from engine.values import Ranking


@register(
    "mmr",
    title="MMR",
    paper="Carbonell & Goldstein 1998",
    equation=r"\arg\max_{i\notin Y} \lambda r_i-(1-\lambda)\max_{j\in Y}s_{ij}",
    cost="k·n·d",
    order=10,
)
@dataclass(frozen=True)
class MMR(Selector):
    """One document at a time: relevant, and unlike the nearest already chosen."""

    relevance_weight: float = declare(
        Real(
            default=0.8,
            low=0.0,
            high=1.0,
            symbol="λ",
            help="1 is pure relevance, 0 pure novelty.",
            source="eq. 1",
        )
    )

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """First the most relevant, then the best of λ·relevance − (1−λ)·(similarity to the nearest chosen).

        gain: that score at the moment of the pick (the first: λ·relevance). info: how many picks float64 decided.
        """
        weight = self.relevance_weight
        c = candidates
        every = torch.arange(c.batch, device=c.relevance.device)
        chosen = torch.empty(c.batch, k, dtype=torch.int64, device=c.relevance.device)
        close_calls = torch.zeros(c.batch, dtype=torch.int64, device=c.relevance.device)

        pick, close = best(c.relevance, c.relevance_error, c.exact_relevance, lambda: c.twins)
        weighted = weight * c.relevance
        error = weight * c.relevance_error + (1 - weight) * c.similarity_error
        nearest: Tensor | None = None
        for step in range(k):
            if step:
                seen = c.products(c.rows(every, chosen[:, step - 1]))
                nearest = seen if nearest is None else torch.maximum(nearest, seen, out=nearest)
                pick, close = best(
                    weighted - (1 - weight) * nearest,
                    error,
                    lambda b, i, t=step: (
                        weight * c.exact_relevance(b, i) - (1 - weight) * c.exact_nearest(b, i, chosen[:, :t])
                    ),
                    lambda: c.twins,
                )
            chosen[:, step] = pick
            close_calls += close
            weighted[every, pick] = -torch.inf
        info = tuple({"candidates": c.count, "close_calls": n} for n in close_calls.tolist())
        return Ranking(chosen, self._gain(c, chosen), info)

    def _gain(self, c: Candidates, chosen: Tensor) -> Tensor:
        rows = torch.arange(c.batch, device=chosen.device).repeat_interleave(chosen.shape[1])
        gain = self.relevance_weight * c.exact_relevance(rows, chosen.flatten()).view_as(chosen)
        for step in range(1, chosen.shape[1]):
            near = c.exact_nearest(torch.arange(c.batch, device=chosen.device), chosen[:, step], chosen[:, :step])
            gain[:, step] -= (1 - self.relevance_weight) * near
        return gain
