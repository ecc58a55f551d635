"""L19: dense, multi-vector and hybrid retrieval on MS MARCO, TREC DL and Natural Questions."""

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope

CLAIM = Claim(
    id="L19",
    paper="sparse-dense",
    place="§1, §6, §7, Tables 1, 2, Fig. 5",
    sentence="The hybrid of BM25 and a multi-vector encoder is at or near the top on MS MARCO, TREC DL 2019 and "
    "Natural Questions.",
    scope=Scope.STAND_IN,
    missing="MS MARCO, TREC DL 2019 and Natural Questions over Wikipedia, and BERT encoders trained on them",
)
