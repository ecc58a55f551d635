"""L1: Lemma 1 bounds how often a random projection turns a pair round."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.projection_errors import projection_errors
from engine.evidence.rules import Ruling, Scope, theorem

CELLS = 1000


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["passed"], CELLS)


CLAIM = Claim(
    id="L1",
    paper="sparse-dense",
    place="Lemma 1, eq. 1",
    sentence="A random projection to k dimensions turns a pair of margin ε round with probability 4 exp(−k/2 (ε²/2 − "
    "ε³/3)) at most.",
    scope=Scope.EXACT,
    measure=projection_errors,
    rule=judge,
    sets=("cranfield", "perspectrum"),
    effect="4 exp(−k/2 (ε²/2 − ε³/3))",
    differs="Cases are bins of pairs of like margin at one k, the bound their mean one, where that is below 1.",
    cost=150,
)
