"""Data files that would harm whoever reads them, and a process that reads each in a child of its own and measures it.

python -m support.hostile_files: reads lines of JSON, [name, folder], and answers each with what came of it.
"""

import gzip
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
import time
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MB = 1 << 20
PATIENCE = 100
"""Seconds after which a reader that waits for ever is ended."""


@dataclass(frozen=True)
class Hostile:
    """A file that is refused or read rightly.

    write: makes it in a folder; reads: names of READERS; says: what a refusal does, None where there must be none. A
    preview may show the first rows of what is refused as a whole.
    """

    write: Callable[[Path], object]
    reads: str
    says: str | None

    def is_expected(self, reader, outcome):
        """Return True if a reader's outcome is the expected one: a count, or the text of a DataError."""
        if isinstance(outcome, int):
            return self.says is None or reader == "preview"
        return self.says is not None and re.match(f"DataError: .*({self.says})", outcome) is not None


def load(path):
    from engine.data.readers import load_dataset

    return len(load_dataset(path).corpus)


def preview(path):
    from engine.data.tables import preview_table

    return len(preview_table(path).first_rows)


def run_of(path):
    from engine.evaluation.runs import read_run

    return len(read_run(path, ["d"], ["q"]).documents)


READERS = {"load": load, "preview": preview, "run": run_of}

# Writing


def lines(name, *content):
    """content: bytes, or functions of nothing that make many"""
    return lambda folder: (folder / name).write_bytes(b"".join(part() if callable(part) else part for part in content))


def link(name, target):
    return lambda folder: (folder / name).symlink_to(target)


def fifo(name):
    def write(folder):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(folder / name)

    return write


def bind_socket(name):
    def write(folder):
        os.chdir(folder)  # the path of a socket may have some hundred bytes
        socket.socket(socket.AF_UNIX).bind(name)

    return write


def gz(name, unit, n_units):
    """Compress a text of many equal units, as kilobytes of a hundred megabytes."""

    def write_file(folder):
        with gzip.open(folder / name, "wb", 1) as file:
            for _ in range(n_units // MB):
                file.write(unit * MB)

    return write_file


def sparse(name, size, start=b""):
    def write(folder):
        with open(folder / name, "wb") as file:
            file.write(start)
            file.truncate(size)

    return write


def with_corpus_file(write, *others):
    """Write a data set's folder with more files in it."""

    def write_all(folder):
        (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "x"}\n')
        for write_part in (write, *others):
            write_part(folder)

    return write_all


# Parquet


def table(name="a.parquet", **columns):
    kw = {key: columns.pop(key) for key in list(columns) if key in PQ}
    return lambda folder: pq.write_table(
        pa.table({key: make() for key, make in columns.items()}), folder / name, **{"compression": "zstd", **kw}
    )


PQ = ("use_dictionary", "column_encoding", "data_page_size", "write_statistics", "store_schema", "compression")


def texts(rows):
    return lambda: pa.array([str(row) for row in range(rows)])


def same(text, rows):
    """Make a column with one text in all rows."""
    return lambda: pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([text]))


def empty_texts(rows):
    ends = pa.py_buffer(np.zeros(rows + 1, np.int32))
    return pa.Array.from_buffers(pa.string(), rows, [None, ends, pa.py_buffer(b"")])


def _varint(number, size=0):
    out = bytearray()
    while number or not out or len(out) < size:
        out.append(number & 127 | 128)
        number >>= 7
    out[-1] &= 127
    return bytes(out)


def falsify_footer(write, false_number, *facts):
    """Write a file whose footer has false numbers; facts: functions of its metadata that find the true ones."""

    def rewrite(folder):
        write(folder)
        path = folder / "a.parquet"
        metadata, content = pq.read_metadata(path), path.read_bytes()
        footer_start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        footer = content[footer_start:]
        for fact in facts:
            true_bytes = _varint(2 * fact(metadata))
            footer = footer.replace(true_bytes, _varint(2 * false_number, len(true_bytes)))
        path.write_bytes(content[:footer_start] + footer)
        assert pq.read_metadata(path).num_rows < 10_000

    return rewrite


