"""N16: on frozen embeddings λ₂ alone falls far behind both penalties, λ₁ alone a little."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.measures import ELASTIC_GRID, L1_GRID, L2_GRID, TunedDifferences
from engine.evidence.rules import Scope, difference

CLAIM = Claim(
    id="N16",
    paper="nnn",
    place="§4.2, Tables 1, 2",
    sentence="Without training λ₂ alone is much worse than both penalties, and λ₁ alone a little, but on MultiHop-RAG "
    "much.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=ELASTIC_GRID, others={"λ₂ alone": L2_GRID, "λ₁ alone": L1_GRID}),
    rule=partial(difference, margin=1.0),
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    effect="NumpyBank, ToolLens, MultiHop-RAG: λ₂ alone −3.5, +0.3, −1.7, λ₁ alone −0.2, −1.4, −20.0 points Comp@5",
    differs="Asked is whether either is worse, not how much. MiniLM as it is shipped, not bge-small fine-tuned on the "
    "set.",
    cost=40,
)
