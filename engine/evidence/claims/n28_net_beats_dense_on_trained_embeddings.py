"""N28: on embeddings of dense training, NNN without training for it beats dense retrieval."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope, difference
from engine.evidence.trained_differences import ADAPTED, TRAINED_SETS, TrainedDifferences

CLAIM = Claim(
    id="N28",
    paper="nnn",
    place="§4.2, Table 2",
    sentence="NNN on embeddings that were trained for inner products beats dense retrieval on ToolBank and ToolLens.",
    scope=Scope.STAND_IN,
    measure=TrainedDifferences(pairs=(("NNN-Fix", "dense"),)),
    rule=partial(difference, margin=1.0),
    sets=TRAINED_SETS,
    trained=True,
    effect="+10.5 (NumpyBank) and +9.9 points Comp@5",
    differs=f"{ADAPTED} Of ToolBank NumpyBank alone, own split. On embeddings without any training: N5, N6.",
    cost=1,
)
