"""N7: NNN without training is about level with dense retrieval on MultiHop-RAG."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.measures import DENSE, ELASTIC_GRID, TunedDifferences
from engine.evidence.rules import Scope, equivalence

CLAIM = Claim(
    id="N7",
    paper="nnn",
    place="Table 2",
    sentence="NNN without training is about level with dense retrieval on MultiHop-RAG.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=ELASTIC_GRID, others={"dense": [DENSE]}),
    rule=partial(equivalence, margin=2.0),
    sets=("multihop-rag-summ500",),
    effect="+1.3 points Comp@5, −0.5 points Comp@3",
    differs="“About level” is our reading of the table. MiniLM as it is shipped, not bge-small fine-tuned on the set; "
    "summaries of the articles, and 416 of 2,255 queries.",
    cost=10,
)
