"""Kinds of tables: documents, queries or judgements, told by a file's name, else by its columns and first rows."""

import re
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from engine.data.columns import TEXT_NAMES
from engine.data.field_lines import find_columns, normalize_column
from engine.data.files import FOLDER_TABLE_SUFFIXES, find_table, split_suffix, translate_read_errors
from engine.data.judgement_files import QRELS_NAME, has_judgement_suffix, is_judgement_name, list_files
from engine.data.judgements import JUDGEMENT_NAMES, MAX_USUAL_GRADE, parse_grade
from engine.data.tables import TABLE_SUFFIXES, has_shards, preview_table
from engine.data.textfiles import read_lines
from engine.errors import DataError

DOCUMENTS, QUERIES, JUDGEMENTS = "documents", "queries", "judgements"
JUDGEMENTS_AS_SEARCHES = "These are judgements: add them under Data → Corpus."
"""Message on a page for a file of judgements where searches are expected."""
_QUERY_NAMES = frozenset(("query", "queries", "question", "search", "q"))
# The first lines show the form of a file; a longer look finds nothing else.
_MAX_LINES = 20
_PART_STEMS = frozenset(("queries", "aspects", "answers", "vectors", "query_vectors"))
_CORPUS_WORDS = frozenset(("corpus", "documents", "docs"))
_QUERY_WORDS = frozenset(("query", "queries", "questions", "topics", "searches"))
_NAME_MARKS = re.compile(r"[\W_]+")


def sort_tables(paths: Sequence[Path]) -> dict[str, list[str]]:
    """Return kind → names of the files of that kind, by their names and first rows.

    A file that cannot be read counts as documents, whose reader says what is wrong.
    """
    paths_by_kind: dict[str, list[Path]] = {DOCUMENTS: [], QUERIES: [], JUDGEMENTS: []}
    for path in paths:
        paths_by_kind[_find_kind(path)].append(path)
    documents = paths_by_kind[DOCUMENTS]
    # Where no name tells the queries, their column does. A single table of questions may be a corpus.
    if not paths_by_kind[QUERIES] and len(documents) > 1:
        query_paths = list(filter(_has_query_column, documents))
        if len(query_paths) < len(documents):
            paths_by_kind[QUERIES] = query_paths
            for path in query_paths:
                documents.remove(path)
    return {kind: [path.name for path in kind_paths] for kind, kind_paths in paths_by_kind.items()}


def find_corpus_table(folder: Path) -> Path | None:
    """Return the table of the documents in a folder: corpus.*, else the only other one beside queries or judgements.

    None if there is none. Raises DataError if several tables may be it.
    """
    if (corpus_path := find_table(folder, "corpus")) is not None:
        return corpus_path
    # Parquet files of one table are no single file of documents: the reader of folders opens them.
    paths = [] if has_shards(folder) else list_possible_documents(folder)
    has_judgements = any(is_judgement_name(path.name) for path in list_files(folder)) or (folder / QRELS_NAME).is_dir()
    # Without queries or judgements, a folder of tables is no data set.
    if not paths or not (has_judgements or find_table(folder, "queries") is not None):
        return None
    if len(paths) > 1:
        raise DataError(f"{folder.name}: {describe_unclear_documents([path.name for path in paths])}")
    return paths[0]


def list_possible_documents(folder: Path) -> list[Path]:
    """List the tables of a folder without a corpus.* that may hold its documents, by their names."""
    # A folder that may not be listed is an error of the file, as for its reader.
    with translate_read_errors(folder):
        return [] if find_table(folder, "corpus") is not None else list(filter(_may_be_documents, list_files(folder)))


def describe_unclear_documents(names: Sequence[str]) -> str:
    """Return the message that several tables may be the documents, with the fix."""
    corpus_name = f"corpus{split_suffix(Path(names[0]))[1]}"
    return f"{' and '.join(names)} may each be the documents: call the documents' file {corpus_name}"


def is_judgement_table(path: Path) -> bool:
    """Return True if the first rows of a file are judgements: ids of a query and a document, and a grade.

    A table needs columns that say so, or TREC's order; ids have no spaces, as texts of queries have.
    """
    try:
        if split_suffix(path)[1] not in TABLE_SUFFIXES:
            with closing(read_lines(path)) as lines:
                rows = [line.split() for _, line in islice(lines, _MAX_LINES) if line.strip()]
            return bool(rows) and all(len(row) == 4 and _is_trec_row(row) for row in rows)
        preview = preview_table(path, _MAX_LINES)
        columns = find_columns(preview.columns, JUDGEMENT_NAMES, path.name)
    except DataError:
        return False
    rows = [list(row.values()) for row in preview.first_rows]
    if {"query", "document", "grade"} <= columns.keys():
        id_positions = columns["query"], columns["document"]
        return bool(rows) and all(
            _is_grade(row[columns["grade"]]) and not any(" " in row[position].strip() for position in id_positions)
            for row in rows
        )
    # Without a header its first line may stand as the names of the columns.
    is_data = preview.columns[-1].startswith("column ")
    rows += [] if is_data else [list(preview.columns)]
    return all(len(row) in (3, 4) and _is_trec_row(row) for row in rows)


def _is_trec_row(row: Sequence[str]) -> bool:
    """Return True for a query, perhaps a round, a document and a grade, as the fields of a line without a header."""
    *ids, grade = (field.strip() for field in row)
    has_round = len(ids) < 3 or ids[1].isdecimal() or ids[1].upper() == "Q0"
    return has_round and _is_grade(grade) and all(field and " " not in field for field in ids)


def _is_grade(text: str) -> bool:
    grade = parse_grade(text)
    return grade is not None and grade <= MAX_USUAL_GRADE


def _find_kind(path: Path) -> str:
    """Return the kind of a table by its name, else judgements by its rows, else documents."""
    stem, suffix = split_suffix(path)
    words = set(_NAME_MARKS.split(stem.lower()))
    if is_judgement_name(path.name):
        return JUDGEMENTS
    if words & _CORPUS_WORDS:
        return DOCUMENTS
    if words & _QUERY_WORDS:
        return QUERIES
    # A text file is no table of documents, so that judgements are all that it can be.
    has_table_suffix = suffix in TABLE_SUFFIXES
    is_judged = is_judgement_table(path) if has_table_suffix else has_judgement_suffix(path.name)
    return JUDGEMENTS if is_judged else DOCUMENTS


def _has_query_column(path: Path) -> bool:
    """Return True if a table has a column of queries and none of texts."""
    try:
        names = set(map(normalize_column, preview_table(path).columns))
    except DataError:
        return False
    return bool(names & _QUERY_NAMES) and not names & set(map(normalize_column, TEXT_NAMES))


def _may_be_documents(path: Path) -> bool:
    """Return True if a file beside queries and judgements may hold the documents, by its name."""
    stem, suffix = split_suffix(path)
    if suffix not in TABLE_SUFFIXES or is_judgement_name(path.name) or ".vectors" in path.name:
        return False
    return stem.lower() not in _PART_STEMS


def find_queries_suffix(name: str) -> str | None:
    """Return the suffix that queries of this file have in a folder, None if a folder's queries are not read from it."""
    suffixes = sorted(FOLDER_TABLE_SUFFIXES, key=len, reverse=True)
    return next((suffix for suffix in suffixes if name.lower().endswith(suffix)), None)
