"""V7: VRSD returns better sets than MMR at ½ and than the most relevant documents."""

import engine
from engine.decoder import Decoder
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSets
from engine.evidence.measures import DENSE, tuned_differences
from engine.evidence.rules import Ruling, Scope, difference, together

VRSD = engine.grid("vrsd")
OTHERS = {"MMR at ½": [Decoder(engine.make("mmr", relevance_weight=0.5))], "most relevant": [DENSE]}


def measure(sets: JudgedSets, seed: int) -> Measurement:
    """Paired differences in Recall@10 to each baseline."""
    return {
        name: tuned_differences(sets.among(CLAIM.sets), VRSD, other, "recall", 10) for name, other in OTHERS.items()
    }


def judge(measured: Measurement) -> Ruling:
    return together([difference(cells, margin=1.0) for cells in measured.values()])


CLAIM = Claim(
    id="V7",
    paper="vrsd",
    place="§4",
    sentence="VRSD returns better sets than MMR at ½ and than the most relevant documents.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    sets=("perspectrum", "toollens", "ultratool-en", "multihop-rag-summ500"),
    differs="Recall of judged documents; the paper measures the sum's cosine and a language model's answers.",
    cost=60,
)
