"""Jobs: long work in threads, with progress, an estimate, cancellation and a guaranteed end.

A script run dies at the next click, so nothing long may run in one.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from engine.errors import Cancelled, FrontierError
from engine.integrations.end_by_signal import GRACE_SECONDS
from engine.progress import Eta, current_reporter, raise_if_stopped, report_to

K = TypeVar("K", bound=Hashable)
SHARE_STEPS = 10_000
"""Steps of a whole of which shares are reported."""
DISCONNECT_GRACE_SECONDS = 5.0
"""Seconds after which a session without a browser tab counts as disconnected."""


@dataclass(frozen=True)
class Progress:
    """Progress of a job."""

    done: int  # steps
    total: int  # steps, 0 where that is unknown
    label: str  # what it is doing
    seconds_left: float | None  # None where that is unknown
    share: float | None = None  # of the whole work that is done, where `done` and `total` are of a part of it
    part_seconds_left: float | None = None  # of that part; None where that is unknown, or there are no parts

    @property
    def bar_share(self) -> float:
        """The share of the work that is done, from 0 to 1."""
        share = self.share if self.share is not None else self.done / self.total if self.total else 0.0
        return min(1.0, share)


class Job:
    """One piece of work in a daemon thread, which the sessions that subscribe to it keep alive.

    title: what it does, for people; work: called with the job, reports to `report` and passes `stop` on; its return
    value is `result`, intermediate results go to `partial`, and engine calls inside it stop with it; key: all that the
    result depends on; session_id: its first subscriber, None for the server; queued: True while it waits for its turn.
    """

    def __init__(
        self,
        title: str,
        work: Callable[[Job], Any],
        key: Hashable = None,
        session_id: str | None = None,
        queued: bool = False,
    ) -> None:
        """Start the work in a new thread; the parameters are those of the class."""
        self.title = title
        self.key: Any = key
        self.result: Any = None
        self.partial: Any = None
        self.error: str | None = None
        #: True if `error` is a finding, written for visitors; the text of any other exception may name files.
        self.is_finding = False
        self.cancelled = False
        self.stop = threading.Event()
        self.queued = queued
        self._subscribers = [session_id]
        self.progress = Progress(0, 0, "starting", None)
        # The estimate is per job: labels of other jobs would mix up its rates.
        self._eta, self._part_eta = Eta(), Eta()
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"job {title}", daemon=True)
        with _JOBS_LOCK:
            # A job that starts during shutdown finds itself cancelled before its thread runs.
            if _SHUTTING_DOWN.is_set():
                self.cancel()
            _RUNNING_JOBS.append(self)
            self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_active(self) -> bool:
        """True if it runs or will run and nobody has cancelled it."""
        return self.running and not self.stop.is_set()

    @property
    def subscribers(self) -> tuple[str | None, ...]:
        """Ids of the browser sessions that wait for the job's result; None stands for the server itself."""
        return tuple(self._subscribers)

    def cancel(self) -> None:
        """Ask the work to stop; what it has finished stays in the cache for the next job."""
        self.stop.set()

    def add_subscriber(self, session_id: str | None = None) -> None:
        """Add a browser session that waits for the result, None for the server; without any the job ends."""
        self._subscribers.append(session_id)

    def remove_subscriber(self, session_id: str | None = None) -> None:
        """Remove a browser session that waited for the result; cancel the job if no other one waits."""
        # No lock: the garbage collector calls this, in whatever thread, whatever that holds.
        # A session may unsubscribe twice, by a click and when it is collected.
        with contextlib.suppress(ValueError):
            self._subscribers.remove(session_id)
        if not self._subscribers:
            self.cancel()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _run(self, work: Callable[[Job], Any]) -> None:
        """Do the work in the job's thread; store its result, the text of its error, or that it was cancelled."""
        try:
            # Calls of the engine find the stop signal by context, without passing it on.
            with report_to(stop=self.stop):
                self.result = work(self)
        except Cancelled:
            self.cancelled = True
        except FrontierError as error:
            self.error, self.is_finding = error.finding, True
        except Exception as error:  # a job's failure must reach the page, not only the terminal
            self.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            _RUNNING_JOBS.remove(self)

    def collect(self, piece: Any) -> None:
        """Append a finished piece to `partial`; the list is replaced, as a page may be reading the old one."""
        self.partial = [*(self.partial or ()), piece]

    def report(self, n_done: int, n_total: int, label: str, share: float | None = None) -> None:
        """Set the progress that pages show; long engine calls take this method as their callback.

        share: of the whole work that is done, if the steps are of a part of it; the time left is then the whole's
        """
        if share is None:
            self.progress = Progress(n_done, n_total, label, self._eta(n_done, n_total, label))
            return
        seconds_left = self._eta(round(SHARE_STEPS * share), SHARE_STEPS, "")
        part_seconds_left = self._part_eta(n_done, n_total, label)
        # The whole is estimated by usual shares of its parts, and never ends before the part under way.
        if seconds_left is not None and part_seconds_left is not None:
            seconds_left = max(seconds_left, part_seconds_left)
        self.progress = Progress(n_done, n_total, label, seconds_left, share, part_seconds_left)


