"""mmr: maximal marginal relevance, Carbonell & Goldstein 1998, eq. 1."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from engine.candidates import Candidates
from engine.params import declare
from engine.solvers.greedy.certified import greedy_grid, is_warm, warm
from engine.solvers.greedy.lambda_path import lambda_paths
from engine.solvers.greedy.steps import NEAREST
from engine.solvers.lines import LambdaPath
from engine.solvers.questions import LinearQuestion, of_greedy
from engine.stages import RELEVANCE_WEIGHT, WINDOW, Selector, register
from engine.values import Ranking


@register(
    "mmr",
    title="MMR",
    paper="Carbonell & Goldstein 1998",
    equation=r"\arg\max_{i\notin Y} \lambda r_i-(1-\lambda)\max_{j\in Y}s_{ij}",
    cost="≤ k·n·d",
    order=10,
)
@dataclass(frozen=True)
class MMR(Selector):
    """One document at a time: relevant, and unlike the nearest already chosen."""

    nested = True

    relevance_weight: float = declare(
        replace(
            RELEVANCE_WEIGHT,
            help="1 is pure relevance, 0 pure novelty, as in the formula; the NNN paper's prose (B.3) has it reversed.",
            source="eq. 1",
        )
    )
    window: int | None = declare(WINDOW)

    @classmethod
    def select_grid(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """First the most relevant, then the best of λ·relevance − (1−λ)·(similarity to the nearest chosen).

        gain: that score at the moment of the pick (the first: λ·relevance). info: see `certified.greedy`.
        """
        return greedy_grid(stages, candidates, k, NEAREST)

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion]:
        """Whether any document outside has a larger gain than a pick had."""
        return of_greedy(NEAREST, candidates, ranking, self.relevance_weight, self.window)

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
        return lambda_paths(NEAREST, candidates, k, interval, marks, window=self.window)
