"""L12: several vectors a document find more than one."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.passage_search import passage_search
from engine.evidence.rules import Ruling, Scope, difference


def judge(measured: Measurement) -> Ruling:
    return difference(measured["found"], margin=1.0)


CLAIM = Claim(
    id="L12",
    paper="sparse-dense",
    place="§5–7, Fig. 4, 5, Table 1",
    sentence="Several vectors per document find more than one vector does.",
    scope=Scope.STAND_IN,
    measure=passage_search,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500"),
    differs="Vectors of a document's passages of 50, 100 or 200 words, by MiniLM as it is shipped; the paper's are the "
    "states of the first 3, 4 or 8 tokens, by a BERT that is trained to have them.",
    cost=180,
)
