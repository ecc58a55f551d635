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
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from engine.errors import Cancelled, FrontierError
from engine.progress import Eta, report_to

K = TypeVar("K", bound=Hashable)
GRACE = 5.0
"""Seconds after which a session without a browser tab counts as gone."""


@dataclass(frozen=True)
class Progress:
    """Progress of a job."""

    done: int  # steps
    total: int  # steps, 0 where that is unknown
    label: str  # what it is doing
    seconds_left: float | None  # None where that is unknown


class Job:
    """One piece of work in a daemon thread.

    title: what it does, for people; work: called with the job itself, reports to `report` and passes `stop` on; what it
    returns is `result`, what is worth showing before the end goes to `partial`, and stages inside it end too when it is
    stopped; key: names what the result depends on; session: which one wants it; queued: it waits for its turn.
    """

    def __init__(
        self,
        title: str,
        work: Callable[[Job], Any],
        key: Hashable = None,
        session: str | None = None,
        queued: bool = False,
    ) -> None:
        self.title = title
        self.key: Any = key
        self.result: Any = None
        self.partial: Any = None
        self.error: str | None = None
        self.cancelled = False
        self.stop = threading.Event()
        self.queued = queued
        self._holders = [session]
        self.progress = Progress(0, 0, "starting", None)
        self._eta = Eta()
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"job {title}", daemon=True)
        with _LOCK:
            if _CLOSED.is_set():
                self.cancel()
            _ALL.append(self)
            self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def going(self) -> bool:
        """Whether it runs, or will, and nobody has cancelled it."""
        return self.running and not self.stop.is_set()

    @property
    def holders(self) -> tuple[str | None, ...]:
        """The sessions that want it, None for what is no browser's."""
        return tuple(self._holders)

    def cancel(self) -> None:
        """Ask the work to stop; what it has finished stays in the cache, where the next job for it takes it up."""
        self.stop.set()

    def hold(self, session: str | None = None) -> None:
        """Count one more session that wants it: it stops only when all of them are gone."""
        self._holders.append(session)

    def let_go(self, session: str | None = None) -> None:
        """Count one session less that wants it."""
        # No lock: the garbage collector calls this, in whatever thread, whatever that holds.
        with contextlib.suppress(ValueError):
            self._holders.remove(session)
        if not self._holders:
            self.cancel()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _run(self, work: Callable[[Job], Any]) -> None:
        try:
            with report_to(stop=self.stop):
                self.result = work(self)
        except Cancelled:
            self.cancelled = True
        except FrontierError as error:
            self.error = str(error)
        except Exception as error:  # a job's failure must reach the page, not only the terminal
            self.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            _ALL.remove(self)

    def collect(self, piece: Any) -> None:
        """Add a finished piece to `partial`, a list that is replaced and never changed."""
        self.partial = [*(self.partial or ()), piece]

    def report(self, done: int, total: int, label: str) -> None:
        """The progress callback that long engine calls take."""
        self.progress = Progress(done, total, label, self._eta(done, total, label))


class Mine(dict[str, Job]):
    """The jobs of one session by their purpose, and the line in which they wait; they stop when the session is gone."""

    def __init__(self, session: str | None = None) -> None:
        self.session = session
        self.line: list[Job] = []
        self.joined: weakref.WeakSet[Job] = weakref.WeakSet()  # those of all sessions that this one asked for
        self.left: weakref.WeakSet[Job] = weakref.WeakSet()  # those that it wants no more, whoever else does
        weakref.finalize(self, _cancel_all, self.line, session)

    def __reduce__(self) -> Any:
        raise TypeError("a session's jobs stay where they run")


def _cancel_all(jobs: list[Job], session: str | None) -> None:
    for job in jobs:
        job.let_go(session)


def mine() -> Mine:
    """The jobs of this session."""
    if "jobs" not in st.session_state:
        context = get_script_run_ctx()
        st.session_state["jobs"] = Mine(None if context is None else context.session_id)
    session_jobs: Mine = st.session_state["jobs"]
    return session_jobs


def current(purpose: str, key: Hashable, *, alone: bool = False) -> Job | None:
    """This session's job for a purpose, where it works on what `key` names; alone: one that does not is stopped."""
    job = mine().get(purpose)
    if job is None or job.key == key:
        return job
    if alone:
        leave(job)
    return None


def busy(purpose: str | None = None) -> Job | None:
    """What this session's job for `purpose` would have to wait for: another one, at work or queued, the first in line.

    A session has one job at work at a time.
    """
    session_jobs = mine()
    others = [job for name, job in session_jobs.items() if job.running and name != purpose]
    line = session_jobs.line
    return min(others, key=lambda job: line.index(job) if job in line else -1, default=None)


def start(purpose: str, title: str, work: Callable[[Job], Any], key: Hashable = None) -> Job:
    """Begin a job in place of this session's last one for the same purpose, which is cancelled.

    It waits its turn (`queued`, and its progress says for what): behind this session's other jobs, and behind other
    sessions'.
    """
    session_jobs = mine()
    if (before := session_jobs.get(purpose)) is not None:
        leave(before)  # it stays in line to its end: it may still be writing what this one goes on from
    line = session_jobs.line

    def in_turn(job: Job) -> Any:
        _wait_for_turn(job, line)
        try:
            return work(job)
        finally:
            _HEAVY.release()

    with _TURN:  # else it would look for its place before it has one
        line[:] = [job for job in line if job.running]
        session_jobs[purpose] = job = Job(title, in_turn, key, session_jobs.session, queued=True)
        line.append(job)
    return job


