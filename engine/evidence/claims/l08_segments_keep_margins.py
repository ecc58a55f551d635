"""L8: orthogonal segments of two documents have at least the documents' margin."""

from engine.evidence.claim import Claim, Measurement
from engine.evidence.rules import Ruling, Scope, theorem
from engine.evidence.segment_margins import segment_margins

LEAST = 250


def judge(measured: Measurement) -> Ruling:
    return theorem(measured["lost"], LEAST)


CLAIM = Claim(
    id="L8",
    paper="sparse-dense",
    place="Theorem 1",
    sentence="Where documents are sums of orthogonal segments and the query refers to one of these, that segment's "
    "margin is at least the documents'.",
    scope=Scope.EXACT,
    measure=segment_margins,
    rule=judge,
    sets=("cranfield", "multihop-rag-summ500"),
    differs="Cases are pairs of documents that meet the premises, segments being the words of the best passage and the "
    "rest of the vocabulary.",
    cost=20,
)
