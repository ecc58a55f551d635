"""N8: NNN without training beats MMR on ToolBank."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.measures import ELASTIC_GRID, MMR_GRID, TunedDifferences
from engine.evidence.rules import Scope, difference

CLAIM = Claim(
    id="N8",
    paper="nnn",
    place="§4.2, Table 2",
    sentence="NNN without training beats MMR on ToolBank.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=ELASTIC_GRID, others={"MMR": MMR_GRID}),
    rule=partial(difference, margin=1.0),
    sets=("toolbank-numpy",),
    effect="+6.7 points Comp@5 (NumpyBank)",
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set. Of ToolBank NumpyBank alone: own split of "
    "its published dev queries.",
    cost=10,
)
