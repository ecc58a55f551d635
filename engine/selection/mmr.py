"""mmr: maximal marginal relevance, Carbonell & Goldstein 1998, eq. 1."""

from dataclasses import dataclass, replace

from engine.params import declare
from engine.selection.greedy import GreedySelector
from engine.solvers.greedy.steps import NEAREST
from engine.stages import RELEVANCE_SCALE, RELEVANCE_WEIGHT, WINDOW, register


@register(
    "mmr",
    title="MMR",
    paper="Carbonell & Goldstein 1998",
    equation=r"\arg\max_{i\notin Y} \lambda r_i-(1-\lambda)\max_{j\in Y}s_{ij}",
    cost="≤ k·n·d",
    order=10,
)
@dataclass(frozen=True)
class MMR(GreedySelector):
    """One document at a time: relevant, and unlike the nearest already chosen.

    First the most relevant, then the best of λ·relevance − (1−λ)·(similarity to the nearest chosen). gain: that score
    at the moment of the pick (the first: λ·relevance). info: see `certified.select_greedily`.
    """

    gain_kind = NEAREST
    criterion = "λ·relevance − (1 − λ)·redundancy (cosine with the closest above)"

    relevance_weight: float = declare(
        replace(
            RELEVANCE_WEIGHT,
            help="1 is pure relevance, 0 pure novelty, as in the formula; the NNN paper's prose (B.3) has it reversed.",
            source="eq. 1",
        )
    )
    window: int | None = declare(WINDOW)
    relevance_scale: str = declare(RELEVANCE_SCALE)
