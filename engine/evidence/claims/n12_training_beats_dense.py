"""N12: NNN-Tr beats dense retrieval in all metrics."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, difference
from engine.evidence.trained_differences import ADAPTED, EVERY_METRIC, TRAINED_SETS, UNROLLED, TrainedDifferences

CLAIM = Claim(
    id="N12",
    paper="nnn",
    place="§4.2, Tables 1, 2",
    sentence="Trained for its decoder (NNN-Tr), NNN beats dense retrieval on all sets and in all metrics.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=((UNROLLED, "dense"),), reported=EVERY_METRIC),
    rule=partial(difference, margin=1.0),
    sets=TRAINED_SETS,
    trained=True,
    effect="+12.2 (NumpyBank) and +15.5 (ToolLens) points Comp@5",
    differs=f"{ADAPTED} Two of the five sets. λ is chosen before training and again afterwards, not by a training "
    "each.",
    cost=1,
)
