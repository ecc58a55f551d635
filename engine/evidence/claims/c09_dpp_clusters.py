"""C9: DPP hardly moves at small weights of relevance."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.frontiers import SETS, as_effect, measure
from engine.evidence.rules import Ruling, Scope, bounded


def judge(measured: Measurement) -> Ruling:
    effects = [
        as_effect(f"{cell}, share of {other}'s way", ends)
        for cell, of in measured["steps"].items()
        for other, ends in of.items()
    ]
    return bounded(effects, high=0.5)


CLAIM = Claim(
    id="C9",
    paper="ccbqp",
    place="§4.2",
    sentence="DPP's points lie close together at small θ: its ILAD moves less than half as far as the others'.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="The paper has no number; θ up to .2. MiniLM as it is shipped; some queries.",
    cost=330,
)
