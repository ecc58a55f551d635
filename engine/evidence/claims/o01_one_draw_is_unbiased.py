"""O1: feedback on one draw gives the gradient that full information would, on average."""

from collections.abc import Sequence

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem
from engine.evidence.small_sessions import small_session, unlike
from engine.feedback.presets import MODES

CASES = 1000


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """How far the mean step over all draws is from the gradient of the loss, whether one document moves or all."""
    rng = np.random.default_rng(seed)
    return {"apart": [max(unlike(*small_session(rng, mode=mode)) for mode in MODES) for _case in range(CASES)]}


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["apart"], CASES)


CLAIM = Claim(
    id="O1",
    paper="orag",
    place="Lemma 3.1, appendix B.2",
    sentence="Feedback on the one document drawn gives the gradient of the loss on average, whether all documents move "
    "or that one.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    differs="1,000 drawn cases of few documents, all draws enumerated.",
    cost=5,
)
