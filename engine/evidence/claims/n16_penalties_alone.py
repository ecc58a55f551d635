"""N16: on frozen embeddings λ₂ alone falls far behind both penalties, λ₁ alone a little."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.measures import ELASTIC_GRID, L1_GRID, L2_GRID, tuned_differences
from engine.evidence.rules import Ruling, Scope, difference, together


def measure(sets: JudgedSets, seed: int) -> Measurement:
    """Paired differences in Comp@5 of both penalties to each alone, chosen on dev, reported on test."""
    alone = {"λ₂ alone": L2_GRID, "λ₁ alone": L1_GRID}
    return {
        name: tuned_differences(sets.among(CLAIM.sets), ELASTIC_GRID, grid, "comp", 5) for name, grid in alone.items()
    }


def judge(measured: Measurement) -> Ruling:
    return together([difference(cells, margin=1.0) for cells in measured.values()])


CLAIM = Claim(
    id="N16",
    paper="nnn",
    place="Table 2, §4.2",
    sentence="Without training both penalties are needed: λ₂ alone is much worse, λ₁ alone a little.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set.",
    cost=40,
)
