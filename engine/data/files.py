"""Opening of data files: regular files only, failures as a DataError, and no gigabytes from kilobytes."""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from engine.errors import DataError

FREE_GROWTH_BYTES = 128 << 20
"""Memory that any file may take, however small it is."""
MAX_GROWTH_RATIO = 32
"""Largest memory of a larger file, relative to its size: text and vectors seldom compress to less than a tenth."""

_IRREGULAR_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO (a named pipe)"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: True, "a device"),
)


@contextmanager
def translate_read_errors(path: "str | Path | HeldFile") -> Iterator[None]:
    """Translate an OSError in the block into a DataError that names the file; also a decorator."""
    try:
        yield
    # A broken pipe is that of a progress listener, not of the file.
    except BrokenPipeError:
        raise
    except OSError as error:
        error_path = error.filename if isinstance(error.filename, str) else path
        raise DataError(f"cannot read {error_path}: {error.strerror or error}") from None


class HeldFile:
    """Content of a regular file, read once; table readers accept it instead of a path. Raises DataError."""

    def __init__(self, path: Path) -> None:
        """Read the file at once. Raises DataError."""
        self.path = path
        self.name, self.stem, self.suffix = path.name, path.stem, path.suffix
        with open_regular(path) as file, translate_read_errors(path):
            self.content = file.read()

    def __str__(self) -> str:
        return str(self.path)


def open_regular(path: str | Path | HeldFile) -> BinaryIO:
    """Open a regular file for reading; links are followed.

    Raises DataError for anything else: opening a FIFO can wait for ever, and a device need not end.
    """
    if isinstance(path, HeldFile):
        return io.BytesIO(path.content)
    with translate_read_errors(path):
        # Checked before opening, which may wait or act on a device, and again afterwards, in case it was replaced.
        check_regular(path, os.stat(path).st_mode)
        # Without the flag, opening a FIFO that has just replaced the file would wait for ever.
        nonblocking_flag = getattr(os, "O_NONBLOCK", 0)
        opened_file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | nonblocking_flag))  # noqa: SIM115
        try:
            check_regular(path, os.fstat(opened_file.fileno()).st_mode)
        except DataError:
            opened_file.close()
            raise
        return opened_file


def is_present(path: str | Path) -> bool:
    """Return True if a path exists, even as a broken link, which is an error once it is read.

    Raises DataError if that cannot be known, as in a folder that may not be searched.
    """
    with translate_read_errors(path):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True


def check_growth(path: Path, disk_bytes: int, memory_bytes: int, suggested_fix: str) -> None:
    """Raise a DataError for a file that would take far more memory than it has bytes on the disk.

    Such a file is most likely made to exhaust the memory. suggested_fix: the end of the message.
    """
    if memory_bytes > max(FREE_GROWTH_BYTES, MAX_GROWTH_RATIO * disk_bytes):
        raise DataError(
            f"{path.name} has {disk_bytes:,} bytes and would take {memory_bytes >> 20:,} MB of memory or more; "
            f"at most {FREE_GROWTH_BYTES >> 20} MB, or {MAX_GROWTH_RATIO} times a file's size, are read; "
            f"{suggested_fix}"
        )


def check_regular(path: str | Path, stat_mode: int) -> None:
    """Raise DataError unless `stat_mode`, from the file's stat, is that of a regular file."""
    if not stat.S_ISREG(stat_mode):
        # The last entry of the table fits every mode.
        kind_name = next(irregular_name for is_kind, irregular_name in _IRREGULAR_KINDS if is_kind(stat_mode))
        raise DataError(f"cannot read {path}: it is {kind_name}; expected a regular file, or a link to one")
