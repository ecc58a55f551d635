"""Locks between processes, on a file beside the one that is written."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.data.cache import explained
from engine.paths import file_mode

_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
"""Errors of a folder that takes no new file."""


def lock_of(path: Path) -> Path:
    """The file that writers of a file lock."""
    return path.with_name(f"{path.name}.lock")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that writers of a file take, if there is the file; a killed process lets go of it.

    Raises FrontierError.
    """
    if not path.is_file():
        yield
        return
    lock = lock_of(path)
    with explained(path):
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, file_mode(lock) & 0o644)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            # In a folder that takes no new file the lock is the file's own.
            handle = os.open(path, os.O_RDONLY)
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
