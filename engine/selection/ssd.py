"""ssd: sliding spectrum decomposition, Huang et al. 2021, Alg. 1."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from engine.candidates import Candidates
from engine.params import declare
from engine.solvers.greedy.certified import greedy_grid, is_warm, warm
from engine.solvers.greedy.lambda_path import lambda_paths
from engine.solvers.greedy.steps import ROOT_RESIDUAL
from engine.solvers.lines import LambdaPath
from engine.solvers.questions import LinearQuestion, of_greedy
from engine.stages import RELEVANCE_WEIGHT, WINDOW, Selector, register
from engine.values import Ranking

SPENT = 1e-12
"""A squared residual under this share of a row's squared length is rounding, even in float64."""


@register(
    "ssd",
    title="SSD",
    paper="Huang et al. 2021",
    equation=r"\arg\max_{i\notin Y} \lambda r_i+(1-\lambda)\lVert u_i-\Pi_W u_i\rVert",
    cost="≤ k·n·d",
    order=80,
)
@dataclass(frozen=True)
class SSD(Selector):
    """One document at a time: relevant, and far from the span of the last few chosen."""

    nested = True

    relevance_weight: float = declare(replace(RELEVANCE_WEIGHT, help="1 is pure relevance, 0 pure distance."))
    window: int | None = declare(replace(WINDOW, help="Far from the last so many picks only.", source="§3.3"))

    @classmethod
    def select_grid(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Greedily the best of λ·relevance + (1−λ)·(distance to the span of the last `window` picks).

        gain: that score at the moment of the pick. info: see `certified.greedy`.
        """
        return greedy_grid(stages, candidates, k, ROOT_RESIDUAL, SPENT)

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion]:
        """Whether any document outside has a larger gain than a pick had."""
        return of_greedy(ROOT_RESIDUAL, candidates, ranking, self.relevance_weight, self.window)

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
        return lambda_paths(ROOT_RESIDUAL, candidates, k, interval, marks, floor=SPENT, window=self.window)
