"""The process that decodes a Parquet file says how large the columns are that it will send."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from pyarrow import parquet

from engine.data import parquet_sandbox


@pytest.fixture
def file(tmp_path):
    """A file with a small column, a large one, and one of texts below a struct."""
    n_rows = 300
    columns = {
        "id": list(range(n_rows)),
        "text": [f"{row} " * 40 for row in range(n_rows)],
        "more": [{"title": f"{row}", "author": {"name": f"{row} " * 9}} for row in range(n_rows)],
    }
    parquet.write_table(pa.table(columns), tmp_path / "docs.parquet", row_group_size=100)
    return tmp_path / "docs.parquet"


@pytest.mark.parametrize("columns", [["id"], ["text", "id"], ["more"], None])
def test_declared_size_is_that_of_the_columns_that_are_sent(file, columns):
    options = json.dumps({"columns": columns, "rows": None, "longest": 1 << 20})
    with file.open("rb") as content:
        process = [sys.executable, parquet_sandbox.__file__, options]
        stream = subprocess.run(process, stdin=content, capture_output=True, check=True).stdout
    table = pa.ipc.open_stream(stream).read_all()
    facts = json.loads(table.schema.metadata[b"facts"])
    metadata, expected = parquet.read_metadata(file), 0
    for group in range(metadata.num_row_groups):
        chunks = [metadata.row_group(group).column(number) for number in range(metadata.num_columns)]
        for chunk in chunks:
            if columns is None or chunk.path_in_schema.split(".")[0] in columns:
                expected += chunk.total_uncompressed_size
    assert facts == {"columns": ["id", "text", "more"], "rows": 300, "bytes": expected} and expected > 0
    assert table.num_rows == 300 and set(table.column_names) == set(columns or facts["columns"])
