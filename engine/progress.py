"""Progress and cancellation of long work, its remaining time, and counts and durations in words."""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TextIO

from engine.errors import Cancelled

Progress = Callable[[int, int, str], None]
"""A callback progress(done, total, label); done never decreases under one label."""


class Stop(Protocol):
    """A cancellation flag, polled between steps: a threading.Event, for example."""

    def is_set(self) -> bool: ...


class Reporter(NamedTuple):
    """The progress callback and the cancellation flag of one piece of work; either may be missing."""

    progress: Progress | None = None
    stop: Stop | None = None

    @property
    def is_stopped(self) -> bool:
        """True once the caller has asked the work to stop, by setting the flag."""
        return self.stop is not None and self.stop.is_set()

    def relabel(self, label: str) -> "Reporter":
        """Return a reporter that passes progress on under another label, such as "split test: {label}".

        {label} in it stands for the label that the work itself reports.
        """
        progress = self.progress
        if progress is None:
            return self
        return Reporter(lambda done, total, text: progress(done, total, label.format(label=text)), self.stop)


SILENT = Reporter()
"""The reporter of work without a progress callback and without a cancellation flag."""
_REPORTER: ContextVar[Reporter] = ContextVar("reporter", default=SILENT)


@contextmanager
def report_to(progress: Progress | None = None, stop: Stop | None = None) -> Iterator[None]:
    """Send the progress of scorers and other long work inside the block to `progress`.

    Such work of this thread raises Cancelled once `stop` is set.
    """
    # A context variable: code deep in the call stack reports without an argument in every signature.
    token = _REPORTER.set(Reporter(progress, stop))
    try:
        yield
    finally:
        _REPORTER.reset(token)


def current_reporter() -> Reporter:
    """Return the progress callback and stop flag of the enclosing `report_to` block; None each without."""
    return _REPORTER.get()


def raise_if_stopped(message: str) -> None:
    """Raise Cancelled with a message if the enclosing `report_to` block has been asked to stop."""
    if current_reporter().is_stopped:
        raise Cancelled(message)


