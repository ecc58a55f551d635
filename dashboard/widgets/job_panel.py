"""Long work on a page: started, watched, cancelled, gone on with."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

from dashboard.services import jobs
from dashboard.services.jobs import Job, Progress, SharedJobs
from dashboard.services.memo import Memo
from dashboard.widgets.basics import show_failure
from engine.progress import rough_duration

T = TypeVar("T")
POLL = "1s"
"""How often a running job is looked at; oftener starves it (Streamlit collects garbage after every run)."""
FAILED, STOPPED = "This could not be measured.", "Stopped."


@st.fragment(run_every=POLL)
def watch(
    job: Job,
    key: str | None,
    on_partial: Callable[[Any], Any] | None = None,
    *,
    title: str = "",
    caption: str = "",
    to_end: bool = False,
    cancel_help: str | None = None,
) -> None:
    """Draw a running job every second until it ends or is stopped; then draw the whole page anew.

    key: of the button that stops it, None for no button
    on_partial: draws what the job has so far, None before it has anything
    title, caption: above and below its progress
    to_end: look on after a stop, until the job has written its last
    """
    if not (job.running if to_end else job.going) or jobs.is_left(job):
        st.rerun()
    with st.container(border=True):
        if title:
            st.text(title)
        with st.container(horizontal=True, vertical_alignment="center"):
            with st.container():
                _show_progress(job.progress, job.title)
            if key:
                cancel_button(job, key, cancel_help)
        if caption:
            st.caption(caption)
    if on_partial is not None:
        on_partial(job.partial)


def cancel_button(job: Job, key: str, why: str | None = None) -> None:
    """Draw the button by which this session wants a job no more. why: the button's help."""
    stopping = not job.going
    label = "Stopping" if stopping else "Cancel"
    st.button(label, key=key, on_click=jobs.leave, args=(job,), disabled=stopping, help=why)


def _show_progress(progress: Progress, title: str) -> None:
    """Draw a bar with what a job does, how far it is and how long it will take."""
    parts = [progress.label or title]
    if progress.done and progress.total:
        parts.append(f"{progress.done:,} of {progress.total:,}")
    if progress.seconds_left is not None and progress.seconds_left >= 1:
        parts.append(f"about {rough_duration(progress.seconds_left)} left")
    st.text(" · ".join(parts))  # not the bar's own text: it holds file names, and is Markdown
    st.progress(min(1.0, progress.done / progress.total) if progress.total else 0.0)


def show_end(job: Job, failed: str = FAILED, stopped: str = STOPPED) -> None:
    """Say why a job that has ended has no result."""
    if job.error:
        show_failure(failed, job.error)
    else:
        st.info(stopped, icon=":material/stop_circle:")


def run_button(label: str, key: str, purpose: str | None, **how: Any) -> bool:
    """Draw the button that starts a job, "Queue" where the session has another one at work, with a way to cancel that.

    purpose: of the job that it starts, None for one that waits for no other; how: options of `st.button`. Returns
    whether it was clicked just now.
    """
    waits = purpose is not None and jobs.busy(purpose) is not None
    clicked = st.button("Queue" if waits else label, key=key, **{"type": "primary", **how})
    if waits:
        _show_busy(purpose, key)
    return bool(clicked)


@st.fragment(run_every=POLL)
def _show_busy(purpose: str | None, key: str) -> None:
    """Say what a job for this purpose has to wait for, until that has ended; then draw the whole page anew."""
    other = jobs.busy(purpose)
    if other is None:
        st.rerun()
    progress, state = other.progress, "queued" if other.queued else "running"
    done = f" ({progress.done:,} of {progress.total:,})" if progress.total else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.text(f"{other.title[:1].upper()}{other.title[1:]} is {state}{done}", width="content")
        cancel_button(other, f"{key}.cancel")


