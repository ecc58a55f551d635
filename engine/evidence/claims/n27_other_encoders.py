"""N27: the same holds of other encoders and of two more data sets."""

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope

CLAIM = Claim(
    id="N27",
    paper="nnn",
    place="Appendix C, Tables 4 to 7; Table 2",
    sentence="NNN beats dense retrieval with two other encoders too, and on PandasBank and AWSBank.",
    scope=Scope.STAND_IN,
    missing=(
        "the weights of bge-small-en-v1.5, msmarco-MiniLM-L6-cos-v5 and msmarco-distilbert-base-tas-b, their training "
        "on each set, and the sets PandasBank and AWSBank"
    ),
    effect="without training +0.4 to +12.5 points Comp@5 with MiniLM-L6-cos-v5, +1.4 to +9.8 with "
    "distilbert-base-tas-b",
)
