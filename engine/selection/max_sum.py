"""max_sum: max-sum diversification, Gollapudi & Sharma 2009, on the objective of the CCBQP paper, eq. 2."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from engine.candidates import Candidates, scale_relevance
from engine.params import Flag, declare
from engine.solvers.certificate_queries import LinearQuestion, ask_set_objective
from engine.solvers.greedy.lambda_path import lambda_paths
from engine.solvers.greedy.steps import SUM
from engine.solvers.lines import LambdaPath
from engine.solvers.quadratic.solve import SetSearch, rank_sets, warm
from engine.stages import RELEVANCE_SCALE, RELEVANCE_WEIGHT, TradeOffSelector, register
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
class MaxSum(TradeOffSelector):
    """One document at a time: relevant, and unlike those already chosen on average."""

    relevance_weight: float = declare(RELEVANCE_WEIGHT, symbol="θ", source="CCBQP, eq. 2")
    polish: bool = declare(
        Flag(True, "polish", title="improvement by swaps", advanced=True),
        "Swap documents until no swap improves the set; off is plain greedy.",
    )
    relevance_scale: str = declare(RELEVANCE_SCALE)

    @classmethod
    def select_scaled(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Pick k documents greedily by what each adds to the objective, the most relevant first; then swap.

        If `polish` is set, swaps exchange members for other candidates while the objective rises. Order and gain: the
        marginal contribution to the full set, θ(k−1) r_i − 2(1−θ) Σ_{l∈Y∖i} s_il, ties by lower row; for k = 1
        relevance. info: objective (eq. 2 of the CCBQP paper); with swaps also their number and swap_optimal, True if no
        swap with any candidate improves the set.
        """
        searches = [SetSearch(stage.relevance_weight, None, int(stage.polish)) for stage in stages]
        return rank_sets(candidates, k, searches)

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion] | None:
        """Return questions to a vector engine: would an unseen document change the set.

        With swaps (`polish`) they ask if one would improve the set in place of a member; without, if one would have
        been picked greedily in place of a member. None for a set that swaps within the candidates could still improve.
        """
        # A set that is not swap-optimal among the candidates has no certificate to extend to the corpus.
        if self.polish and not ranking.info[0].get("swap_optimal", True):
            return None
        return ask_set_objective(candidates, ranking, self.relevance_weight, self.polish)

    @property
    def no_path(self) -> str | None:
        """The error message if this setting has no ranking at every θ (no path), None if it has one.

        Swaps that polish a set, exchanging single documents while that improves it, rule out a path.
        """
        if not self.polish:
            return None
        return "max_sum has no path with swaps: sets that swaps improve do not change along lines; pass polish=False"

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """Return each query's greedy ranking, without swaps, at every θ of the interval, as pieces.

        A piece is a range of θ with one ranking.
        """
        return lambda_paths(SUM, scale_relevance(candidates, self.relevance_scale), k, interval, marks)

    @classmethod
    def warm(cls) -> None:
        """Compile the solver's loops, or load them from disk, so that the first query need not wait for it."""
        # The solver module's function of this name, not this method.
        warm()
