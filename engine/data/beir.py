"""Writing of a data set as a BEIR folder, which every command and the dashboard read."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.data.cache import write
from engine.errors import DataError
from engine.values import Dataset, replace_surrogates

FORBIDDEN_CHARACTERS = "\t\n\r"


def write_beir(dataset: Dataset, folder: str | Path, *, corpus: bool = True) -> Path:
    """Write corpus.jsonl, queries.jsonl and qrels/<split>.tsv, each atomically; return the folder.

    corpus: whether corpus.jsonl is written. Aspects, vectors and notices are not. Raises DataError for a folder that is
    not empty or cannot be written, and for judged ids that a table of columns cannot hold.
    """
    target = Path(folder)
    judgement_rows = {
        split: [
            (query_id, doc_id, grade)
            for query_id, document_grades in qrels.grades.items()
            for doc_id, grade in document_grades.items()
        ]
        for split, qrels in dataset.qrels.items()
    }
    for judged_id in (
        judged_id
        for split_rows in judgement_rows.values()
        for query_id, doc_id, _ in split_rows
        for judged_id in (query_id, doc_id)
    ):
        if (
            not judged_id.strip()
            or any(forbidden in judged_id for forbidden in FORBIDDEN_CHARACTERS)
            or replace_surrogates(judged_id) != judged_id
        ):
            raise DataError(
                f"the id {judged_id!r} cannot stand in a table of columns (qrels/*.tsv); give it another one"
            )
    document_grades, queries = dataset.corpus, dataset.queries
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise DataError(f"{target} must be a new or an empty folder; it holds something already")
        (target / "qrels").mkdir(parents=True, exist_ok=True)
        if corpus:
            document_rows = zip(document_grades.ids, document_grades.titles, document_grades.texts, strict=True)
            _write_json_lines(
                target / "corpus.jsonl",
                ({"_id": row_id, "title": title, "text": text} for row_id, title, text in document_rows),
            )
        questions = zip(queries.ids, queries.texts, strict=True)
        _write_json_lines(target / "queries.jsonl", ({"_id": row_id, "text": text} for row_id, text in questions))
        for split, split_rows in judgement_rows.items():
            table_body = "".join(f"{query_id}\t{doc_id}\t{grade}\n" for query_id, doc_id, grade in split_rows)
            write(target / "qrels" / f"{split}.tsv", f"query-id\tcorpus-id\tscore\n{table_body}".encode())
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from None
    return target


def _write_json_lines(file_path: Path, json_objects: Iterable[Mapping[str, Any]]) -> None:
    # Non-ASCII characters are escaped, because JSON may hold lone surrogates and UTF-8 may not.
    write(
        file_path,
        lambda binary_file: binary_file.writelines(
            f"{json.dumps(json_object)}\n".encode() for json_object in json_objects
        ),
    )
