"""N6: NNN without training beats dense retrieval on ToolLens."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.measures import DENSE, ELASTIC_GRID, TunedDifferences
from engine.evidence.rules import Scope, difference

CLAIM = Claim(
    id="N6",
    paper="nnn",
    place="Table 2",
    sentence="NNN without training beats dense retrieval on ToolLens.",
    scope=Scope.SAME_DATA,
    measure=TunedDifferences(claimed=ELASTIC_GRID, others={"dense": [DENSE]}),
    rule=partial(difference, margin=1.0),
    sets=("toollens",),
    effect="+9.9 points Comp@5",
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set. Every scene of test occurs in train too.",
    cost=20,
)
