"""Rows of a Parquet file, decoded by a separate process with limited memory."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from engine.data.files import check_growth, open_regular, translate_read_errors
from engine.data.textfiles import MAX_LINE_BYTES, SILENT_PROGRESS
from engine.errors import DataError
from engine.progress import Progress

if TYPE_CHECKING:
    from pyarrow import RecordBatch, RecordBatchStreamReader

_MAX_ERROR_CHARS = 500
# Memory of an empty row: its entries in lists, an id, and the entry in the index of ids.
_ROW_BYTES = 256
_CONVERSION_ERRORS = (ValueError, ArithmeticError, TypeError, LookupError, RuntimeError)
_GROWTH_FIX = "write it without compression and dictionaries, or as JSON Lines"


class ParquetTable:
    """Columns and rows of a file; a process decodes it until `close`, or until the last row was read.

    column_names: the columns to read, None for all; max_rows: number of first rows to read, None for all; vectors: a
    column of lists of numbers, which become arrays of NumPy. Attributes: names, of all columns; total, the declared
    number of rows. Raises DataError, also while rows are read; before any
    row if the file declares far more memory than its size.
    """

    def __init__(
        self,
        path: Path,
        column_names: list[str] | None = None,
        max_rows: int | None = None,
        vectors: str | None = None,
    ) -> None:
        """Start a process that decodes the file, and read the names and sizes that the file declares.

        The process sends the names of the columns, the numbers of rows and bytes ("facts"), and then the rows.
        column_names: the columns to read, None for all; max_rows: number of first rows to read, None for all; vectors:
        the column whose lists become arrays. Raises DataError for a file that cannot be read, or that declares far more
        memory than its size.
        """
        self.path, self._vectors = path, vectors
        with open_regular(path) as parquet_file:
            self._size = os.fstat(parquet_file.fileno()).st_size
            decoder_options = {"columns": column_names, "rows": max_rows, "longest": MAX_LINE_BYTES}
            self._process = _start_decoder("parquet_sandbox.py", json.dumps(decoder_options), parquet_file.fileno())
        import pyarrow as pa

        try:
            self._stream: RecordBatchStreamReader = pa.ipc.open_stream(self._process.stdout)
        except (pa.ArrowException, OSError):
            raise DataError(f"{self.path.name} is not a readable Parquet file: {self._end()[1]}") from None
        file_facts = json.loads(self._stream.schema.metadata[b"facts"])
        self.names: list[str] = file_facts["columns"]
        self.total: int = file_facts["rows"]
        if max_rows is None:
            self._check(_ROW_BYTES * self.total + file_facts["bytes"])

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the process; rows that were not read are lost."""
        if (process := getattr(self, "_process", None)) is not None:
            process.kill()
            # Leaving the context closes the pipes and waits for the process.
            with process:
                pass

    def rows(self, progress: Progress = SILENT_PROGRESS) -> Generator[tuple[int, Mapping[str, Any]]]:
        """Yield (number from 1, values by column) for each row."""
        n_done, used_memory, progress_label = 0, 0, f"reading {self.path.name}"
        try:
            for record_batch in self._batches():
                progress(n_done, self.total, progress_label)
                try:
                    columns = list(map(self._list_values, record_batch.schema.names, record_batch.columns))
                except _CONVERSION_ERRORS as error:  # bytes that are no text, a year beyond 9999, an unknown time zone
                    raise DataError(f"{self.path.name}, in the rows after row {n_done}: {error}") from None
                # Estimated from the objects themselves, in case the file declares too little.
                used_memory += _ROW_BYTES * len(record_batch) + sum(map(getsizeof, chain.from_iterable(columns)))
                self._check(used_memory)
                for row_values in zip(*columns, strict=True):
                    n_done += 1
                    yield n_done, dict(zip(record_batch.schema.names, row_values, strict=True))
            progress(n_done, self.total, progress_label)
        finally:
            self.close()

    def _list_values(self, column_name: str, arrow_column: Any) -> list[Any]:
        """Return the values of a column as objects of Python, lists of the column of vectors as arrays."""
        import pyarrow as pa

        if column_name != self._vectors or not pa.types.is_nested(arrow_column.type):
            return arrow_column.to_pylist()  # type: ignore[no-any-return]
        value_type = getattr(arrow_column.type, "value_type", None)
        if value_type is None or not (pa.types.is_floating(value_type) or pa.types.is_integer(value_type)):
            return arrow_column.to_pylist()  # type: ignore[no-any-return]
        # Objects of Python would take eight times the memory of the numbers; a null among them becomes NaN.
        numbers = arrow_column.flatten().to_numpy(zero_copy_only=False)
        vectors: list[Any] = []
        start = 0
        for length in pa.compute.list_value_length(arrow_column).to_pylist():
            vectors.append(None if length is None else numbers[start : start + length])
            start += length or 0
        return vectors

    def _batches(self) -> "Iterator[RecordBatch]":
        """Yield the decoder's batches of rows. Raises DataError if it ends with an error."""
        import pyarrow as pa

        # A stream that breaks off between two batches looks complete; only the decoder's status shows the difference.
        with suppress(pa.ArrowException, OSError):
            yield from self._stream
        status, cause = self._end()
        if status:
            raise DataError(f"{self.path.name} is not readable to its end: {cause}")

    def _end(self) -> tuple[int, str]:
        """Stop reading and wait for the decoder; return its exit status, 0 for success, and its last message."""
        output_stream, error_stream = self._process.stdout, self._process.stderr
        if output_stream:
            output_stream.close()
        status = self._process.wait()
        if status < 0:
            return status, f"its decoder was ended by signal {-status}"
        messages = error_stream.read().decode("utf-8", "replace").strip() if error_stream else ""
        return status, messages.rpartition("\n")[2][:_MAX_ERROR_CHARS] or "no cause was given"

    def _check(self, memory: int) -> None:
        """Raise a DataError if the rows take far more memory than the file has bytes."""
        check_growth(self.path, self._size, memory, _GROWTH_FIX)


def _start_decoder(script: str, decoder_options: str, parquet_file: int) -> subprocess.Popen[bytes]:
    """Start a process that decodes a Parquet file on one thread, with this process's packages.

    script: its file in this folder; decoder_options: its arguments as JSON; parquet_file: descriptor of the file, which
    it reads as stdin. The environment keeps malloc from reserving memory that would count against its limit.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        # Else the script's folder would come first, and its modules would hide packages of the same name.
        "PYTHONSAFEPATH": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_ARENA_MAX"), "1"),
    }
    command = [sys.executable, str(Path(__file__).with_name(script)), decoder_options]
    pipe = subprocess.PIPE
    with translate_read_errors(sys.executable):
        return subprocess.Popen(
            command, stdin=parquet_file, stdout=pipe, stderr=pipe, pipesize=1 << 20, env=environment
        )
