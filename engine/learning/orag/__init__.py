"""Feedback that moves the documents (Online-Optimized RAG, Pan et al. 2025), as values: nothing is changed in place.

session = orag.session(space)                            # nothing has happened yet
event = orag.thumb(session, "how to sort?", "sort", up=False)
after = orag.feed(session, event)                        # `session` stays as it was
space_now = engine.Space(corpus, after.embeddings())     # every decoder works on it
before = orag.undo(after, event.id)                      # bit by bit
"""

from engine.learning.orag.compare import Diff, diff
from engine.learning.orag.events import Event, Query
from engine.learning.orag.feedback import full_information, outcome, right_one, thumb
from engine.learning.orag.policy import Draw, ask, probabilities
from engine.learning.orag.presets import NOTES, PRESETS, Preset
from engine.learning.orag.rerankers import Reranker, by_scorer, cosine, oracle
from engine.learning.orag.session import Session, at, feed, redo, replay, reset, session, undo
from engine.learning.orag.temperature import by_perplexity, perplexity

__all__ = [
    "NOTES",
    "PRESETS",
    "Diff",
    "Draw",
    "Event",
    "Preset",
    "Query",
    "Reranker",
    "Session",
    "ask",
    "at",
    "by_perplexity",
    "by_scorer",
    "cosine",
    "diff",
    "feed",
    "full_information",
    "oracle",
    "outcome",
    "perplexity",
    "probabilities",
    "redo",
    "replay",
    "reset",
    "right_one",
    "session",
    "thumb",
    "undo",
]
