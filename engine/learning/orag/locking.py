"""One writer at a time, among threads and processes: a lock beside a file, let go even by a process that is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which need not exist; waits for whoever has it. OSError where none can be made."""
    handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _take(handle)
        yield
    finally:
        # Closing it lets go.
        os.close(handle)


if os.name == "nt":
    import msvcrt

    def _take(handle: int) -> None:
        while True:
            try:
                return msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
            except OSError:
                continue  # it gives up after ten tries, a second apart
else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)
