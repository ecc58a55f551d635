"""N22: fifty steps of FISTA retrieve as well as the exact minimiser."""

from dataclasses import replace
from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.measures import ELASTIC_GRID, TunedDifferences
from engine.evidence.rules import Scope, equivalence

STEPS_GRID = [replace(d, select=replace(d.select, solver="fista")) for d in ELASTIC_GRID]

CLAIM = Claim(
    id="N22",
    paper="nnn",
    place="§3.1, eq. 5",
    sentence="Fifty steps of FISTA retrieve as well as the minimiser would.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=ELASTIC_GRID, others={"50 steps": STEPS_GRID}),
    rule=partial(equivalence, margin=1.0),
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    differs="Taken for granted by the paper. Comp@5, λ chosen for each; MiniLM as it is shipped.",
    cost=60,
)
