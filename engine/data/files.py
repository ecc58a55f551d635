"""Opening of data files: regular files only, failures as a DataError, and no gigabytes from kilobytes."""

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from engine.errors import DataError

FREE_GROWTH_BYTES = 128 << 20
"""Memory that any file may take, however small it is."""
MAX_GROWTH_RATIO = 32
"""Largest memory of a larger file, relative to its size: text and vectors seldom compress to less than a tenth."""
MEMORY_PREFIX = "memory://"
"""Prefix of the path of a corpus that a notebook has sent to its dashboard; its name follows, and no file has it."""
GZIP_SUFFIX = ".gz"
FOLDER_TABLE_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""Suffixes of a folder's tables called corpus and queries; the first that exists is read."""

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
        """Read the whole file into memory; name, stem and suffix are those of its path. Raises DataError."""
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


def split_suffix(path: "Path | HeldFile") -> tuple[str, str]:
    """Return a file's name without its suffix, and the suffix in lower case; that of its content for a .gz file."""
    content_name = Path(path.name[: -len(GZIP_SUFFIX)]) if is_gzip(path) else Path(path.name)
    return content_name.stem, content_name.suffix.lower()


def list_table_paths(folder: Path, stem: str) -> list[Path]:
    """List the paths at which a folder may have a table, such as corpus.jsonl, in the order in which they are tried."""
    return [folder / f"{stem}{suffix}" for suffix in FOLDER_TABLE_SUFFIXES]


def find_table(folder: Path, stem: str) -> Path | None:
    """Return the table of this name in a folder, .jsonl before other formats; None if there is none."""
    return next(filter(is_present, list_table_paths(folder, stem)), None)


def is_gzip(path: "Path | HeldFile") -> bool:
    """Return True if a file's name says that it is compressed by gzip."""
    return path.name.lower().endswith(GZIP_SUFFIX) and len(path.name) > len(GZIP_SUFFIX)


@contextmanager
def open_content(path: "Path | HeldFile") -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a regular file; give its content, decompressed if its name ends in .gz, and the file as it is on the disk.

    The two are one for a file that is not compressed. Whoever reads checks the size by `check_growth`. Raises DataError
    for anything but a regular file; and, while the block reads, for a file that is damaged or cut off.
    """
    with open_regular(path) as raw_file:
        if not is_gzip(path):
            yield raw_file, raw_file
            return
        try:
            with gzip.GzipFile(fileobj=raw_file, mode="rb") as content_file:
                yield cast(BinaryIO, content_file), raw_file
        except (EOFError, zlib.error) as error:
            raise DataError(f"{path.name} is no whole gzip file: {error}; compress or copy it again") from None


def measure_file(path: "Path | HeldFile", disk_file: BinaryIO) -> int:
    """Return the number of bytes that an open file has on the disk, or in memory."""
    return len(path.content) if isinstance(path, HeldFile) else os.fstat(disk_file.fileno()).st_size


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


def check_growth(path: "Path | HeldFile", disk_bytes: int, memory_bytes: int, suggested_fix: str) -> None:
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
