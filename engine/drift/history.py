"""Drift and metrics of a session along its log."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from engine.decoder import Decoder
from engine.drift.measures import Drift, DriftBaseline, drift, origin, smoothed
from engine.drift.round_metrics import Part, RoundMetrics, adapted, cells, rare_rows, right_counts, right_rows
from engine.errors import Cancelled
from engine.feedback import Session, at
from engine.params import Whole
from engine.progress import Progress, Stop, counted
from engine.values import Embeddings, Qrels

StepResult = TypeVar("StepResult")
DRIFT_LABEL, METRICS_LABEL = "looking back", "measuring decoders"
JUDGED = "judged"
"""Part of the judged queries of a session, none of which is held out."""
POINTS = Whole(20, "points", 1, 1000, name="points", help="At how many moments to look.")


def beginning(session: Session, probes: Embeddings | None = None, qrels: Qrels | None = None) -> DriftBaseline:
    """Build the baseline that a feedback session's drift is measured against: its first embeddings.

    probes: queries whose answers are followed; qrels: their judgements, for the measure of confidence.
    """
    right_lists = None
    if probes is not None and qrels is not None:
        right_lists = right_rows(qrels, probes.ids, session.space.corpus.position)
    return origin(session.origin, probes, right=right_lists, temperature=session.temperature, seed=session.preset.seed)


def standing(session: Session, start: DriftBaseline) -> Drift:
    """Measure the drift of a feedback session now, against `start`, its baseline.

    The drift's step is the session's position in its log, the number of entries so far.
    """
    success = smoothed([event.good for event in session.effective_events])
    return drift(start, session.vectors, session.position, success=success, ball=session.preset.ball)


def moments(position: int, points: int = POINTS.default) -> tuple[int, ...]:
    """Return up to points + 1 positions in a feedback session's log, evenly spaced from 0 to `position`."""
    points = POINTS.check(points)
    return tuple(np.unique(np.rint(np.linspace(0, position, points + 1)).astype(int)).tolist())


def history(
    session: Session,
    start: DriftBaseline,
    steps: Sequence[int] | None = None,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[Drift], None] | None = None,
) -> tuple[Drift, ...]:
    """Measure how far feedback had moved a feedback session's documents at several steps of its log.

    start: the first embeddings, which drift is measured against; steps: numbers of entries, by default up to 21 evenly
    spaced from 0 to all; seen: called with every result as soon as it is there. Feedback that was undone later still
    counts at the steps before that. Raises ParamError for a step outside the log, Cancelled.
    """
    return _at_steps(session, steps, lambda _, earlier: standing(earlier, start), DRIFT_LABEL, progress, stop, seen)


def measured(
    session: Session,
    start: DriftBaseline,
    queries: Embeddings,
    qrels: Qrels,
    decoders: Sequence[Decoder],
    steps: Sequence[int] | None = None,
    k: int = 10,
    *,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[RoundMetrics], None] | None = None,
) -> tuple[RoundMetrics, ...]:
    """Measure decoders on judged queries, and drift, at several steps of a feedback session's log.

    start: the first embeddings, which drift is measured against; steps: numbers of entries, by default up to 21 evenly
    spaced from 0 to all; k: cut-off of the metrics; seen: called with every result as soon as it is there. Raises
    ParamError, DataError, Cancelled.
    """
    right_lists = right_rows(qrels, queries.ids, session.space.corpus.position)
    # Metrics are also taken over the queries all of whose relevant documents are rarely the answer.
    is_rare = rare_rows(right_counts(right_lists, len(session)))
    part = Part(JUDGED, queries, qrels, np.array([is_rare[rows].all() for rows in right_lists], dtype=bool))

    def measure_step(step: int, session_then: Session) -> RoundMetrics:
        """Measure decoders and drift on the feedback session as it was at a position of its log."""
        space = adapted(session.space, session_then.vectors)
        return RoundMetrics(step, cells([part], decoders, session.space, space, k), standing(session_then, start))

    return _at_steps(session, steps, measure_step, METRICS_LABEL, progress, stop, seen)


def _at_steps(
    session: Session,
    steps: Sequence[int] | None,
    measure_step: Callable[[int, Session], StepResult],
    label: str,
    progress: Progress | None,
    stop: Stop | None,
    seen: Callable[[StepResult], None] | None,
) -> tuple[StepResult, ...]:
    """Apply a measurement to a feedback session as it was at positions of its log; return the results.

    steps: the positions, by default about 20 evenly spaced ones; measure_step: called with a position and the session
    as it was there; label: names the work in progress reports; seen: called with each result. Raises Cancelled once
    stop is set.
    """
    steps = moments(session.position) if steps is None else tuple(steps)
    results: list[StepResult] = []
    for n_done, step in enumerate(steps):
        if stop is not None and stop.is_set():
            raise Cancelled(f"{label} was stopped after {n_done} of {counted(len(steps), 'moment')}")
        if progress is not None:
            progress(n_done, len(steps), label)
        # The session itself is at hand; earlier positions are replayed from its log.
        results.append(measure_step(step, session if step == session.position else at(session, step)))
        if seen is not None:
            seen(results[-1])
    if progress is not None:
        progress(len(steps), len(steps), label)
    return tuple(results)
