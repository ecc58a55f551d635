"""JSONL logs, as older versions wrote them and exports are: read, and locked among processes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.data.cache import explained
from engine.errors import DataError
from engine.feedback.serialization import BEGINNING, Verified, damaged, head, verified


def read_jsonl(path: Path) -> tuple[list[Verified], bool]:
    """The lines of a file, and whether a torn line follows.

    Raises DataError for a file that is no log, and for a line that is not as it was written.
    """
    *lines, rest = _bytes(path).split(b"\n")
    if not lines:
        raise damaged(path, 1, "")
    numbered = enumerate((line.decode("ascii", "replace") for line in lines), 1)
    return list(verified(numbered, BEGINNING, path)), bool(rest)


def has_line(path: Path, seal: str, last: bool = False) -> bool:
    """Whether a file holds the line of a seal; last: as its last, with nothing after it."""
    raw = _bytes(path)
    start = raw.rfind(b"\n", 0, -1) + 1 if last else 0
    # Within a line the quotes are escaped.
    return head(seal) in raw[start:] and (not last or raw.endswith(b"\n"))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that writers of a JSONL log take, if there is one; a killed process lets go of it.

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