class SessionJobs(dict[str, Job]):
    """Jobs of one browser session: purpose (such as "train") → last job, and the queue that they wait in.

    subscribed: the shared jobs whose result this browser session waits for; unsubscribed: those that it has cancelled
    for itself. When the session is gone, the jobs in its queue are cancelled, except those that other sessions wait
    for.
    """

    def __init__(self, session_id: str | None = None) -> None:
        """Create the empty table of a browser session's jobs, which leaves them when Streamlit drops it."""
        self.session = session_id
        # The queue has the session's own jobs, of which one works at a time. The sets have jobs that all sessions
        # share: those whose result this browser session waits for, and those that it no longer wants.
        self.queue: list[Job] = []
        self.subscribed: weakref.WeakSet[Job] = weakref.WeakSet()
        self.unsubscribed: weakref.WeakSet[Job] = weakref.WeakSet()
        # When Streamlit drops a session, its jobs lose their subscriber without any code of a page.
        weakref.finalize(self, _cancel_all, self.queue, session_id)

    def __reduce__(self) -> Any:
        """Refuse to be pickled or copied: the jobs are threads of this process."""
        raise TypeError("a session's jobs stay where they run")


def _cancel_all(session_queue: list[Job], session_id: str | None) -> None:
    """Withdraw a session from the jobs in its queue; this cancels jobs that no other session waits for."""
    for job in session_queue:
        job.remove_subscriber(session_id)


def get_session_jobs() -> SessionJobs:
    """Return the jobs of this browser session by purpose (such as "train"), and its queue."""
    # Made on first use; outside of a page's run, as in a test, the session has no id.
    if "jobs" not in st.session_state:
        context = get_script_run_ctx()
        st.session_state["jobs"] = SessionJobs(None if context is None else context.session_id)
    session_jobs: SessionJobs = st.session_state["jobs"]
    return session_jobs


def find_job(purpose: str, key: Hashable, *, stop_other: bool = False) -> Job | None:
    """Return this browser session's job for a purpose, such as "train", if its settings equal `key`.

    Else return None. stop_other: unsubscribe from a job that has other settings; this cancels it unless another session
    waits for it
    """
    job = get_session_jobs().get(purpose)
    if job is None or job.key == key:
        return job
    if stop_other:
        unsubscribe(job)
    return None


def find_blocker(purpose: str | None = None) -> Job | None:
    """Return the first job of this browser session that a job for `purpose` must wait for; else None.

    A session runs one job at a time. A running job for the same purpose, such as "train", does not count, as the new
    job would replace it.
    """
    session_jobs = get_session_jobs()
    other_jobs = [job for name, job in session_jobs.items() if job.running and name != purpose]
    queue = session_jobs.queue
    # A job outside of the queue waits for no other: −1 puts it first.
    return min(other_jobs, key=lambda job: queue.index(job) if job in queue else -1, default=None)


