"""Long work on a page: started, watched, cancelled, gone on with."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

from dashboard.services import jobs
from dashboard.services.jobs import Job, Progress, SharedJobs
from dashboard.services.memo import Memo
from dashboard.widgets.failure import show_failure
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
                stopping = not job.going
                label = "Stopping" if stopping else "Cancel"
                st.button(label, key=key, on_click=jobs.leave, args=(job,), disabled=stopping, help=cancel_help)
        if caption:
            st.caption(caption)
    if on_partial is not None:
        on_partial(job.partial)


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
        st.info(stopped, icon=":material/pause:")


def blocked_by(purpose: str | None) -> str | None:
    """Why a job for this purpose has to wait, None where it need not: a session does one thing at a time."""
    other = jobs.busy(purpose)
    return None if other is None else f"{_named(other)} is running. Wait for it or stop it to start this."


def _named(job: Job) -> str:
    """The title of a job at the start of a sentence."""
    return job.title[:1].upper() + job.title[1:]


@st.fragment(run_every=POLL)
def offer_turn(purpose: str, begin: Callable[..., Any], key: str = "") -> None:
    """Draw what this session is at work on, and two ways to start a job all the same; then draw the page anew.

    begin: starts the job for the purpose behind the others, with first=True before them
    key: of the widgets, by default the purpose
    """
    other, own, key = jobs.busy(purpose), jobs.mine().get(purpose), key or purpose
    if other is None or (own is not None and own.going):
        st.rerun()
    done = f" ({other.progress.done:,} of {other.progress.total:,})" if other.progress.total else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.text(f"{_named(other)} is {'queued' if other.queued else 'running'}{done}", width="content")
        st.button("Wait for it", key=f"{key}.wait", on_click=begin)
        if len(other.holders) == 1:
            why = "It goes on from where it is once this has ended."
            st.button("Pause it and start", key=f"{key}.first", help=why, on_click=begin, kwargs={"first": True})


@dataclass(frozen=True, kw_only=True)
class JobPanel(Generic[T]):
    """A result that takes long: the job that finds it, and in its place how far that is and the way to start it."""

    purpose: str  # names the session's job and the widgets; a later job for the same purpose replaces it
    key: Hashable  # names all that the result depends on
    title: str  # what the job does, also for what has to wait for it
    work: Callable[[Job], T]  # what the job runs
    start: str = ""  # label of the button; "" where the job begins by itself, and the button only resumes it
    offer: str = ""  # said above the button
    again: str = "Resume"  # label of the button after a stop
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
    def waits(self) -> str | None:
        """Why it cannot be started now."""
        return blocked_by(self.purpose)

    def begin(self, first: bool = False) -> Job:
        """Start the job in place of the one before; it waits for the session's others, unless it goes first."""
        return jobs.start(self.purpose, self.title, self.work, self.key, first=first)

    def result(self) -> T | None:
        """The result of the job; until it is there draw its state, and return None."""
        if self.memo is not None and self.key in self.memo:
            return self.memo[self.key]
        job, waits = self.job, self.waits
        if job is None and self.by_itself and waits is None:
            job = self.begin()
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
            if label:
                st.button(
                    label,
                    type="primary",
                    key=f"{self.purpose}.{name}",
                    disabled=bool(waits or self.locked),
                    help=self.locked or None,
                    on_click=self.start_job,
                )
            if job is not None and self.dismiss:
                st.button("Dismiss", key=f"{self.purpose}.dismiss", help=self.dismiss, on_click=self.forget)
        if waits and not self.locked:
            offer_turn(self.purpose, self.start_job)
        if job is not None:
            self._draw_partial(job.partial)
        return None

    def start_job(self, first: bool = False) -> None:
        """As `begin`; for a callback."""
        self.begin(first)

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
    def waits(self) -> str | None:
        return None

    def begin(self, first: bool = False) -> Job:
        job = self.job
        if job is not None and not job.going:
            self.shared.forget(self.key, job)
        job = self.shared.begin(self.key, self.title, self.work, self.about)
        jobs.join(job, again=True)
        return job
