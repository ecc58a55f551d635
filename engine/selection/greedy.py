"""Base of the selectors whose next pick has the largest λ·relevance + (1−λ)·diversity: mmr, dpp and ssd."""

from collections.abc import Sequence
from typing import ClassVar, Self

import torch

from engine.candidates import Candidates, scale_relevance
from engine.solvers.certificate_queries import LinearQuestion, ask_greedy_picks
from engine.solvers.greedy.certified import is_warm, select_greedily, warm
from engine.solvers.greedy.lambda_path import lambda_paths
from engine.solvers.lines import LambdaPath
from engine.stages import TradeOffSelector
from engine.values import Ranking


class GreedySelector(TradeOffSelector):
    """Base of selectors that pick one document at a time, by a gain that only falls as others are picked."""

    nested = True
    sequential = True

    window: int | None

    gain_kind: ClassVar[int]
    """Which gain of `steps` decides."""

    @classmethod
    def noise_floor(cls, dtype: torch.dtype) -> float:
        """Return the share of a vector's squared length up to which its squared distance is rounding alone.

        The distance is that to the span of the picks, from which dpp and ssd compute gains; methods that use none
        return 0. dtype: the vectors' format
        """
        return 0.0

    @classmethod
    def select_scaled(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Select k documents at every setting; return one Ranking a stage, in the order of `stages`."""
        floor = cls.noise_floor(candidates.vectors.dtype)
        ranking_by_setting: dict[tuple[int | None, float], Ranking] = {}
        # Settings with one window share pools and passes; equal settings are solved once.
        for window in dict.fromkeys(stage.window for stage in stages):
            weights = list(dict.fromkeys(stage.relevance_weight for stage in stages if stage.window == window))
            rankings = select_greedily(candidates, k, cls.gain_kind, weights, window, floor)
            ranking_by_setting |= {(window, weight): ranking for weight, ranking in zip(weights, rankings, strict=True)}
        return [ranking_by_setting[stage.window, stage.relevance_weight] for stage in stages]

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion]:
        """Return questions to a vector engine: does a document it has not returned gain more than a pick did."""
        return ask_greedy_picks(self.gain_kind, candidates, ranking, self.relevance_weight, self.window)

    @classmethod
    def warm(cls) -> None:
        """Compile the solver's loops, or load them from disk, so that the first query need not wait for it."""
        # The solver module's function of this name, not this method.
        warm()

    @classmethod
    def is_warm(cls) -> bool:
        """Return True if the loops are compiled: until then a single query runs as Python."""
        return is_warm()

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """Return each query's rankings at every λ of the interval, as pieces: ranges of λ with one ranking.

        marks: ascending λ that the caller will look up; a piece that contains no mark may be left out, to save time
        """
        floor = self.noise_floor(candidates.vectors.dtype)
        candidates = scale_relevance(candidates, self.relevance_scale)
        return lambda_paths(self.gain_kind, candidates, k, interval, marks, floor=floor, window=self.window)
