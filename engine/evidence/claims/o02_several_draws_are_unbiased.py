"""O2: with several drawn and a reranker the printed step is unbiased too."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem
from engine.evidence.small_sessions import small_session, unlike

CASES = 200


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """How far the mean of Algorithm 2's printed step, over all sets drawn, is from the gradient of the loss."""
    rng = np.random.default_rng(seed)
    apart = []
    for _case in range(CASES):
        case = small_session(rng, least=4, mode="full", weights="paper")
        apart.append(unlike(*case, k=int(rng.integers(2, 4))))
    return {"apart": apart}


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["apart"], CASES)


CLAIM = Claim(
    id="O2",
    paper="orag",
    place="Algorithm 2, eq. 5",
    sentence="With K documents drawn and a reranker the printed step, too, is the gradient of the loss on average.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="The paper calls it a stochastic gradient estimate and proves nothing of it. Few documents, all draws "
    "enumerated, a reranker that never errs. Frontier divides by the chance to be among the K instead.",
    cost=5,
)
