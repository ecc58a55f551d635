"""C8: Frank–Wolfe has less Recall than MMR at small θ only."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.frontiers import SETS, measure
from engine.evidence.rules import Ruling, Scope, bounded, difference, together

MARGIN = 1.0


def judge(measured: Measurement) -> Ruling:
    """MMR's lead up to θ = .2, and Frank–Wolfe's from .5 on, which is not to be negative."""
    few = {f"{cell}, MMR's lead to θ .2": values for cell, values in measured["small"].items()}
    many = {f"{cell}, its own lead from θ .5": values for cell, values in measured["practical"].items()}
    return together([difference(few, MARGIN), bounded(difference(many, MARGIN).effects, low=-MARGIN)])


CLAIM = Claim(
    id="C8",
    paper="ccbqp",
    place="§4.2",
    sentence="At small θ Frank–Wolfe, which need not hold the most relevant document, has less Recall than MMR; at "
    "larger θ it has not.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="Small: up to .2; larger: from .5 on, to within a point. “At larger θ not” is our reading. The paper says "
    "the same of DPP, which is not compared. MiniLM as it is shipped; at most 300 queries of a set.",
    cost=330,
)
