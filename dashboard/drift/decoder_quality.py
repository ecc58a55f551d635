"""Decoder quality along the log: metrics of Explore's decoders at each position, by a job on request."""

from functools import partial
from typing import Any

import streamlit as st

from dashboard.drift import timeline
from dashboard.drift.history import DriftHistory, names
from dashboard.drift.request import probes
from dashboard.drift.user_feedback import MOST_KNOWN, split_of
from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.memo import session_memo
from dashboard.session import decoders
from dashboard.widgets.failure import show_failure
from dashboard.widgets.job_panel import JobPanel
from engine.drift.history import beginning, measured
from engine.drift.round_metrics import RoundMetrics
from engine.errors import FrontierError
from engine.wording import visible

PURPOSE, KNOWN = "drift.quality", "drift.reached"


def show(history: DriftHistory) -> None:
    """Quality at the moments of the log, and the way to measure those that are missing."""
    split = split_of(history.loaded)
    if not split:
        st.info("Decoder quality needs judged queries, and this corpus has none.")
        return
    known = session_memo(KNOWN, MOST_KNOWN)
    setting = (split, tuple(decoder.label for decoder in history.decoders), history.k)
    keys = {step: (history.log_digests[step], *setting) for step in history.steps}
    key = (history.feedback.digest, *setting)
    job = jobs.current(PURPOSE, key, alone=True)

    def reached() -> list[RoundMetrics]:
        known.update({keys[checkpoint.step]: checkpoint for checkpoint in (job and job.partial) or ()})
        return [known[keys[step]] for step in history.steps if keys[step] in known]

    reached()
    missing = [step for step in history.steps if keys[step] not in known]

    def draw(_: object = None) -> None:
        if rows := reached():
            done = f"{len(rows)} of {len(history.steps)} moments"
            st.text(f"{done}, on the judged queries of {visible(split)}.")
            timeline.quality(rows, names(history.decoders), history.k, history.unit)

    if missing and _measurable(history):
        going = job is not None and job.going
        titles = ", ".join(title for _, title in names(history.decoders).values())
        JobPanel(
            purpose=PURPOSE,
            key=key,
            title="Measuring decoders",
            work=partial(_work, history, split, missing),
            start="Run",
            offer=f"Measure {titles} as set in Explore, at {len(missing)} moments of the log.",
            by_itself=False,
            on_partial=draw if going else None,
            failed="The decoders cannot be measured.",
        ).result()
        if going:
            return
    draw()


def _measurable(history: DriftHistory) -> bool:
    """Whether the decoders have what they need; draws what they lack."""
    try:
        for decoder in history.decoders:
            decoders.checked(decoder, history.space)
    except FrontierError as error:
        show_failure("These decoders cannot be measured.", error)
        return False
    return True


def _work(history: DriftHistory, split: str, steps: list[int], job: Job) -> bool:
    queries, qrels = probes(history.loaded, split, job)
    session = history.feedback
    start = history.known_origin or beginning(session, queries, qrels)
    report: dict[str, Any] = {"progress": job.report, "stop": job.stop, "seen": job.collect}
    measured(session, start, queries, qrels, history.decoders, steps, history.k, **report)
    return True
