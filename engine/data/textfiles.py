"""Line-by-line reading of UTF-8 text files, with progress."""

from array import array
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from engine.data.files import HeldFile, check_growth, is_gzip, measure_file, open_content, translate_read_errors
from engine.errors import DataError
from engine.progress import Progress, with_cancellation

MAX_LINE_BYTES = 16 << 20
"""No document is as long: the longest novel has 9.6 million characters, and War and Peace in Russian has 15 MB as JSON
that writes each letter as six."""
MAX_SHORT_LINE_BYTES = 64 << 10
"""Limit of a line that holds only ids and numbers."""
LONG_LINE_CHARS = 1 << 16
"""Longer lines are checked before they are parsed."""
MAX_LINE_PARTS = 1 << 19
"""Commas and brackets in a long line: each may become an object of a hundred times its size."""

LINE_MEMORY_BYTES = 100
"""Memory that a line or a row takes beside its text, at the least: the shortest ones compress best."""

_REPORT_INTERVAL_LINES = 4096
# In this order, because the mark of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

_PACKED_KINDS = {
    b"\x1f\x8b": "compressed by gzip; put .gz behind its name, or decompress it",
    b"PK\x03\x04": "a zip archive or a spreadsheet, not text; unpack it, or save it as .csv",
    b"PAR1": "a Parquet file; call it .parquet",
}

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

    The file is read as a stream, decompressed if its name ends in .gz, and only a line feed ends a line. line_ends:
    receives the offset of the first line, then of the end of each. Raises DataError naming the first byte that is not
    UTF-8, a line of more than `max_bytes` bytes, a compressed file that grows too much, or that the file changed
    meanwhile; Cancelled.
    """
    progress_label, is_compressed = f"reading {file_path.name}", is_gzip(file_path)
    with open_content(file_path) as (stream, disk_file):
        with translate_read_errors(file_path):
            n_bytes = measure_file(file_path, disk_file)
            first_bytes = stream.read(4)
            for byte_mark, encoding_name in _BYTE_ORDER_MARKS.items():
                if first_bytes.startswith(byte_mark):
                    raise DataError(
                        f"{file_path.name} is {encoding_name}: its first bytes are {byte_mark.hex(' ')}; "
                        f"save it as UTF-8, for example: iconv -f {encoding_name.lower()} -t utf-8"
                    )
            for packed_mark, packed_kind in _PACKED_KINDS.items():
                if first_bytes.startswith(packed_mark):
                    raise DataError(f"{file_path.name} is {packed_kind}")
            # The three bytes of a UTF-8 byte order mark are no text.
            n_done = stream.seek(3 if first_bytes.startswith(b"\xef\xbb\xbf") else 0)
        if line_ends is not None:
            line_ends.append(n_done)
        for line_number, raw_line in enumerate(_raw_lines(file_path, stream, max_bytes), 1):
            if line_number % _REPORT_INTERVAL_LINES == 1:
                progress(disk_file.tell() if is_compressed else n_done, n_bytes, progress_label)
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
                    f"example: iconv -f windows-1252 -t utf-8 {file_path.name} > fixed{file_path.suffix}"
                ) from None
            # A file that grows while it is read is an error, so nothing behind its first size is returned.
            n_done += len(raw_line)
            if is_compressed:
                check_growth(file_path, n_bytes, n_done + LINE_MEMORY_BYTES * line_number, "decompress it")
            elif n_done > n_bytes:
                break
            if line_ends is not None:
                line_ends.append(n_done)
            yield line_number, line_text
        # A compressed file has a checksum of its own.
        if n_done != n_bytes and not is_compressed:
            raise DataError(
                f"{file_path.name} changed while it was read: it had {n_bytes:,} bytes at first; read it again"
            )
        progress(n_bytes, n_bytes, progress_label)


def _raw_lines(file_path: Path | HeldFile, text_file: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, each cut off one byte after `max_bytes`."""
    with translate_read_errors(file_path):
        # `readline` returns an empty line at the end of the file, where this form of `iter` stops.
        yield from iter(partial(text_file.readline, max_bytes + 1), b"")


def check_line_parts(file_path: Path | HeldFile, line_number: int, line_text: str, counted_marks: str) -> None:
    """Raise DataError for a long line that would become far too many values in memory.

    counted_marks: characters each of which may begin a further value.
    """
    if (n_parts := sum(map(line_text.count, counted_marks))) > MAX_LINE_PARTS:
        raise DataError(
            f"{file_path.name} line {line_number} has {len(line_text):,} characters with {n_parts:,} of "
            f"{' '.join(map(repr, counted_marks))}; at most {MAX_LINE_PARTS:,} are read in so long a line"
        )