class ProgressBar:
    """A progress callback that draws tqdm's bars, one for each label, in a terminal or a notebook.

    Where there is neither, such as in a log file, it draws nothing. Pass a new one as `progress` to any function that
    takes it.

    Parameters
    ----------
    file : text file or None
        Where to draw; None for the standard error.

    Examples
    --------
    >>> import engine
    >>> vectors = engine.embed(["sort an array"], progress=engine.ProgressBar())
    """

    def __init__(self, file: TextIO | None = None) -> None:
        """Start without a bar; the first report draws one."""
        self._file, self._label = file, ""
        self._bar: Any = None

    def __call__(self, done: int, total: int, label: str) -> None:
        """Draw the progress of `done` of `total` steps under a label."""
        bar = self._bar
        if bar is None or label != self._label or done < bar.n:
            # Work without steps has nothing to draw.
            bar = self._open(total, label) if done < total else None
        if bar is None:
            return
        # The total may grow while work goes on, such as one of unknown length.
        bar.total = total
        bar.update(done - bar.n)
        if done >= total:
            self.close()

    def close(self) -> None:
        """End the bar that is drawn, if there is one; finished work does that itself."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    def _open(self, total: int, label: str) -> Any:
        """End the bar that is drawn and return a new one."""
        from tqdm.auto import tqdm

        self.close()
        # None lets tqdm look for a terminal, which a notebook is not.
        is_disabled = None if not is_notebook() else False
        self._label = label
        self._bar = tqdm(total=total, desc=label, file=self._file, disable=is_disabled)
        return self._bar


def is_notebook() -> bool:
    """Return True in the kernel of a notebook."""
    # Whoever runs in one has imported IPython already.
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def with_cancellation(
    progress: Progress | None, stop: Stop | None, message: str = "the measurement was stopped"
) -> Progress:
    """Return a progress callback that forwards to `progress`, and raises Cancelled once `stop` is set.

    Either may be None. message: the error's text, which may contain {done}, {total} and {label}
    """

    def report(done: int, total: int, label: str) -> None:
        """Pass progress on, or raise Cancelled if the work should stop."""
        if stop is not None and stop.is_set():
            raise Cancelled(message.format(done=f"{done:,}", total=f"{total:,}", label=label))
        if progress is not None:
            progress(done, total, label)

    return report


class Eta:
    """An estimator of the seconds left, from the pace of the last `window` seconds under the same label.

    Returns None for the first `quiet` seconds and until `share` of the work is done: the first steps are the slowest.
    The estimate follows the pace over `settle` seconds, so that single slow steps do not make it jump.
    """

    def __init__(
        self,
        window: float = 15.0,
        quiet: float = 5.0,
        share: float = 0.05,
        settle: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the clock for new work, of which nothing is done yet.

        window: seconds over which the pace is measured; quiet: seconds without an estimate at first; share: part of the
        work to be done before an estimate; settle: seconds in which the estimate follows a change of pace; clock:
        returns the time in seconds, replaced by tests
        """
        self._window_seconds, self._quiet_seconds, self._settle_seconds = window, quiet, settle
        self._min_share, self._clock = share, clock
        self._started_at = clock()
        self._samples: deque[tuple[float, int]] = deque()
        self._label: str | None = None
        self._end_time: float | None = None  # when it will be done
        self._updated_at = self._started_at

    def __call__(self, done: int, total: int, label: str = "") -> float | None:
        """Return the estimated seconds left, None while nothing can be said, 0 once the work is done."""
        current_time = self._clock()
        # Another label, or fewer steps done than before, is new work: the estimate starts anew.
        if label != self._label or (self._samples and done < self._samples[-1][1]):
            self._label, self._started_at, self._end_time = label, current_time, None
            self._samples.clear()
        self._samples.append((current_time, done))
        while len(self._samples) > 2 and current_time - self._samples[1][0] >= self._window_seconds:
            self._samples.popleft()
        # The pace is measured from the oldest sample that is left.
        window_start, window_done = self._samples[0]
        if done >= total:
            return 0.0
        is_quiet = current_time - self._started_at < self._quiet_seconds
        if is_quiet or done < self._min_share * total or done == window_done:
            return None
        end_time = current_time + (total - done) * (current_time - window_start) / (done - window_done)
        # The weight of the previous estimate decays exponentially with its age.
        if self._end_time is not None:
            end_time += math.exp((self._updated_at - current_time) / self._settle_seconds) * (self._end_time - end_time)
        self._end_time, self._updated_at = end_time, current_time
        return max(0.0, end_time - current_time)


def format_duration(seconds: float | None) -> str:
    """Format a duration: "8 s", "2 min 05 s", "1 h 20 min"; "" for None."""
    if seconds is None:
        return ""
    # Rounded first, so that 59.6 seconds are a minute and not "60 s".
    n_minutes, seconds = divmod(round(seconds), 60)
    if not n_minutes:
        return f"{seconds} s"
    if n_minutes < 60:
        return f"{n_minutes} min {seconds:02d} s"
    return f"{n_minutes // 60} h {n_minutes % 60:02d} min"


def rough_duration(seconds: float) -> str:
    """Format an estimated duration coarsely, so that it does not flicker: "10 s", "2 min", "1 h 20 min"."""
    if seconds < 55:
        return f"{max(10, round(seconds, -1)):.0f} s"
    n_minutes = max(1, round(seconds / 60))
    # Beyond an hour only the tens of minutes are shown.
    return f"{n_minutes} min" if n_minutes < 60 else f"{n_minutes // 60} h {n_minutes % 60 // 10 * 10:02d} min"


def counted(count: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun, "1 document" or "2,000 documents"; the default plural appends an s."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def shorten(text: str, length: int) -> str:
    """Cut a text to at most `length` characters, with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"
