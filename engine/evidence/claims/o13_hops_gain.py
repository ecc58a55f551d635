"""O13: the hops of questions gain by feedback on each."""

from collections.abc import Sequence
from functools import partial

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import STEPS, cells_of, deployed, named, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Scope, difference


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Points of nDCG gained in one pass of whole questions, hop by hop, mean over seeds."""
    cells: dict[str, list[float]] = {}
    for judged in sets:
        one = deployed(judged)
        gains = one.gains([one.learned(at, hops=one.hops) for at in seeds(seed)])
        cells |= named(one, cells_of(gains, "ndcg"))
    return cells


CLAIM = Claim(
    id="O13",
    paper="orag",
    place="§4.2, Fig. 6",
    sentence="Feedback on each hop of a question improves what its hops retrieve.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=partial(difference, margin=1.0),
    sets=STEPS,
    effect="0.55 to 0.68 of the answers right",
    differs="Retrieval alone: answers need a language model. UltraTool's given plans, not MultiHopRAG's questions; "
    "MiniLM, Frontier's own rule, one pass.",
    cost=15,
)
