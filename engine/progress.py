"""How far long work has come, and how long it will still take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, label); done never falls, and a new label starts a new stretch of work."""


class Stop(Protocol):
    """What long work asks between steps whether to end: a threading.Event, for example."""

    def is_set(self) -> bool: ...


_WATCHER: ContextVar[tuple[Progress | None, Stop | None]] = ContextVar("watcher", default=(None, None))


@contextmanager
def watched(progress: Progress | None = None, stop: Stop | None = None) -> Iterator[None]:
    """Inside, stages whose work is long tell `progress` how far it is, and end with Cancelled once `stop` is set.

    It holds for the thread that entered it. Most stages are too quick to look.
    """
    token = _WATCHER.set((progress, stop))
    try:
        yield
    finally:
        _WATCHER.reset(token)


def watcher() -> tuple[Progress | None, Stop | None]:
    """Whom long work inside a stage tells, and what it asks whether to end: None where nobody watches."""
    return _WATCHER.get()


class Eta:
    """Seconds left, from the pace of the last `window` seconds.

    Call it with what a Progress gets; it answers seconds, or None while there is too little to judge by. A new
    label forgets the pace: documents read from the cache say nothing about how fast documents are embedded.
    """

    def __init__(self, window: float = 15.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._window, self._clock = window, clock
        self._seen: deque[tuple[float, int]] = deque()
        self._label: str | None = None

    def __call__(self, done: int, total: int, label: str = "") -> float | None:
        now = self._clock()
        if label != self._label or (self._seen and done < self._seen[-1][1]):
            self._label = label
            self._seen.clear()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self._window:
            self._seen.popleft()
        then, before = self._seen[0]
        if done >= total:
            return 0.0
        # A pace read off less than a second is noise: the first batches of a process are the slowest.
        if now - then < 1.0 or done == before:
            return None
        return (total - done) * (now - then) / (done - before)


def spoken(seconds: float | None) -> str:
    """Seconds as a person says them: "8 s", "2 min 05 s", "1 h 20 min"; "" for None."""
    if seconds is None:
        return ""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
