"""N13: what NNN-Tr gains is not due to more epochs."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, difference
from engine.evidence.trained_differences import ADAPTED, TRAINED_SETS, UNROLLED, TrainedDifferences

CLAIM = Claim(
    id="N13",
    paper="nnn",
    place="§4.1",
    sentence="NNN-Tr beats dense retrieval that was trained on for as many epochs.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=((UNROLLED, "dense-cont"),)),
    rule=partial(difference, margin=1.0),
    sets=TRAINED_SETS,
    trained=True,
    effect="",
    differs=f"{ADAPTED} The paper trains dense until dev gains no more, and has no such control.",
    cost=1,
)
