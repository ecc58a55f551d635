"""N16: on frozen embeddings λ₂ alone falls far behind both penalties, λ₁ alone a little."""

from functools import partial

from engine.evidence.claim import Claim
from engine.evidence.measures import ELASTIC_GRID, L1_GRID, L2_GRID, TunedDifferences
from engine.evidence.rules import Scope, difference

CLAIM = Claim(
    id="N16",
    paper="nnn",
    place="Table 2, §4.2",
    sentence="Without training both penalties are needed: λ₂ alone is much worse, λ₁ alone a little.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=ELASTIC_GRID, others={"λ₂ alone": L2_GRID, "λ₁ alone": L1_GRID}),
    rule=partial(difference, margin=1.0),
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500"),
    differs="MiniLM as it is shipped, not bge-small fine-tuned on the set.",
    cost=40,
)
