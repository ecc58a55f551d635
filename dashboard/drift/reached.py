"""What the decoders of Explore reach along a log of feedback: measured when asked for, shown as far as it is known."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from functools import partial

import streamlit as st

from dashboard import jobs
from dashboard.drift import timeline
from dashboard.drift.people import keep, ready, split_of
from dashboard.drift.story import Story, names
from dashboard.explore import setting
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress
from engine.errors import FrontierError
from engine.learning.checkpoints import Checkpoint
from engine.learning.history import beginning, measured
from engine.progress import watched
from engine.values import showable

PURPOSE, KNOWN = "drift.quality", "drift.reached"


def show(story: Story) -> None:
    """Quality at the moments of the log, and the way to measure those that are missing."""
    split = split_of(story.loaded)
    if not split:
        st.info("What decoders reach needs judged queries, and there are none here. The measures do without.")
        return
    known: OrderedDict[Hashable, Checkpoint] = st.session_state.setdefault(KNOWN, OrderedDict())
    asked = (split, tuple(decoder.label for decoder in story.decoders), story.k)
    every = {step: (story.marks[step], *asked) for step in story.steps}
    job: Job | None = jobs.mine().get(PURPOSE)
    if job is not None and st.session_state.get(f"{PURPOSE}.of") != (story.session.digest, *asked):
        job.cancel()
        job = None
    if job is not None:
        for checkpoint in list(job.partial or ()):
            keep(known, every[checkpoint.step], checkpoint)
    found = [known[every[step]] for step in story.steps if every[step] in known]
    missing = [step for step in story.steps if every[step] not in known]
    if missing and job is not None and job.running and not job.stop.is_set():
        _measuring(job, story, found)
        return
    if missing:
        _start(story, split, missing, (story.session.digest, *asked), job)
    if found:
        st.text(f"{len(found)} of {len(story.steps)} moments, on the judged queries of {showable(split)}.")
        timeline.quality(found, names(story.decoders), story.k, story.counted)


def _start(story: Story, split: str, missing: Sequence[int], of: Hashable, job: Job | None) -> None:
    if job is not None and job.error:
        st.error("The decoders cannot be measured.", icon=":material/error:")
        st.text(showable(job.error))
    try:
        for decoder in story.decoders:
            setting.usable(decoder, story.space)
    except FrontierError as error:
        st.error("These decoders cannot be measured.", icon=":material/error:")
        st.text(showable(str(error)))
        return
    other = jobs.busy(PURPOSE)
    decoders = ", ".join(title for _, title in names(story.decoders).values())
    st.text(f"{decoders}, as Explore has them, at {len(missing)} moments of the log, on judged queries.")
    if st.button(
        "Measure",
        type="primary",
        key="drift.quality.start",
        disabled=other is not None,
        help=f"{other.title} is still running." if other else None,
    ):
        st.session_state[f"{PURPOSE}.of"] = of
        jobs.start(PURPOSE, "measuring decoders", partial(_work, story, split, list(missing)))
        st.rerun()


@st.fragment(run_every=POLL)
def _measuring(job: Job, story: Story, found: Sequence[Checkpoint]) -> None:
    if not job.running or job.stop.is_set():
        st.rerun()
    bar, cancel = st.columns([5, 1], vertical_alignment="center")
    with bar:
        show_progress(job)
    cancel.button("Cancel", key="drift.quality.cancel", on_click=job.cancel, width="stretch")
    every = {checkpoint.step: checkpoint for checkpoint in (*found, *(job.partial or ()))}
    timeline.quality([every[step] for step in sorted(every)], names(story.decoders), story.k, story.counted)


def _work(story: Story, split: str, steps: list[int], job: Job) -> bool:
    queries, qrels = ready(story.loaded, split, job)
    seen: list[Checkpoint] = []

    def told(checkpoint: Checkpoint) -> None:
        seen.append(checkpoint)
        job.partial = list(seen)

    start = story.start or beginning(story.session, queries, qrels)
    how = {"progress": job.report, "stop": job.stop, "seen": told}
    with watched(stop=job.stop):
        measured(story.session, start, queries, qrels, story.decoders, steps, story.k, **how)
    return True
