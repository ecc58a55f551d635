"""O12: documents that come half-way leave the gains consistent."""

from collections.abc import Sequence
from functools import partial

from engine.evidence.claim import Claim, Measurement
from engine.evidence.deployments import STEPS, cells_of, deployed, named, seeds
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Scope, difference

HALF = 0.5


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """Points gained in one pass, in whose middle half of the documents come, query by query, mean over seeds."""
    cells: dict[str, list[float]] = {}
    for judged in sets:
        one = deployed(judged)
        how = {"arrivals": [(HALF, len(one.stream) // 2)], "newcomers": "printed"}
        gains = one.gains([one.learned(at, **how) for at in seeds(seed)])
        cells |= named(one, cells_of(gains, "ndcg"))
    return cells


CLAIM = Claim(
    id="O12",
    paper="orag",
    place="§4.2, Fig. 5",
    sentence="Where half of the documents come only after half of the queries, feedback still improves the ranking.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=partial(difference, margin=1.0),
    sets=STEPS,
    differs="MiniLM, Frontier's own rule, one pass; nDCG@10 at the end, against the documents as they were at the "
    "start.",
    cost=15,
)
