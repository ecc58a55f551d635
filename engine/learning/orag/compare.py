"""How two states of a session differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.errors import ParamError
from engine.learning.orag.events import Event
from engine.learning.orag.session import Session


@dataclass(frozen=True, eq=False)
class Diff:
    """From one state to another.

    rows: that differ, the farthest moved first; moved: (m,) how far each; added, removed: the feedback that counts in
    the second only, and in the first only; came, went: rows that became available, or stopped being so.
    """

    rows: tuple[int, ...]
    moved: np.ndarray
    added: tuple[Event, ...]
    removed: tuple[Event, ...]
    came: tuple[int, ...]
    went: tuple[int, ...]


def diff(a: Session, b: Session) -> Diff:
    """What lies between two sessions over the same vectors. Raises ParamError for others."""
    if a.space.embeddings != b.space.embeddings:
        raise ParamError("both sessions must have begun with the same embeddings")
    known = a.state.moved(), b.state.moved()
    rows = np.arange(len(a)) if None in known else np.unique(np.array([*known[0], *known[1]], dtype=np.int64))
    gone = [float(np.linalg.norm(b.row(row) - a.row(row))) for row in rows.tolist()]
    moved = np.array(gone, dtype=np.float64)
    order = np.lexsort((rows, -moved))[: np.count_nonzero(moved)]
    rows, moved = rows[order], moved[order]
    mine, other = ([e for e in s.events if s.status(e.id) == "counts"] for s in (a, b))
    before, now = {e.id for e in mine}, {e.id for e in other}
    had, has = (np.ones(len(s), bool) if s.available is None else s.available for s in (a, b))
    return Diff(
        tuple(rows.tolist()),
        moved,
        tuple(e for e in other if e.id not in before),
        tuple(e for e in mine if e.id not in now),
        tuple(np.flatnonzero(has & ~had).tolist()),
        tuple(np.flatnonzero(had & ~has).tolist()),
    )
