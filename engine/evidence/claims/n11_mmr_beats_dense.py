"""N11: MMR beats dense retrieval on ToolBank and ToolLens."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.measures import DENSE, MMR_GRID, TunedDifferences
from engine.evidence.rules import Scope, difference

CLAIM = Claim(
    id="N11",
    paper="nnn",
    place="Table 2",
    sentence="MMR beats dense retrieval on ToolBank and ToolLens.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=MMR_GRID, others={"dense": [DENSE]}),
    rule=partial(difference, margin=1.0),
    sets=("toolbank-numpy", "toollens"),
    effect="+3.7 (NumpyBank) and +11.6 points Comp@5",
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set. Of ToolBank NumpyBank alone, own split.",
    cost=15,
)