@dataclass(frozen=True, kw_only=True)
class JobPanel(Generic[T]):
    """A result that takes long: the job that finds it, and in its place how far that is and the way to start it."""

    purpose: str  # names the session's job and the widgets; a later job for the same purpose replaces it
    key: Hashable  # names all that the result depends on
    title: str  # what the job does, also for what has to wait for it
    work: Callable[[Job], T]  # what the job runs
    start: str = ""  # label of the button; "" where the job begins by itself, and the button only resumes it
    offer: str = ""  # said above the button
    again: str = "Resume"  # label of the button after a stop, another where nothing of the work is kept
    by_itself: bool = True  # whether the first time needs no click, while this session has no other job
    patience: float = 0.0  # seconds that a page waits for a job that may end at once
    on_partial: Callable[[Any], Any] | None = None  # draws what the job has so far, running or stopped
    memo: Memo[Hashable, T] | None = None  # where results are kept by their key
    heading: str = ""  # above the progress
    caption: str = ""  # below the progress
    failed: str = FAILED  # said of a job that failed
    stopped: str = STOPPED  # said of a job that was stopped
    locked: str = ""  # why it cannot go on from here, "" where it can
    dismiss: str = ""  # what happens to an ended job's work when it is dismissed, "" where it cannot be

    @property
    def job(self) -> Job | None:
        """The job for the key."""
        return jobs.current(self.purpose, self.key)

    @property
    def line(self) -> str | None:
        """The purpose of the job that waits for the session's others; None for one that waits for none."""
        return self.purpose

    def begin(self) -> None:
        """Start the job in place of the one before; it waits for the session's others."""
        jobs.start(self.purpose, self.title, self.work, self.key)

    def result(self) -> T | None:
        """The result of the job; until it is there draw its state, and return None."""
        if self.memo is not None and self.key in self.memo:
            return self.memo[self.key]
        job = self.job
        if job is None and self.by_itself and (self.line is None or jobs.busy(self.line) is None):
            self.begin()
            if (job := self.job) is not None:
                job.join(self.patience)
        # Asked before the result, which may come between the two.
        going = job is not None and job.going and not jobs.is_left(job)
        if job is not None and job.result is not None:
            result: T = job.result
            if self.memo is not None:
                self.memo[self.key] = result
            return result
        if job is not None and going:
            watch(job, f"{self.purpose}.cancel", self._draw_partial, title=self.heading, caption=self.caption)
            return None
        label, name = self.start, "start"
        if self.offer:
            st.text(self.offer)
        if job is not None:
            show_end(job, self.failed, self.stopped)
            label, name = "Retry" if job.error else self.again, name if label else "on"
            if self.heading:
                st.text(self.heading)
        with st.container(horizontal=True):
            if label or self.by_itself:  # of one that begins by itself it says "Queue" alone
                how: dict[str, Any] = {"disabled": bool(self.locked), "help": self.locked or None}
                run_button(label, f"{self.purpose}.{name}", self.line, on_click=self.begin, **how)
            if job is not None and self.dismiss:
                st.button("Dismiss", key=f"{self.purpose}.dismiss", help=self.dismiss, on_click=self.forget)
        if job is not None:
            self._draw_partial(job.partial)
        return None

    def forget(self) -> None:
        """Drop the job: the panel is again as before the first one."""
        jobs.mine().pop(self.purpose, None)

    def _draw_partial(self, partial: Any) -> None:
        if partial is not None and self.on_partial is not None:
            self.on_partial(partial)


@dataclass(frozen=True, kw_only=True)
class SharedPanel(JobPanel[T]):
    """A result that all sessions share."""

    shared: SharedJobs[Any]  # its jobs, by their keys
    about: Hashable = None  # what a job is about besides, its own `key`

    @property
    def job(self) -> Job | None:
        job = self.shared.get(self.key)
        if job is not None:
            jobs.join(job)
        return job

    @property
    def line(self) -> str | None:
        return None

    def begin(self) -> None:
        job = self.job
        if job is not None and not job.going:
            self.shared.forget(self.key, job)
        job = self.shared.begin(self.key, self.title, self.work, self.about)
        jobs.join(job, again=True)
