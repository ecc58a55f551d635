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
    sentence="At small θ the points of DPP's frontier lie close together.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="The paper has no number. Close together: up to θ = .2 DPP's ILAD moves at most half as far as "
    "Frank–Wolfe's and MMR's. MiniLM as it is shipped; at most 300 queries of a set.",
    cost=330,
)
