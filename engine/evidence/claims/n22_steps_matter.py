"""N22: the exact minimiser retrieves better than fifty steps of FISTA."""

from dataclasses import replace

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.measures import ELASTIC_GRID, tuned_differences
from engine.evidence.rules import Ruling, Scope, equivalence

STEPS_GRID = [replace(d, select=replace(d.select, solver="fista")) for d in ELASTIC_GRID]


def measure(sets: JudgedSets, seed: int) -> Measurement:
    """Paired differences in Comp@5, exact minus fifty steps, each at its own λ₁ and λ₂ of dev."""
    return tuned_differences(sets.among(CLAIM.sets), ELASTIC_GRID, STEPS_GRID, "comp", 5)


def judge(measured: Measurement) -> Ruling:
    return equivalence(measured, margin=1.0)


CLAIM = Claim(
    id="N22",
    paper="nnn",
    place="§3.2",
    sentence="Fifty steps of FISTA answer as well as the minimiser would.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    differs="MiniLM as it is shipped.",
    cost=60,
)
