"""Events from feedback: outcomes of draws, thumbs, "this is the right one", full information; multi-hop queries."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from engine.errors import ParamError
from engine.feedback.policy import Draw, Reranker, ask, probabilities
from engine.feedback.records import Event, Query, is_whole
from engine.feedback.session import Session, feed
from engine.feedback.temperature import softmax

VoteKind = Literal["up", "down", "right"]
Planner = Callable[[Any], Sequence[Any]]
"""From a question to its sub-questions, in order; each as `Session.resolve_query` takes it."""


def outcome(session: Session, draw: Draw, y: bool | int, *, relevant: int = 1, person: str | None = None) -> Event:
    """Outcome y of a draw as an event, weighted by 1/propensity: unbiased, Lemma 3.1 and appendix B.2.

    relevant: how many documents would have succeeded, where that is known; more than one without saying so is a loss
    without a lower bound. Raises ParamError.
    """
    if y not in (0, 1):
        raise ParamError(f"y must be 0 or 1; got {y!r}")
    if not is_whole(relevant) or relevant < 1:
        raise ParamError(f"relevant must be a whole number in [1, ∞); got {relevant!r}")
    if session.available is not None:
        session.row_of(draw.item)
    pull = (1.0 / (draw.propensity * relevant)) if y else 0.0
    items: Sequence[int]
    coefficients: Sequence[float] | np.ndarray
    if session.preset.mode == "full":
        items = _available(session)
        p = draw.probabilities
        coefficients = p.copy() if session.available is None else p[list(items)]
        coefficients[items.index(draw.item)] -= pull
        coefficients.flags.writeable = False
    elif len(draw.items) == 1 or session.preset.weights == "paper":
        items, coefficients = (draw.item,), (1.0 - pull,)
    else:
        # Every document drawn is pushed by p/π, whose mean is p; with one document drawn it is 1.
        items = draw.items
        coefficients = tuple(
            float(draw.probabilities[row]) / weight - (pull if row == draw.item else 0.0)
            for row, weight in zip(items, draw.weights, strict=True)
        )
    return Event(
        draw.round, "sampled", draw.query, items, coefficients, draw.item, bool(y), draw.propensity,
        session.preset.mode, draw.items, person, session.writer,
    )  # fmt: skip


def thumb(
    session: Session,
    query: Any,
    item: int | str,
    up: bool = True,
    *,
    person: str | None = None,
    propensity: float | None = None,
    shown: Iterable[int | str] = (),
) -> Event:
    """A thumb on a document of a list: up moves it by +η towards the query, down by −η away.

    A list is not a draw, so nothing is divided by a chance. propensity: the chance with which the document was shown,
    only where it was drawn (`ask`): then it counts as an outcome that moves the chosen document alone. person: whose;
    shown: the list, for the log. One vote per (query, item, person): a newer one counts in its place, and undoing that
    brings the older back; people who are not named are taken for different ones. Raises ParamError or DataError.
    """
    row, query = session.row_of(item), session.resolve_query(query)
    if not isinstance(up, bool | np.bool_):
        raise ParamError(f"up must be true or false; got {up!r}")
    if propensity is None:
        coefficient = -1.0 if up else 1.0
    elif isinstance(propensity, bool) or not 0 < propensity <= 1:
        raise ParamError(f"propensity must be a number in (0, 1] or none (not drawn); got {propensity!r}")
    else:
        propensity = float(propensity)
        coefficient = 1.0 - (1.0 / propensity if up else 0.0)
    return Event(
        session.round + 1, "thumb", query, (row,), (coefficient,), row, bool(up), propensity,
        session.preset.mode, session.resolve_items(shown), person, session.writer,
    )  # fmt: skip


def right_one(
    session: Session, query: Any, shown: Iterable[int | str], clicked: int | str, *, person: str | None = None
) -> Event:
    """ "This is the right one" of a list: the gradient of the cross-entropy over the list, p − e_clicked.

    shown: the list. One vote per (query, person). Raises ParamError or DataError.
    """
    query, rows, row = session.resolve_query(query), session.resolve_items(shown), session.row_of(clicked)
    if row not in rows or len(set(rows)) != len(rows):
        raise ParamError(f"shown must hold every document once, and the one clicked; got {shown!r} and {clicked!r}")
    vectors = np.stack([session.row(item) for item in rows])
    p = softmax(vectors @ query.exact / session.temperature)
    p[rows.index(row)] -= 1.0
    return Event(
        session.round + 1, "right_one", query, rows, tuple(p.tolist()), row, True, None, session.preset.mode, rows,
        person, session.writer,
    )  # fmt: skip


def votes_given(events: Iterable[Event], query: Query, person: str) -> dict[tuple[int, VoteKind], str]:
    """Map row and kind of a person's votes on a query to the event's id; events: those that count."""
    mine = [event for event in events if event.person == person and event.query.key == query.key]
    return {(e.item, "right" if e.kind == "right_one" else "up" if e.good else "down"): e.id for e in mine}


def full_information(session: Session, query: Any, right: Iterable[int | str]) -> Event:
    """Full information, as a simulation has it: p − 1/|S| on the right documents S, the gradient itself.

    Raises ParamError or DataError.
    """
    query, rows = session.resolve_query(query), sorted(set(session.resolve_items(right)))
    if not rows:
        raise ParamError("right must hold at least one document; got none")
    p = probabilities(session, query)
    p[rows] -= 1.0 / len(rows)
    items = _available(session)
    p = p if session.available is None else p[list(items)]
    p.flags.writeable = False
    return Event(
        session.round + 1, "full", query, items, p, rows[0], True, None, session.preset.mode, tuple(rows), None,
        session.writer,
    )  # fmt: skip


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
    """The session after all hops of a query, and their outcomes; each hop goes on from the one before (Algorithm 4).

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


def _available(session: Session) -> Sequence[int]:
    """The rows that are available, rising."""
    return range(len(session)) if session.available is None else tuple(np.flatnonzero(session.available).tolist())