def start_job(purpose: str, title: str, work: Callable[[Job], Any], key: Hashable = None) -> Job:
    """Start a job for a purpose (such as "train"), in place of this browser session's last one for it.

    work: called with the job; key: all that the result depends on. The job waits in its thread until the other jobs of
    this browser session have ended and the server has a free slot; meanwhile its progress says that it is queued.
    """
    session_jobs = get_session_jobs()
    # A page has one job per purpose: changed settings replace the running one.
    if (previous_job := session_jobs.get(purpose)) is not None:
        unsubscribe(previous_job)  # it stays queued to its end: it may still write what this one resumes
    queue = session_jobs.queue

    def run_in_turn(job: Job) -> Any:
        """Wait for the job's turn, work, and free its slot for the next job."""
        _wait_for_turn(job, queue)
        try:
            return work(job)
        finally:
            _JOB_SLOTS.release()

    with _QUEUE_LOCK:  # the new thread must not look for itself in the queue before it is there
        queue[:] = [job for job in queue if job.running]
        session_jobs[purpose] = job = Job(title, run_in_turn, key, session_jobs.session, queued=True)
        queue.append(job)
    return job


def attach_job(purpose: str, job: Job) -> None:
    """Let this browser session share another one's job, which then runs on while either is there."""
    session_jobs = get_session_jobs()
    if session_jobs.get(purpose) is job:
        return
    job.add_subscriber(session_jobs.session)
    session_jobs.unsubscribed.discard(job)
    session_jobs[purpose] = job
    session_jobs.queue.append(job)


def subscribe(job: Job, resubscribe: bool = False) -> None:
    """Note that this browser session waits for a job that all sessions share, which keeps the job running.

    If this browser session has cancelled the job for itself, nothing changes, unless `resubscribe` is True.
    """
    # The server itself loads corpora too, outside of any session.
    if get_script_run_ctx(suppress_warning=True) is None:  # no visitor asks
        return
    session_jobs = get_session_jobs()
    if resubscribe:
        session_jobs.unsubscribed.discard(job)
    elif job in session_jobs.unsubscribed:
        return
    if job not in session_jobs.subscribed:
        session_jobs.subscribed.add(job)
        job.add_subscriber(session_jobs.session)


def is_subscribed(job: Job) -> bool:
    """Return True if this browser session waits for a shared job, or if only the server itself does."""
    # Outside of any session the server asks; a job without a session among its subscribers is the server's own.
    if get_script_run_ctx(suppress_warning=True) is None or not any(job.subscribers):
        return True
    return job in get_session_jobs().subscribed


def unsubscribe(job: Job) -> None:
    """Cancel a job for this browser session; stop it unless another one with an open tab waits for it."""
    session_jobs = get_session_jobs()
    job.remove_subscriber(session_jobs.session)
    session_jobs.subscribed.discard(job)
    session_jobs.unsubscribed.add(job)
    # The server's own jobs have no session and end here too, as nobody waits for them.
    if not any(session_id is not None and has_open_tab(session_id) for session_id in job.subscribers):
        job.cancel()
        return
    # Other sessions want the job: it goes on, but no longer belongs to this one.
    for purpose in [purpose for purpose, session_job in session_jobs.items() if session_job is job]:
        del session_jobs[purpose]
    session_jobs.queue[:] = [session_job for session_job in session_jobs.queue if session_job is not job]


def runs_for_others_only(job: Job) -> bool:
    """Return True if this browser session has cancelled a job that runs on for other sessions."""
    return job.is_active and job in get_session_jobs().unsubscribed


