"""A data set as a BEIR folder: what every command and the dashboard read."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.data.cache import write
from engine.errors import DataError
from engine.values import Dataset, replace_surrogates

SEPARATORS = "\t\n\r"


def write_beir(dataset: Dataset, folder: str | Path, *, corpus: bool = True) -> Path:
    """Write corpus.jsonl, queries.jsonl and qrels/<split>.tsv, each whole; returns the folder, made where none is.

    corpus: whether corpus.jsonl is written. Aspects, vectors and notices are not. Raises DataError for a folder that
    holds something, one that cannot be written, and for judged ids that a table of columns cannot hold.
    """
    target = Path(folder)
    rows = {
        split: [(query, doc, grade) for query, docs in qrels.grades.items() for doc, grade in docs.items()]
        for split, qrels in dataset.qrels.items()
    }
    for name in (name for table in rows.values() for query, doc, _ in table for name in (query, doc)):
        if not name.strip() or any(mark in name for mark in SEPARATORS) or replace_surrogates(name) != name:
            raise DataError(f"the id {name!r} cannot stand in a table of columns (qrels/*.tsv); give it another one")
    docs, queries = dataset.corpus, dataset.queries
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise DataError(f"{target} must be a new or an empty folder; it holds something already")
        (target / "qrels").mkdir(parents=True, exist_ok=True)
        if corpus:
            rows_of = zip(docs.ids, docs.titles, docs.texts, strict=True)
            _lines(target / "corpus.jsonl", ({"_id": i, "title": title, "text": text} for i, title, text in rows_of))
        questions = zip(queries.ids, queries.texts, strict=True)
        _lines(target / "queries.jsonl", ({"_id": i, "text": text} for i, text in questions))
        for split, table in rows.items():
            body = "".join(f"{query}\t{doc}\t{grade}\n" for query, doc, grade in table)
            write(target / "qrels" / f"{split}.tsv", f"query-id\tcorpus-id\tscore\n{body}".encode())
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from None
    return target


def _lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    # Escaped, because JSON may hold lone surrogates and UTF-8 may not.
    write(path, lambda file: file.writelines(f"{json.dumps(row)}\n".encode() for row in rows))
