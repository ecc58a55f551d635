"""L16: BM25 over words is better on questions, over words and pairs of words on passages that contain the query."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, difference, illustrated
from engine.evidence.sparse_and_dense import LENGTHS, K, by_length, curves, sparse_and_dense


def judge(measured: Measurement) -> Ruling:
    cells, drawn = {}, {}
    for name, of_set in measured.items():
        questions = of_set["questions"]["recall"]
        cells[f"{name}, questions, words less pairs, recall@{K}"] = np.subtract(
            questions["words"], questions["pairs"]
        ).tolist()
        if contained := of_set["contained"]:
            for words, apart in zip(LENGTHS, by_length(contained, "pairs", "words"), strict=True):
                shown = f"{name}, contained in {words} words, pairs less words, mrr@{K}"
                cells[shown] = apart
            drawn[shown] = curves(contained, name, {"words": "words", "words and pairs": "pairs"})
    return illustrated(difference(cells, margin=1.0), drawn)


CLAIM = Claim(
    id="L16",
    paper="sparse-dense",
    place="§5, §6",
    sentence="On questions BM25 finds more by words alone; passages that contain the query it finds better by words "
    "and pairs of words.",
    scope=Scope.STAND_IN,
    measure=sparse_and_dense,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500", "toollens"),
    differs="The paper says it of questions, and has pairs in the other task without saying why. Judged sets for "
    "Natural Questions; Recall of relevant documents for that of answers; words, not word pieces.",
    cost=180,
)
