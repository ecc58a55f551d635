"""C1: no point of the relaxation beats the best set."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, theorem
from engine.evidence.small_relaxations import CASES, measure


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["above"], CASES)


CLAIM = Claim(
    id="C1",
    paper="ccbqp",
    place="Theorem 2.1",
    sentence="With the diagonal loading δ = 1 the relaxation is tight: its largest value is that of the best set.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    effect="δ ≥ 1",
    differs="The theorem is for every δ from 1 on; checked at 1, on 500 drawn cases of four to eight documents, all "
    "faces enumerated.",
    cost=30,
)
