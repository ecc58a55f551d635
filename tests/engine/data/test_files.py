"""Data files that would harm their reader: refused as a DataError or read rightly, within 512 MB, without waiting."""

import errno
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.data import files, textfiles
from engine.data.files import check_growth, is_present, open_regular, translate_read_errors
from engine.data.readers import load_dataset
from engine.data.tables import preview_table
from engine.errors import DataError
from support.datafiles import beir, write_file
from support.draws import deepen, examples
from support.fork_server import fork_python
from support.hostile_files import HOSTILE
from support.processes import environment

MAX_MEGABYTES = 512
"""MB that the process which reads a hostile file may have, with all that it has imported."""

SLOW = (
    "run-gz-lines",
    "run-gz-endless-line",
    "judgements-gz-lines",
    "jsonl-objects-up-to-the-limit",
    "jsonl-twenty-times-objects",
    "jsonl-many-keys",
    "jsonl-wide-characters",
    "jsonl-escapes",
    "run-gz-json",
    "run-json-too-large",
    "csv-open-quote",
    "csv-two-marks",
    "parquet-columns",
    "parquet-nested",
    "parquet-long-row",
    "parquet-page-of-hidden-size",
    "parquet-lengths-of-hidden-count",
    "parquet-prefixes",
    "parquet-rows-up-to-the-limit",
    "parquet-one-text",
    "npz-zeros",
    "npz-bytes",
    "npz-ids",
    "npz-header",
    "npz-up-to-the-limit",
)
"""Files that take seconds, each with a quicker one that meets the same check."""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="FIFOs, sockets and limits of memory")


