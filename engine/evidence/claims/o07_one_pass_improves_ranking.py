"""O7: the printed rule improves the ranking in one pass."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import SETS, cells_of
from engine.evidence.paper_rate import paper_gains
from engine.evidence.rules import Ruling, Scope, difference


def judge(measured: Measurement) -> Ruling:
    return difference(cells_of(measured, "one pass"), margin=0.5)


CLAIM = Claim(
    id="O7",
    paper="orag",
    place="Appendix C.3, Table 2",
    sentence="Algorithm 1 improves nDCG@10 and Recall@10 also where each query comes only once.",
    scope=Scope.STAND_IN,
    measure=paper_gains,
    rule=judge,
    sets=SETS,
    effect="+0.2 to +1.5 points nDCG@10, +0.3 to +2.2 points Recall@10",
    differs="MiniLM, 384 dimensions and not 1,536; other data but for UltraTool. Rate and batch as searched for 3,000 "
    "updates, as in the paper.",
    cost=500,
)
