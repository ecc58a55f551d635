"""V1: the reduction that shows VRSD to be hard is right."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem
from engine.theory.vrsd import reduction

CASES = 2000


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """Whether both problems have the same answer, on random numbers of which half can be summed by their making."""
    rng = np.random.default_rng(seed)
    apart = []
    for case in range(CASES):
        numbers = rng.integers(-9, 10, int(rng.integers(2, 10))).tolist()
        k = int(rng.integers(1, len(numbers) + 1))
        possible = sum(rng.choice(numbers, k, replace=False).tolist())
        target = possible if case % 2 else int(rng.integers(-30, 31))
        apart.append(int(not reduction(numbers, target, k).agrees))
    return {"apart": apart}


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["apart"], CASES)


CLAIM = Claim(
    id="V1",
    paper="vrsd",
    place="Theorem 1, eq. 4, 5",
    sentence="The reduction to a known hard problem is right: k numbers sum to a target if and only if k vectors have "
    "a sum of cosine 1 to the query.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="2,000 drawn cases, all sets enumerated. The theorem is on Definition 3, which leaves d₀ free; Definition "
    "2, which VRSD solves, fixes it.",
    cost=3,
)
