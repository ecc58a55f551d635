"""Long work on a page: started, watched, cancelled, resumed."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import streamlit as st

from dashboard.services import jobs
from dashboard.services.jobs import Job, Progress, SharedJobs
from dashboard.services.memo import Memo
from dashboard.widgets.basics import show_failure
from engine.progress import rough_duration

T = TypeVar("T")
POLL_INTERVAL = "1s"
"""A shorter interval starves the job: Streamlit collects garbage after every run."""
FAILED_TEXT, STOPPED_TEXT = "This could not be measured.", "Stopped."


@st.fragment(run_every=POLL_INTERVAL)
def draw_running(
    job: Job,
    key: str | None,
    on_partial: Callable[[Any], Any] | None = None,
    *,
    title: str = "",
    caption: str = "",
    to_end: bool = False,
    cancel_help: str | None = None,
) -> None:
    """Draw a running job's progress once a second, and the full page again when it ends or is cancelled.

    key: of its cancel button, None for no button
    on_partial: draws what the job has so far, None before it has anything
    title, caption: above and below its progress
    to_end: continue after a cancel, until the job has written its last
    """
    # A cancelled job runs on until it has written its last, but is not active any more.
    goes_on = job.running if to_end else job.is_active
    if not goes_on or jobs.runs_for_others_only(job):
        st.rerun()
    with st.container(border=True):
        if title:
            st.text(title)
        with st.container(horizontal=True, vertical_alignment="center"):
            with st.container():
                _show_progress(job.progress, job.title)
            if key:
                draw_cancel_button(job, key, cancel_help)
        if caption:
            st.caption(caption)
    if on_partial is not None:
        on_partial(job.partial)


def draw_cancel_button(job: Job, key: str, help_text: str | None = None) -> None:
    """Draw the button that cancels a job for this browser session; it goes on if others wait for it."""
    is_stopping = not job.is_active
    label = "Stopping" if is_stopping else "Cancel"
    st.button(label, key=key, on_click=jobs.unsubscribe, args=(job,), disabled=is_stopping, help=help_text)


def _show_progress(progress: Progress, title: str) -> None:
    """Draw a job's label, count, time left and progress bar; title: used if it has no label."""
    parts = [progress.label or title]
    if progress.done and progress.total:
        parts.append(f"{progress.done:,} of {progress.total:,}")
    parts.append(_describe_time_left(progress))
    st.text(" · ".join(filter(None, parts)))  # not the bar's own text: it holds file names, and is Markdown
    st.progress(progress.bar_share)


def _describe_time_left(progress: Progress) -> str:
    """Describe the time that a job still takes, and the part of it that is under way; "" where both are unknown."""
    whole, part = progress.seconds_left, progress.part_seconds_left
    whole_text = f"about {rough_duration(whole)}" if whole is not None and whole >= 1 else ""
    # A part that lasts as long as the whole, such as the last one, needs no time of its own.
    if part is None or part < 1 or (whole_text and rough_duration(part) == rough_duration(whole or 0)):
        return f"{whole_text} left" if whole_text else ""
    part_text = f"about {rough_duration(part)} left in this step"
    return f"{part_text}, {whole_text} in all" if whole_text else part_text


def draw_end(job: Job, failed_text: str = FAILED_TEXT, stopped_text: str = STOPPED_TEXT) -> None:
    """Draw the reason why a job ended without a result: its error, or that it was stopped."""
    if job.error:
        show_failure(failed_text, job.error)
    else:
        st.info(stopped_text, icon=":material/stop_circle:")


def draw_run_button(label: str, key: str, purpose: str | None, **options: Any) -> bool:
    """Draw the button that starts a job, "Queue" if that has to wait; return True if it was just clicked.

    With it, the job to wait for is drawn, and a button that cancels that one. purpose: of the job that is started, None
    for one that waits for no other; options: of `st.button`, with the function that starts the job
    """
    # A blocked start is queued, and the label says so.
    is_blocked = purpose is not None and jobs.find_blocker(purpose) is not None
    is_clicked = st.button("Queue" if is_blocked else label, key=key, **{"type": "primary", **options})
    if is_blocked:
        _show_busy(purpose, key)
    return bool(is_clicked)


@st.fragment(run_every=POLL_INTERVAL)
def _show_busy(purpose: str | None, key: str) -> None:
    """Draw the session's job that a new one has to wait for, with a cancel button, until it ends.

    purpose: of the new job; key: of the button that starts it
    """
    blocking_job = jobs.find_blocker(purpose)
    if blocking_job is None:
        st.rerun()
    progress, state = blocking_job.progress, "queued" if blocking_job.queued else "running"
    done_text = f" ({progress.done:,} of {progress.total:,})" if progress.total else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.text(f"{blocking_job.title[:1].upper()}{blocking_job.title[1:]} is {state}{done_text}", width="content")
        draw_cancel_button(blocking_job, f"{key}.cancel")


