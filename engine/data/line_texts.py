"""Texts of a large JSON Lines file that stay there: a line is read by its offset when somebody looks at it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import DataError
from engine.values import TextSource, digest_of

LARGE = 256 << 20
"""Bytes of a file above which its texts stay there; those of a smaller one are read into memory."""


def file_facts(path: Path) -> str:
    """A digest of a file's size and time of writing. Raises DataError where there is none."""
    return _facts(_stat(path, path))


class LineTexts(TextSource):
    """One field of some lines of a JSON Lines file; null and a missing field are "", whole numbers are in decimal.

    spans: (n, 2) int64, offsets of the first byte of each line and of the one after its last; facts: of `file_facts`
    before it was read. Pickled, it is the path, the facts and the spans. Reading raises DataError where the file has
    changed or is gone.
    """

    def __init__(self, path: Path, field: str, spans: np.ndarray, facts: str) -> None:
        self.path, self.field, self.spans, self.facts = path.absolute(), field, spans, facts
        self._file: int | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.spans)

    def __reduce__(self) -> tuple[Any, ...]:
        return LineTexts, (self.path, self.field, self.spans, self.facts)

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]

    def many(self, rows: Sequence[int]) -> list[str]:
        file = self._opened()
        found = []
        for start, end in self.spans[np.asarray(rows, np.int64)].tolist():
            value = json.loads(self._read(file, start, end - start)).get(self.field)
            found.append("" if value is None else str(value))
        return found

    def take(self, rows: Sequence[int]) -> LineTexts:
        """The texts of some rows, which stay where they are too."""
        return LineTexts(self.path, self.field, self.spans[np.asarray(rows, np.int64)], self.facts)

    def of_field(self, field: str) -> LineTexts:
        """Another field of the same lines."""
        return LineTexts(self.path, field, self.spans, self.facts)

    def _opened(self) -> int:
        """The open file, found to be the one that was read: it is looked at every time."""
        with self._lock:
            if self._file is None:
                try:
                    self._file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
                except OSError as error:
                    raise DataError(f"cannot read texts of {self.path}: {error.strerror or error}") from None
        if _facts(_stat(self._file, self.path)) != self.facts:
            raise DataError(f"{self.path} has changed since it was read, and its texts are read from it; load it again")
        return self._file

    def _read(self, file: int, start: int, size: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(file, size, start)
        with self._lock:
            os.lseek(file, start, os.SEEK_SET)
            return os.read(file, size)


def _stat(file: int | Path, path: Path) -> os.stat_result:
    try:
        return os.stat(file)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None


def _facts(found: os.stat_result) -> str:
    return digest_of(map(str, (found.st_size, found.st_mtime_ns)))
