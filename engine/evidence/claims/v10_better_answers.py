"""V10: VRSD's sets make language models answer better."""

from engine.evidence.claim import Claim
from engine.evidence.rules import Scope

CLAIM = Claim(
    id="V10",
    paper="vrsd",
    place="Tables 2, 3",
    sentence="Language models answer better from VRSD's sets than from MMR's, the most relevant documents, or BM25's.",
    scope=Scope.STAND_IN,
    missing="GPT-3.5-turbo and Mistral-7B, and ARC-DA, OpenBookQA and Puzzle",
    effect="ROUGE-L .371 against .364 (MMR at ½) on ARC-DA with GPT-3.5",
)