@pytest.fixture(scope="module")
def measure_read():
    """Asks a process how a hostile file is read, by a child of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "support.hostile_files"],
        env=environment(OMP_NUM_THREADS="1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def answer(name, folder):
        print(json.dumps([name, str(folder)]), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    with process:
        yield answer
        process.stdin.close()


@pytest.mark.threat(
    "a data file that never ends, waits for ever or unpacks to gigabytes", "refused or read, under 512 MB"
)
@pytest.mark.parametrize("name", deepen(HOSTILE, SLOW))
def test_a_hostile_file_is_refused_or_read_within_its_memory(measure_read, tmp_path, name):
    answer = measure_read(name, tmp_path)
    assert "failed" not in answer, answer
    for reader, (outcome, seconds) in answer["said"].items():
        print(f"{name} {reader}: {answer['peak']:.0f} MB, {seconds:.2f} s: {outcome}")
        assert HOSTILE[name].is_expected(reader, outcome), outcome
    assert answer["peak"] < MAX_MEGABYTES
    for file in tmp_path.rglob("*"):  # gigabytes of holes, which a copy of the folder would fill
        file.unlink() if not file.is_dir() else None


# Damage


def valid(folder, suffix):
    """A small data file, whole."""
    path = Path(folder) / f"a{suffix}"
    rows = [{"id": f"d{row}", "text": f'text {row % 3} é, "quoted"', "n": row} for row in range(40)]
    match suffix:
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd")
        case ".npy":
            np.save(path, np.arange(12, dtype=np.float32).reshape(4, 3))
        case ".npz":
            np.savez_compressed(path, vectors=np.eye(4), ids=np.array(["a", "b", "c", "d"]))
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case _:
            mark = "," if suffix == ".csv" else "\t"
            quoted = [
                mark.join((row["id"], row["text"].replace('"', "").replace(",", ""), str(row["n"]))) for row in rows
            ]
            path.write_text("\n".join((mark.join(rows[0]), *quoted)))
    return path


@st.composite
def damages(draw):
    """Draw changes to the bytes of a file: replaced, cut out or inserted."""
    return draw(
        st.lists(
            st.tuples(
                st.floats(0, 1, exclude_max=True),
                st.sampled_from(["flip", "set", "cut", "end", "add"]),
                st.binary(min_size=1, max_size=8),
            ),
            min_size=1,
            max_size=6,
        )
    )


def apply_damage(content, damage):
    for fraction, how, inserted in damage:
        position = int(fraction * len(content))
        match how:
            case "flip" if content:
                content = (
                    content[:position] + bytes([content[position] ^ 1 << inserted[0] % 8]) + content[position + 1 :]
                )
            case "set":
                content = content[:position] + inserted + content[position + len(inserted) :]
            case "cut":
                content = content[:position] + content[position + len(inserted) :]
            case "end":
                content = content[:position]
            case "add":
                content = content[:position] + inserted + content[position:]
    return content


def read_damaged(suffix, damage):
    with tempfile.TemporaryDirectory() as folder:
        path = valid(folder, suffix)
        path.write_bytes(apply_damage(path.read_bytes(), damage))
        for read in (load_dataset, preview_table) if suffix not in (".npy", ".npz") else (load_dataset,):
            try:
                read(path)
            except DataError as error:
                assert path.name in str(error)


DAMAGE = ("flipped, cut and truncated bytes of a data file", "a DataError that names the file, or data")


@pytest.mark.threat(*DAMAGE)
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".jsonl", ".csv", ".tsv"])
@given(damage=damages())
def test_a_damaged_file_is_refused_or_read(suffix, damage):
    read_damaged(suffix, damage)


@pytest.mark.deep
@pytest.mark.threat(*DAMAGE)
@settings(max_examples=examples(8))  # each starts two processes
@given(damage=damages())
def test_a_damaged_parquet_file_is_refused_or_read(damage):
    read_damaged(".parquet", damage)


@pytest.mark.slow
@pytest.mark.threat(*DAMAGE)
@settings(max_examples=500)
@given(damage=damages())
def test_many_damaged_parquet_files_are_refused_or_read(damage):
    read_damaged(".parquet", damage)


# The disk


class Failing:
    """A file of which reading fails after some bytes."""

    def __init__(self, file, good):
        self.file, self.good = file, good

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def __getattr__(self, name):
        return getattr(self.file, name)

    def readline(self, size=-1):
        if self.file.tell() >= self.good:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self.file.readline(size)


@pytest.mark.threat("the disk fails in the middle of a file", "a DataError that names the file")
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
def test_an_error_in_mid_file_names_the_file(tmp_path, monkeypatch, name):
    path = valid(tmp_path, Path(name).suffix)
    monkeypatch.setattr(files, "open_regular", lambda path: Failing(open_regular(path), 200))
    for read in (load_dataset, preview_table):
        with pytest.raises(DataError, match=rf"cannot read .*{name}: Input/output error"):
            read(path) if read is load_dataset else read(path, max_rows=1000)


@pytest.mark.threat("a file grows or shrinks while it is read", "a DataError that names the file")
@pytest.mark.parametrize("change", [10, -10])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, change):
    path = write_file(tmp_path, "a.jsonl", '{"id": "a", "text": "x"}\n' * 20_000)
    numbered = textfiles.read_lines(path)
    next(numbered)
    os.truncate(path, path.stat().st_size + change)
    with pytest.raises(DataError, match=r"a\.jsonl changed while it was read: it had 500,000 bytes at first"):
        for _ in numbered:
            pass


UNREADABLE = """
import os, pathlib, sys
from engine.data.readers import load_dataset
from engine.errors import DataError
if os.getuid() == 0:
    os.seteuid(65534)
for name in sys.argv[1:]:
    try:
        print(load_dataset(name))
    except DataError as error:
        print("DataError:", error)
