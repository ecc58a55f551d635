"""Documents and judgements from data frames of pandas, polars or pyarrow, and judgements from dictionaries.

Frames are recognised by what they can do, as polars is not a dependency.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from engine.data.columns import (
    ColumnChoice,
    Columns,
    check_column_choice,
    check_text_column,
    choose_columns,
    describe_cell,
    describe_column,
)
from engine.data.field_lines import find_columns
from engine.data.judgements import JUDGEMENT_NAMES, parse_grade
from engine.data.tables import format_value, parse_id
from engine.errors import DataError
from engine.values import FRACTION_FIX, Corpus, Dataset, Embeddings, Qrels, Queries, real_tensor

FRAME_KINDS = "a data frame of pandas, polars or pyarrow"
_MAX_HEAD_ROWS = 20


def is_frame(value: Any) -> bool:
    """Return True for a table with named columns in memory."""
    return hasattr(value, "column_names") or (hasattr(value, "columns") and hasattr(value, "iloc")) or _is_polars(value)


def _is_polars(value: Any) -> bool:
    """Return True for a frame of polars, which has the columns' names and their types."""
    return hasattr(value, "columns") and hasattr(value, "dtypes") and hasattr(value, "get_column")


def read_columns(frame: Any) -> dict[str, list[Any]]:
    """Return a frame's columns by name as lists of plain Python values, None for missing ones.

    Raises DataError if two columns have one name.
    """
    names = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    if len(set(map(str, names))) < len(names):
        raise DataError(f"columns of a frame must have names of their own; got {', '.join(map(str, names))}")
    return {str(name): list_values(frame[name]) for name in names}


def list_values(column: Any) -> list[Any]:
    """Return a column of any kind as a list of plain Python values, None for missing ones."""
    # pyarrow, polars and pandas each have another name for it.
    convert = next(filter(None, (getattr(column, name, None) for name in ("to_pylist", "to_list", "tolist"))), None)
    values = list(column) if convert is None else convert()
    return [None if _is_missing(value) else value for value in values]


def _is_missing(value: Any) -> bool:
    """Return True for None, NaN and the missing values of pandas."""
    if value is None or isinstance(value, float):
        return value is None or value != value
    return type(value).__name__ in ("NAType", "NaTType")


def load_frame(
    frame: Any, columns: Columns | ColumnChoice | None = None, metadata: Sequence[str] = (), name: str = "frame"
) -> Dataset:
    """Return the documents of a frame's rows, in order; the roles of its columns are guessed as those of a table.

    columns: roles of columns, of which the others are guessed; metadata: further columns to load. The column of vectors
    may hold lists or arrays. Raises DataError.
    """
    values = read_columns(frame)
    roles = _choose_roles(values, columns)
    if missing := [column for column in (*roles.required, *metadata) if column not in values]:
        raise DataError(f"a frame must have the columns {', '.join(map(repr, missing))}; it has {', '.join(values)}")
    n_rows = len(next(iter(values.values()), []))
    ids = tuple(map(str, range(n_rows)))
    if roles.id is not None:
        ids = tuple(parse_id(value, _locate(row), roles.id) for row, value in enumerate(values[roles.id]))
    texts, titles = (_read_texts(values, column, n_rows) for column in (roles.text, roles.title))
    extra = {column: tuple(map(format_value, values[column])) for column in (*roles.metadata, *metadata)}
    corpus = Corpus(ids, texts, titles, name, extra)
    vectors = None
    # Lists of numbers and arrays, as pandas and polars hold them, become one matrix.
    if roles.vectors is not None:
        matrix = real_tensor(values[roles.vectors], f"column {roles.vectors!r}")
        vectors = Embeddings(ids, matrix.float())
    return Dataset(corpus, Queries((), ()), vectors=vectors)


def _choose_roles(values: Mapping[str, list[Any]], columns: Columns | ColumnChoice | None) -> Columns:
    """Return the roles of a frame's columns: those that are given, and guesses from the first rows."""
    if isinstance(columns, Columns):
        return columns
    requested = check_column_choice(columns or {})
    facts = {}
    # The first rows tell the roles, as those of a file do, by lists in place of arrays.
    for column, cells in values.items():
        head = [list(cell) if isinstance(cell, np.ndarray) else cell for cell in cells[:_MAX_HEAD_ROWS]]
        facts[column] = describe_column(list(map(format_value, head)), list(map(describe_cell, head)))
    roles = choose_columns(facts, requested)
    check_text_column("the frame", facts, roles)
    return roles


def _read_texts(values: Mapping[str, list[Any]], column: str | None, n_rows: int) -> tuple[str, ...]:
    """Return a column as texts, "" for missing values; empty ones without a column. Raises DataError."""
    if column is None:
        return ("",) * n_rows
    for row, value in enumerate(values[column]):
        if value is not None and not isinstance(value, str):
            raise DataError(f"{_locate(row)}: {column!r} must be text; got {value!r:.80}. Convert the column to text")
    return tuple(value or "" for value in values[column])


