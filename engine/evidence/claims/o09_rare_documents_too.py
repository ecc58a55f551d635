"""O9: queries for rare documents are served better too."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import SETS, cells_of, default_gains
from engine.evidence.rules import Ruling, Scope, difference


def judge(measured: Measurement) -> Ruling:
    return difference(cells_of(measured, "tail"), margin=1.0)


CLAIM = Claim(
    id="O9",
    paper="orag",
    place="§4.1",
    sentence="The improvement is consistent: queries for documents that are seldom right gain too.",
    scope=Scope.STAND_IN,
    measure=default_gains,
    rule=judge,
    sets=SETS,
    differs="The paper means data sets and encoders; rare documents are our question. MiniLM, Frontier's own rule, one "
    "pass. Seldom: the half of the documents that are right least often in the stream.",
    cost=110,
)
