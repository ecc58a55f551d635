"""N12: NNN-Tr beats dense retrieval in all metrics."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, difference
from engine.evidence.trained_differences import ADAPTED, EVERY_METRIC, TRAINED_SETS, UNROLLED, TrainedDifferences

CLAIM = Claim(
    id="N12",
    paper="nnn",
    place="Tables 1 and 2",
    sentence="NNN-Tr beats dense retrieval on all sets and in all metrics.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=((UNROLLED, "dense"),), reported=EVERY_METRIC),
    rule=partial(difference, margin=1.0),
    sets=TRAINED_SETS,
    trained=True,
    effect="+12.2 and +15.5 points Comp@5",
    differs=f"{ADAPTED} λ is chosen before training and again afterwards, not by a training each.",
    cost=1,
)
