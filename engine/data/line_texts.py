"""Texts of a large JSON Lines file that stay there: a line is read by its offset when somebody looks at it."""

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.data.files import opened, readable
from engine.errors import DataError
from engine.values import TextSource, digest_of

LARGE = 256 << 20
"""Bytes of a file above which its texts stay there; those of a smaller one are read into memory."""


def file_facts(path: Path) -> str:
    """A digest of a file's size and time of writing. Raises DataError where there is none."""
    with readable(path):
        return _facts(os.stat(path))


class LineTexts(TextSource):
    """One field of some lines of a JSON Lines file; null and a missing field are "", whole numbers are in decimal.

    spans: (n, 2) int64, offsets of the first byte of each line and of the one after its last; facts: of `file_facts`
    before it was read. Pickled, it is the path, the facts and the spans. Reading raises DataError where the file has
    changed or is gone.
    """

    def __init__(self, path: Path, field: str, spans: np.ndarray, facts: str) -> None:
        self.path, self.field, self.spans, self.facts = path.absolute(), field, spans, facts
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.spans)

    def __reduce__(self) -> tuple[Any, ...]:
        return LineTexts, (self.path, self.field, self.spans, self.facts)

    def __del__(self) -> None:
        if (file := getattr(self, "_file", None)) is not None:
            file.close()

    def read_rows(self, rows: Sequence[int]) -> list[str]:
        # The open file, found to be the one that was read: it is looked at every time.
        with self._lock:
            if self._file is None:
                self._file = opened(self.path)
            file = self._file.fileno()
        with readable(self.path):
            if _facts(os.fstat(file)) != self.facts:
                raise self._changed()
        found = []
        try:
            with readable(self.path):
                for start, end in self.spans[np.asarray(rows, np.int64)].tolist():
                    value = json.loads(self._read(file, start, end - start)).get(self.field)
                    found.append("" if value is None else str(value))
        except DataError:
            raise
        except (ValueError, RecursionError, AttributeError):  # each line was an object when it was first read
            raise self._changed() from None
        return found

    def take(self, rows: Sequence[int]) -> "LineTexts":
        """The texts of some rows, which stay where they are too."""
        return LineTexts(self.path, self.field, self.spans[np.asarray(rows, np.int64)], self.facts)

    def of_field(self, field: str) -> "LineTexts":
        """Another field of the same lines."""
        return LineTexts(self.path, field, self.spans, self.facts)

    def _read(self, file: int, start: int, size: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(file, size, start)
        with self._lock:
            os.lseek(file, start, os.SEEK_SET)
            return os.read(file, size)

    def _changed(self) -> DataError:
        return DataError(f"{self.path} has changed since it was read, and its texts are read from it; load it again")


def _facts(found: os.stat_result) -> str:
    return digest_of(map(str, (found.st_size, found.st_mtime_ns)))