def _wait_for_turn(job: Job, queue: list[Job]) -> None:
    """Wait, in a job's thread, until it is the next of its session's queue and the server has a free slot.

    Each working job of the server holds a slot; the caller frees it. Raises Cancelled if the job is stopped before.
    """
    while not job.stop.is_set():
        with _QUEUE_LOCK:
            ahead = _find_job_ahead(job, queue)
            # Both conditions are tested under the lock, else two jobs could take one slot.
            if ahead is None and _JOB_SLOTS.acquire(blocking=False):
                job.queued = False
                job.report(0, 0, "starting")
                return
        if ahead is None:
            # All slots may be held by jobs whose tabs are closed: free them.
            label = "Queued behind another job on this server"
            _stop_abandoned_jobs()
        else:
            label = "Waiting for another job to stop" if ahead.stop.is_set() else f"Queued behind “{ahead.title}”"
        if job.progress.label != label:
            job.progress = replace(job.progress, label=label, seconds_left=None)
        # Waiting on the stop signal makes a cancel in the queue take effect at once.
        job.stop.wait(0.1)
    raise Cancelled("stopped while waiting")


def _find_job_ahead(job: Job, queue: list[Job]) -> Job | None:
    """Return the job of a session's queue that this one waits for; None if it is this one's turn.

    That is a job that works already, else the first of the queue, as a session works on one job at a time.
    """
    # `running`: its thread is alive, at work or waiting (`queued`). This job is among them, so that there is a first.
    unfinished = [other for other in queue if other.running]
    next_job = next((other for other in unfinished if other is not job and not other.queued), unfinished[0])
    return None if next_job is job else next_job


def _stop_abandoned_jobs() -> None:
    """Cancel the jobs whose browser tabs have all been closed for a while."""
    for job in list_running_jobs():
        if all(session_id is not None and _is_disconnected(session_id) for session_id in job.subscribers):
            job.cancel()


def _is_disconnected(session_id: str) -> bool:
    """Return True if a session's tab has been closed for some seconds, as a reload closes it for a moment.

    The first call that finds it closed notes the time, DISCONNECT_GRACE_SECONDS from which it counts.
    """
    if has_open_tab(session_id):
        _TAB_LOST_AT.pop(session_id, None)
        return False
    # `setdefault` returns the time that an earlier call has noted, else notes the present one.
    return time.monotonic() - _TAB_LOST_AT.setdefault(session_id, time.monotonic()) >= DISCONNECT_GRACE_SECONDS


def has_open_tab(session_id: str) -> bool:
    """Return True if a browser tab shows the session now, or if no server runs, as in a test or a script."""
    return not runtime.exists() or runtime.get_instance().is_active_session(session_id)


class SharedJobs(Generic[K]):
    """Table of jobs that all sessions share, by name, which also keeps the results of ended ones.

    Beyond `max_jobs` jobs ended ones are dropped: failed ones first, then the least recently used.
    """

    def __init__(self, max_jobs: int) -> None:
        """Create an empty table that holds up to `max_jobs` jobs; running ones are never dropped."""
        self.max_jobs = max_jobs
        self._jobs: OrderedDict[K, Job] = OrderedDict()
        # Reentrant, and held for a copy too: hashing a key is Python code, in which threads change places.
        self._lock = threading.RLock()

    def get(self, job_name: K) -> Job | None:
        """Return the job of this name, None if there is none; unlike `get_or_start` it does not count as used."""
        with self._lock:
            return self._jobs.get(job_name)

    def items(self) -> list[tuple[K, Job]]:
        """Return all names and jobs, the most recently used last."""
        with self._lock:
            return list(self._jobs.items())

    def get_or_start(self, job_name: K, title: str, work: Callable[[Job], Any], key: Hashable = None) -> Job:
        """Return the job of this name, started if there is none; a new one may push out ended ones.

        title, work, key: as a Job takes them
        """
        with self._lock:
            job = self._jobs.get(job_name)
            if job is None:
                job = self._jobs[job_name] = Job(title, work, key)
                # Only jobs that have ended may be dropped, and never the new one.
                ended_names = [name for name, old_job in self._jobs.items() if not old_job.running and name != job_name]
                # Failed jobs have no result, sort first, and go first.
                ended_names.sort(key=lambda name: self._jobs[name].result is not None)
                n_surplus = max(0, len(self._jobs) - self.max_jobs)
                for dropped_name in ended_names[:n_surplus]:
                    del self._jobs[dropped_name]
            self._jobs.move_to_end(job_name)
            return job

    def drop_job(self, job_name: K, job: Job) -> None:
        """Forget a job, so that the next one starts again; a newer job of the same name stays."""
        with self._lock:
            if self._jobs.get(job_name) is job:
                del self._jobs[job_name]


