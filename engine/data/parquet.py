"""Rows of a Parquet file, decoded by a process of its own that may have only so much memory."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from engine.data.files import check_growth, opened, readable
from engine.data.textfiles import LONGEST, SILENT
from engine.errors import DataError
from engine.progress import Progress

if TYPE_CHECKING:
    from pyarrow import RecordBatch, RecordBatchStreamReader

_SAID = 500  # characters of an error
_ROW = 256  # bytes of a row with nothing in it: its places in lists, an id, and what finds a row by that
_UNREADABLE = (ValueError, ArithmeticError, TypeError, LookupError, RuntimeError)
_FIX = "write it without compression and dictionaries, or as JSON Lines"


class ParquetTable:
    """A file's columns and rows; a process decodes it until `close`, or until the last row was read.

    columns: those to read, None for all; rows: the first ones alone. names: of all columns; total: rows that the file
    says it has. Raises DataError, also while rows are read; before any row where the file says that it would take far
    more memory than it has bytes.
    """

    def __init__(self, path: Path, columns: list[str] | None = None, rows: int | None = None) -> None:
        self.path, self._first = path, rows
        with opened(path) as file:
            self._size = os.fstat(file.fileno()).st_size
            wanted = {"columns": columns, "rows": rows, "longest": LONGEST}
            self._process = _started("parquet_decoder.py", json.dumps(wanted), file.fileno())
        import pyarrow as pa

        try:
            self._stream: RecordBatchStreamReader = pa.ipc.open_stream(self._process.stdout)
        except (pa.ArrowException, OSError):
            raise DataError(f"{self.path.name} is not a readable Parquet file: {self._end()[1]}") from None
        facts = json.loads(self._stream.schema.metadata[b"facts"])
        self.names: list[str] = facts["columns"]
        self.total: int = facts["rows"]
        if rows is None:
            self._check(_ROW * self.total + facts["bytes"])

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the process; what was not read is lost."""
        if (process := getattr(self, "_process", None)) is not None:
            process.kill()
            with process:
                pass

    def rows(self, watch: Progress = SILENT) -> Generator[tuple[int, Mapping[str, Any]]]:
        """(number from 1, values by column) of each row."""
        done, memory, label = 0, 0, f"reading {self.path.name}"
        try:
            for batch in self._batches():
                watch(done, self.total, label)
                try:
                    values = [column.to_pylist() for column in batch.columns]
                except _UNREADABLE as error:  # bytes that are no text, a year beyond 9999, an unknown time zone
                    raise DataError(f"{self.path.name}, in the rows after row {done}: {error}") from None
                memory += _ROW * len(batch) + sum(sum(map(getsizeof, column)) for column in values)
                self._check(memory)
                for row in zip(*values, strict=True):
                    done += 1
                    yield done, dict(zip(batch.schema.names, row, strict=True))
            watch(done, self.total, label)
        finally:
            self.close()

    def _batches(self) -> "Iterator[RecordBatch]":
        import pyarrow as pa

        # What breaks off between two batches looks like an end, so that only the decoder knows whether it is one.
        with suppress(pa.ArrowException, OSError):
            yield from self._stream
        status, cause = self._end()
        if status:
            raise DataError(f"{self.path.name} is not readable to its end: {cause}")

    def _end(self) -> tuple[int, str]:
        """The status of the decoder, which is told that nobody reads on, and what it said last."""
        output, errors = self._process.stdout, self._process.stderr
        if output:
            output.close()
        status = self._process.wait()
        said = errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2][:_SAID] if errors else ""
        return status, f"its decoder was ended by signal {-status}" if status < 0 else said or "no cause was given"

    def _check(self, memory: int) -> None:
        check_growth(self.path, self._size, memory, _FIX)


def _started(script: str, wanted: str, file: int) -> subprocess.Popen[bytes]:
    """A decoder: on one thread, with the packages of this process; only malloc takes no memory in advance."""
    variables = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONSAFEPATH": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"), "1"),
    }
    command = [sys.executable, str(Path(__file__).with_name(script)), wanted]
    pipe = subprocess.PIPE
    with readable(sys.executable):
        return subprocess.Popen(
            command, stdin=file, stdout=pipe, stderr=pipe, pipesize=1 << 20, env={**os.environ, **variables}
        )
