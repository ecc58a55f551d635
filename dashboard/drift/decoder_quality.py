"""Decoder quality along the log: metrics of Explore's decoders at each position, by a job on request."""

from functools import partial

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
from engine.errors import FrontierError
from engine.values import replace_surrogates

PURPOSE, KNOWN = "drift.quality", "drift.reached"


def show(history: DriftHistory) -> None:
    """Quality at the moments of the log, and the way to measure those that are missing."""
    split = split_of(history.loaded)
    if not split:
        st.info("What decoders reach needs judged queries, and there are none here. The measures do without.")
        return
    known = session_memo(KNOWN, MOST_KNOWN)
    setting = (split, tuple(decoder.label for decoder in history.decoders), history.k)
    keys = {step: (history.log_digests[step], *setting) for step in history.steps}
    key = (history.feedback.digest, *setting)
    job = jobs.current(PURPOSE, key, alone=True)
    for checkpoint in (job.partial or ()) if job is not None else ():
        known[keys[checkpoint.step]] = checkpoint
    missing = [step for step in history.steps if keys[step] not in known]

    def draw(_: object = None) -> None:
        checkpoints = {step: known[keys[step]] for step in history.steps if keys[step] in known}
        checkpoints |= {checkpoint.step: checkpoint for checkpoint in (job.partial or () if job is not None else ())}
        if checkpoints:
            done = f"{len(checkpoints)} of {len(history.steps)} moments"
            st.text(f"{done}, on the judged queries of {replace_surrogates(split)}.")
            rows = [checkpoints[step] for step in sorted(checkpoints)]
            timeline.quality(rows, names(history.decoders), history.k, history.unit)

    if missing and _measurable(history):
        going = job is not None and job.going
        if not going:
            titles = ", ".join(title for _, title in names(history.decoders).values())
            st.text(f"{titles}, as Explore has them, at {len(missing)} moments of the log, on judged queries.")
        JobPanel(
            purpose=PURPOSE,
            key=key,
            title="measuring decoders",
            work=partial(_work, history, split, missing),
            start="Measure",
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
    measured(
        session,
        history.known_origin or beginning(session, queries, qrels),
        queries,
        qrels,
        history.decoders,
        steps,
        history.k,
        progress=job.report,
        stop=job.stop,
        seen=job.collect,
    )
    return True
