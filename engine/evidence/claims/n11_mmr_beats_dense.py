"""N11: MMR beats dense retrieval on ToolBank and ToolLens."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.measures import DENSE, MMR_GRID, tuned_differences
from engine.evidence.rules import Ruling, Scope, difference


def measure(sets: JudgedSets, seed: int) -> Measurement:
    """Paired differences in Comp@5, each side chosen on dev and reported on test."""
    return tuned_differences(sets.among(CLAIM.sets), MMR_GRID, [DENSE], "comp", 5)


def judge(measured: Measurement) -> Ruling:
    return difference(measured, margin=1.0)


CLAIM = Claim(
    id="N11",
    paper="nnn",
    place="Table 2",
    sentence="MMR beats dense retrieval on ToolBank and ToolLens.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy", "toollens"),
    effect="+3.7 and +11.6 points Comp@5",
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set.",
    cost=15,
)
