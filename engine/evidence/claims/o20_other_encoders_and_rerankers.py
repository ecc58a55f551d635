"""O20: the gains are the same for API encoders, hold on FiQA and ToolRet, and in calls of functions."""

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope

CLAIM = Claim(
    id="O20",
    paper="orag",
    place="Table 1, Fig. 3, 6",
    sentence="Online-Optimized RAG improves encoders behind APIs on FiQA and ToolRet, at less cost than rerankers, and "
    "improves final answers.",
    scope=Scope.STAND_IN,
    missing="FiQA, ToolRet, encoders behind APIs, rerankers on a GPU, and a language model that calls and answers",
)
