"""What the views compute: at once and remembered, or by a job that the page looks at."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import streamlit as st

from dashboard import jobs
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress
from engine.progress import watched

T = TypeVar("T")
PURPOSE = "theory"
MEMORY, AT_WORK = "theory.memory", "theory.job"
REMEMBERED = 16


def remembered(key: Hashable, make: Callable[[], T]) -> T:
    """What `make` gives, made once a session; key: names all that it depends on."""
    memory: OrderedDict[Hashable, Any] = st.session_state.setdefault(MEMORY, OrderedDict())
    if key not in memory:
        with jobs.turn():
            _keep(memory, key, make())
    return memory[key]


def measured(
    key: Hashable,
    title: str,
    work: Callable[[Job], T],
    *,
    by_itself: bool,
    early: Callable[[Any], None] | None = None,
) -> T | None:
    """What a job finds, once it has; until then how far it is, or the way to start it.

    key: names all that the result depends on; title: what is done; by_itself: the first time it needs no click; early:
    draws what the job has so far (`job.partial`), while it is at work and where it was stopped.
    """
    memory: OrderedDict[Hashable, Any] = st.session_state.setdefault(MEMORY, OrderedDict())
    if key in memory:
        return memory[key]
    job = jobs.mine().get(PURPOSE)
    if st.session_state.get(AT_WORK) != key:
        job = None
    if job is not None and job.result is not None:
        _keep(memory, key, job.result)
        return job.result
    other = jobs.busy(PURPOSE)
    if job is None and by_itself and other is None:
        job = _start(key, title, work)
    if job is not None and job.running:
        _polled(job, early)
        return None
    if job is not None and job.error:
        st.error("This could not be measured.", icon=":material/error:")
        st.text(job.error)
    elif job is not None:
        st.caption("Stopped.")
    if st.button("Measure", type="primary", key="theory.start", disabled=other is not None):
        _start(key, title, work)
        st.rerun(scope="fragment")
    if other is not None:
        st.text(f"Possible when this has ended: {other.title}")
    if job is not None and job.partial is not None and early is not None:
        early(job.partial)
    return None


def _start(key: Hashable, title: str, work: Callable[[Job], Any]) -> Job:
    def watching(job: Job) -> Any:
        # What is slow before the first step, counting words, reports and stops too.
        with watched(job.report, job.stop):
            return work(job)

    st.session_state[AT_WORK] = key
    return jobs.start(PURPOSE, title, watching)


def _keep(memory: OrderedDict[Hashable, Any], key: Hashable, value: Any) -> None:
    memory[key] = value
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)


@st.fragment(run_every=POLL)
def _polled(job: Job, early: Callable[[Any], None] | None) -> None:
    if not job.running:
        st.rerun()
    show_progress(job)
    if st.button("Cancel", key="theory.cancel", disabled=job.stop.is_set()):
        job.cancel()
    if job.partial is not None and early is not None:
        early(job.partial)
