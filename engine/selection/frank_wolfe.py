"""frank_wolfe: cardinality-constrained binary quadratic programme, CCBQP paper, eq. 2 to 6 and Algorithm 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from engine.candidates import Candidates
from engine.params import Flag, Real, declare
from engine.solvers.certificate_queries import LinearQuestion, ask_set_objective
from engine.solvers.quadratic.solve import SetSearch, rank_sets, warm
from engine.stages import RELEVANCE_SCALE, RELEVANCE_WEIGHT, TradeOffSelector, register
from engine.values import Ranking


@register(
    "frank_wolfe",
    title="Frank–Wolfe",
    paper="Principled and Scalable Diversity-Aware Retrieval via CCBQP",
    equation=r"\max_{|Y|=k} \frac{\theta}{k}\sum_{i\in Y} r_i-\frac{1-\theta}{k(k-1)}\sum_{i\neq j\in Y}s_{ij}",
    cost="passes·n·d",
    order=30,
)
@dataclass(frozen=True)
class FrankWolfe(TradeOffSelector):
    """All documents at once: relevant on average, and unlike one another on average."""

    relevance_weight: float = declare(RELEVANCE_WEIGHT, symbol="θ", source="eq. 2")
    loading: float = declare(
        Real(1.0, "δ", 0.0, 1.0, title="added curvature", source="eq. 4, Theorem 2.5", advanced=True),
        "Curvature added to the relaxation: 1, the paper's, makes it tight; less has fewer local maxima.",
    )
    polish: bool = declare(
        Flag(True, "polish", title="improvement by swaps", advanced=True),
        "Swap documents, from several starts, until no swap improves the set; off is the paper's algorithm.",
    )
    relevance_scale: str = declare(RELEVANCE_SCALE)

    @classmethod
    def select_scaled(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Find a set of k documents for each query at every setting, by Frank–Wolfe steps and then swaps.

        Frank–Wolfe gives all documents a weight, x = k/n at first, and moves the weights step by step toward the k that
        raise the objective most; without swaps, at loading δ = 1, it is the CCBQP paper's Algorithm 1. With `polish`,
        swaps start from its set, from max_sum's greedy set and from Frank–Wolfe's at δ = 0 (these two on a shortlist
        where the corpus is large), and the best objective wins. Order and gain: what each document contributes to the
        objective of the whole set; for k = 1 relevance. info: objective, relevance less similarity as in the paper's
        eq. 2; iterations, steps of the first ascent; gap, its last one over k times the scale of a swap; integral, True
        if it ended at a set (else the k largest x were taken); capped, True if it was stopped after 200 steps; with
        `polish` swaps, starts and swap_optimal, True if no swap with any candidate improves the set. An ascent stops
        where that gap is at most 1e-9: the paper says nothing of rounding, and the authors' implementation waits for a
        gap of exactly 0, or 200 steps.
        """
        settings = [SetSearch(stage.relevance_weight, stage.loading, 3 if stage.polish else 0) for stage in stages]
        return rank_sets(candidates, k, settings)

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion] | None:
        """Return questions to a vector engine: would an unseen document improve the set in place of a member.

        None if swaps are off, or ended before the set was the best that swaps within the candidates can make.
        """
        if not self.polish or not ranking.info[0].get("swap_optimal", True):
            return None
        # Optimality over all swaps within the candidates leaves only swaps with documents outside to ask about.
        return ask_set_objective(candidates, ranking, self.relevance_weight, swaps=True)

    @classmethod
    def warm(cls) -> None:
        """Compile the solver's loops, or load them from disk, so that the first query need not wait for it."""
        # The solver module's function of this name, not this method.
        warm()
