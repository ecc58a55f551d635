"""C10: Frank–Wolfe's time grows more slowly than k."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.latencies import FW, SETS, measure, slopes
from engine.evidence.rules import Ruling, Scope, bounded


def judge(measured: Measurement) -> Ruling:
    return bounded(slopes(measured, FW), high=1.0)


CLAIM = Claim(
    id="C10",
    paper="ccbqp",
    place="§3, §4.2, Figure 1 (right)",
    sentence="Frank–Wolfe's time grows more slowly than k.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="One thread of a CPU, 384 dimensions, 11,112 documents and 30,000 drawn ones, θ ½ and .9; the paper has a "
    "GPU and 1,024 dimensions.",
    cost=150,
)