def _locate(row: int) -> str:
    """Return the place of a row of a frame, for messages."""
    return f"row {row} of the frame"


def load_qrels(source: Any, *, relevant_from: int = 1, judgements: str = "auto") -> Qrels:
    """Return relevance judgements from a frame, a dictionary or rows.

    Parameters
    ----------
    source : frame, mapping or iterable
        A data frame of pandas, polars or pyarrow with columns of queries, documents and perhaps grades under usual
        names (query_id, doc_id, relevance …); a dictionary {query: {document: grade}} or {query: documents}, or
        a Series of these by query; or rows (query, document, grade). Without a grade a document is relevant, with
        grade 1.
    relevant_from : int, default 1
        The grade from which a document counts as relevant.
    judgements : {"auto", "complete", "pooled"}, default "auto"
        As of `Qrels`.

    Returns
    -------
    Qrels
        The judgements, with ids as text and grades as whole numbers.

    Raises
    ------
    DataError
        If a column is missing, a grade is no whole number, or a document has two grades for one query.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"query_id": ["q1", "q1"], "doc_id": ["a", "b"], "relevance": [2, 0]})
    >>> load_qrels(frame).grades
    {'q1': {'a': 2, 'b': 0}}
    """
    grades: dict[str, dict[str, int]] = {}
    for query_value, document_value, grade_value in _list_judgements(source):
        query_id, doc_id = (parse_id(value, "qrels") for value in (query_value, document_value))
        grade = parse_grade(grade_value)
        if grade is None:
            raise DataError(
                f"grades must be whole numbers; got {grade_value!r:.80} for query {query_id!r:.80}, document "
                f"{doc_id!r:.80}; {FRACTION_FIX}"
            )
        graded = grades.setdefault(query_id, {})
        # The same judgement twice does no harm; two grades leave it open which one counts.
        if graded.setdefault(doc_id, grade) != grade:
            raise DataError(
                f"qrels must grade a document once for each query; got {graded[doc_id]} and {grade} for query "
                f"{query_id!r:.80}, document {doc_id!r:.80}. Keep one of them"
            )
    return Qrels(grades, relevant_from, judgements)


def _list_judgements(source: Any) -> Iterable[Sequence[Any]]:
    """Yield query, document and grade of each judgement of a frame, a dictionary or rows. Raises DataError."""
    # Lists of two or three documents would pass for rows (query, document, grade).
    source = convert_series(source)
    if is_frame(source):
        columns = find_named_columns(source, JUDGEMENT_NAMES, ("query", "document"))
        yield from zip(
            columns["query"], columns["document"], columns.get("grade") or [1] * len(columns["query"]), strict=True
        )
    elif isinstance(source, Mapping):
        for query_id, documents in source.items():
            if isinstance(documents, str) or not isinstance(documents, Iterable):
                raise DataError(
                    f"qrels must map each query to {{document: grade}} or to documents; got {documents!r:.80} for "
                    f"query {query_id!r:.80}"
                )
            # A list of documents has no grades: all of them are relevant.
            graded = documents if isinstance(documents, Mapping) else dict.fromkeys(documents, 1)
            yield from ((query_id, doc_id, grade) for doc_id, grade in graded.items())
    elif isinstance(source, Iterable) and not isinstance(source, str):
        for row in source:
            if isinstance(row, str) or not isinstance(row, Sequence) or len(row) not in (2, 3):
                raise DataError(f"qrels must be rows (query, document, grade); got {row!r:.80}")
            yield (*row, 1)[:3]
    else:
        raise DataError(
            f"qrels must be {FRAME_KINDS}, a dictionary {{query: {{document: grade}}}} or rows (query, document, "
            f"grade); got {type(source).__name__}. A file of them is read by engine.load_dataset"
        )


def convert_series(value: Any) -> Any:
    """Return a pandas Series as a dictionary by its index, as a grouped frame hands out; anything else as it is."""
    return (
        value.to_dict() if hasattr(value, "to_dict") and hasattr(value, "index") and hasattr(value, "name") else value
    )


def find_named_columns(
    frame: Any, usual_names: Mapping[str, Sequence[str]], required: Sequence[str]
) -> dict[str, list[Any]]:
    """Return role → values of the frame's column with one of the role's usual names. Raises DataError."""
    values = read_columns(frame)
    names = list(values)
    roles = find_columns(names, usual_names, "the frame")
    if missing := [role for role in required if role not in roles]:
        plurals = {"query": "queries"}
        fixes = " and ".join(f"the column of {plurals.get(role, role + 's')} {role}_id" for role in missing)
        raise DataError(
            f"a frame must have columns of {' and '.join(required)}; it has {', '.join(names)}. Call {fixes}"
        )
    return {role: values[names[position]] for role, position in roles.items()}
