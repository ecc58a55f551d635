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
    sentence="A random projection to k dimensions reverses a pair of documents of margin ε with a probability of at "
    "most 4 exp(−k/2 (ε²/2 − ε³/3)).",
    scope=Scope.STAND_IN,
    measure=projection_errors,
    rule=judge,
    sets=("cranfield", "perspectrum"),
    effect="4 exp(−k/2 (ε²/2 − ε³/3))",
    differs="Counted over drawn projections, on two collections. A case is a bin of pairs of like margin at one k, "
    "where their mean bound is below 1; the lower end of its share of errors is compared.",
    cost=150,
)
