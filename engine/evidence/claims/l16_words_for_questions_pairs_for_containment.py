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
            label = f"{name}, contained in {LENGTHS[-1]} words, pairs less words, mrr@{K}"
            cells[label] = by_length(contained, "pairs", "words")[-1]
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
    "pieces. Passages of 200 words: of shorter ones both find nearly all.",
    cost=180,
)
