"""Data files as they are opened: regular ones only, failures as a DataError, and no gigabytes from kilobytes."""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from engine.errors import DataError

FREE = 128 << 20
"""Bytes of memory that any file may become, however small it is."""
RATIO = 32
"""Bytes of memory that a byte of a larger file may become: text and vectors compress to a tenth, seldom further."""

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO (a named pipe)"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: True, "a device"),
)


@contextmanager
def readable(path: "str | Path | HeldFile") -> Iterator[None]:
    """An OSError inside becomes a DataError that names the file; a decorator too."""
    try:
        yield
    except BrokenPipeError:  # whoever listened to the progress is gone
        raise
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else path
        raise DataError(f"cannot read {where}: {error.strerror or error}") from None


class HeldFile:
    """A regular file's content, read once; readers of tables take it in place of the path. Raises DataError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name, self.stem, self.suffix = path.name, path.stem, path.suffix
        with opened(path) as file, readable(path):
            self.content = file.read()

    def __str__(self) -> str:
        return str(self.path)


def opened(path: str | Path | HeldFile) -> BinaryIO:
    """A regular file, open for reading; links are followed.

    Raises DataError for anything else: opening a FIFO can wait for ever, and a device need not end.
    """
    if isinstance(path, HeldFile):
        return io.BytesIO(path.content)
    with readable(path):
        # Before it is opened, which may wait or act on a device, and then that it is still one.
        check_regular(path, os.stat(path).st_mode)
        without_waiting = getattr(os, "O_NONBLOCK", 0)
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | without_waiting))  # noqa: SIM115
        try:
            check_regular(path, os.fstat(file.fileno()).st_mode)
        except DataError:
            file.close()
            raise
        return file


def present(path: str | Path) -> bool:
    """Whether something has this name, be it a broken link. Raises DataError where that cannot be known."""
    with readable(path):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def check_growth(path: Path, on_disk: int, in_memory: int, fix: str) -> None:
    """Refuse a file far larger in memory than on the disk. Raises DataError, which ends with `fix`."""
    if in_memory > max(FREE, RATIO * on_disk):
        raise DataError(
            f"{path.name} has {on_disk:,} bytes and would take {in_memory >> 20:,} MB of memory or more; "
            f"at most {FREE >> 20} MB, or {RATIO} times a file's size, are read; {fix}"
        )


def check_regular(path: str | Path, mode: int) -> None:
    """Raise DataError for what is no regular file; mode: of its stat."""
    if not stat.S_ISREG(mode):
        kind = next(name for is_kind, name in _KINDS if is_kind(mode))
        raise DataError(f"cannot read {path}: it is {kind}; expected a regular file, or a link to one")
