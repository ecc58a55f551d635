"""L11: BM25 with pairs of words nearly always finds the passage that contains the query."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, difference
from engine.evidence.sparse_and_dense import sparse_and_dense

CLAIMED = 95.0


def judge(measured: Measurement) -> Ruling:
    cells = {
        f"{name}, {length} words, MRR@10 less {CLAIMED:g}": [value - CLAIMED for value in values["pairs"]]
        for name, of_set in measured.items()
        for length, values in of_set["contained"].items()
    }
    return difference(cells, margin=0.0)


CLAIM = Claim(
    id="L11",
    paper="sparse-dense",
    place="§5",
    sentence="BM25 over words and pairs of words has an MRR@10 above 95 in finding the passage that contains the "
    "query, whatever the length of passages.",
    scope=Scope.STAND_IN,
    measure=sparse_and_dense,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500", "toollens"),
    effect="over 95 points MRR@10",
    differs="Hundreds of passages of 25 to 200 words, not three million of up to 400 tokens; words, not word pieces.",
    cost=180,
)
