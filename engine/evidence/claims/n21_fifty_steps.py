"""N21: fifty steps of FISTA give the minimiser."""

from collections.abc import Sequence

import engine
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import ELASTIC_GRID
from engine.evidence.rules import Ruling, Scope, share, thresholds
from engine.params import values_of

QUERIES, K = 200, 5


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Set → pairs of a query and a setting of the grid, and those whose first five are another set than the exact's."""
    return {judged.name: _other_sets(judged) for judged in sets}


def _other_sets(judged: JudgedSet) -> list[int]:
    vectors, queries = judged.space.vectors, judged.queries("test", QUERIES).vectors
    grid = [dict(values_of(decoder.select)) for decoder in ELASTIC_GRID]
    steps = [{**setting, "solver": "fista"} for setting in grid]
    both = zip(*(engine.select_grid("nnn", vectors, queries, k=K, grid=g) for g in (grid, steps)), strict=True)
    apart = [(a.index.sort(1).values != b.index.sort(1).values).any(1) for a, b in both]
    return [sum(int(of.sum()) for of in apart), sum(len(of) for of in apart)]


def judge(measured: Measurement) -> Ruling:
    return thresholds([share(name, *counts) for name, counts in measured.items()], holds=0.01, refuted=0.1)


CLAIM = Claim(
    id="N21",
    paper="nnn",
    place="§3.1, eq. 5",
    sentence="Fifty steps of FISTA return what the minimiser of the elastic net returns.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy", "toollens", "ultratool-en", "multihop-rag-summ500"),
    effect="T = 50",
    differs="The paper takes its iterate for the minimiser. Compared are the sets of the first five documents. MiniLM "
    "as it is shipped; whether it matters for Comp@5 is N22.",
    cost=90,
)
