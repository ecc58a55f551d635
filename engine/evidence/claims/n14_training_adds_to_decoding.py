"""N14: training for the decoder adds to decoding alone, at equal epochs."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, difference
from engine.evidence.trained_differences import ADAPTED, TRAINED_SETS, UNROLLED, TrainedDifferences

CLAIM = Claim(
    id="N14",
    paper="nnn",
    place="§2.3, §4.2",
    sentence="NNN-Tr beats the same decoder on embeddings that went on training for inner products for as many epochs.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=((UNROLLED, "dense-cont, NNN-Fix"),)),
    rule=partial(difference, margin=1.0),
    sets=TRAINED_SETS,
    trained=True,
    effect="",
    differs=f"{ADAPTED} Two of the five sets. The paper has no such control: its NNN-Fix has embeddings of fewer "
    "epochs; see N15.",
    cost=1,
)