PLAIN_OPTIONS = {"use_dictionary": False, "write_statistics": False, "store_schema": False}


def large_page(size=400 * MB):
    wide = {"text": lambda: pa.array(["x" * size], pa.large_string()), **PLAIN_OPTIONS}
    return falsify_footer(
        table(id=lambda: pa.array(["a"]), **wide),
        100,
        lambda m: m.row_group(0).column(1).total_uncompressed_size,
        lambda m: m.row_group(0).total_byte_size,
    )


def large_lengths(rows=80_000_000):
    write = table(
        text=lambda: empty_texts(rows),
        column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"},
        data_page_size=1 << 30,
        **PLAIN_OPTIONS,
    )
    return falsify_footer(write, 1000, lambda m: m.num_rows)


def nested_values(count):
    def column():
        ends = pa.array([0, count], pa.int32())
        return pa.ListArray.from_arrays(ends, pa.array(np.zeros(count, np.int8)))

    return column


# NumPy


def npy(shape, descr="<f4", order=False, length=None):
    header = repr({"descr": descr, "fortran_order": order, "shape": shape}) if isinstance(shape, tuple) else shape
    raw = header.encode("latin-1")
    raw += b" " * (-(len(raw) + 11) % 64) + b"\n"
    if length is not None or len(raw) > 65_535:
        return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(raw) if length is None else length) + raw
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw


def npz(how=zipfile.ZIP_DEFLATED, after=None, **members):
    """members: name → (header, bytes of zeros)"""

    def write(folder):
        with zipfile.ZipFile(folder / "a.npz", "w", how) as archive:
            for name, (header, size) in members.items():
                with archive.open(f"{name.rstrip('_')}.npy", "w", force_zip64=True) as file:
                    file.write(header)
                    for start in range(0, size, MB):
                        file.write(bytes(min(MB, size - start)))
        if after:
            path = folder / "a.npz"
            path.write_bytes(after(path.read_bytes()))

    return write


def many_members(folder):
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        for number in range(3000):
            archive.writestr(f"{number}.npy", npy((1, 1)) + bytes(4))


def large_directory(folder):
    """A zip whose directory is 3 GB of zeros, as its end says."""
    size = 3 << 30
    with open(folder / "a.npz", "wb") as file:
        file.write(b"PK\x03\x04")
        file.truncate(size + 4)
        file.seek(size + 4)
        file.write(struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, size, 4, 0))


def repeated_member(folder):
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        for number in range(2):
            archive.writestr("vectors.npy" if not number else "vectorz.npy", npy((1, 1)) + bytes(4))
    path = folder / "a.npz"
    path.write_bytes(path.read_bytes().replace(b"vectorz", b"vectors"))


def vectors_with_ids(content):
    def write(folder):
        np.save(folder / "a.npy", np.eye(1))
        (folder / "a.ids.txt").write_bytes(content())

    return write


def write_pickled(folder):
    np.array([[1.0], [[2.0]]], dtype=object).dump(folder / "a.npy")


# JSON and CSV

ROW = b'{"id": "a", "text": "x"}\n'
UNDER = 16 * MB - 100


def many_keys(folder):
    """Twenty lines, each with as many keys as a line may have, and none twice."""
    with open(folder / "a.jsonl", "w") as file:
        for line in range(20):
            file.write(json.dumps({"id": f"{line}", "text": "x", **{f"{line}-{k}": 0 for k in range(16_000)}}) + "\n")


