"""Feedback that moves the documents (Online-Optimized RAG, Pan et al. 2025), as values: nothing is changed in place.

session = orag.session(space)                            # nothing has happened yet
event = orag.thumb(session, "how to sort?", "sort", up=False)
after = orag.feed(session, event)                        # `session` stays as it was
space_now = engine.Space(corpus, after.embeddings())     # every decoder works on it
before = orag.undo(after, event.id)                      # bit by bit
"""

from engine.learning.orag.carrying import carry
from engine.learning.orag.compare import Diff, diff
from engine.learning.orag.documents import change
from engine.learning.orag.events import Event, Query
from engine.learning.orag.export import export, upsert
from engine.learning.orag.feedback import full_information, outcome, right_one, thumb
from engine.learning.orag.folding import at, feed, redo, replay, reset, restore, snapshot, undo
from engine.learning.orag.hops import Planner, multi_hop
from engine.learning.orag.log import Log, load, log, place, save
from engine.learning.orag.policy import Draw, ask, probabilities
from engine.learning.orag.presets import NOTES, PRESETS, Preset
from engine.learning.orag.rerankers import Reranker, by_scorer, cosine, oracle
from engine.learning.orag.session import Session, session
from engine.learning.orag.temperature import by_perplexity, perplexity

__all__ = [
    "NOTES",
    "PRESETS",
    "Diff",
    "Draw",
    "Event",
    "Log",
    "Planner",
    "Preset",
    "Query",
    "Reranker",
    "Session",
    "ask",
    "at",
    "by_perplexity",
    "by_scorer",
    "carry",
    "change",
    "cosine",
    "diff",
    "export",
    "feed",
    "full_information",
    "load",
    "log",
    "multi_hop",
    "oracle",
    "outcome",
    "perplexity",
    "place",
    "probabilities",
    "redo",
    "replay",
    "reset",
    "restore",
    "right_one",
    "save",
    "session",
    "snapshot",
    "thumb",
    "undo",
    "upsert",
]
