"""L16: BM25 over words is better on questions, over words and pairs of words on passages that contain the query."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, difference
from engine.evidence.sparse_and_dense import LENGTHS, K, by_length, sparse_and_dense


def judge(measured: Measurement) -> Ruling:
    cells = {}
    for name, of_set in measured.items():
        questions = of_set["questions"]["recall"]
        cells[f"{name}, questions, words less pairs, recall@{K}"] = np.subtract(
            questions["words"], questions["pairs"]
        ).tolist()
        if contained := of_set["contained"]:
            for words, apart in zip(LENGTHS, by_length(contained, "pairs", "words"), strict=True):
                cells[f"{name}, contained in {words} words, pairs less words, mrr@{K}"] = apart
    return difference(cells, margin=1.0)


CLAIM = Claim(
    id="L16",
    paper="sparse-dense",
    place="§5, §6",
    sentence="BM25 over words is the stronger one on questions, BM25 over words and pairs on passages that contain the "
    "query.",
    scope=Scope.STAND_IN,
    measure=sparse_and_dense,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500", "toollens"),
    differs="Judged sets for Natural Questions, recall of relevant documents for that of answers; words, not word "
    "pieces. In short passages both find nearly all.",
    cost=180,
)
