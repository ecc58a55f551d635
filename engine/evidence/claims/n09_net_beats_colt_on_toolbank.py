"""N9: NNN on embeddings of dense training beats COLT on ToolBank."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, difference
from engine.evidence.trained_differences import ADAPTED, TrainedDifferences

CLAIM = Claim(
    id="N9",
    paper="nnn",
    place="§4.2, Table 2",
    sentence="NNN on embeddings that were trained for inner products beats COLT on ToolBank.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=(("NNN-Fix", "COLT"),)),
    rule=partial(difference, margin=1.0),
    sets=("toolbank-numpy",),
    trained=True,
    effect="61.4 against 52.5 % Comp@5 (NumpyBank)",
    differs=f"{ADAPTED} NumpyBank alone, own split. COLT in code of our own, with 9 of its 21 settings tried.",
    cost=1,
)
