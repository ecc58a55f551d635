"""Locks between processes, on a file beside the one that is written."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.data.cache import explained


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that writers of a file take, if there is the file; a killed process lets go of it.

    Raises FrontierError.
    """
    if not path.is_file():
        yield
        return
    with explained(path):
        handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with explained(path):
            _lock(handle)
        yield
    finally:
        # Closing it lets go.
        os.close(handle)


if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
                return
            except OSError:
                continue  # it gives up after ten tries, a second apart
else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)
