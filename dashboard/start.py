"""The program `frontier`: Ctrl-C ends it in a sentence from its first import on, before it can do so itself.

Imported first, so it imports nothing of ours that takes time.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

NOTHING_BEGUN, RESULTS_KEPT = "stopped; nothing had begun\n", "stopped; what was finished is kept\n"
INTERRUPTED_STATUS = 128 + signal.SIGINT


def main() -> None:
    """Run the command line."""
    # A program that a shell starts in the background ignores Ctrl-C, and goes on ignoring it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, handle_interrupt)
    from dashboard.serve import main as run

    sys.exit(run())


def handle_interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt in a command, and end the process where none could be handled.

    Nobody catches it before a command runs; and in an import it would leave half a module, whose next user raises
    something else: libraries catch errors of what they import, and NumPy then recurses to its limit.
    """
    is_running, is_importing = _inspect_stack(frame)
    if is_running and not is_importing:
        raise KeyboardInterrupt
    # What was printed may be half a line that is being written now.
    with suppress(Exception):
        sys.stdout.flush()
    os.write(2, (RESULTS_KEPT if is_running else NOTHING_BEGUN).encode())
    os._exit(INTERRUPTED_STATUS)


def _inspect_stack(frame: FrameType | None) -> tuple[bool, bool]:
    """Return True if a command runs, and True if something is being imported."""
    is_running = is_importing = False
    while frame is not None:
        is_running |= frame.f_code.co_name == "invoke" and frame.f_globals.get("__name__") == "engine.cli.group"
        is_importing |= frame.f_code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return is_running, is_importing


if __name__ == "__main__":
    main()
