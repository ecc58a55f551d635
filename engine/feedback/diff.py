"""Difference between two states of a session."""

from dataclasses import dataclass

import numpy as np

from engine.errors import ParamError
from engine.feedback.records import Event
from engine.feedback.session import Session


@dataclass(frozen=True, eq=False)
class Diff:
    """Changes from one state to another.

    rows: that differ, the farthest moved first.
    moved: (m,) how far each.
    added, removed: the feedback that counts in the second only, and in the first only.
    came, went: rows that became available, or ceased to be.
    """

    rows: tuple[int, ...]
    moved: np.ndarray
    added: tuple[Event, ...]
    removed: tuple[Event, ...]
    came: tuple[int, ...]
    went: tuple[int, ...]


def diff(a: Session, b: Session) -> Diff:
    """The changes between two sessions over the same vectors. Raises ParamError for others."""
    if a.space.embeddings != b.space.embeddings:
        raise ParamError("both sessions must have begun with the same embeddings")
    rows = np.unique(np.array([*a.state.moved(), *b.state.moved()], dtype=np.int64))
    moved = np.array([float(np.linalg.norm(b.row(row) - a.row(row))) for row in rows.tolist()], dtype=np.float64)
    order = np.lexsort((rows, -moved))[: np.count_nonzero(moved)]
    rows, moved = rows[order], moved[order]
    in_a, in_b = ({e.id: e for e in s.counting} for s in (a, b))
    had, has = (np.ones(len(s), bool) if s.available is None else s.available for s in (a, b))
    return Diff(
        tuple(rows.tolist()),
        moved,
        tuple(in_b[i] for i in in_b if i not in in_a),
        tuple(in_a[i] for i in in_a if i not in in_b),
        tuple(np.flatnonzero(has & ~had).tolist()),
        tuple(np.flatnonzero(had & ~has).tolist()),
    )
