"""N5: NNN without training beats dense retrieval on ToolBank."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.measures import DENSE, ELASTIC_GRID, tuned_differences
from engine.evidence.rules import Ruling, Scope, difference


def measure(sets: JudgedSets, seed: int) -> Measurement:
    """Paired differences in Comp@5, each side chosen on dev and reported on test."""
    return tuned_differences(sets.among(CLAIM.sets), ELASTIC_GRID, [DENSE], "comp", 5)


def judge(measured: Measurement) -> Ruling:
    return difference(measured, margin=1.0)


CLAIM = Claim(
    id="N5",
    paper="nnn",
    place="Table 2",
    sentence="NNN without training beats dense retrieval on ToolBank.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy",),
    effect="+10.5 points Comp@5",
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set. Own split of the published dev queries.",
    cost=10,
)
