"""Long work beside the page: a thread with progress, an estimate, a way to stop, and an end that always comes.

A script run dies at the next click, so nothing long may run in one.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.errors import Cancelled, FrontierError
from engine.progress import Eta


@dataclass(frozen=True)
class Progress:
    """How far a job is: done of total (0: unknown), what it is doing, and the seconds left, None if unknown."""

    done: int
    total: int
    label: str
    seconds_left: float | None


class Job:
    """One piece of work in a daemon thread.

    work: called with the job itself, reports to `report` and passes `stop` on; what it returns is `result`. What is
    worth showing before the end goes to `partial`.
    """

    def __init__(self, title: str, work: Callable[[Job], Any]) -> None:
        self.title = title
        self.result: Any = None
        self.partial: Any = None
        self.error: str | None = None
        self.cancelled = False
        self.stop = threading.Event()
        self._holders = [None]
        self._progress = Progress(0, 0, "starting", None)
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
    def progress(self) -> Progress:
        return self._progress

    def cancel(self) -> None:
        """Ask the work to stop; what it has finished stays in the cache."""
        self.stop.set()

    def hold(self) -> None:
        """One session more wants it: it stops only when all of them are gone."""
        self._holders.append(None)

    def let_go(self) -> None:
        """One session less wants it."""
        # No lock: the garbage collector calls this, in whatever thread, whatever that holds.
        self._holders.pop()
        if not self._holders:
            self.cancel()

    def join(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    def _run(self, work: Callable[[Job], Any]) -> None:
        try:
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

    def report(self, done: int, total: int, label: str) -> None:
        """The progress callback that long engine calls take."""
        self._progress = Progress(done, total, label, self._eta(done, total, label))


class Mine(dict[str, Job]):
    """The jobs of one session by their purpose; they stop when the session is gone."""

    def __init__(self) -> None:
        weakref.finalize(self, _cancel_all, jobs := [])
        self.started: list[Job] = jobs

    def __reduce__(self) -> Any:
        raise TypeError("a session's jobs stay where they run")


def _cancel_all(jobs: list[Job]) -> None:
    for job in jobs:
        job.let_go()


def mine() -> Mine:
    """The jobs of this session."""
    return st.session_state.setdefault("jobs", Mine())


def busy(purpose: str | None = None) -> Job | None:
    """The job that this session has running, other than the one for `purpose`: a session has one at a time."""
    return next((job for name, job in mine().items() if job.running and name != purpose), None)


def start(purpose: str, title: str, work: Callable[[Job], Any]) -> Job:
    """Begin a job in place of this session's last one for the same purpose, which is stopped.

    Work waits its turn behind other sessions' (the job says so). Raises RuntimeError while another purpose's runs: ask
    `busy` first.
    """
    own = mine()
    if other := busy(purpose):
        raise RuntimeError(f"{other.title} is still running")
    if purpose in own:
        own[purpose].cancel()

    def waiting(job: Job) -> Any:
        job.report(0, 0, "waiting for other people's work")
        while not _HEAVY.acquire(timeout=0.2):
            if job.stop.is_set():
                raise Cancelled("stopped while waiting")
        try:
            return work(job)
        finally:
            _HEAVY.release()

    own[purpose] = job = Job(title, waiting)
    own.started[:] = [j for j in own.started if j.running] + [job]
    return job


def share(purpose: str, job: Job) -> None:
    """Have another session's job as this session's own: it goes on while either of them is there.

    Raises RuntimeError as `start`.
    """
    own = mine()
    if other := busy(purpose):
        raise RuntimeError(f"{other.title} is still running")
    if own.get(purpose) is job:
        return
    job.hold()
    own[purpose] = job
    own.started.append(job)


def running() -> list[Job]:
    """All that is at work, whoever began it."""
    return list(_ALL)


@contextmanager
def turn() -> Iterator[None]:
    """An engine call of a page: so many at once as there are cores, the others wait."""
    with _LIGHT:
        yield


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
