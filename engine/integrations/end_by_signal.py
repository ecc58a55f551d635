"""End of a server at Ctrl-C or SIGTERM: all work is told to stop, and what goes on is ended by force."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from engine.progress import counted

GRACE_SECONDS = 5.0
"""Seconds that all work has to end once a server is told to."""
SIGNALS = signal.SIGINT, signal.SIGTERM
MIN_REPEAT_SECONDS = 1.0
"""Seconds after which a further signal counts as another one: a worker gets the first from its terminal and parent."""
_SIGNAL_BASE = 128
"""Exit status of a process that a signal ends, less the signal's number."""


class EndBySignal:
    """Signal handlers that stop all work before the server's own handlers run.

    say: takes a line for people; is_at_work: returns True while something is computed; stop_work: tells it to stop and
    waits for at most `grace_seconds`, returns True if all has ended
    """

    def __init__(
        self,
        say: Callable[[str], None],
        is_at_work: Callable[[], bool],
        stop_work: Callable[[float], bool],
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        """Prepare the handlers, which `install` sets."""
        self._say, self._is_at_work, self._stop_work = say, is_at_work, stop_work
        self._grace_seconds = grace_seconds
        self._received = threading.Event()
        self._signal_number, self._received_at = 0, 0.0
        self._previous: dict[int, Any] = {}

    def install(self) -> None:
        """Set the handlers; the present ones are called by them. Only the main thread may."""
        # A handler may interrupt code that holds a lock, so that all it does is to wake this thread.
        threading.Thread(target=self._end_work, name="end by signal", daemon=True).start()
        for number in SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Note a signal and pass it on; a second one ends the process at once."""
        if not self._received_at:
            self._signal_number, self._received_at = number, time.monotonic()
            self._received.set()
        elif time.monotonic() - self._received_at > MIN_REPEAT_SECONDS:
            os._exit(_SIGNAL_BASE + number)
        previous = self._previous[number]
        if callable(previous):
            previous(number, frame)

    def _end_work(self) -> None:
        """Wait for a signal, then stop all work; end the process by force if it does not stop in time."""
        self._received.wait()
        deadline = time.monotonic() + self._grace_seconds
        if self._is_at_work():
            grace = counted(round(self._grace_seconds), "second")
            self._say(f"Stopping. What is being computed has {grace} to end; another Ctrl-C ends it at once.")
        has_ended = self._stop_work(self._grace_seconds)
        # The process ends by itself meanwhile, unless something else holds it.
        time.sleep(max(0.0, deadline - time.monotonic()))
        self._say("Ended by force." if has_ended else "Ended by force: something was still being computed.")
        sys.stdout.flush()
        os._exit(_SIGNAL_BASE + self._signal_number)
