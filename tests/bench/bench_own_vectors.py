"""Memory and time of reading documents with vectors of their own, beside the size of the file.

python tests/bench/bench_own_vectors.py [--count 100000] [--dimension 1536] [--kinds parquet npy jsonl]

Each kind of file is read in a process of its own, into a space; the memory is the growth of its peak over that of the
imports alone.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import ROOT, engine, forget_peak, machine, memory, parse_arguments, table

BLOCK_ROWS = 5000


def draw_blocks(count: int, dimension: int):
    """Ids, texts and unit vectors, block by block."""
    random = np.random.default_rng(0)
    for start in range(0, count, BLOCK_ROWS):
        rows = random.normal(size=(min(BLOCK_ROWS, count - start), dimension)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        ids = [f"d{start + row}" for row in range(len(rows))]
        yield ids, [f"text of {doc_id}" for doc_id in ids], rows


def write_parquet(path: Path, count: int, dimension: int) -> None:
    schema = pa.schema({"id": pa.string(), "text": pa.string(), "embedding": pa.list_(pa.float32())})
    with pq.ParquetWriter(path, schema) as writer:
        for ids, texts, rows in draw_blocks(count, dimension):
            offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * dimension)
            vectors = pa.ListArray.from_arrays(offsets, pa.array(rows.reshape(-1)))
            writer.write_table(pa.table([ids, texts, vectors], schema=schema))


def write_lines(path: Path, count: int, dimension: int) -> None:
    with path.open("w") as file:
        for ids, texts, rows in draw_blocks(count, dimension):
            for doc_id, text, row in zip(ids, texts, rows, strict=True):
                numbers = ",".join(map(str, row))
                file.write(f'{{"id": "{doc_id}", "text": "{text}", "embedding": [{numbers}]}}\n')


def write_array(path: Path, count: int, dimension: int) -> None:
    np.save(path, np.concatenate([rows for _, _, rows in draw_blocks(count, dimension)]))


WRITERS = {"parquet": write_parquet, "jsonl": write_lines, "npy": write_array}


def read_in_this_process(path: str) -> None:
    """Read a file into a space; print the growth of the peak of memory in bytes, and the seconds."""
    forget_peak()
    before = memory("VmHWM")
    started = time.perf_counter()
    columns = None if path.endswith("npy") else {"vectors": "embedding"}
    dataset = engine.load_dataset(path, columns=columns)
    space = engine.Space(dataset.corpus, dataset.vectors, "cpu")
    seconds = time.perf_counter() - started
    assert len(space) == len(dataset.corpus)
    print(memory("VmHWM") - before, seconds)


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--read":
        return read_in_this_process(sys.argv[2])
    args = parse_arguments(__doc__, count=100_000, dimension=1536, kinds=list(WRITERS))
    rows = [("file", "MB", "memory, MB", "memory / file", "memory / float32", "seconds")]
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.kinds:
            path = Path(folder) / f"docs.{kind}"
            WRITERS[kind](path, args.count, args.dimension)
            command = [sys.executable, __file__, "--read", str(path)]
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            growth, seconds = map(float, done.stdout.split())
            size, matrix_bytes = path.stat().st_size, 4 * args.count * args.dimension
            ratios = (f"{growth / size:.2f}", f"{growth / matrix_bytes:.2f}")
            rows.append((kind, f"{size / 1e6:,.0f}", f"{growth / 1e6:,.0f}", *ratios, f"{seconds:.1f}"))
            path.unlink()
    print(machine(["numpy", "pyarrow", "torch"]))
    print("\n".join(table(rows[0], rows[1:])))


if __name__ == "__main__":
    main()
