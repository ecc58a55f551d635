"""max_sum: max-sum diversification, Gollapudi & Sharma 2009, on the objective of the CCBQP paper, eq. 2."""

from dataclasses import dataclass

import torch

from engine.candidates import Candidates
from engine.errors import ParamError
from engine.params import Flag, declare
from engine.solvers.greedy.certified import greedy
from engine.solvers.greedy.lambda_path import lambda_paths
from engine.solvers.greedy.steps import SUM
from engine.solvers.lines import LambdaPath
from engine.solvers.quadratic.local_search import polish
from engine.solvers.quadratic.objective import Quadratic, most_relevant
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

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """First the most relevant, then greedily by the marginal contribution to the objective; then (polish) swaps.

        Order and gain: the marginal contribution to the whole set, θ(k−1) r_i − 2(1−θ) Σ_{l∈Y∖i} s_il, ties by lower
        row; k = 1: relevance. info: objective (CCBQP eq. 2), and where polished swaps and swap_optimal: no swap with
        any candidate improves the set.
        """
        if k == 1:
            return most_relevant(candidates)
        p = Quadratic(candidates, k, self.relevance_weight)
        index = greedy(candidates, k, SUM, [self.relevance_weight])[0].index.sort(dim=1).values
        if not self.polish:
            return p.ranking(index, {})
        field, error = p.field(p.every, p.sums(p.every, index))
        better = polish(p, index, False, field, error, torch.ones_like(p.every, dtype=torch.bool))
        return p.ranking(better.index, {"swaps": better.swaps, "swap_optimal": better.optimal})

    def lambda_path(self, candidates: Candidates, k: int, interval: tuple[float, float]) -> list[LambdaPath]:
        """The same at every θ, without swaps."""
        if self.polish:
            raise ParamError(
                "max_sum has no path with swaps: sets that swaps improve do not change along lines; pass polish=False"
            )
        return lambda_paths(SUM, candidates, k, interval)
