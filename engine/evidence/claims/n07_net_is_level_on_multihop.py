"""N7: NNN without training is about level with dense retrieval on MultiHop-RAG."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.measures import DENSE, ELASTIC_GRID, tuned_differences
from engine.evidence.rules import Ruling, Scope, equivalence


def measure(sets: JudgedSets, seed: int) -> Measurement:
    """Paired differences in Comp@5, each side chosen on dev and reported on test."""
    return tuned_differences(sets.among(CLAIM.sets), ELASTIC_GRID, [DENSE], "comp", 5)


def judge(measured: Measurement) -> Ruling:
    return equivalence(measured, margin=1.0)


CLAIM = Claim(
    id="N7",
    paper="nnn",
    place="Table 2",
    sentence="NNN without training is about level with dense retrieval on MultiHop-RAG.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("multihop-rag-summ500",),
    effect="+1.3 points Comp@5",
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set; summaries, and 416 of 2,255 queries.",
    cost=10,
)
