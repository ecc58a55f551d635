"""C6: Frank–Wolfe's frontier lies above those of MMR and DPP."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.frontiers import DPP, FW, MMR, SETS, measure, pairs_of
from engine.evidence.rules import Ruling, Scope, above, together


def judge(measured: Measurement) -> Ruling:
    return together([above(pairs_of(measured, FW, other)) for other in (MMR, DPP)])


CLAIM = Claim(
    id="C6",
    paper="ccbqp",
    place="§4.2, Figure 1 (left)",
    sentence="Frank–Wolfe's frontier of Recall over diversity lies above MMR's and above DPP's, at every k.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="MiniLM as it is shipped, not BGE-M3; 436 to 11,112 documents, of which k = 100 is a large part; at most "
    "300 queries of a set; k 10, 50 and 100.",
    cost=330,
)
