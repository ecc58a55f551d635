"""L14: sparse and dense scores added are better than either."""

import numpy as np

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, difference
from engine.evidence.sparse_and_dense import K, sparse_and_dense


def judge(measured: Measurement) -> Ruling:
    cells = {
        f"{name}, {metric}@{K}, to {title}": np.subtract(values["hybrid"], values[part]).tolist()
        for name, of_set in measured.items()
        for metric, values in of_set["questions"].items()
        for part, title in (("dense", "dense"), ("words", "BM25"))
    }
    return difference(cells, margin=1.0)


CLAIM = Claim(
    id="L14",
    paper="sparse-dense",
    place="§5–7, Fig. 4, 5, Table 1",
    sentence="A hybrid that adds sparse and dense scores finds more than either of its parts.",
    scope=Scope.STAND_IN,
    measure=sparse_and_dense,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500", "toollens"),
    differs="MiniLM as it is shipped, not BERT trained on the set; questions only; one weight of eleven, chosen on "
    "other queries.",
    cost=180,
)
