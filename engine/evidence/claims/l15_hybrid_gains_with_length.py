"""L15: adding BM25 to dense retrieval gains more where documents are longer."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, difference, illustrated
from engine.evidence.sparse_and_dense import (
    LENGTHS,
    by_length,
    curves,
    per_doubling,
    per_doubling_of,
    sparse_and_dense,
)


def judge(measured: Measurement) -> Ruling:
    cells, drawn = {}, {}
    for name, of_set in measured.items():
        questions = of_set["questions"]["mrr"]
        gains = np.subtract(questions["hybrid"], questions["dense"]).tolist()
        cells[f"{name}, questions, per doubling"] = per_doubling_of(of_set["lengths"], gains)
        if of_set["contained"]:
            gains_of_passages = by_length(of_set["contained"], "hybrid", "dense beside hybrid")
            growth = f"{name}, contained, per doubling"
            cells[growth] = per_doubling(LENGTHS, gains_of_passages)
            drawn[growth] = curves(of_set["contained"], name, {"hybrid": "hybrid", "dense": "dense beside hybrid"})
    return illustrated(difference(cells, margin=1.0), drawn)


CLAIM = Claim(
    id="L15",
    paper="sparse-dense",
    place="§5, §6, Fig. 4, 5",
    sentence="What BM25 adds to dense retrieval grows with the length of the documents.",
    scope=Scope.STAND_IN,
    measure=sparse_and_dense,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500", "toollens"),
    differs="MiniLM as it is shipped. Questions: by the length of what is relevant, in one collection, not the same "
    "texts cut shorter and longer. MRR@10, not recall of answers within 400 tokens.",
    cost=180,
)
