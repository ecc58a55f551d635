"""Multi-hop queries: one draw, one judgement and one step for each sub-query (Algorithm 4)."""

from collections.abc import Callable, Sequence
from typing import Any

from engine.errors import ParamError
from engine.feedback.policy import Reranker, ask
from engine.feedback.records import Event, Query
from engine.feedback.session import Session, feed
from engine.feedback.votes import outcome

Planner = Callable[[Any], Sequence[Any]]
"""From a question to its sub-questions, in order; each as `Session.resolve_query` takes it."""


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
    """The session after all hops of a query, and their outcomes; each hop goes on from the one before.

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
