"""Decoder of one Parquet file as a separate process: the file on stdin, an Arrow stream on stdout.

It is a process because Parquet can hide its size: a page of 16 kB, declared by the footer as 100 bytes, took half a
gigabyte, and Arrow has no limit to set; a process can be limited. It imports nothing of the engine, whose start would
take longer than most files.
"""

import json
import os
import sys
from collections.abc import Iterator
from itertools import accumulate

import pyarrow as pa
from pyarrow.parquet import FileMetaData, ParquetFile

MAX_MEMORY_BYTES = 256 << 20
"""Memory for decoding: some pages, and the rows of a batch."""
BATCH_ROWS = 128
"""Rows decoded at a time: they fit even if each is the only text in a dictionary of the usual megabyte."""
MAX_PIECE_BYTES = 8 << 20
"""Bytes of rows that are sent at a time; only a single row may be longer."""
MAX_NESTED_VALUES = 1 << 19
"""Values of lists and structs in one piece: each becomes an object of Python."""


def main(columns: list[str] | None, rows: int | None, longest: int) -> None:
    """Decode the file on stdin: send its schema and declared size, and then its rows, to stdout.

    columns: names of the columns to send, None for all; rows: number of rows to send, None for all; longest: most bytes
    of a row. On an error the process ends with status 1 and the cause on stderr.
    """
    try:
        _limit_memory(MAX_MEMORY_BYTES)
        parquet_file = ParquetFile(pa.PythonFile(sys.stdin.buffer, "r"), buffer_size=1 << 20, pre_buffer=False)
        metadata, schema = parquet_file.metadata, parquet_file.schema_arrow
        sent_fields = [field for field in schema if columns is None or field.name in columns]
        sent_schema = pa.schema(list(map(_decode_categories, sent_fields)))
        n_bytes = _count_declared_bytes(metadata, set(sent_schema.names))
        file_facts = {"columns": schema.names, "rows": metadata.num_rows, "bytes": n_bytes}
        stream_schema = sent_schema.with_metadata({"facts": json.dumps(file_facts)})
        with pa.ipc.new_stream(sys.stdout.buffer, stream_schema) as output_stream:
            # The reader checks the facts before it reads a row.
            sys.stdout.buffer.flush()
            batch_rows = min(rows or BATCH_ROWS, BATCH_ROWS)
            for record_batch in parquet_file.iter_batches(batch_rows, columns=columns, use_threads=False):
                for batch_piece in _split_batch(_cast_batch(record_batch, sent_schema), longest):
                    output_stream.write_batch(batch_piece)
                sys.stdout.buffer.flush()
                # The number of rows still to send; None stays None, as there is no limit.
                rows = rows and rows - len(record_batch)
                if rows is not None and rows <= 0:
                    break
    # The reader has read enough and closed the pipe.
    except BrokenPipeError:
        # Not sys.exit: it would flush stdout into the closed pipe.
        os._exit(0)
    except MemoryError:
        limit = f"{MAX_MEMORY_BYTES >> 20} MB of memory"
        sys.exit(f"decoding takes more than {limit}; write it with smaller pages, or as JSON Lines")
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        sys.exit(str(error) or type(error).__name__)


def _limit_memory(extra_bytes: int) -> None:
    """Limit the further memory of this process; only Linux reports its present use."""
    if sys.platform == "linux":
        import resource

        with open("/proc/self/statm") as statm_file:
            # The sixth number is the size of data and stack in pages.
            n_pages = int(statm_file.read().split()[5])
        max_bytes = n_pages * os.sysconf("SC_PAGE_SIZE") + extra_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))
        # A decoder that dies writes no core dump.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _count_declared_bytes(metadata: FileMetaData, column_names: set[str]) -> int:
    """Add up the uncompressed size of some columns, as the footer of the file declares it."""
    n_bytes = 0
    for row_group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column_chunk in map(row_group.column, range(row_group.num_columns)):
            # The path "a.b.c" gives the names a, a.b and a.b.c: a column may be nested in any of them.
            if not column_names.isdisjoint(accumulate(column_chunk.path_in_schema.split("."), "{}.{}".format)):
                n_bytes += column_chunk.total_uncompressed_size
    return n_bytes


def _decode_categories(arrow_field: pa.Field) -> pa.Field:
    """Return a field with the type of its values in place of a data frame's categories."""
    arrow_type = arrow_field.type
    return arrow_field.with_type(arrow_type.value_type) if pa.types.is_dictionary(arrow_type) else arrow_field


def _cast_batch(record_batch: pa.RecordBatch, sent_schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the fields of the sent schema, its categories replaced by their values."""
    # Columns come in the order in which they were asked for, and not in that of the file; and Parquet also reads the
    # name "a.b" as the field b of a column a.
    if record_batch.schema.names != sent_schema.names:
        record_batch = record_batch.select(sent_schema.names)
    plain_columns = [
        arrow_column.dictionary_decode() if pa.types.is_dictionary(arrow_column.type) else arrow_column
        for arrow_column in record_batch.columns
    ]
    return pa.RecordBatch.from_arrays(plain_columns, schema=sent_schema)


def _split_batch(record_batch: pa.RecordBatch, longest: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in pieces of limited size.

    longest: most bytes of a single row. Raises ValueError for a larger one.
    """
    n_bytes, n_nested = record_batch.nbytes, sum(map(_count_nested_values, record_batch.columns))
    if n_bytes <= MAX_PIECE_BYTES and n_nested <= MAX_NESTED_VALUES:
        yield record_batch
    elif len(record_batch) > 1:
        half_rows = len(record_batch) // 2
        yield from _split_batch(record_batch.slice(0, half_rows), longest)
        yield from _split_batch(record_batch.slice(half_rows), longest)
    elif n_bytes > longest or n_nested > MAX_NESTED_VALUES:
        raise ValueError(
            f"a row has {n_bytes:,} bytes and {n_nested:,} values in lists or structs; "
            f"at most {longest:,} and {MAX_NESTED_VALUES:,} are read"
        )
    else:
        yield record_batch


def _count_nested_values(arrow_column: pa.Array) -> int:
    """Count the values in the lists, maps and structs of a column, at every depth.

    Each of them becomes an object of Python in the reader.
    """
    arrow_type = arrow_column.type
    if isinstance(arrow_column, pa.ExtensionArray):
        return _count_nested_values(arrow_column.storage)
    if pa.types.is_map(arrow_type):
        nested_arrays = [arrow_column.keys, arrow_column.items]
    elif pa.types.is_struct(arrow_type):
        nested_arrays = arrow_column.flatten()
    elif pa.types.is_nested(arrow_type):
        nested_arrays = [arrow_column.flatten()]
    else:
        return 0
    return sum(len(nested_array) + _count_nested_values(nested_array) for nested_array in nested_arrays)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
