"""L18: in the time that several vectors a document take, one vector finds less."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.passage_search import passage_search
from engine.evidence.rules import Ruling, Scope, difference


def judge(measured: Measurement) -> Ruling:
    cells = {}
    for name, of in measured["timed"].items():
        many, one = of["milliseconds"]
        cells[f"{name}, mrr@10, {many:.3f} ms to {one:.3f} ms"] = of["gap"]
    return difference(cells, margin=1.0)


CLAIM = Claim(
    id="L18",
    paper="sparse-dense",
    place="§7, Fig. 7",
    sentence="Where quality is high, search among several vectors per document finds more than search among one in the "
    "same time.",
    scope=Scope.STAND_IN,
    measure=passage_search,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500"),
    differs="Passages of hundreds of documents by MiniLM as it is shipped, not eight million with three trained "
    "vectors each; faiss on one thread, not ScaNN on 160 cores.",
    cost=180,
)
