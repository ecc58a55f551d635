"""ssd: sliding spectrum decomposition, Huang et al. 2021, Alg. 1."""

from dataclasses import dataclass, replace

import torch

from engine.params import declare
from engine.selection.greedy import GreedySelector
from engine.solvers.greedy.steps import ROOT_RESIDUAL
from engine.stages import RELEVANCE_SCALE, RELEVANCE_WEIGHT, WINDOW, register

DISTANCE_NOISE = 1e-12
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
class SSD(GreedySelector):
    """One document at a time: relevant, and far from the span of the last few chosen.

    Greedily the best of λ·relevance + (1−λ)·(distance to the span of the last `window` picks). gain: that score at the
    moment of the pick. info: see `certified.select_greedily`.
    """

    gain_kind = ROOT_RESIDUAL
    criterion = "λ·relevance + (1 − λ)·distance (to the span of those above)"

    relevance_weight: float = declare(replace(RELEVANCE_WEIGHT, help="1 is pure relevance, 0 pure distance."))
    window: int | None = declare(replace(WINDOW, help="Far from the last so many picks only.", source="§3.3"))
    relevance_scale: str = declare(RELEVANCE_SCALE)

    @classmethod
    def noise_floor(cls, dtype: torch.dtype) -> float:
        return DISTANCE_NOISE
