"""max_sum: max-sum diversification, Gollapudi & Sharma 2009, on the objective of the CCBQP paper, eq. 2."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from engine.candidates import Candidates
from engine.params import Flag, declare
from engine.solvers.certificate_queries import LinearQuestion, ask_set_objective
from engine.solvers.greedy.lambda_path import lambda_paths
from engine.solvers.greedy.steps import SUM
from engine.solvers.lines import LambdaPath
from engine.solvers.quadratic.solve import SetSearch, rank_sets, warm
from engine.stages import RELEVANCE_WEIGHT, Selector, register
from engine.values import Ranking


@register(
    "max_sum",
    title="Max-sum",
    paper="Gollapudi & Sharma 2009",
    equation=r"\arg\max_{i\notin Y} \theta(k-1)r_i-2(1-\theta)\sum_{j\in Y}s_{ij}",
    cost="k·n·d at most",
    order=50,
)
@dataclass(frozen=True)
class MaxSum(Selector):
    """One document at a time: relevant, and unlike those already chosen on average."""

    relevance_weight: float = declare(RELEVANCE_WEIGHT, symbol="θ", source="CCBQP, eq. 2")
    polish: bool = declare(
        Flag(True, "polish", advanced=True), "Swap documents until no swap improves the set; off is plain greedy."
    )

    @classmethod
    def select_grid(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Pick k documents greedily by what each adds to the objective, the most relevant first; then swap.

        Swaps: if polish is on. Order and gain: the marginal contribution to the full set, θ(k−1) r_i − 2(1−θ) Σ_{l∈Y∖i}
        s_il, ties by lower row; k = 1: relevance. info: objective (CCBQP eq. 2), and where polished swaps and
        swap_optimal: no swap with any candidate improves the set.
        """
        searches = [SetSearch(stage.relevance_weight, None, int(stage.polish)) for stage in stages]
        return rank_sets(candidates, k, searches)

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion] | None:
        """Return questions that tell if an unseen document would improve the set in place of a member.

        Without swaps (polish off), if one would have been picked at a step instead; None for a set that swaps within
        the candidates could still improve.
        """
        # A set that is not swap-optimal among the candidates has no certificate to extend to the corpus.
        if self.polish and not ranking.info[0].get("swap_optimal", True):
            return None
        return ask_set_objective(candidates, ranking, self.relevance_weight, self.polish)

    @property
    def no_path(self) -> str | None:
        """The error message if this setting cannot rank at every θ (has no path), None if it can."""
        if not self.polish:
            return None
        return "max_sum has no path with swaps: sets that swaps improve do not change along lines; pass polish=False"

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """Return each query's greedy ranking at every θ of the interval, without swaps."""
        return lambda_paths(SUM, candidates, k, interval, marks)

    @classmethod
    def warm(cls) -> None:
        """Compile the loops, or load what was compiled."""
        warm()