def share(purpose: str, job: Job) -> None:
    """Have another session's job too: it goes on while either session is there."""
    session_jobs = mine()
    if session_jobs.get(purpose) is job:
        return
    job.hold(session_jobs.session)
    session_jobs.left.discard(job)
    session_jobs[purpose] = job
    session_jobs.line.append(job)


def join(job: Job, again: bool = False) -> None:
    """Count this session among those that want a job of all sessions; not one that it has left, except again."""
    if get_script_run_ctx(suppress_warning=True) is None:  # no visitor asks
        return
    session_jobs = mine()
    if again:
        session_jobs.left.discard(job)
    elif job in session_jobs.left:
        return
    if job not in session_jobs.joined:
        session_jobs.joined.add(job)
        job.hold(session_jobs.session)


def is_mine(job: Job) -> bool:
    """Whether this session asked for a job of all sessions, or none did and the server began it by itself."""
    if get_script_run_ctx(suppress_warning=True) is None or not any(job.holders):
        return True
    return job in mine().joined


def leave(job: Job) -> None:
    """Have this session want a job no more: it stops, unless another session with an open tab wants it too."""
    session_jobs = mine()
    job.let_go(session_jobs.session)
    session_jobs.joined.discard(job)
    session_jobs.left.add(job)
    if not any(session is not None and has_tab(session) for session in job.holders):
        job.cancel()
        return
    for purpose in [purpose for purpose, own in session_jobs.items() if own is job]:
        del session_jobs[purpose]
    session_jobs.line[:] = [own for own in session_jobs.line if own is not job]


def is_left(job: Job) -> bool:
    """Whether a job that this session has left goes on for others."""
    return job.going and job in mine().left


def _wait_for_turn(job: Job, line: list[Job]) -> None:
    """Return once a job is the first in its line, no other one of the line is at work, and the server has room.

    Raises Cancelled where it is stopped before.
    """
    while not job.stop.is_set():
        with _TURN:
            ahead = _ahead(job, line)
            if ahead is None and _HEAVY.acquire(blocking=False):
                job.queued = False
                job.report(0, 0, "starting")
                return
        if ahead is None:
            label = "Queued behind another job on this server"
            _stop_abandoned()
        else:
            label = "Waiting for another job to stop" if ahead.stop.is_set() else f"Queued behind “{ahead.title}”"
        if job.progress.label != label:
            job.progress = replace(job.progress, label=label, seconds_left=None)
        job.stop.wait(0.1)
    raise Cancelled("stopped while waiting")


def _ahead(job: Job, line: list[Job]) -> Job | None:
    """The job that another one of its line has to wait for: one at work, else the first."""
    running = [other for other in line if other.running]
    first = next((other for other in running if other is not job and not other.queued), running[0])
    return None if first is job else first


def _stop_abandoned() -> None:
    """Stop the jobs that only sessions want whose browser tab is closed: what they have finished is in the cache."""
    for job in running():
        if all(session is not None and _is_gone(session) for session in job.holders):
            job.cancel()


def _is_gone(session: str) -> bool:
    """Whether a session's tab has been closed for a while: where only the network fails, it is back in a moment."""
    if has_tab(session):
        _GONE.pop(session, None)
        return False
    return time.monotonic() - _GONE.setdefault(session, time.monotonic()) >= GRACE


def has_tab(session: str) -> bool:
    """Whether a browser's tab shows a session now."""
    return not runtime.exists() or runtime.get_instance().is_active_session(session)


class SharedJobs(Generic[K]):
    """Jobs that all sessions share, by what they make; beyond `most`, ended ones go, failed first, then least used."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._jobs: OrderedDict[K, Job] = OrderedDict()
        # Reentrant, and held for a copy too: hashing a key is Python code, in which threads change places.
        self._lock = threading.RLock()

    def get(self, name: K) -> Job | None:
        with self._lock:
            return self._jobs.get(name)

    def items(self) -> list[tuple[K, Job]]:
        """All of them, the one used last at the end."""
        with self._lock:
            return list(self._jobs.items())

    def begin(self, name: K, title: str, work: Callable[[Job], Any], key: Hashable = None) -> Job:
        """The job of this name, started now where there is none; title, work, key: of a Job."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None:
                job = self._jobs[name] = Job(title, work, key)
                ended = [n for n, j in self._jobs.items() if not j.running and n != name]
                ended.sort(key=lambda n: self._jobs[n].result is not None)
                for old in ended[: max(0, len(self._jobs) - self.most)]:
                    del self._jobs[old]
            self._jobs.move_to_end(name)
            return job

    def forget(self, name: K, job: Job) -> None:
        """Drop a job, so that the next one begins anew; not one that somebody has begun since."""
        with self._lock:
            if self._jobs.get(name) is job:
                del self._jobs[name]


def running() -> list[Job]:
    """All jobs at work, of all sessions."""
    return list(_ALL)


def turn() -> threading.BoundedSemaphore:
    """A turn at the engine for a page, to be waited for: there are as many as cores."""
    return _LIGHT


_HEAVY = threading.BoundedSemaphore(max(1, (os.cpu_count() or 2) // 2))
_LIGHT = threading.BoundedSemaphore(max(1, os.cpu_count() or 2))
_ALL: list[Job] = []
_LOCK = threading.Lock()
_TURN = threading.Lock()
"""Held while somebody takes a place in a line, or a turn."""
_GONE: dict[str, float] = {}
"""When a session was first found to have no tab, in seconds of the monotonic clock."""
_CLOSED = threading.Event()


def stop_all(seconds: float = 10) -> None:
    """Stop every job, for good, and wait: torch aborts the process if one computes while Python shuts down."""
    with _LOCK:
        _CLOSED.set()  # a job that somebody starts from now on finds itself stopped
        running = list(_ALL)
    for job in running:
        job.cancel()
    for job in running:
        job.join(seconds)
