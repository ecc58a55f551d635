"""A session's drift along its log: how things stood after every so many records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engine.decoder import Decoder
from engine.errors import Cancelled
from engine.learning.checkpoints import Checkpoint, Part, adapted, cells
from engine.learning.drift import Drift, Origin, drift, origin, smoothed
from engine.learning.orag import Session, at
from engine.learning.streams import rare_rows, right_counts, right_rows
from engine.params import Whole
from engine.progress import Progress, Stop
from engine.values import Embeddings, Qrels

LOOKING_BACK, MEASURING = "looking back", "measuring decoders"
JUDGED = "judged"
"""The part that the judged queries of a session are, which nobody has set apart."""
POINTS = Whole(default=20, low=1, high=1000, symbol="points", name="points", help="At how many moments to look.")


def beginning(session: Session, probes: Embeddings | None = None, qrels: Qrels | None = None) -> Origin:
    """What a session's drift is measured against. probes: queries whose answers are followed; qrels: their judgements,
    for the confidence."""
    right = None
    if probes is not None and qrels is not None:
        right = right_rows(qrels, probes.ids, session.space.corpus.position)
    return origin(session.origin, probes, right=right, temperature=session.temperature, seed=session.preset.seed)


def standing(session: Session, start: Origin) -> Drift:
    """The drift of a session as it is; its step is its position in the log."""
    success = smoothed([event.good for event in session.events if session.status(event.id) == "counts"])
    return drift(start, session.vectors, session.position, success=success, ball=session.preset.ball)


def moments(position: int, points: int = POINTS.default) -> tuple[int, ...]:
    """Positions in a log from 0 to the last, evenly apart, at most points + 1 of them."""
    points = POINTS.check(points)
    return tuple(np.unique(np.rint(np.linspace(0, position, points + 1)).astype(int)).tolist())


def history(
    session: Session,
    start: Origin,
    steps: Sequence[int] | None = None,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[Drift], None] | None = None,
) -> tuple[Drift, ...]:
    """How a session stood at positions of its log, by default at 21 from the first to the last.

    Undone feedback counts until it was undone. seen: called with every one that is found. Raises ParamError for a
    position that there is not, Cancelled.
    """
    steps = moments(session.position) if steps is None else tuple(steps)
    found = []
    for done, step in enumerate(steps):
        if stop is not None and stop.is_set():
            raise Cancelled(f"looking back was stopped after {done} of {len(steps)} moments")
        if progress is not None:
            progress(done, len(steps), LOOKING_BACK)
        found.append(standing(session if step == session.position else at(session, step), start))
        if seen is not None:
            seen(found[-1])
    if progress is not None:
        progress(len(steps), len(steps), LOOKING_BACK)
    return tuple(found)


def measured(
    session: Session,
    start: Origin,
    queries: Embeddings,
    qrels: Qrels,
    decoders: Sequence[Decoder],
    steps: Sequence[int] | None = None,
    k: int = 10,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[Checkpoint], None] | None = None,
) -> tuple[Checkpoint, ...]:
    """What decoders reached on judged queries at positions of a session's log, and the drift there.

    start: `beginning` of the session; steps, seen: as `history` has them. Raises ParamError, DataError, Cancelled.
    """
    rows = right_rows(qrels, queries.ids, session.space.corpus.position)
    rare = rare_rows(right_counts(rows, len(session)))
    part = Part(JUDGED, queries, qrels, np.array([rare[own].all() for own in rows], dtype=bool))
    steps = moments(session.position) if steps is None else tuple(steps)
    found = []
    for done, step in enumerate(steps):
        if stop is not None and stop.is_set():
            raise Cancelled(f"measuring was stopped after {done} of {len(steps)} moments")
        if progress is not None:
            progress(done, len(steps), MEASURING)
        now = session if step == session.position else at(session, step)
        space = adapted(session.space, now.vectors)
        found.append(Checkpoint(step, cells([part], decoders, session.space, space, k), standing(now, start)))
        if seen is not None:
            seen(found[-1])
    if progress is not None:
        progress(len(steps), len(steps), MEASURING)
    return tuple(found)
