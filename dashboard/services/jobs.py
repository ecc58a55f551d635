"""Jobs: long work in threads, with progress, an estimate, cancellation and a guaranteed end.

A script run dies at the next click, so nothing long may run in one.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import streamlit as st

from engine.errors import Cancelled, FrontierError
from engine.progress import Eta, report_to

K = TypeVar("K", bound=Hashable)


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
    stopped; key: names what the result depends on.
    """

    def __init__(self, title: str, work: Callable[[Job], Any], key: Hashable = None) -> None:
        self.title = title
        self.key: Any = key
        self.result: Any = None
        self.partial: Any = None
        self.error: str | None = None
        self.cancelled = False
        self.stop = threading.Event()
        self._holders = [None]
        self.progress = Progress(0, 0, "starting", None)
        self._eta = Eta()
        self._thread = threading.Thread(target=self._run, args=(work,), name=f"job {title}", daemon=True)
        with _LOCK:
            if _CLOSED.is_set():
                self.stop.set()
            _ALL.append(self)
            self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def going(self) -> bool:
        """Whether it runs and nobody has stopped it."""
        return self.running and not self.stop.is_set()

    def cancel(self) -> None:
        """Ask the work to stop; what it has finished stays in the cache."""
        self.stop.set()

    def hold(self) -> None:
        """Count one more session that wants it: it stops only when all of them are gone."""
        self._holders.append(None)

    def let_go(self) -> None:
        """Count one session less that wants it."""
        # No lock: the garbage collector calls this, in whatever thread, whatever that holds.
        self._holders.pop()
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
    """The jobs of one session by their purpose; they stop when the session is gone."""

    def __init__(self) -> None:
        self.started: list[Job] = []
        weakref.finalize(self, _cancel_all, self.started)

    def __reduce__(self) -> Any:
        raise TypeError("a session's jobs stay where they run")


def _cancel_all(jobs: list[Job]) -> None:
    for job in jobs:
        job.let_go()


def mine() -> Mine:
    """The jobs of this session."""
    session_jobs: Mine = st.session_state.setdefault("jobs", Mine())
    return session_jobs


def current(purpose: str, key: Hashable, *, alone: bool = False) -> Job | None:
    """This session's job for a purpose, where it works on what `key` names; alone: one that does not is stopped."""
    job = mine().get(purpose)
    if job is None or job.key == key:
        return job
    if alone:
        job.cancel()
    return None


def busy(purpose: str | None = None) -> Job | None:
    """The job that this session has running, other than the one for `purpose`: a session has one at a time."""
    return next((job for name, job in mine().items() if job.running and name != purpose), None)


def start(purpose: str, title: str, work: Callable[[Job], Any], key: Hashable = None) -> Job:
    """Begin a job in place of this session's last one for the same purpose, which is stopped.

    Work waits its turn behind other sessions' (the job says so). Raises RuntimeError while another purpose's runs: ask
    `busy` first.
    """
    session_jobs = _free_for(purpose)
    if (before := session_jobs.get(purpose)) is not None:
        before.cancel()

    def waiting(job: Job) -> Any:
        job.report(0, 0, "waiting for the work before to stop")
        while before is not None and before.running and not job.stop.is_set():
            before.join(0.2)  # it may still be writing what this one goes on from
        job.report(0, 0, "waiting for other people's work")
        while not _HEAVY.acquire(timeout=0.2):
            if job.stop.is_set():
                raise Cancelled("stopped while waiting")
        try:
            return work(job)
        finally:
            _HEAVY.release()

    session_jobs[purpose] = job = Job(title, waiting, key)
    session_jobs.started[:] = [j for j in session_jobs.started if j.running] + [job]
    return job


def share(purpose: str, job: Job) -> None:
    """Have another session's job too: it goes on while either session is there. Raises RuntimeError as `start`."""
    session_jobs = _free_for(purpose)
    if session_jobs.get(purpose) is job:
        return
    job.hold()
    session_jobs[purpose] = job
    session_jobs.started.append(job)


def _free_for(purpose: str) -> Mine:
    """This session's jobs. Raises RuntimeError while one for another purpose runs."""
    if other := busy(purpose):
        raise RuntimeError(f"{other.title} is still running")
    return mine()


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
