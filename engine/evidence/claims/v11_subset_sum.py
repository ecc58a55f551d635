"""V11: subset sum is answered by asking for subsets of every size."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem
from engine.theory.vrsd import subset_by_retrieval

CASES, LARGEST = 2000, 60


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """Whether the answers differ, on random sets of whole numbers of which half can be summed by their making."""
    rng = np.random.default_rng(seed)
    apart = []
    for case in range(CASES):
        numbers = rng.choice(np.arange(-LARGEST, LARGEST + 1), int(rng.integers(2, 9)), replace=False)
        some = rng.choice(numbers, int(rng.integers(1, len(numbers) + 1)), replace=False)
        target = int(some.sum()) if case % 2 else int(rng.integers(-LARGEST, LARGEST + 1))
        rows = subset_by_retrieval(numbers.tolist(), target)
        true = not summed(numbers, target) if rows is None else len(rows) and numbers[list(rows)].sum() == target
        apart.append(int(not true))
    return {"apart": apart}


def summed(numbers: np.ndarray, target: int) -> bool:
    """Whether any subset but the empty one sums to the target, by its place in binary."""
    masks = np.arange(1, 2 ** len(numbers))[:, None] >> np.arange(len(numbers)) & 1
    return bool((masks @ numbers == target).any())


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["apart"], CASES)


CLAIM = Claim(
    id="V11",
    paper="vrsd",
    place="Lemma 1",
    sentence="Whether some of the numbers sum to a target is answered by asking, for every size, whether so many of "
    "them do.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="2,000 drawn sets of two to eight numbers, all subsets enumerated; each size is asked as retrieval, as in "
    "Theorem 1. As many questions as sizes: Cook's reduction, where NP-completeness is usually shown by Karp's, one "
    "question.",
    cost=2,
)