HOSTILE = {
    # What is no regular file
    "jsonl-link-to-zeros": Hostile(link("a.jsonl", "/dev/zero"), "load preview", "it is a device"),
    "csv-link-to-random": Hostile(link("a.csv", "/dev/urandom"), "load preview", "it is a device"),
    "parquet-link-to-zeros": Hostile(link("a.parquet", "/dev/zero"), "load preview", "it is a device"),
    "npy-link-to-zeros": Hostile(link("a.npy", "/dev/zero"), "load", "it is a device"),
    "run-link-to-zeros": Hostile(link("a.run", "/dev/zero"), "run", "it is a device"),
    "jsonl-fifo": Hostile(fifo("a.jsonl"), "load preview", "it is a FIFO"),
    "tsv-fifo": Hostile(fifo("a.tsv"), "load preview", "it is a FIFO"),
    "parquet-fifo": Hostile(fifo("a.parquet"), "load preview", "it is a FIFO"),
    "npz-fifo": Hostile(fifo("a.npz"), "load", "it is a FIFO"),
    "run-fifo": Hostile(fifo("a.run"), "run", "it is a FIFO"),
    "csv-socket": Hostile(bind_socket("a.csv"), "load preview", "it is a socket"),
    "npy-folder": Hostile(lambda folder: (folder / "a.npy").mkdir(), "load", "corpus.jsonl"),
    "run-folder": Hostile(lambda folder: (folder / "a.run").mkdir(), "run", "it is a folder"),
    "folder-with-corpus-fifo": Hostile(fifo("corpus.jsonl"), "load", "it is a FIFO"),
    "folder-with-queries-fifo": Hostile(with_corpus_file(fifo("queries.jsonl")), "load", "it is a FIFO"),
    "folder-with-judgements-fifo": Hostile(with_corpus_file(fifo("qrels/test.tsv")), "load", "it is a FIFO"),
    "folder-with-aspects-fifo": Hostile(with_corpus_file(fifo("aspects.tsv")), "load", "it is a FIFO"),
    "folder-with-vectors-link": Hostile(with_corpus_file(link("vectors.npy", "/dev/zero")), "load", "it is a device"),
    "folder-with-broken-link": Hostile(with_corpus_file(link("queries.jsonl", "nowhere")), "load", "No such file"),
    "ids-fifo": Hostile(
        with_corpus_file(fifo("ids.txt"), lambda f: np.save(f / "vectors.npy", np.eye(1))), "load", "FIFO"
    ),
    "proc-file": Hostile(link("a.jsonl", "/proc/self/status"), "load preview", "changed while it was read"),
    # Lines
    "jsonl-endless-line": Hostile(sparse("a.jsonl", 3 << 30), "load preview", "line 1 has more than 16,777,216 bytes"),
    "csv-endless-line": Hostile(sparse("a.csv", 3 << 30, b"id,text\n"), "load preview", "line 2 has more than"),
    "tsv-endless-line": Hostile(sparse("a.tsv", 3 << 30, b"id\ttext\n"), "load preview", "line 2 has more than"),
    "run-endless-line": Hostile(sparse("a.run", 3 << 30), "run", "line 1 has more than 65,536 bytes"),
    "judgements-endless-line": Hostile(
        with_corpus_file(lambda f: (f / "qrels").mkdir(), sparse("qrels/test.tsv", 3 << 30)),
        "load",
        "more than 65,536 bytes",
    ),
    "judgements-json-too-large": Hostile(
        with_corpus_file(lambda f: (f / "qrels").mkdir(), sparse("qrels/test.json", 3 << 30)), "load", "than 512 MB"
    ),
    "judgements-json-objects": Hostile(
        with_corpus_file(
            lambda f: (f / "qrels").mkdir(), lines("qrels/test.json", b'{"q": [', lambda: b"{},[]," * (4 * MB), b"0]}")
        ),
        "load",
        "times a file's size",
    ),
    "judgements-gz-lines": Hostile(
        with_corpus_file(lambda f: (f / "qrels").mkdir(), gz("qrels/test.txt.gz", b"a b\n", 60 * MB)),
        "load",
        "times a file's size",
    ),
    "judgements-text-fifo": Hostile(with_corpus_file(fifo("qrels/test.txt")), "load", "it is a FIFO"),
    "judgements-beside-the-corpus-link": Hostile(with_corpus_file(link("a.qrels", "/dev/zero")), "load", "a device"),
    "run-json-too-large": Hostile(sparse("a.json", 3 << 30), "run", "than 512 MB"),
    "run-gz-lines": Hostile(gz("a.run.gz", b"q Q0 d 1 1 x\n", 60 * MB), "run", "times a file's size"),
    "run-gz-endless-line": Hostile(gz("a.run.gz", b"x", 400 * MB), "run", "line 1 has more than 65,536 bytes"),
    "run-gz-json": Hostile(gz("a.json.gz", b"[[],", 60 * MB), "run", "times a file's size"),
    "jsonl-wide-characters": Hostile(
        lines("a.jsonl", '{"id": "a", "text": "😀'.encode(), lambda: b"x" * (UNDER - 40), b'"}\n'), "load preview", None
    ),
    "jsonl-escapes": Hostile(
        lines("a.jsonl", b'{"id": "a", "text": "', lambda: rb"\u20ac" * (UNDER // 6 - 9), b'"}'), "load preview", None
    ),
    "jsonl-objects": Hostile(
        lines("a.jsonl", b'{"text": "x", "a": [', lambda: b'{"":0},' * (UNDER // 7 - 9), b"0]}"),
        "load preview",
        "at most 524,288",
    ),
    "jsonl-twenty-times-objects": Hostile(
        lines("a.jsonl", lambda: (b'{"text": "x", "metadata": {"a": [' + b'{"":0},' * 9000 + b"0]}}\n") * 300),
        "load preview",
        None,
    ),
    "jsonl-objects-up-to-the-limit": Hostile(
        lines("a.jsonl", lambda: (b'{"text": "x", "a": [' + b'{"":0},' * 260_000 + b"0]}\n") * 3), "load preview", None
    ),
    "jsonl-keys": Hostile(
        lines("a.jsonl", lambda: json.dumps(dict.fromkeys(map(str, range(99_999)))).encode()),
        "load preview",
        "99,999 keys",
    ),
    "jsonl-many-keys": Hostile(many_keys, "load preview", "320,002 columns"),
    "jsonl-nested": Hostile(lines("a.jsonl", b'{"a": ' * 100_000), "load preview", "recursion"),
    "jsonl-nested-to-the-limit": Hostile(
        lines("a.jsonl", b'{"id": "a", "text": "x", "b": ' + b"[" * 900 + b"]" * 900 + b"}"), "load preview", None
    ),
    "jsonl-digits": Hostile(
        lines("a.jsonl", b'{"text": "x", "n": ' + b"9" * MB + b"}"), "load preview", "Exceeds the limit"
    ),
    "jsonl-repeated-key": Hostile(
        lines("a.jsonl", ROW, b'{"id": "b", "text": "x", "text": "y"}\n'),
        "load preview",
        "line 2: the key 'text' stands twice",
    ),
    "jsonl-empty-id": Hostile(lines("a.jsonl", ROW, b'{"id": "", "text": "y"}\n'), "load", "line 2: the id in 'id'"),
    "csv-open-quote": Hostile(
        lines("a.csv", b'id,text\na,"never closed\n', lambda: b"b,y\n" * 5_000_000),
        "load preview",
        "line 2: the row that begins here",
    ),
    "csv-columns": Hostile(
        lines("a.csv", lambda: b"," * UNDER, b"\n"), "load preview", "the row that begins here goes on"
    ),
    "csv-names": Hostile(
        lines("a.csv", lambda: ",".join(map(str, range(150_000))).encode()), "load preview", "at most 16,384"
    ),
    "csv-fields": Hostile(lines("a.csv", b"id,text\n", lambda: b"ab," * (UNDER // 3)), "load preview", "goes on"),
    "csv-two-marks": Hostile(lines("a.csv", b"id,text;a\n" + b',"a' * 5000), "load preview", "not CSV|expected"),
    "tsv-fields": Hostile(
        lines("a.tsv", b"id\ttext\n", lambda: b"ab\t" * (UNDER // 3)), "load preview", "at most 524,288"
    ),
    # Parquet
    "parquet-one-text": Hostile(
        table(id=texts(4096), text=same("x" * MB, 4096)), "load preview", "times a file's size"
    ),
    "parquet-rows": Hostile(table(text=lambda: pa.nulls(50_000_000, pa.string())), "load", "times a file's size"),
    "parquet-rows-up-to-the-limit": Hostile(table(text=lambda: empty_texts(400_000)), "load preview", None),
    "parquet-prefixes": Hostile(
        table(
            id=texts(1000),
            text=lambda: pa.array(["x" * (MB // 4)] * 1000),
            use_dictionary=False,
            column_encoding={"id": "PLAIN", "text": "DELTA_BYTE_ARRAY"},
            write_statistics=False,
            data_page_size=1 << 30,
        ),
        "load preview",
        "times a file's size",
    ),
    "parquet-page-of-hidden-size": Hostile(large_page(), "load preview", "decoding takes more than 256 MB"),
    "parquet-lengths-of-hidden-count": Hostile(large_lengths(), "load preview", "times a file's size|of memory"),
    "parquet-nested": Hostile(
        table(id=texts(1), text=same("x", 1), n=nested_values(30_000_000)),
        "preview",
        "values in lists or structs|of memory",
    ),
    "parquet-columns": Hostile(
        table(**{f"c{number}": texts(1) for number in range(16_500)}), "load preview", "at most 16,384 are read"
    ),
    "parquet-long-row": Hostile(table(text=same("x" * 20 * MB, 1)), "load preview", "a row has 20,97"),
    # NumPy
    "npy-rows": Hostile(lines("a.npy", npy((10**12, 4)), bytes(16)), "load", "bytes less than the float32 numbers"),
    "npy-negative": Hostile(lines("a.npy", npy((-1, -4)), bytes(16)), "load", "the shape"),
    "npy-behind": Hostile(lines("a.npy", npy((2, 2)), bytes(19)), "load", "a.npy has 3 bytes behind"),
    "npy-cut": Hostile(lines("a.npy", npy((2, 2)), bytes(9)), "load", "a.npy has 7 bytes less than"),
    "npy-header": Hostile(sparse("a.npy", 5 << 30, npy((2, 2), length=4 * 10**9)), "load", "of 4,000,000,000 bytes"),
    "npy-brackets": Hostile(lines("a.npy", npy("(" * 9_000)), "load", "not a readable NumPy file"),
    "npy-signs": Hostile(lines("a.npy", npy("-" * 9_000 + "1")), "load", "not a readable NumPy file"),
    "npy-wide": Hostile(lines("a.npy", npy((2, 2), "<U536870911")), "load", "found dtype <U536870911"),
    "npy-wider": Hostile(lines("a.npy", npy((2, 2), "<U2147483647")), "load", "not a readable NumPy file|<U-1"),
    "npy-random": Hostile(lines("a.npy", np.random.default_rng(0).bytes(99_999)), "load", "begins with b'.*np.save"),
    "npy-pickled": Hostile(write_pickled, "load", "holds Python objects"),
    "npy-empty": Hostile(lines("a.npy"), "load", "begins with b''"),
    "npz-zeros": Hostile(npz(vectors=(npy((10**5, 1000)), 4 * 10**8)), "load", "times a file's size"),
    "npz-bytes": Hostile(npz(vectors=(npy((10**5, 1000), "|i1"), 10**8)), "load", "times a file's size"),
    "npz-up-to-the-limit": Hostile(npz(vectors=(npy((30_000, 1000)), 12 * 10**7)), "load", None),
    "npz-columns-first-up-to-the-limit": Hostile(
        npz(vectors=(npy((13_000, 1000), order=True, descr="<f8"), 104 * 10**6)), "load", "times a file's size"
    ),
    "npz-rows": Hostile(npz(vectors=(npy((10**12, 4)), 16)), "load", "bytes less than the float32 numbers"),
    "npz-behind": Hostile(npz(vectors=(npy((2, 2)), 19)), "load", "a.npz has 3 bytes behind"),
    "npz-ids": Hostile(
        npz(vectors=(npy((30, 2)), 240), ids=(npy((30,), "<U2000000"), 24 * 10**7)), "load", "times a file's size"
    ),
    "npz-header": Hostile(npz(vectors=(npy((2, 2), length=4 * 10**9), 4 * 10**8)), "load", "of 4,000,000,000 bytes"),
    "npz-lying-size": Hostile(
        npz(vectors=(npy((2, 2)), 16), after=lambda raw: raw.replace(struct.pack("<I", 144), struct.pack("<I", 9**9))),
        "load",
        "bytes behind|not a readable",
    ),
    "npz-lzma": Hostile(npz(zipfile.ZIP_LZMA, vectors=(npy((2, 2)), 16)), "load", "packed as np.savez does not"),
    "npz-members": Hostile(many_members, "load", "more than 1000 arrays"),
    "npz-directory": Hostile(large_directory, "load", "its directory has more than"),
    "npz-repeated-member": Hostile(repeated_member, "load", "has 'vectors.npy' twice"),
    "ids-many": Hostile(vectors_with_ids(lambda: b"a\n" * 10_000_000), "load", "1 row but more than 1 id"),
    "ids-long": Hostile(vectors_with_ids(lambda: b"a" * 10_000_000), "load", "line 1 has more than 65,536 bytes"),
    "ids-empty": Hostile(vectors_with_ids(lambda: b"\n"), "load", "a.ids.txt line 1: the id"),
}

# Measuring


def measure_reading(name, folder):
    """Read a hostile file in a child: the outcome and seconds of each reader, and MB at the peak."""
    for work in (write, read):  # what writes it may need more memory than any reader
        out, into = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(out)
            signal.alarm(PATIENCE)
            status, base = 1, peak()
            try:
                os.write(into, json.dumps([work(HOSTILE[name], Path(folder)), base]).encode())
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(into)
        with open(out, "rb") as file:
            answer = file.read()
        _, status, usage = os.wait4(pid, 0)
        if status:
            return {"failed": f"{work.__name__}: status {status}"}
    outcomes, base = json.loads(answer)
    return {"said": outcomes, "peak": peak(usage), "base": base}


def peak(usage=None):
    """Return the peak memory of a process, or of a child that it waited for, in MB."""
    resources = usage or resource.getrusage(resource.RUSAGE_SELF)
    return resources.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / MB


def write(hostile, folder):
    hostile.write(folder)
    return None


def read(hostile, folder):
    from engine.errors import DataError

    path = (
        folder
        if (folder / "corpus.jsonl").exists()
        else next(file for file in folder.glob("a.*") if file.suffix != ".txt")
    )
    outcomes = {}
    for reader in hostile.reads.split():
        start = time.perf_counter()
        try:
            outcome = READERS[reader](path)
        except DataError as error:
            outcome = f"DataError: {error}"
        except BaseException as error:
            outcome = f"{type(error).__name__} escaped: {error}"[:500]
        outcomes[reader] = [outcome, time.perf_counter() - start]
    return outcomes


def answer():
    """Import the readers, then measure the file that each line of the input names."""
    import engine.data.readers
    import engine.evaluation.runs  # noqa: F401

    for line in sys.stdin:
        print(json.dumps(measure_reading(*json.loads(line))), flush=True)


if __name__ == "__main__":
    answer()