@dataclass(frozen=True, kw_only=True)
class JobPanel(Generic[T]):
    """Result that takes long: the job that computes it and, until then, its progress and start button.

    A page builds the panel anew in every run and calls `draw_until_result`; the session keeps the job.
    """

    purpose: str  # names the session's job and the widgets; a later job of this purpose replaces it
    key: Hashable  # names all that the result depends on
    title: str  # of the job, also for jobs that wait for it
    work: Callable[[Job], T]  # function of the job
    start_label: str = ""  # label of the button; "" if the job starts by itself and the button only resumes it
    offer_text: str = ""  # text above the button
    button_kind: Literal["primary", "secondary"] = "primary"  # secondary beside a primary button of the page
    resume_label: str = "Resume"  # label of the button after a stop; another one if no work is kept
    autostart: bool = True  # True to start the first time without a click, if this session has no other job
    wait_seconds: float = 0.0  # seconds that a page waits for a job that may end at once
    on_partial: Callable[[Any], Any] | None = None  # draws the intermediate result, running or stopped
    draw_waiting: Callable[[], Any] | None = None  # draws what stands in for it, before the running job has anything
    memo: Memo[Hashable, T] | None = None  # of results by their key
    heading: str = ""  # above the progress
    caption: str = ""  # below the progress
    failed_text: str = FAILED_TEXT  # text about a failed job
    stopped_text: str = STOPPED_TEXT  # text about a stopped job
    locked_reason: str = ""  # reason why it cannot resume here, "" if it can
    dismiss_help: str = ""  # help of the dismiss button of an ended job, "" for no button

    @property
    def job(self) -> Job | None:
        """This browser session's job that computes, or has computed, the panel's result; None without one."""
        return jobs.find_job(self.purpose, self.key)

    @property
    def queue_purpose(self) -> str | None:
        """Purpose of the job in the session's queue, where it waits its turn; None if it does not wait."""
        return self.purpose

    def start_job(self) -> None:
        """Start the job in place of the panel's previous one; it waits for this browser session's other jobs."""
        jobs.start_job(self.purpose, self.title, self.work, self.key)

    def draw_until_result(self) -> T | None:
        """Return the job's result; until there is one, draw the job's state and its button, and return None.

        The state is its progress while it runs, or the reason why it ended without a result. With `autostart` the job
        starts by itself the first time, unless it would have to wait for another job of this browser session. What it
        has finished so far is drawn below.
        """
        if self.memo is not None and self.key in self.memo:
            return self.memo[self.key]
        job = self.job
        must_wait = self.queue_purpose is not None and jobs.find_blocker(self.queue_purpose) is not None
        if job is None and self.autostart and not must_wait:
            self.start_job()
            if (job := self.job) is not None:
                # Short work ends within the wait, and no progress bar flashes up.
                job.join(self.wait_seconds)
        # Read before the result, which may arrive between the two: else a job that has just ended would look stopped.
        is_active = job is not None and job.is_active and not jobs.runs_for_others_only(job)
        if job is not None and job.result is not None:
            result: T = job.result
            if self.memo is not None:
                self.memo[self.key] = result
            return result
        if job is not None and is_active:
            draw_running(job, f"{self.purpose}.cancel", self._draw_partial, title=self.heading, caption=self.caption)
            return None
        # From here on the job was not started, or ended without a result.
        button_label, button_key = self.start_label, f"{self.purpose}.start"
        if self.offer_text:
            st.text(self.offer_text)
        if job is not None:
            draw_end(job, self.failed_text, self.stopped_text)
            if not self.start_label:
                # The job started by itself, so this button only resumes it, and has a key of its own.
                button_key = f"{self.purpose}.on"
            button_label = "Retry" if job.error else self.resume_label
            if self.heading:
                st.text(self.heading)
        with st.container(horizontal=True):
            # A job that starts by itself gets here unstarted only if it must wait: its button then says "Queue".
            if button_label or self.autostart:
                options: dict[str, Any] = {"disabled": bool(self.locked_reason), "help": self.locked_reason or None}
                options["type"] = self.button_kind
                draw_run_button(button_label, button_key, self.queue_purpose, on_click=self.start_job, **options)
            if job is not None and self.dismiss_help:
                st.button("Dismiss", key=f"{self.purpose}.dismiss", help=self.dismiss_help, on_click=self.drop_job)
        if job is not None and job.partial is not None:
            self._draw_partial(job.partial)
        return None

    def drop_job(self) -> None:
        """Forget the job, so that the panel offers to start it as if it had never run; for a callback."""
        jobs.get_session_jobs().pop(self.purpose, None)

    def _draw_partial(self, partial: Any) -> None:
        """Draw what the job has finished so far, or what stands in for that."""
        if partial is not None and self.on_partial is not None:
            self.on_partial(partial)
        elif self.draw_waiting is not None:
            self.draw_waiting()


@dataclass(frozen=True, kw_only=True)
class SharedPanel(JobPanel[T]):
    """Result that all sessions share, such as a map of the corpus: one job computes it for all of them."""

    shared_jobs: SharedJobs[Any]  # by their keys
    job_key: Hashable = None  # of the jobs themselves

    @property
    def job(self) -> Job | None:
        """Job for the panel's key that all browser sessions share, None if none; looking subscribes to it."""
        job = self.shared_jobs.get(self.key)
        if job is not None:
            jobs.subscribe(job)
        return job

    @property
    def queue_purpose(self) -> str | None:
        """None: shared jobs do not wait for the browser session's own."""
        return None

    def start_job(self) -> None:
        """Start the job for all sessions, or join it if another session has started it."""
        job = self.job
        if job is not None and not job.is_active:
            self.shared_jobs.drop_job(self.key, job)
        job = self.shared_jobs.get_or_start(self.key, self.title, self.work, self.job_key)
        jobs.subscribe(job, resubscribe=True)
