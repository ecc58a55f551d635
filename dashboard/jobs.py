"""Long work beside the page: a thread with progress, an estimate, a way to stop, and an end that always comes.

A script run dies at the next click, so nothing long may run in one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
