"""Questions that need several answers: one draw, one judgement and one step for each sub-question (Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engine.errors import ParamError
from engine.learning.orag.events import Event, Query
from engine.learning.orag.feedback import outcome
from engine.learning.orag.folding import feed
from engine.learning.orag.policy import ask
from engine.learning.orag.rerankers import Reranker
from engine.learning.orag.session import Session

Planner = Callable[[Any], Sequence[Any]]
"""From a question to its sub-questions, in order; each as `Session.ask_of` takes it."""


def multi_hop(
    session: Session,
    query: Any,
    planner: Planner | Sequence[Any],
    judge: Callable[[Query, int], bool | int],
    *,
    k: int = 1,
    reranker: Reranker | None = None,
    person: str | None = None,
) -> tuple[Session, tuple[Event, ...]]:
    """The session after all hops of a question, and their outcomes: each hop is asked of what the one before left.

    planner: makes the sub-questions, or these themselves; judge: whether a document helps with a sub-question.
    Raises ParamError or DataError.
    """
    hops = planner(query) if callable(planner) else planner
    if isinstance(hops, str) or not len(hops):
        raise ParamError(f"planner must give a list of at least one sub-question; got {hops!r}")
    events = []
    for hop in hops:
        draw = ask(session, hop, k, reranker)
        event = outcome(session, draw, judge(draw.query, draw.item), person=person)
        session = feed(session, event)
        events.append(event)
    return session, tuple(events)
