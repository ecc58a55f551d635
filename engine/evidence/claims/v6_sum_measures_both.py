"""V6: the cosine of the sum measures similarity and diversity at once."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.frontiers import SETS, as_effect, measure
from engine.evidence.rules import Effect, Ruling, Scope, bounded

LEAST = 0.3
BOTH = "α-nDCG"
"""What measures both in one number."""


def judge(measured: Measurement) -> Ruling:
    """Cell by cell and range of θ, what both at once are: the weaker of two correlations; and that with α-nDCG."""
    effects = []
    for cell, of in measured["correlations"].items():
        ranges: dict[str, list[Effect]] = {}
        for name, ends in of.items():
            weights, _, metric = name.partition(", ")
            kind = metric if metric == BOTH else "each"
            ranges.setdefault(f"{weights}, {kind}", []).append(as_effect(f"{cell}, {name}", ends))
        effects += [min(some, key=lambda effect: effect.value) for some in ranges.values()]
    return bounded(effects, low=LEAST)


CLAIM = Claim(
    id="V6",
    paper="vrsd",
    place="§2.2, §4.1",
    sentence="The cosine of a set's sum to the query measures its similarity and its diversity at once.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=SETS,
    differs="The paper has no other measure beside it. Spearman's correlation with Recall, ILAD and α-nDCG over "
    "settings of five methods, each counting as much. MiniLM as it is shipped; at most 300 queries of a set.",
    cost=330,
)
