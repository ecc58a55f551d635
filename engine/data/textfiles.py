"""UTF-8 text files read line by line, with progress."""

import os
from array import array
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from engine.data.files import HeldFile, opened, readable
from engine.errors import DataError
from engine.progress import Progress, with_cancellation

LONGEST = 16 << 20
"""Bytes of a line. No document is as long: the longest novel has 9.6 million characters, and War and Peace in Russian
15 MB where JSON writes each letter as six."""
SHORT = 64 << 10
"""Bytes of a line that holds ids and numbers alone."""

_BATCH = 4096  # lines between two reports
_BOMS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

STOPPED = "{label} was stopped"
"""Message of `with_cancellation` for reading."""
SILENT = with_cancellation(None, None)
"""Neither reports nor stops."""


def lines(
    path: Path | HeldFile, watch: Progress = SILENT, ends: "array[int] | None" = None, longest: int = LONGEST
) -> Generator[tuple[int, str]]:
    """(number from 1, text with its line break) of each line of a UTF-8 file, read as a stream; a BOM is dropped.

    Only a line feed ends a line. ends: gets the offset of the first line, then of the end of each. Raises DataError
    naming the first byte that is not UTF-8, a line of more than `longest` bytes, or that the file changed meanwhile;
    Cancelled.
    """
    label = f"reading {path.name}"
    with opened(path) as file:
        with readable(path):
            total = len(path.content) if isinstance(path, HeldFile) else os.fstat(file.fileno()).st_size
            start = file.read(4)
            for mark, name in _BOMS.items():
                if start.startswith(mark):
                    raise DataError(
                        f"{path.name} is {name}: its first bytes are {mark.hex(' ')}; "
                        f"save it as UTF-8, for example: iconv -f {name.lower()} -t utf-8"
                    )
            done = file.seek(3 if start.startswith(b"\xef\xbb\xbf") else 0)
        if ends is not None:
            ends.append(done)
        for number, raw in enumerate(_raw_lines(path, file, longest), 1):
            if number % _BATCH == 1:
                watch(done, total, label)
            if len(raw) > longest:
                raise DataError(
                    f"{path.name} line {number} has more than {longest:,} bytes, the most that is read as one line; "
                    "is it a text file with line feeds?"
                )
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                at = f"byte 0x{raw[error.start]:02x} at offset {done + error.start}"
                raise DataError(
                    f"{path.name} line {number} is not UTF-8: {at}; save the file as UTF-8, for example: "
                    f"iconv -f latin1 -t utf-8 {path.name} > fixed{path.suffix}"
                ) from None
            done += len(raw)
            if done > total:
                break
            if ends is not None:
                ends.append(done)
            yield number, text
        if done != total:
            raise DataError(f"{path.name} changed while it was read: it had {total:,} bytes at first; read it again")
        watch(total, total, label)


def _raw_lines(path: Path | HeldFile, file: BinaryIO, longest: int) -> Iterator[bytes]:
    with readable(path):
        yield from iter(partial(file.readline, longest + 1), b"")
