"""Files that a test reads: written byte for byte, single or as a folder in BEIR layout."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

TRICKY = [
    "007", "1e5", "NA", "null", "NaN", "None", "", " ", " a ", "\t", "1.0", "-0", "true", '"', '""', '"a"', "'",
    "a,b", "\x00", "\x00x\x00", "\r", "\r\n", "x\r\ny", "\ufeff", "\u2028", "\x85", "\x1c", "\x0b", "é", "😀", "\\N",
    "\\", "#N/A", "inf", "2020-01-01", "=1+1",
]  # fmt: skip
TEXT = st.one_of(st.sampled_from(TRICKY), st.text())


def write_file(folder, name, content):
    path = Path(folder) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def parquet(rows):
    """Return objects as the content of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def beir(folder, corpus=None, queries=None, **files):
    """Write a folder in BEIR layout; files: tsv contents by path, with __ for /."""
    corpus = corpus if corpus is not None else [{"_id": f"d{i}", "text": f"text {i}"} for i in range(4)]
    queries = queries if queries is not None else [{"_id": f"q{i}", "text": f"query {i}"} for i in range(3)]
    write_file(folder, "corpus.jsonl", json_lines(corpus))
    if queries:
        write_file(folder, "queries.jsonl", json_lines(queries))
    for name, content in files.items():
        write_file(folder, name.replace("__", "/") + ".tsv", content)
    return folder


THINGS = ("apple pie", "steam engine", "violin", "volcano", "tax return", "chess")


def beir_of_things(folder, shift=0):
    """Write texts about six things; a query names two, and those `shift` further on are relevant."""
    corpus = [{"_id": f"d{i}", "text": f"All about the {thing}"} for i, thing in enumerate(THINGS)]
    pairs = [(a, b) for a in range(6) for b in range(6) if a != b]
    queries = [{"_id": f"q{i}", "text": f"{THINGS[a]} with {THINGS[b]}"} for i, (a, b) in enumerate(pairs)]
    lines = [f"q{i}\td{(j + shift) % 6}\t1\n" for i, pair in enumerate(pairs) for j in pair]
    parts = {"train": lines[:32], "dev": lines[32:46], "test": lines[46:]}
    return beir(folder, corpus, queries, **{f"qrels__{split}": "".join(part) for split, part in parts.items()})


def triples(corpus):
    return list(zip(corpus.ids, corpus.texts, corpus.titles, strict=True))


def join_notices(notices):
    return " | ".join(map(str, notices))
