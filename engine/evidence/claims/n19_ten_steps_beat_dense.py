"""N19: few steps of FISTA beat dense retrieval already."""

from functools import partial

import engine
from engine.evidence.claim import Claim
from engine.evidence.measures import DENSE, TunedDifferences
from engine.evidence.rules import Scope, difference

TEN_STEPS = engine.grid("nnn", fill="strict", solver="fista", iterations=10)

CLAIM = Claim(
    id="N19",
    paper="nnn",
    place="§4.2, Figure 3",
    sentence="A few steps of FISTA, here ten, already beat dense retrieval.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=TEN_STEPS, others={"dense": [DENSE]}),
    rule=partial(difference, margin=1.0),
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    differs="MiniLM as it is shipped. The paper says few and draws how many; λ is chosen for the ten, not for fifty.",
    cost=60,
)
