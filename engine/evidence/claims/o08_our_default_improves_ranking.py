"""O8: one pass of feedback by the default rule improves the ranking."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import SETS, cells_of, default_gains
from engine.evidence.rules import Ruling, Scope, difference


def judge(measured: Measurement) -> Ruling:
    return difference(cells_of(measured, "held-out", "stream"), margin=1.0)


CLAIM = Claim(
    id="O8",
    paper="orag",
    place="§4.1, appendix C.3, Table 2",
    sentence="Feedback on one document per query, each query once, improves nDCG@10 and Recall@10.",
    scope=Scope.STAND_IN,
    measure=default_gains,
    rule=judge,
    sets=SETS,
    effect="+0.2 to +1.5 points nDCG@10, +0.3 to +2.2 points Recall@10",
    differs="By Frontier's own rule, not the paper's: chances sharpened to eight documents, the one shown moves, "
    "guarded. MiniLM.",
    cost=110,
)
