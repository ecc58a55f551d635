"""Decoder of one Parquet file, run as a process of its own: the file on stdin, its rows on stdout as an Arrow stream.

A process, because Parquet can hide how large it is: a page of 16 kB, of which the footer says that it unpacks to 100
bytes, was half a gigabyte, and Arrow has no limit to set. So this one may have only so much memory. It imports nothing
of the engine, whose start would take longer than most files.
"""

import json
import os
import sys
from collections.abc import Iterator
from itertools import accumulate

import pyarrow as pa
from pyarrow.parquet import FileMetaData, ParquetFile

MEMORY = 256 << 20
"""Bytes that decoding may take: some pages, and the rows of a batch."""
BATCH = 128
"""Rows decoded at a time: they fit, were each the only text in a dictionary of the usual megabyte."""
PIECE = 8 << 20
"""Bytes of rows that are sent at a time, but for one row that is longer."""
NESTED = 1 << 19
"""Values of lists and structs in one piece: each becomes an object of Python."""


def main(columns: list[str] | None, rows: int | None, longest: int) -> None:
    """Send the schema, with what the file says of its size, and then the rows.

    columns: None is all of them; rows: the first ones, None is all; longest: bytes of a row. Ends with status 1 and
    the cause on stderr.
    """
    try:
        _limit(MEMORY)
        file = ParquetFile(pa.PythonFile(sys.stdin.buffer, "r"), buffer_size=1 << 20, pre_buffer=False)
        names = file.schema_arrow.names
        schema = pa.schema([_plain(field) for field in file.schema_arrow if columns is None or field.name in columns])
        facts = {"columns": names, "rows": file.metadata.num_rows, "bytes": _declared(file.metadata, set(schema.names))}
        with pa.ipc.new_stream(sys.stdout.buffer, schema.with_metadata({"facts": json.dumps(facts)})) as stream:
            sys.stdout.buffer.flush()
            for batch in file.iter_batches(min(rows or BATCH, BATCH), columns=columns, use_threads=False):
                for piece in _pieces(_as(batch, schema), longest):
                    stream.write_batch(piece)
                sys.stdout.buffer.flush()
                rows = rows and rows - len(batch)
                if rows is not None and rows <= 0:
                    break
    except BrokenPipeError:  # whoever asked has read enough
        os._exit(0)
    except MemoryError:
        sys.exit(f"decoding takes more than {MEMORY >> 20} MB of memory; write it with smaller pages, or as JSON Lines")
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        sys.exit(str(error) or type(error).__name__)


def _limit(memory: int) -> None:
    """Let this process have so many bytes more; only Linux knows how many it has."""
    if sys.platform == "linux":
        import resource

        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[5])
        most = pages * os.sysconf("SC_PAGE_SIZE") + memory
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _declared(metadata: FileMetaData, names: set[str]) -> int:
    """Bytes that some columns unpack to, as the footer has it."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    return sum(
        chunk.total_uncompressed_size
        for chunk in chunks
        if not names.isdisjoint(accumulate(chunk.path_in_schema.split("."), "{}.{}".format))
    )


def _plain(field: pa.Field) -> pa.Field:
    """A column as it is sent: values in place of the categories of a data frame."""
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if len(batch.columns) > len(schema):  # to Parquet, "a.b" is also the field b of a column a
        batch = batch.select(schema.names)
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _pieces(batch: pa.RecordBatch, longest: int) -> Iterator[pa.RecordBatch]:
    """The rows in parts of which none is large."""
    size, nested = batch.nbytes, sum(map(_nested, batch.columns))
    if size <= PIECE and nested <= NESTED:
        yield batch
    elif len(batch) > 1:
        half = len(batch) // 2
        yield from _pieces(batch.slice(0, half), longest)
        yield from _pieces(batch.slice(half), longest)
    elif size > longest or nested > NESTED:
        raise ValueError(
            f"a row has {size:,} bytes and {nested:,} values in lists or structs; "
            f"at most {longest:,} and {NESTED:,} are read"
        )
    else:
        yield batch


def _nested(column: pa.Array) -> int:
    """How many values stand in the lists and structs of a column."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _nested(column.storage)
    if pa.types.is_map(kind):
        parts = [column.keys, column.items]
    elif pa.types.is_struct(kind):
        parts = column.flatten()
    elif pa.types.is_nested(kind):
        parts = [column.flatten()]
    else:
        return 0
    return sum(len(part) + _nested(part) for part in parts)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
