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
    sentence="Frank–Wolfe, which need not hold the best document, has less Recall than MMR at small θ, and only there.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="MiniLM as it is shipped; some queries.",
    cost=330,
)
