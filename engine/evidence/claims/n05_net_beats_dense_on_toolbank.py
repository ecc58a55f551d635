"""N5: NNN without training beats dense retrieval on ToolBank."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.measures import DENSE, ELASTIC_GRID, TunedDifferences
from engine.evidence.rules import Scope, difference

CLAIM = Claim(
    id="N5",
    paper="nnn",
    place="Table 2",
    sentence="NNN without training beats dense retrieval on ToolBank.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=ELASTIC_GRID, others={"dense": [DENSE]}),
    rule=partial(difference, margin=1.0),
    sets=("toolbank-numpy",),
    effect="+10.5 points Comp@5 (NumpyBank)",
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set. Of ToolBank NumpyBank alone: own split of "
    "its published dev queries.",
    cost=10,
)
