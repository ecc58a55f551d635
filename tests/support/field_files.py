"""Small files as other tools write them: what a person brings, and how it should be read."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

TEXTS = ["the first text", "a second text", "one more text"]
IDS = ["d7", "d9", "d11"]
NUMBERED = ["0", "1", "2"]
_ROWS = np.random.default_rng(0).normal(size=(3, 1536))
VECTORS = (_ROWS / np.linalg.norm(_ROWS, axis=1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True)
class FieldFile:
    """One kind of file: who writes it, how, and what is read; error: part of the message if it is refused."""

    name: str
    write: Callable[[Path], Path]
    ids: list[str] = field(default_factory=lambda: IDS)
    has_vectors: bool = False
    error: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    said: str = ""  # part of a notice


def write_lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def write_json(path: Path, value: Any, indent: int | None = None) -> Path:
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    return path


def write_text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def write_gzip(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()))
    return path


def write_parquet(path: Path, **columns: Any) -> Path:
    pd.DataFrame(columns).to_parquet(path)
    return path


def write_array(path: Path, array: np.ndarray) -> Path:
    np.save(path, array, allow_pickle=True)
    return path


def write_shards(folder: Path) -> Path:
    (folder / "data").mkdir()
    write_parquet(folder / "data" / "train-00000-of-00002.parquet", id=IDS[:2], text=TEXTS[:2])
    write_parquet(folder / "data" / "train-00001-of-00002.parquet", id=IDS[2:], text=TEXTS[2:])
    return folder


def write_two_splits(folder: Path) -> Path:
    write_parquet(folder / "train-00000-of-00001.parquet", id=IDS[:2], text=TEXTS[:2])
    write_parquet(folder / "test-00000-of-00001.parquet", id=IDS[2:], text=TEXTS[2:])
    return folder


def write_workbook(path: Path) -> Path:
    frame = pd.DataFrame({"id": [7, 9, 11], "text": TEXTS})
    with pd.ExcelWriter(path) as writer:
        frame.to_excel(writer, sheet_name="documents", index=False)
        frame.to_excel(writer, sheet_name="notes", index=False)
    return path


def write_beir_compressed(folder: Path) -> Path:
    lines = [json.dumps({"_id": doc, "title": "", "text": text}) for doc, text in zip(IDS, TEXTS, strict=True)]
    write_gzip(folder / "corpus.jsonl.gz", "\n".join(lines))
    write_lines(folder / "queries.jsonl", [{"_id": "q", "text": "first"}])
    return folder


def write_table(path: Path, lists: list[Any]) -> Path:
    """Write a table as pandas does, with its index in front."""
    pd.DataFrame({"text": TEXTS, "embedding": lists}).to_csv(path)
    return path


def write_beside(folder: Path) -> Path:
    write_text(folder / "docs.csv", CSV)
    np.save(folder / "docs.vectors.npy", VECTORS)
    return folder / "docs.csv"


def pair(*names: str) -> list[dict[str, str]]:
    """Records with ids and texts under these names."""
    return [dict(zip(names, row, strict=True)) for row in zip(IDS, TEXTS, strict=True)]


LISTS = VECTORS.tolist()
CSV = "id,text\n" + "".join(f"{doc},{text}\n" for doc, text in zip(IDS, TEXTS, strict=True))
LANGCHAIN = [{"id": None, "metadata": {"source": "x" * 99}, "page_content": text, "type": "Document"} for text in TEXTS]
HAYSTACK = [
    {"id": doc, "content": text, "blob": None, "score": None, "embedding": row, "sparse_embedding": None}
    for doc, text, row in zip(IDS, TEXTS, LISTS, strict=True)
]
LLAMA_INDEX = [
    {"id_": doc, "embedding": None, "metadata": {"f": "y" * 99}, "relationships": {}, "text": text}
    for doc, text in zip(IDS, TEXTS, strict=True)
]
COHERE = [{"_id": doc, "title": "", "text": text, "emb": row} for doc, text, row in zip(IDS, TEXTS, LISTS, strict=True)]
BFLOAT16 = (VECTORS.view(np.uint32) >> 16).astype(np.uint16)
RAGGED = np.empty(3, object)
RAGGED[:] = [np.array(row) for row in LISTS]

FIELD_FILES = (
    FieldFile(
        "CSV id,chunk_text,source, text=chunk_text",
        lambda folder: write_text(
            folder / "a.csv",
            "id,chunk_text,source\n" + "".join(f"{d},{t},web\n" for d, t in zip(IDS, TEXTS, strict=True)),
        ),
        options={"columns": {"text": "chunk_text"}},
    ),
    FieldFile(
        "collection.tsv of MS MARCO, no header",
        lambda folder: write_text(folder / "collection.tsv", "".join(f"{n}\t{t}\n" for n, t in enumerate(TEXTS))),
        ids=NUMBERED,
        said="first line looks like data",
    ),
    FieldFile(
        "msmarco-docs.tsv, four columns, no header",
        lambda folder: write_text(
            folder / "docs.tsv", "".join(f"D{n}\thttp://x/{n}\tT\t{t} and more\n" for n, t in enumerate(TEXTS))
        ),
        ids=["D0", "D1", "D2"],
        said="first line looks like data",
    ),
    FieldFile(
        "sentences, one a line, as .csv",
        lambda folder: write_text(folder / "a.csv", "".join(f"This is the sentence called {t}.\n" for t in TEXTS)),
        ids=NUMBERED,
        said="first line looks like data",
    ),
    FieldFile("LangChain documents, .jsonl", lambda folder: write_lines(folder / "a.jsonl", LANGCHAIN), ids=NUMBERED),
    FieldFile("LangChain documents, .json", lambda folder: write_json(folder / "a.json", LANGCHAIN), ids=NUMBERED),
    FieldFile(
        "haystack documents, .json",
        lambda folder: write_json(folder / "a.json", HAYSTACK, indent=1),
        said="use column 'embedding' as vectors, 1,536 dimensions",
    ),
    FieldFile("llama_index nodes, .jsonl", lambda folder: write_lines(folder / "a.jsonl", LLAMA_INDEX)),
    FieldFile(
        "Parquet with emb, vectors=emb",
        lambda folder: write_parquet(folder / "a.parquet", _id=IDS, text=TEXTS, emb=LISTS),
        has_vectors=True,
        options={"columns": {"vectors": "emb"}},
    ),
    FieldFile(
        "Parquet: emb first, id last",
        lambda folder: write_parquet(folder / "a.parquet", emb=LISTS, text=TEXTS, title=["T"] * 3, id=IDS),
        said="use column 'emb' as vectors",
    ),
    FieldFile(
        "JSON Lines with emb, vectors=emb",
        lambda folder: write_lines(folder / "a.jsonl", COHERE),
        has_vectors=True,
        options={"columns": {"vectors": "emb"}},
    ),
    FieldFile(
        "CSV of pandas with lists, vectors=embedding",
        lambda folder: write_table(folder / "a.csv", LISTS),
        ids=NUMBERED,
        has_vectors=True,
        options={"columns": {"vectors": "embedding"}},
    ),
    FieldFile(
        "CSV of pandas with NumPy numbers, vectors=embedding",
        lambda folder: write_table(folder / "a.csv", list(map(list, VECTORS))),
        ids=NUMBERED,
        has_vectors=True,
        options={"columns": {"vectors": "embedding"}},
    ),
    FieldFile(
        "CSV of pandas with arrays cut by '...'",
        lambda folder: write_table(folder / "a.csv", list(VECTORS)),
        error="cut off by '...'",
        options={"columns": {"vectors": "embedding"}},
    ),
    FieldFile(
        "Parquet of ids and vectors alone",
        lambda folder: write_parquet(folder / "a.parquet", id=IDS, embedding=LISTS),
        error="use column 'embedding' as vectors, 1,536 dimensions",
    ),
    FieldFile("a table with .vectors.npy beside it", write_beside, has_vectors=True),
    FieldFile(
        "Parquet with ids as floats",
        lambda folder: write_parquet(folder / "a.parquet", id=[7.0, 9.0, 11.0], text=TEXTS),
        ids=["7", "9", "11"],
    ),
    FieldFile("JSON array of records", lambda folder: write_json(folder / "a.json", pair("id", "text"))),
    FieldFile(
        "JSON of pandas by columns",
        lambda folder: write_text(folder / "a.json", pd.DataFrame({"id": IDS, "text": TEXTS}).to_json()),
        error='frame.to_json(path, orient="records")',
    ),
    FieldFile(
        "the dictionary of BEIR's loader, .json",
        lambda folder: write_json(
            folder / "a.json", {key: {"title": "", "text": text} for key, text in zip(IDS, TEXTS, strict=True)}
        ),
    ),
    FieldFile(
        "JSON of pandas by rows of the index",
        lambda folder: write_text(folder / "a.json", pd.DataFrame({"id": IDS, "text": TEXTS}).to_json(orient="index")),
    ),
    FieldFile(
        "a dictionary of ids and texts, .json",
        lambda folder: write_json(folder / "a.json", dict(zip(IDS, TEXTS, strict=True))),
        error='write {"id": {"text": "…"}, …}',
    ),
    FieldFile("JSON Lines named .json", lambda folder: write_lines(folder / "a.json", pair("id", "text"))),
    FieldFile(
        "a JSON array named .jsonl",
        lambda folder: write_json(folder / "a.jsonl", pair("id", "text")),
        error="must end in .json",
    ),
    FieldFile(".csv.gz", lambda folder: write_gzip(folder / "a.csv.gz", CSV)),
    FieldFile(".tsv.gz", lambda folder: write_gzip(folder / "a.tsv.gz", CSV.replace(",", "\t"))),
    FieldFile(
        ".jsonl.gz", lambda folder: write_gzip(folder / "a.jsonl.gz", "\n".join(map(json.dumps, pair("id", "text"))))
    ),
    FieldFile("a folder with corpus.jsonl.gz", write_beir_compressed),
    FieldFile("a folder of Parquet shards of datasets", write_shards, said="were read as one table"),
    FieldFile("a folder with two splits of Parquet", write_two_splits, error="holds Parquet files of 2 tables"),
    FieldFile(
        ".xlsx of two sheets",
        lambda folder: write_workbook(folder / "a.xlsx"),
        ids=["7", "9", "11"],
        said="sheet of a.xlsx is not read",
    ),
    FieldFile(".npy, an object array", lambda folder: write_array(folder / "a.npy", RAGGED), error="np.stack(list("),
    FieldFile(
        ".npy, bfloat16 as uint16", lambda folder: write_array(folder / "a.npy", BFLOAT16), error="those of bfloat16"
    ),
    FieldFile(
        ".npy, bfloat16 of ml_dtypes",
        lambda folder: write_array(folder / "a.npy", BFLOAT16.view("V2")),
        error="those of bfloat16",
    ),
)
