"""V9: without a parameter VRSD is one point of the frontier."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.frontiers import FW, MMR, SETS, VRSD, measure
from engine.evidence.rules import Effect, Ruling, Scope, bounded, together


def judge(measured: Measurement) -> Ruling:
    """VRSD has one place, and others have several: else nothing would have collapsed."""
    points = {
        name: [Effect(name=f"{cell}, {name}", value=of[name]) for cell, of in measured["points"].items()]
        for name in (VRSD, MMR, FW)
    }
    return together([bounded(points[VRSD], high=1), bounded(points[MMR] + points[FW], low=2)])


CLAIM = Claim(
    id="V9",
    paper="vrsd",
    place="CCBQP paper, §5",
    sentence="Without a parameter VRSD is one fixed trade-off: one point where others have a frontier.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="Said by the CCBQP paper of VRSD; its places are means over at most 300 queries of a set. MiniLM as it is "
    "shipped.",
    cost=330,
)
