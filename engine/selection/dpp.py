"""dpp: greedy MAP of a determinantal point process, Chen, Zhang & Zhou 2018, Alg. 1."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch

from engine.candidates import Candidates
from engine.params import declare
from engine.solvers.greedy.certified import greedy_grid, is_warm, warm
from engine.solvers.greedy.lambda_path import lambda_paths
from engine.solvers.greedy.steps import LOG_RESIDUAL
from engine.solvers.lines import LambdaPath
from engine.solvers.questions import LinearQuestion, of_greedy
from engine.stages import RELEVANCE_WEIGHT, WINDOW, Selector, register
from engine.values import Ranking

NOISE = {torch.float32: 1e-6, torch.float64: 1e-10}
"""A squared residual under this share of a row's squared length is the noise of vectors of that precision."""


@register(
    "dpp",
    title="DPP",
    paper="Chen et al. 2018",
    equation=r"\arg\max_{i\notin Y} \lambda r_i+(1-\lambda)\log\det S_{Y\cup i}",
    cost="≤ k·n·d",
    order=20,
)
@dataclass(frozen=True)
class DPP(Selector):
    """One document at a time: relevant, and adding volume to what the chosen span."""

    nested = True

    relevance_weight: float = declare(
        replace(
            RELEVANCE_WEIGHT,
            help="1 is pure relevance, 0 pure volume.",
            source="θ of the kernel exp(θ r_i/2(1−θ)) s_ij exp(θ r_j/2(1−θ))",
        )
    )
    window: int | None = declare(replace(WINDOW, help="Volume with the last so many picks only.", source="§4.2"))

    @classmethod
    def select_grid(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Greedily the largest λ·Σ relevance + (1−λ)·log det of the chosen rows' inner products; λ = 1 is top_k.

        A document whose squared distance to the span of the chosen is noise comes after all that add something;
        among such, relevance decides. gain: the growth of the objective, past the rank the relevance. info: see
        `certified.greedy`.
        """
        return greedy_grid(stages, candidates, k, LOG_RESIDUAL, NOISE[candidates.vectors.dtype])

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion]:
        """Whether any document outside has a larger gain than a pick had."""
        return of_greedy(LOG_RESIDUAL, candidates, ranking, self.relevance_weight, self.window)

    @classmethod
    def warm(cls) -> None:
        """Compile the loops, or load what was compiled."""
        warm()

    @classmethod
    def is_warm(cls) -> bool:
        """Whether the loops are compiled: until then a single query runs as Python."""
        return is_warm()

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """The same at every λ."""
        return lambda_paths(
            LOG_RESIDUAL, candidates, k, interval, marks, floor=NOISE[candidates.vectors.dtype], window=self.window
        )
