"""V2: the best sum for the query is the best sum for what d₀ leaves of it."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import unit_rows
from engine.evidence.rules import Ruling, Scope, theorem
from engine.theory.vrsd import equivalence

CASES = 400


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """How much cosine the second problem's set lacks of the first's, on random unit vectors, by enumeration."""
    rng = np.random.default_rng(seed)
    lost: list[float] = []
    for _case in range(CASES):
        count, dimensions = int(rng.integers(5, 13)), int(rng.integers(3, 9))
        vectors, query = unit_rows(rng.standard_normal((count, dimensions))), rng.standard_normal(dimensions)
        lost.append(equivalence(vectors, unit_rows(query[None])[0], int(rng.integers(3, 5))).lost)
    return {"lost": lost}


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["lost"], CASES)


CLAIM = Claim(
    id="V2",
    paper="vrsd",
    place="§3.1",
    sentence="Maximising the cosine of all documents' sum to q is maximising that of the others' sum, without d₀, to q "
    "− d₀.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="Drawn documents, five to twelve, k 3 or 4, all sets enumerated.",
    cost=5,
)
