"""Difference between two states of a session."""

from dataclasses import dataclass

import numpy as np

from engine.display import OneLine
from engine.errors import ParamError
from engine.feedback.records import Event
from engine.feedback.session import Session


@dataclass(frozen=True, eq=False)
class Diff(OneLine):
    """Changes from one session state to another.

    Parameters
    ----------
    rows : tuple of int
        Documents whose vectors differ, the farthest moved first.
    moved : ndarray
        (m,) distance that each of them moved.
    added, removed : tuple of Event
        Feedback that counts in the second state only, and in the first only.
    came, went : tuple of int
        Rows that became available, or ceased to be.

    Examples
    --------
    >>> orag.diff(session, after).rows
    (0,)
    """

    rows: tuple[int, ...]
    moved: np.ndarray
    added: tuple[Event, ...]
    removed: tuple[Event, ...]
    came: tuple[int, ...]
    went: tuple[int, ...]


def diff(a: Session, b: Session) -> Diff:
    """Return the changes from one session to another over the same embeddings.

    Parameters
    ----------
    a, b : Session
        The earlier and the later state.

    Returns
    -------
    Diff
        Moved documents, feedback that was added or removed, and documents that came or went.

    Raises
    ------
    ParamError
        If the sessions began with different embeddings.

    Examples
    --------
    >>> changes = orag.diff(session, orag.feed(session, event))
    """
    if a.space.embeddings != b.space.embeddings:
        raise ParamError("both sessions must have begun with the same embeddings")
    candidate_rows = np.unique(np.array([*a.state.moved_rows(), *b.state.moved_rows()], dtype=np.int64))
    distances = np.array([np.linalg.norm(b.row(row) - a.row(row)) for row in candidate_rows.tolist()], np.float64)
    # Ties in distance are broken by row, and rows that did not move come last, where they are cut off.
    farthest_first = np.lexsort((candidate_rows, -distances))[: np.count_nonzero(distances)]
    events_in_a, events_in_b = set(a.effective_events), set(b.effective_events)
    available_in_a, available_in_b = _availability(a), _availability(b)
    return Diff(
        rows=tuple(candidate_rows[farthest_first].tolist()),
        moved=distances[farthest_first],
        added=tuple(event for event in b.effective_events if event not in events_in_a),
        removed=tuple(event for event in a.effective_events if event not in events_in_b),
        came=tuple(np.flatnonzero(available_in_b & ~available_in_a).tolist()),
        went=tuple(np.flatnonzero(available_in_a & ~available_in_b).tolist()),
    )


def _availability(session: Session) -> np.ndarray:
    """Return the (n,) bool mask of available documents."""
    return np.ones(len(session), bool) if session.available is None else session.available
