"""C2: what is stationary and no set is a saddle, and more loading only adds local maxima."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, theorem, together
from engine.evidence.small_relaxations import measure

LEAST = 200


def judge(measured: Measurement) -> Ruling:
    """Cases speak of saddles where a stationary point is no set, and of loading where it changes the local maxima."""
    stuck = [stuck for stuck, between in zip(measured["stuck"], measured["between"], strict=True) if between]
    lost = [lost for lost, gained in zip(measured["lost"], measured["gained"], strict=True) if lost or gained]
    return together([theorem(stuck, LEAST), theorem(lost, LEAST)])


CLAIM = Claim(
    id="C2",
    paper="ccbqp",
    place="Corollary 2.3, Theorems 2.4 and 2.5",
    sentence="Every stationary point that is not a set is a strict saddle, and a larger loading δ keeps every local "
    "maximum.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="Checked on 500 drawn cases of four to eight documents, all faces enumerated, at δ = 0, ½ and 1. That sets "
    "which are no local maximum are saddles too is not checked.",
    cost=30,
)
