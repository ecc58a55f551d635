"""V7: VRSD returns better sets than MMR at ½ and than the most relevant documents."""

from functools import partial

import engine
from engine.decoder import Decoder
from engine.evidence.claim import Claim
from engine.evidence.measures import DENSE, TunedDifferences
from engine.evidence.rules import Scope, difference

OTHERS = {"MMR at ½": [Decoder(engine.make("mmr", relevance_weight=0.5))], "most relevant": [DENSE]}

CLAIM = Claim(
    id="V7",
    paper="vrsd",
    place="§4.2",
    sentence="VRSD returns better sets than MMR at λ = ½ and than the most relevant documents.",
    scope=Scope.STAND_IN,
    measure=TunedDifferences(claimed=engine.grid("vrsd"), others=OTHERS, metrics=("recall",), k=(10,)),
    rule=partial(difference, margin=1.0),
    sets=("perspectrum", "toollens", "ultratool-en", "multihop-rag-summ500"),
    differs="Better: Recall@10 of judged documents; the paper measures the sum's cosine and a language model's "
    "answers. MiniLM as it is shipped.",
    cost=60,
)
