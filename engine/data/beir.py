"""Writing of a data set as a BEIR folder, which every command and the dashboard read."""

import json
from collections.abc import Sequence
from pathlib import Path

from engine.data.cache import write
from engine.errors import DataError
from engine.values import Dataset, replace_surrogates

FORBIDDEN_CHARACTERS = "\t\n\r"


def write_beir(dataset: Dataset, folder: str | Path, *, corpus: bool = True) -> Path:
    """Write a data set as a BEIR folder, each file atomically; return the folder.

    The files are corpus.jsonl, queries.jsonl and qrels/<split>.tsv. corpus: whether corpus.jsonl is written. Aspects,
    vectors and notices are not, nor is the grade from which documents are relevant. Raises DataError for a folder that
    is not empty or cannot be written, and for judged ids that a table of columns cannot hold.
    """
    target = Path(folder)
    # All ids are checked before anything is written.
    judgement_tables: dict[str, str] = {}
    for split, qrels in dataset.qrels.items():
        table_rows = ["query-id\tcorpus-id\tscore\n"]
        for query_id, document_grades in qrels.grades.items():
            for doc_id, grade in document_grades.items():
                table_rows.append(f"{_check_judged_id(query_id)}\t{_check_judged_id(doc_id)}\t{grade}\n")
        judgement_tables[split] = "".join(table_rows)
    documents, queries = dataset.corpus, dataset.queries
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise DataError(f"{target} must be a new or an empty folder; it holds something already")
        (target / "qrels").mkdir(parents=True, exist_ok=True)
        if corpus:
            columns = {"_id": documents.ids, "title": documents.titles, "text": documents.texts}
            _write_json_lines(target / "corpus.jsonl", columns)
        _write_json_lines(target / "queries.jsonl", {"_id": queries.ids, "text": queries.texts})
        for split, judgement_table in judgement_tables.items():
            write(target / "qrels" / f"{split}.tsv", judgement_table.encode())
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from None
    return target


def _check_judged_id(judged_id: str) -> str:
    """Return a judged id if a file of tab-separated columns can hold it.

    Raises DataError for an id that is blank, or has tabs, line breaks or halves of characters.
    """
    is_divided = not set(FORBIDDEN_CHARACTERS).isdisjoint(judged_id)
    if not judged_id.strip() or is_divided or replace_surrogates(judged_id) != judged_id:
        raise DataError(f"the id {judged_id!r} cannot stand in a table of columns (qrels/*.tsv); give it another one")
    return judged_id


def _write_json_lines(file_path: Path, columns: dict[str, Sequence[str]]) -> None:
    """Write one JSON object for each row of columns of equal length."""
    records = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    # Non-ASCII characters are escaped, because JSON may hold lone surrogates and UTF-8 may not.
    write(file_path, lambda file: file.writelines(f"{json.dumps(record)}\n".encode() for record in records))
