"""N15: NNN-Tr beats NNN-Fix in all metrics."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, difference
from engine.evidence.trained_differences import ADAPTED, EVERY_METRIC, TRAINED_SETS, UNROLLED, TrainedDifferences

CLAIM = Claim(
    id="N15",
    paper="nnn",
    place="§4.2, Tables 1, 2",
    sentence="Training for the decoder gains further over NNN without it, on all sets and in all metrics.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=((UNROLLED, "NNN-Fix"),), reported=EVERY_METRIC),
    rule=partial(difference, margin=1.0),
    sets=TRAINED_SETS,
    trained=True,
    effect="63.1 against 61.4 (NumpyBank) and 97.0 against 91.4 % Comp@5 (ToolLens)",
    differs=f"{ADAPTED} Two of the five sets. λ is chosen before training and again afterwards, not by a training "
    "each.",
    cost=1,
)