"""


@pytest.mark.threat("a folder or a file that must not be read", "a DataError that names it")
def test_unreadable_file_is_named():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        closed, judged, file = (Path(folder) / name for name in ("closed", "judged", "a.jsonl"))
        beir(closed)
        beir(judged, qrels__test="q0\td0\t1\n")
        write_file(folder, "a.jsonl", '{"id": "a", "text": "x"}')
        shut = [closed, judged / "qrels", file]
        for path in shut:
            path.chmod(0)
        process = fork_python("-c", UNREADABLE, str(closed), str(judged), str(file), str(closed / "corpus.jsonl"))
        output, errors = process.communicate(timeout=300)
        for path in shut:
            path.chmod(0o755)
    assert process.returncode == 0, errors
    for line, path in zip(output.splitlines(), (closed, judged / "qrels", file, closed), strict=True):
        assert re.fullmatch(rf"DataError: .*{path}.*: .*Permission denied.*", line), line


def test_only_regular_files_are_opened_and_links_to_them(tmp_path):
    path = write_file(tmp_path, "a", "x")
    (tmp_path / "link").symlink_to(path)
    for name in ("a", "link"):
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"x"
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    for name, why in (("fifo", "a FIFO"), (".", "a folder"), ("broken", "No such file"), ("round", "Too many levels")):
        with pytest.raises(DataError, match=why):
            open_regular(tmp_path / name)
    with pytest.raises(DataError, match="it is a device"):
        open_regular("/dev/null")


@pytest.mark.threat("a file becomes a FIFO between two looks at it", "refused without waiting")
def test_file_replaced_by_a_fifo_is_refused_without_waiting(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "a")
    regular, stat = write_file(tmp_path, "b", "x").stat(), os.stat
    monkeypatch.setattr(files.os, "stat", lambda path, **how: regular if path == tmp_path / "a" else stat(path, **how))
    with pytest.raises(DataError, match="it is a FIFO"):
        open_regular(tmp_path / "a")


def test_file_presence_is_checked_by_name(tmp_path):
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    assert is_present(tmp_path / "broken") and is_present(tmp_path) and not is_present(tmp_path / "nowhere")
    assert not is_present(write_file(tmp_path, "a", "") / "below")


def test_errors_of_the_disk_name_their_file_and_a_closed_pipe_stays_one(tmp_path):
    with (
        pytest.raises(DataError, match=r"^cannot read other: No space left on device$"),
        translate_read_errors(tmp_path),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "other")
    with pytest.raises(BrokenPipeError), translate_read_errors(tmp_path):
        raise BrokenPipeError


def test_growth_is_limited_by_a_files_size_and_small_for_none():
    check_growth(Path("a"), 1, files.FREE_GROWTH_BYTES, "")
    check_growth(Path("a"), files.FREE_GROWTH_BYTES, files.MAX_GROWTH_RATIO * files.FREE_GROWTH_BYTES, "")
    with pytest.raises(DataError, match=r"^a has 609 bytes and would take 3,719 MB of memory or more; .*; do this$"):
        check_growth(Path("a"), 609, 3_900_000_000, "do this")
    with pytest.raises(DataError):
        check_growth(Path("a"), files.FREE_GROWTH_BYTES, files.MAX_GROWTH_RATIO * files.FREE_GROWTH_BYTES + 1, "")


# Compressed files


def test_lines_of_a_gzip_file_are_those_of_its_content(tmp_path):
    content = b"\xef\xbb\xbfa\nb\r\nc"
    path = write_file(tmp_path, "a.txt.gz", gzip.compress(content[:5]) + gzip.compress(content[5:]))
    plain = write_file(tmp_path, "a.txt", content)
    assert list(textfiles.read_lines(path)) == list(textfiles.read_lines(plain)) == [(1, "a\n"), (2, "b\r\n"), (3, "c")]
    assert list(textfiles.read_lines(files.HeldFile(path))) == list(textfiles.read_lines(plain))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda content: content[:-9], "a.txt.gz is no whole gzip file"),
        (lambda content: content[:-6] + b"xx" + content[-4:], "a.txt.gz"),
        (lambda content: b"plain text\n", "cannot read .*a.txt.gz: Not a gzipped file"),
        (
            lambda content: gzip.compress((b"a" * 999 + b"\n") * (130 << 10), 1),
            "at most 128 MB, or 32 times a file's size, are read",
        ),
    ],
)
def test_a_damaged_or_exploding_gzip_file_is_refused(tmp_path, damage, message):
    path = write_file(tmp_path, "a.txt.gz", damage(gzip.compress(b"line\n" * 1000)))
    with pytest.raises(DataError, match=message):
        for _ in textfiles.read_lines(path):
            pass


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test.tsv", ("test", ".tsv")), ("Test.TSV.gz", ("Test", ".tsv")), ("a.b.json", ("a.b", ".json")),
        ("qrels", ("qrels", "")), ("qrels.gz", ("qrels", "")), (".gz", (".gz", "")),
    ],
)  # fmt: skip
def test_split_suffix_looks_below_the_compression(name, expected):
    assert files.split_suffix(Path(name)) == expected
