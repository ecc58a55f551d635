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
    moved = np.linalg.norm(b.exact - a.exact, axis=1)
    rows = np.flatnonzero((a.exact != b.exact).any(axis=1))
    rows = rows[np.lexsort((rows, -moved[rows]))]
    mine, other = ([e for e in s.events if s.status(e.id) == "counts"] for s in (a, b))
    known, new = {e.id for e in mine}, {e.id for e in other}
    had, has = (np.ones(len(s), bool) if s.available is None else s.available for s in (a, b))
    return Diff(
        tuple(rows.tolist()),
        moved[rows],
        tuple(e for e in other if e.id not in known),
        tuple(e for e in mine if e.id not in new),
        tuple(np.flatnonzero(has & ~had).tolist()),
        tuple(np.flatnonzero(had & ~has).tolist()),
    )
