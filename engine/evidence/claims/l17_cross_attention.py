"""L17: cross-attention finds nearly every passage, and makes the first stage matter less."""

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope

CLAIM = Claim(
    id="L17",
    paper="sparse-dense",
    place="§5, §7, Fig. 4, 6",
    sentence="Cross-attention finds nearly every passage that contains the query, whatever its length, and the more it "
    "reranks the less the first stage matters.",
    scope=Scope.STAND_IN,
    missing="a cross-encoder trained for the task: its weights, or a GPU and the extra train to make them",
)
