"""N3: there are sets that only the elastic net finds."""

from collections.abc import Sequence

import numpy as np

import engine
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem

CASES = 60


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """Whether the support of Proposition 1's example is the pair that no ranking by score puts first, over λ₁."""
    apart = []
    for l1 in np.random.default_rng(seed).uniform(1e-3, 1 / 3 - 1e-3, CASES).tolist():
        example = engine.counterexample(l1)
        best = sorted(range(3), key=lambda row: -example.scores[row])[: len(example.support)]
        answer = engine.select("nnn", example.vectors, example.query, k=3, l1=l1, l2=0.0)
        support = {row for row in answer.index[0].tolist() if row >= 0}
        apart.append(len(support ^ set(example.support)) + (set(best) == support))
    return {"apart": apart}


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["apart"], CASES)


CLAIM = Claim(
    id="N3",
    paper="nnn",
    place="Proposition 1",
    sentence="There are documents and a query whose right set NNN finds and no ranking by inner products does.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="The proposition's own example, at 60 values of λ₁.",
    cost=1,
)
