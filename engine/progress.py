"""Progress of long work, its estimated time left, and counts and durations in words."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from engine.errors import Cancelled

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, label); done never falls under one label, and a new label starts a new phase."""


class Stop(Protocol):
    """A request to end, polled between steps: a threading.Event, for example."""

    def is_set(self) -> bool: ...


_REPORTER: ContextVar[tuple[Progress | None, Stop | None]] = ContextVar("reporter", default=(None, None))


@contextmanager
def report_to(progress: Progress | None = None, stop: Stop | None = None) -> Iterator[None]:
    """Inside, in this thread, long-running stages report to `progress`, and end with Cancelled once `stop` is set."""
    token = _REPORTER.set((progress, stop))
    try:
        yield
    finally:
        _REPORTER.reset(token)


def current_reporter() -> tuple[Progress | None, Stop | None]:
    """The progress and stop of the enclosing `report_to`; (None, None) outside one."""
    return _REPORTER.get()


def stoppable(progress: Progress | None, stop: Stop | None, message: str = "the measurement was stopped") -> Progress:
    """Report to `progress`, if any; once `stop` is set, Cancelled with the message, of {done}, {total} and {label}."""

    def report(done: int, total: int, label: str) -> None:
        if stop is not None and stop.is_set():
            raise Cancelled(message.format(done=f"{done:,}", total=f"{total:,}", label=label))
        if progress is not None:
            progress(done, total, label)

    return report


class Eta:
    """A Progress's arguments to the seconds left, at the pace of the last `window` seconds under the same label.

    None for the first `quiet` seconds, and until `share` of the work is done: the first steps are the slowest. The end
    follows the pace over `settle` seconds, so that a slow step or two does not turn the words to and fro.
    """

    def __init__(
        self,
        window: float = 15.0,
        quiet: float = 5.0,
        share: float = 0.05,
        settle: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window, self._quiet, self._share, self._settle, self._clock = window, quiet, share, settle, clock
        self._began = clock()
        self._samples: deque[tuple[float, int]] = deque()
        self._label: str | None = None
        self._end: float | None = None  # when it will be done
        self._told = self._began

    def __call__(self, done: int, total: int, label: str = "") -> float | None:
        now = self._clock()
        if label != self._label or (self._samples and done < self._samples[-1][1]):
            self._label, self._began, self._end = label, now, None
            self._samples.clear()
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= self._window:
            self._samples.popleft()
        start, base = self._samples[0]
        if done >= total:
            return 0.0
        if now - self._began < self._quiet or done < self._share * total or done == base:
            return None
        end = now + (total - done) * (now - start) / (done - base)
        if self._end is not None:
            end += math.exp((self._told - now) / self._settle) * (self._end - end)
        self._end, self._told = end, now
        return max(0.0, end - now)


def format_duration(seconds: float | None) -> str:
    """A duration in words: "8 s", "2 min 05 s", "1 h 20 min"; "" for None."""
    if seconds is None:
        return ""
    minutes, seconds = divmod(round(seconds), 60)
    if not minutes:
        return f"{seconds} s"
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def rough_duration(seconds: float) -> str:
    """A duration as an estimate is worth saying: "10 s", "40 s", "2 min", "1 h 20 min"; it does not flicker."""
    if seconds < 55:
        return f"{max(10, round(seconds, -1)):.0f} s"
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60 // 10 * 10:02d} min"


def counted(count: int, singular: str, plural: str = "") -> str:
    """A count with its noun, "1 document", "2,000 documents"; plural: by default the singular with an s."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def shorten(text: str, length: int) -> str:
    """A text of at most `length` characters, cut with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