def list_running_jobs() -> list[Job]:
    """Return all running jobs of all sessions."""
    return list(_RUNNING_JOBS)


@contextlib.contextmanager
def limit_page_computations(is_long: bool = False) -> Iterator[None]:
    """Hold a slot while a page computes in a `with`: no more compute than there are cores; the others wait.

    Jobs in the background, and answers of sliders, have limits of their own. Engine calls inside stop when the server
    ends; then Cancelled is raised. A computation inside another one of its thread has that one's slot. is_long: it may
    take minutes; such computations leave a slot to other pages
    """
    # With a slot each, as many pages as there are slots would each wait for another's second one, for ever.
    if threading.get_ident() in _COMPUTING_THREADS:
        yield
        return
    progress, stop = current_reporter()
    # Without a slot that they never take, a few pages with sets of hundreds would stop all others.
    long_slot = _LONG_SLOTS if is_long else contextlib.nullcontext()
    with long_slot, _PAGE_SLOTS, report_to(progress, stop or _SHUTTING_DOWN):
        raise_if_stopped("stopped before its turn")
        _COMPUTING_THREADS.append(threading.get_ident())
        try:
            yield
        finally:
            _COMPUTING_THREADS.remove(threading.get_ident())


def is_at_work() -> bool:
    """Return True if a job runs or a page computes."""
    return bool(_RUNNING_JOBS or _COMPUTING_THREADS)


_JOB_SLOTS = threading.BoundedSemaphore(max(1, (os.cpu_count() or 2) // 2))
_PAGE_SLOTS = threading.BoundedSemaphore(max(1, os.cpu_count() or 2))
_LONG_SLOTS = threading.BoundedSemaphore(max(1, (os.cpu_count() or 2) - 1))
_RUNNING_JOBS: list[Job] = []
_COMPUTING_THREADS: list[int] = []
"""Threads of pages that hold a slot."""
_JOBS_LOCK = threading.Lock()
_QUEUE_LOCK = threading.Lock()
"""Held while a job enters a queue or takes a slot."""
_TAB_LOST_AT: dict[str, float] = {}
"""Session id → time at which it was first seen without a tab, monotonic seconds."""
_SHUTTING_DOWN = threading.Event()


def wait_for_shutdown(timeout_seconds: float) -> bool:
    """Wait until the server ends, for as long at most; return True if it does."""
    return _SHUTTING_DOWN.wait(timeout_seconds)


def stop_all_jobs(timeout_seconds: float = GRACE_SECONDS) -> bool:
    """Stop all work for good, and wait for it; return False if some goes on after `timeout_seconds`.

    Torch aborts a process that ends while a thread computes.
    """
    with _JOBS_LOCK:
        _SHUTTING_DOWN.set()  # a job that somebody starts from now on finds itself stopped
        running_jobs = list(_RUNNING_JOBS)
    for job in running_jobs:
        job.cancel()
    # The deadline is one for all jobs and pages.
    deadline = time.monotonic() + timeout_seconds
    for job in running_jobs:
        job.join(max(0.0, deadline - time.monotonic()))
    while is_at_work() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_at_work()
