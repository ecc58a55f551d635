"""O16: BM25 is worse than dense retrieval on every set."""

from functools import partial

import engine
from engine.decoder import Decoder
from engine.evidence.claim import Claim
from engine.evidence.measures import DENSE, TunedDifferences
from engine.evidence.rules import Scope, difference

BM25 = Decoder(engine.make("top_k"), engine.make("bm25"))

CLAIM = Claim(
    id="O16",
    paper="orag",
    place="Table 1, §4.1",
    sentence="BM25 is worse than dense retrieval on every set.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=[DENSE], others={"BM25": [BM25]}, metrics=("ndcg",), k=(10,)),
    rule=partial(difference, margin=1.0),
    sets=("ultratool-en", "metatool", "toollens", "toolbank-numpy", "multihop-rag-summ500"),
    effect="+0.3 to +40.6 points nDCG@10",
    differs="MiniLM for the paper's two encoders; whole questions, not plan steps.",
    cost=5,
)
