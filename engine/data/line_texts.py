"""Texts of a large JSON Lines file that stay on the disk: a line is read by its offset on demand."""

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from engine.data.files import open_regular, translate_read_errors
from engine.errors import DataError
from engine.values import TextSource, digest_of

LARGE_FILE_BYTES = 256 << 20
"""Texts of larger files stay on the disk; those of smaller ones are read into memory."""


def file_facts(path: Path) -> str:
    """Return a digest of a file's size and modification time, by which a later change is noticed.

    Raises DataError if it does not exist.
    """
    with translate_read_errors(path):
        return _digest_stat(os.stat(path))


class LineTexts(TextSource):
    """Sequence of texts, one field of some lines of a JSON Lines file, read from the disk when asked for.

    Null and a missing field are "", numbers are in decimal.

    spans: (n, 2) int64, offsets of the first byte of each line and of the one after its last; facts: of `file_facts`
    before it was read. Pickled, it is the path, the facts and the spans. Reading raises DataError if the file has
    changed or was deleted.
    """

    def __init__(self, path: Path, field_name: str, spans: np.ndarray, facts: str) -> None:
        """Note where the texts lie in a JSON Lines file; it is opened at the first read.

        field_name: the key of the text in a line's object; spans: (n, 2) offsets of each line's first byte and of the
        one after its last; facts: digest of the file's size and time, by which a later change is noticed.
        """
        self.path, self.field, self.spans, self.facts = path.absolute(), field_name, spans, facts
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.spans)

    def __reduce__(self) -> tuple[Any, ...]:
        return LineTexts, (self.path, self.field, self.spans, self.facts)

    def __del__(self) -> None:
        if (open_file := getattr(self, "_file", None)) is not None:
            open_file.close()

    def read_rows(self, row_ids: Sequence[int]) -> list[str]:
        """Read the texts of some rows from the file. Raises DataError if it has changed since."""
        # Every read checks that the open file is still the one whose offsets are stored.
        with self._lock:
            if self._file is None:
                self._file = open_regular(self.path)
            file_descriptor = self._file.fileno()
        with translate_read_errors(self.path):
            if _digest_stat(os.fstat(file_descriptor)) != self.facts:
                raise self._changed()
        texts = []
        try:
            with translate_read_errors(self.path):
                for start_byte, end_byte in self.spans[np.asarray(row_ids, np.int64)].tolist():
                    line_bytes = self._read(file_descriptor, start_byte, end_byte - start_byte)
                    field_value = json.loads(line_bytes).get(self.field)
                    texts.append("" if field_value is None else str(field_value))
        except DataError:
            raise
        except (ValueError, RecursionError, AttributeError):  # each line was an object when it was first read
            raise self._changed() from None
        return texts

    def take(self, row_ids: Sequence[int]) -> "LineTexts":
        """Return the texts of some rows, which stay on the disk too."""
        return LineTexts(self.path, self.field, self.spans[np.asarray(row_ids, np.int64)], self.facts)

    def select_field(self, field_name: str) -> "LineTexts":
        """Return another field of the same lines."""
        return LineTexts(self.path, field_name, self.spans, self.facts)

    def _read(self, file_descriptor: int, start_byte: int, n_bytes: int) -> bytes:
        """Read bytes of the open file, also while other threads do."""
        # `pread` does not move the file's position, which all threads share; other systems need the lock.
        if hasattr(os, "pread"):
            return os.pread(file_descriptor, n_bytes, start_byte)
        with self._lock:
            os.lseek(file_descriptor, start_byte, os.SEEK_SET)
            return os.read(file_descriptor, n_bytes)

    def _changed(self) -> DataError:
        """Return the error for a file that has changed since its lines were located."""
        return DataError(f"{self.path} has changed since it was read, and its texts are read from it; load it again")


def _digest_stat(file_stat: os.stat_result) -> str:
    """Return a digest of a file's size and time of change."""
    return digest_of(map(str, (file_stat.st_size, file_stat.st_mtime_ns)))
