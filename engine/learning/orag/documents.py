"""Documents that come and go (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from engine.errors import ParamError
from engine.learning.orag.folding import recorded
from engine.learning.orag.journal import Changed
from engine.learning.orag.session import Session

NEIGHBOURS = 5
"""A newcomer starts where so many of its nearest have drifted to, on average."""


def change(
    session: Session, *, came: Iterable[int | str] = (), went: Iterable[int | str] = (), warm: bool = True
) -> Session:
    """The session after documents became available or ceased to be: those are neither drawn nor moved.

    came, went: documents of the space, by row or id. warm: a newcomer that nothing has moved yet starts at its vector
    plus the mean drift of its NEIGHBOURS nearest available documents; False: at its vector. Raises ParamError.
    """
    everywhere = replace(session, available=None)
    here = session.available if session.available is not None else np.ones(len(session), dtype=bool)
    new = tuple(row for row in dict.fromkeys(everywhere.rows_of(came)) if not here[row])
    old = tuple(row for row in dict.fromkeys(everywhere.rows_of(went)) if here[row])
    if not new and not old:
        return session
    if here.sum() + len(new) - len(old) < 1:
        raise ParamError("went must leave at least one document available")
    drift = {}
    if warm and new:
        existing = np.flatnonzero(here)
        drift = {row: d for row in new if (d := drift_near(session, row, existing)) is not None}
    return recorded(session, Changed(new, old, drift))


def drift_near(session: Session, row: int, existing: np.ndarray) -> np.ndarray | None:
    """(d,) how far a newcomer's nearest documents have gone on average; None where nowhere, or it has moved itself."""
    start = session.start
    if not len(existing) or not np.array_equal(session.row(row), start.row(row)):
        return None
    near = start.vectors[existing].astype(np.float64) @ start.row(row)
    nearest = existing[np.argsort(-near, kind="stable")[:NEIGHBOURS]]
    mean = np.mean([session.row(at) - start.row(at) for at in nearest.tolist()], axis=0)
    mean.flags.writeable = False
    return mean if mean.any() else None
