"""N13: what NNN-Tr gains is not due to more epochs."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, difference
from engine.evidence.trained_differences import ADAPTED, TRAINED_SETS, UNROLLED, TrainedDifferences

CLAIM = Claim(
    id="N13",
    paper="nnn",
    place="§4.1",
    sentence="What NNN-Tr gains is not due to more epochs: it beats dense retrieval that went on training for as many.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=((UNROLLED, "dense-cont"),)),
    rule=partial(difference, margin=1.0),
    sets=TRAINED_SETS,
    trained=True,
    effect="",
    differs=f"{ADAPTED} Two of the five sets. The paper trains dense until dev gains no more, and has no such control.",
    cost=1,
)
