"""Documents that come and go (Algorithm 3)."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from engine.errors import ParamError
from engine.feedback.records import CorpusChange
from engine.feedback.session import Session, recorded

NEIGHBOURS = 5
"""A newcomer starts where so many of its nearest have drifted to, on average."""


def change(
    session: Session, *, came: Iterable[int | str] = (), went: Iterable[int | str] = (), warm: bool = True
) -> Session:
    """The session after documents became available or ceased to be: those are neither drawn nor moved.

    came, went: documents of the space, by row or id. warm: a newcomer that nothing has moved yet starts at its vector
    plus the mean drift of its NEIGHBOURS nearest available documents; False: at its vector. Raises ParamError.
    """
    record = change_of(session, came=came, went=went, warm=warm)
    return session if record is None else recorded(session, record)


def change_of(
    session: Session, *, came: Iterable[int | str] = (), went: Iterable[int | str] = (), warm: bool = True
) -> CorpusChange | None:
    """What `change` records; None where nothing comes or goes. Raises ParamError."""
    everywhere = replace(session, available=None)
    available = session.available if session.available is not None else np.ones(len(session), dtype=bool)
    new = tuple(row for row in dict.fromkeys(everywhere.resolve_items(came)) if not available[row])
    old = tuple(row for row in dict.fromkeys(everywhere.resolve_items(went)) if available[row])
    if not new and not old:
        return None
    if available.sum() + len(new) - len(old) < 1:
        raise ParamError("went must leave at least one document available")
    drift = {}
    if warm and new:
        existing = np.flatnonzero(available)
        drift = {row: d for row in new if (d := drift_near(session, row, existing)) is not None}
    return CorpusChange(new, old, drift)


def drift_near(session: Session, row: int, existing: np.ndarray) -> np.ndarray | None:
    """(d,) mean drift of a newcomer's nearest documents; None where it is 0, or the newcomer has moved."""
    start = session.start
    if not len(existing) or not np.array_equal(session.row(row), start.row(row)):
        return None
    near = start.vectors[existing].astype(np.float64) @ start.row(row)
    nearest = existing[np.argsort(-near, kind="stable")[:NEIGHBOURS]]
    mean = np.mean([session.row(near_row) - start.row(near_row) for near_row in nearest.tolist()], axis=0)
    mean.flags.writeable = False
    return mean if mean.any() else None
