"""N1: whatever dense retrieval gets right, the elastic net gets right for some λ."""

from collections.abc import Sequence

import numpy as np

import engine
from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, theorem

SIZES, QUERIES, LEAST = range(1, 7), 100, 500


def measure(sets: Sequence[JudgedSet], seed: int) -> Measurement:
    """How many rows of the top k the support misses or adds, at the witness's λ₁ and λ₂, by certified answers."""
    apart = []
    for judged in sets:
        queries = judged.queries("test", QUERIES).vectors
        rng = np.random.default_rng(seed)
        for row, k in zip(range(len(queries)), rng.choice(list(SIZES), len(queries)), strict=True):
            apart.append(_apart(judged.space.vectors.double(), queries[row].double(), int(k)))
    return {"apart": [rows for rows in apart if rows is not None]}


def _apart(vectors: object, query: object, k: int) -> int | None:
    """Rows in only one of support and top k; None where the k-th and the next document are level."""
    try:
        found = engine.witness(vectors, query, k)
    except engine.FrontierError:
        return None
    answer = engine.select("nnn", vectors, query, k=2 * k + 2, l1=found.l1, l2=found.l2)
    return len({row for row in answer.index[0].tolist() if row >= 0} ^ set(found.rows))


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["apart"], LEAST)


CLAIM = Claim(
    id="N1",
    paper="nnn",
    place="Theorem 1",
    sentence="Whatever set dense retrieval finds exactly, NNN finds exactly too, for some λ₁ and λ₂.",
    scope=Scope.EXACT,
    measure=measure,
    rule=judge,
    sets=("toolbank-numpy", "toollens", "multihop-rag-summ500", "ultratool-en", "perspectrum", "cranfield"),
    differs="The right set is taken to be the k most relevant documents, k from 1 to 6; λ₁ and λ₂ are those of the "
    "proof, which lie outside the paper's grid (N2).",
    cost=40,
)
