"""UTF-8 text files read line by line, with progress."""

from array import array
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from engine.errors import DataError
from engine.progress import Progress, stoppable

_BATCH = 4096  # lines between two reports
_BOMS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


STOPPED = "{label} was stopped"
"""Message of `stoppable` for reading."""
SILENT = stoppable(None, None)
"""Neither reports nor stops."""


def lines(path: Path, watch: Progress = SILENT, ends: "array[int] | None" = None) -> Generator[tuple[int, str]]:
    """(number from 1, text with its line break) of each line of a UTF-8 file, read as a stream; a BOM is dropped.

    Only a line feed ends a line. ends: gets the offset of the first line, then of the end of each. Raises DataError
    naming the first byte that is not UTF-8; Cancelled.
    """
    label = f"reading {path.name}"
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"cannot read {path.name}: {error.strerror or error}") from None
    with file:
        total = path.stat().st_size
        done = _skip_bom(path, file)
        if ends is not None:
            ends.append(done)
        for number, raw in enumerate(file, 1):
            if number % _BATCH == 1:
                watch(done, total, label)
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                at = f"byte 0x{raw[error.start]:02x} at offset {done + error.start}"
                raise DataError(
                    f"{path.name} line {number} is not UTF-8: {at}; save the file as UTF-8, for example: "
                    f"iconv -f latin1 -t utf-8 {path.name} > fixed{path.suffix}"
                ) from None
            done += len(raw)
            if ends is not None:
                ends.append(done)
            yield number, text
        watch(total, total, label)


def _skip_bom(path: Path, file: BinaryIO) -> int:
    start = file.read(4)
    for mark, name in _BOMS.items():
        if start.startswith(mark):
            raise DataError(
                f"{path.name} is {name}: its first bytes are {mark.hex(' ')}; "
                f"save it as UTF-8, for example: iconv -f {name.lower()} -t utf-8"
            )
    return file.seek(3 if start.startswith(b"\xef\xbb\xbf") else 0)
