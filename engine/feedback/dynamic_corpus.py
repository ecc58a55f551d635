"""Documents that become available or cease to be (ORAG, Algorithm 3)."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from engine.errors import ParamError
from engine.feedback.embedding_state import freeze
from engine.feedback.records import CorpusChange
from engine.feedback.session import Session, append_records

#: A new document starts with the mean drift of this many of its nearest available documents.
DRIFT_NEIGHBOURS = 5


def change(
    session: Session, *, came: Iterable[int | str] = (), went: Iterable[int | str] = (), warm: bool = True
) -> Session:
    """Make documents available or unavailable; unavailable ones are neither drawn nor moved (Algorithm 3).

    Parameters
    ----------
    session : Session
        Stays as it is.
    came, went : iterable of int or str
        Rows or ids of documents of the space that become available, or cease to be.
    warm : bool
        If True, a new document that nothing has moved yet starts at its vector plus the mean drift of its
        DRIFT_NEIGHBOURS nearest available documents. If False, it starts at its vector.

    Returns
    -------
    Session
        The session after the change; `session` itself if nothing changes.

    Raises
    ------
    ParamError
        For an unknown document, or if no document would remain available.

    Examples
    --------
    >>> smaller = orag.change(session, went=["sort"])
    """
    record = build_change(session, came=came, went=went, warm=warm)
    return session if record is None else append_records(session, record)


def build_change(
    session: Session, *, came: Iterable[int | str] = (), went: Iterable[int | str] = (), warm: bool = True
) -> CorpusChange | None:
    """Build the record with which `change` makes documents available or unavailable.

    Returns None if no document comes or goes. Raises ParamError for an unknown document or an empty corpus.
    """
    # Rows are looked up without the session's restriction: documents that come are not available yet.
    unrestricted = replace(session, available=None)
    available = session.available if session.available is not None else np.ones(len(session), dtype=bool)
    came_rows, went_rows = (dict.fromkeys(unrestricted.resolve_items(items)) for items in (came, went))
    new_rows = tuple(row_index for row_index in came_rows if not available[row_index])
    removed_rows = tuple(row_index for row_index in went_rows if available[row_index])
    if not new_rows and not removed_rows:
        return None
    if available.sum() + len(new_rows) - len(removed_rows) < 1:
        raise ParamError("went must leave at least one document available")
    drifts = compute_warm_drifts(session, new_rows, np.flatnonzero(available)) if warm else {}
    return CorpusChange(new_rows, removed_rows, drifts)


def compute_warm_drifts(session: Session, rows: Iterable[int], existing_rows: np.ndarray) -> dict[int, np.ndarray]:
    """Map the row of each new document to the (d,) drift with which it starts: that of its neighbours.

    A document's drift is its current vector less its first one. existing_rows: rows of the documents that can be
    neighbours. A new document that starts at its own vector, without a drift, is left out.
    """
    drifts = ((row, _compute_warm_drift(session, row, existing_rows)) for row in rows)
    return {row: drift for row, drift in drifts if drift is not None}


def _compute_warm_drift(session: Session, row_index: int, existing_rows: np.ndarray) -> np.ndarray | None:
    """Compute the (d,) drift with which a new document starts: the mean drift of its nearest documents.

    A document's drift is its current vector less its first one. existing_rows: documents among which the nearest are
    sought. Returns None if the drift is 0, or if the document has moved already and so needs no other start.
    """
    start_vectors = session.start
    if not len(existing_rows) or not np.array_equal(session.row(row_index), start_vectors.row(row_index)):
        return None
    # Nearest in the first vectors Θ₁: the new document has not moved, so only there are the two comparable.
    similarities = start_vectors.vectors[existing_rows].astype(np.float64) @ start_vectors.row(row_index)
    nearest_rows = existing_rows[np.argsort(-similarities, kind="stable")[:DRIFT_NEIGHBOURS]].tolist()
    mean_drift = np.mean([session.row(near_row) - start_vectors.row(near_row) for near_row in nearest_rows], axis=0)
    return freeze(mean_drift) if mean_drift.any() else None
