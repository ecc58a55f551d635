"""L10: the longer passages are, the further dense retrieval falls behind BM25 in finding exact words."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, difference, illustrated
from engine.evidence.sparse_and_dense import LENGTHS, by_length, curves, per_doubling, sparse_and_dense


def judge(measured: Measurement) -> Ruling:
    cells, drawn = {}, {}
    for name, of_set in measured.items():
        if gaps := of_set["contained"] and by_length(of_set["contained"], "words", "dense"):
            cells[f"{name}, BM25 less dense at {LENGTHS[-1]} words"] = gaps[-1]
            growth = f"{name}, growth per doubling"
            cells[growth] = per_doubling(LENGTHS, gaps)
            drawn[growth] = curves(of_set["contained"], name, {"BM25": "words", "dense": "dense"})
    return illustrated(difference(cells, margin=1.0), drawn)


CLAIM = Claim(
    id="L10",
    paper="sparse-dense",
    place="§1, §5, Fig. 1, 4",
    sentence="In finding the passage that contains the query, BM25 is ahead of dense retrieval, and the more so the "
    "longer passages are.",
    scope=Scope.STAND_IN,
    measure=sparse_and_dense,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500", "toollens"),
    differs="MiniLM as it is shipped, not BERT trained for the task; hundreds of passages of 25 to 200 words, not "
    "three million of up to 400 tokens.",
    cost=180,
)
