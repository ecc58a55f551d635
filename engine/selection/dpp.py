"""dpp: greedy MAP of a determinantal point process, Chen, Zhang & Zhou 2018, Alg. 1."""

from dataclasses import dataclass, replace

import torch

from engine.params import declare
from engine.selection.greedy import GreedySelector
from engine.solvers.greedy.steps import LOG_RESIDUAL
from engine.stages import RELEVANCE_SCALE, RELEVANCE_WEIGHT, WINDOW, register

NOISE_FLOORS = {torch.float32: 1e-6, torch.float64: 1e-10}
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
class DPP(GreedySelector):
    """One document at a time: relevant, and adding volume to what the chosen span.

    Greedily the largest λ·Σ relevance + (1−λ)·log det of the chosen rows' inner products; λ = 1 is top_k. A document
    whose squared distance to the span of the chosen is noise comes after all that add something; among such, relevance
    decides. gain: the growth of the objective, past the rank the relevance. info: see `certified.select_greedily`.
    """

    gain_kind = LOG_RESIDUAL
    criterion = "λ·relevance + (1 − λ)·volume (log of the squared distance to the span of those above)"

    relevance_weight: float = declare(
        replace(
            RELEVANCE_WEIGHT,
            help="1 is pure relevance, 0 pure volume.",
            source="θ of the kernel exp(θ r_i/2(1−θ)) s_ij exp(θ r_j/2(1−θ))",
        )
    )
    window: int | None = declare(replace(WINDOW, help="Volume with the last so many picks only.", source="§4.2"))
    relevance_scale: str = declare(RELEVANCE_SCALE)

    @classmethod
    def noise_floor(cls, dtype: torch.dtype) -> float:
        return NOISE_FLOORS[dtype]
