"""Feedback that moves the documents (Online-Optimized RAG, Pan et al. 2025), as immutable sessions.

The examples of the functions go on from these lines; `path` is a new file.

>>> import engine, numpy as np
>>> from engine import orag
>>> corpus = engine.Corpus(("sort", "argsort", "open"), ("Sort a list.", "The order that sorts it.", "Open a file."))
>>> space = engine.Space(corpus, engine.embed(corpus))
>>> session = orag.session(space)  # the state before any vote
>>> event = orag.thumb(session, "how to sort?", "sort", up=False)
>>> after = orag.feed(session, event)  # `session` stays as it was
>>> space_now = engine.Space(corpus, after.embeddings())  # every decoder works on it
>>> before = orag.undo(after, event.id)  # the same bits as before the vote
"""

from engine.feedback.diff import Diff, diff
from engine.feedback.dynamic_corpus import change
from engine.feedback.export import export, upsert
from engine.feedback.migration import carry
from engine.feedback.policy import (
    Draw,
    Planner,
    Reranker,
    ask,
    by_scorer,
    cosine,
    full_information,
    multi_hop,
    oracle,
    outcome,
    probabilities,
    right_one,
    thumb,
)
from engine.feedback.presets import NOTES, PRESETS, Preset
from engine.feedback.records import Event, Query
from engine.feedback.session import Session, feed, redo, replay, reset, restore, session, snapshot, state_at, undo
from engine.feedback.temperature import by_perplexity, perplexity
from engine.feedback.vote_log import Log, load, log, place, save, toggle_vote

#: Public name of `state_at`.
at = state_at

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
    "toggle_vote",
    "undo",
    "upsert",
]
