"""N25: choosing λ for every query gains over one λ for all."""

from collections.abc import Sequence
from dataclasses import replace

import engine
from engine.evaluation.studies.per_query_best import per_query_best
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import ELASTIC_GRID, POINTS, TunedDifferences, cells
from engine.evidence.rules import Ruling, Scope, difference

SHARES = engine.grid("nnn", points=7, fill="strict", scale="relative")
COUNTS = engine.grid("nnn", fill="strict", scale="support", l1=[5, 10, 20], l2=[0.03, 0.1, 0.3])
RULES = TunedDifferences(claimed=SHARES + COUNTS, others={"one λ₁ for all": ELASTIC_GRID})
"""λ₁ as a share of a query's best score, or such that so many documents get a weight: which, and how much, dev says."""


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """What the rules gain, and what a choice that knows the answers would at most."""
    most = {}
    for judged in sets:
        (headroom,) = per_query_best(cells(judged, ELASTIC_GRID, "test", ("comp",), 5), "comp", 5)
        most[judged.name] = POINTS * headroom.difference
    return {"gains": RULES(sets, seed), "most": most}


def judge(measured: Measurement) -> Ruling:
    ruling = difference(measured["gains"], margin=1.0)
    most = ", ".join(f"{name} {points:.1f}" for name, points in measured["most"].items())
    return replace(ruling, why=f"{ruling.why} The best pair for each query, were it known, would gain: {most}.")


CLAIM = Claim(
    id="N25",
    paper="nnn",
    place="§5",
    sentence="Choosing λ₁ and λ₂ for each query from its embedding gains over one pair for all.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    differs="The paper expects it and names no rule: two simple ones stand for it, with one λ₂ for all queries. MiniLM "
    "as it is shipped.",
    cost=60,
)
