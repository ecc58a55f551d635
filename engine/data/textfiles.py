"""Line-by-line reading of UTF-8 text files, with progress."""

import os
from array import array
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from engine.data.files import HeldFile, open_regular, translate_read_errors
from engine.errors import DataError
from engine.progress import Progress, with_cancellation

MAX_LINE_BYTES = 16 << 20
"""No document is as long: the longest novel has 9.6 million characters, and War and Peace in Russian has 15 MB as JSON
that writes each letter as six."""
MAX_SHORT_LINE_BYTES = 64 << 10
"""Limit of a line that holds only ids and numbers."""

_REPORT_INTERVAL_LINES = 4096
# In this order, because the mark of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

STOPPED_MESSAGE = "{label} was stopped"
"""Message of `with_cancellation` for cancelled reading."""
SILENT_PROGRESS = with_cancellation(None, None)
"""Progress that neither reports nor stops."""


def read_lines(
    file_path: Path | HeldFile,
    progress: Progress = SILENT_PROGRESS,
    line_ends: "array[int] | None" = None,
    max_bytes: int = MAX_LINE_BYTES,
) -> Generator[tuple[int, str]]:
    """Yield (number from 1, text with its line break) for each line of a UTF-8 file; a BOM is dropped.

    The file is read as a stream, and only a line feed ends a line. line_ends: receives the offset of the first line,
    then of the end of each. Raises DataError naming the first byte that is not UTF-8, a line of more than `max_bytes`
    bytes, or that the file changed meanwhile; Cancelled.
    """
    progress_label = f"reading {file_path.name}"
    with open_regular(file_path) as stream:
        with translate_read_errors(file_path):
            n_bytes = len(file_path.content) if isinstance(file_path, HeldFile) else os.fstat(stream.fileno()).st_size
            first_bytes = stream.read(4)
            for byte_mark, encoding_name in _BYTE_ORDER_MARKS.items():
                if first_bytes.startswith(byte_mark):
                    raise DataError(
                        f"{file_path.name} is {encoding_name}: its first bytes are {byte_mark.hex(' ')}; "
                        f"save it as UTF-8, for example: iconv -f {encoding_name.lower()} -t utf-8"
                    )
            n_done = stream.seek(3 if first_bytes.startswith(b"\xef\xbb\xbf") else 0)
        if line_ends is not None:
            line_ends.append(n_done)
        for line_number, raw_line in enumerate(_raw_lines(file_path, stream, max_bytes), 1):
            if line_number % _REPORT_INTERVAL_LINES == 1:
                progress(n_done, n_bytes, progress_label)
            if len(raw_line) > max_bytes:
                raise DataError(
                    f"{file_path.name} line {line_number} has more than {max_bytes:,} bytes, the most that is read as "
                    "one line; is it a text file with line feeds?"
                )
            try:
                line_text = raw_line.decode()
            except UnicodeDecodeError as error:
                bad_byte = f"byte 0x{raw_line[error.start]:02x} at offset {n_done + error.start}"
                raise DataError(
                    f"{file_path.name} line {line_number} is not UTF-8: {bad_byte}; save the file as UTF-8, for "
                    f"example: iconv -f latin1 -t utf-8 {file_path.name} > fixed{file_path.suffix}"
                ) from None
            # A file that grows while it is read is an error, so nothing behind its first size is returned.
            n_done += len(raw_line)
            if n_done > n_bytes:
                break
            if line_ends is not None:
                line_ends.append(n_done)
            yield line_number, line_text
        if n_done != n_bytes:
            raise DataError(
                f"{file_path.name} changed while it was read: it had {n_bytes:,} bytes at first; read it again"
            )
        progress(n_bytes, n_bytes, progress_label)


def _raw_lines(file_path: Path | HeldFile, text_file: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, each cut off one byte after `max_bytes`."""
    with translate_read_errors(file_path):
        # `readline` returns an empty line at the end of the file, where this form of `iter` stops.
        yield from iter(partial(text_file.readline, max_bytes + 1), b"")
