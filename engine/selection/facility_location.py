"""facility_location: relevance and coverage of a ground set, Lin & Bilmes 2011, §4, lazily greedy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.candidates import Candidates, scale_relevance
from engine.params import Whole, declare
from engine.solvers.certificate_queries import LinearQuestion, ask_most_relevant
from engine.solvers.coverage import MAX_CACHED_GROUND, select_covering_sets, warm
from engine.solvers.gram import build_ranking
from engine.solvers.greedy.lambda_path import coverage_paths
from engine.solvers.lines import LambdaPath
from engine.stages import RELEVANCE_SCALE, RELEVANCE_WEIGHT, TradeOffSelector, register
from engine.values import Ranking


@register(
    "facility_location",
    title="Facility location",
    paper="Lin & Bilmes 2011",
    equation=(
        r"\max_{|Y|=k} \lambda\sum_{i\in Y} r_i"
        r"+(1-\lambda)\frac{k}{|P|}\sum_{j\in P}\max\Bigl(0,\max_{i\in Y}s_{ij}\Bigr)"
    ),
    cost="|P|²·d",
    order=70,
)
@dataclass(frozen=True)
class FacilityLocation(TradeOffSelector):
    """Relevant documents that between them stand for all relevant ones."""

    relevance_weight: float = declare(RELEVANCE_WEIGHT, "1 is pure relevance, 0 pure coverage.")
    ground_set: int | None = declare(
        Whole(
            1000, "P", 1, title="documents represented", comfortable=(10, 2000), unset="the whole corpus", advanced=True
        ),
        "How many of the most relevant documents are chosen from, and are to be represented.",
    )
    relevance_scale: str = declare(RELEVANCE_SCALE)

    @classmethod
    def select_scaled(cls, stages: "Sequence[FacilityLocation]", candidates: Candidates, k: int) -> list[Ranking]:
        """Pick documents one at a time, whichever adds most to the objective; for k = 1, the most relevant.

        The objective rewards relevance and coverage: similarity of each document of the ground set P to its nearest
        pick. P is the `ground_set` most relevant candidates, but no fewer than k; the picks come from P as well. gain:
        what the pick added to the objective. info: pool = |P|; whole = True if P is every candidate; objective = the
        sum of the gains; evaluations = number of gains computed. stages: facility_location at several settings, which
        share the similarities if their ground sets have one size.
        """
        c, ranking_by_stage = candidates, dict[int, Ranking]()
        ground_sizes = [max(k, min(stage.ground_set or c.count, c.count)) for stage in stages]
        # Settings whose ground sets have one size are solved together, and share its similarities.
        for size in dict.fromkeys(ground_sizes):
            same_size = [stage_index for stage_index, stage_size in enumerate(ground_sizes) if stage_size == size]
            weights = [stages[stage_index].relevance_weight for stage_index in same_size]
            picks, gains, evaluations = select_covering_sets(c, k, size, weights)
            # Figures that every ranking reports, one value a query.
            columns: dict[str, list[Any]] = {
                "candidates": [c.count] * c.batch,
                "pool": [size] * c.batch,
                "whole": [size == c.count] * c.batch,
            }
            for weight_id, stage_index in enumerate(same_size):
                stage_gains, n_computed = gains[:, weight_id], evaluations[:, weight_id].tolist()
                columns |= {"objective": stage_gains.sum(1).tolist(), "evaluations": n_computed}
                ranking_by_stage[stage_index] = build_ranking(c, picks[:, weight_id], stage_gains, columns)
        return [ranking_by_stage[stage_index] for stage_index in range(len(stages))]

    @property
    def no_path(self) -> str | None:
        """The error message if this setting cannot rank at every λ (has no path), None if it can."""
        if self.ground_set is not None and self.ground_set <= MAX_CACHED_GROUND:
            return None
        return (
            f"facility_location has a path for ground sets of up to {MAX_CACHED_GROUND} documents; got "
            f"{self.ground_set or 'the whole corpus'}: pass ground_set={MAX_CACHED_GROUND} or fewer"
        )

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """Return each query's rankings at every λ of the interval, as pieces: ranges of λ with one ranking.

        The ground set has to be small enough for its similarities to be cached (see `no_path`).
        """
        scaled = scale_relevance(candidates, self.relevance_scale)
        return coverage_paths(scaled, k, interval, max(k, min(self.ground_set or k, candidates.count)), marks)

    @property
    def ground_size(self) -> int:
        """Number of most relevant documents to fetch from a vector engine: the ground set, 0 for all."""
        return self.ground_set or 0

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion] | None:
        """Return one question to a vector engine: are the corpus's most relevant documents in the ground set.

        None where the ground set is the whole corpus: then every unseen document would belong to it.
        """
        if self.ground_set is None:
            return None
        # All picks come from the ground set, so the answer is the corpus's if the ground set is.
        return ask_most_relevant(candidates, ranking, max(ranking.index.shape[1], self.ground_set))

    @classmethod
    def warm(cls) -> None:
        """Compile the solver's loops, or load them from disk, so that the first query need not wait for it."""
        # The solver module's function of this name, not this method.
        warm()
