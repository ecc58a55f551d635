"""Queries to judge: typed, pasted, from a table or a search log; an id depends only on the text."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from engine.data.columns import ID_NAMES, Columns
from engine.data.table_kinds import JUDGEMENTS_AS_SEARCHES, is_judgement_table
from engine.data.tables import preview_table, read_documents
from engine.data.textfiles import read_lines
from engine.errors import DataError
from engine.values import Notice, Queries, digest_of

#: Usual names of a column of queries, the most likely first.
QUERY_COLUMN_NAMES = ("query", "text", "search", "question", "q", "keywords", "search_term", "search term")


@dataclass(frozen=True, eq=False)
class AskedQueries:
    """Distinct queries of a list that people typed or a log holds, with their counts.

    queries: in the order of their first lines
    counts: map from query id to its number of lines
    lines: query id of each line, None for an empty line
    notices: remarks on merged queries and changed ids
    """

    queries: Queries
    counts: Mapping[str, int]
    lines: tuple[str | None, ...]
    notices: tuple[Notice, ...] = ()


def read_queries(path: str | Path, column: str | None = None, dataset_queries: Queries | None = None) -> AskedQueries:
    """Read queries from a file: lines of text (.txt, .log), or a column of a table.

    A table is .csv, .tsv, .jsonl or .parquet. column: column of the texts; by default one with a usual name, else the
    one that looks most like texts. dataset_queries: queries whose ids are used for equal texts. Raises DataError, also
    for a file of judgements, whose ids would be read as texts.
    """
    path = Path(path)
    if column is None and is_judgement_table(path):
        raise _refuse_judgements(path)
    if path.suffix.lower() in (".txt", ".log", ""):
        return collect_queries((text for _, text in read_lines(path)), dataset_queries, source_name=str(path))
    table_preview = preview_table(path)
    # Reversed, so that of columns with one name in lower case the first one stays.
    column_by_name = {column_name.strip().lower(): column_name for column_name in reversed(table_preview.columns)}
    text_column = column or _find_column(QUERY_COLUMN_NAMES, column_by_name) or table_preview.guessed_columns.text
    if text_column is None or text_column not in table_preview.columns:
        raise DataError(f"{path} has no column {text_column!r}; it has {', '.join(map(repr, table_preview.columns))}")
    id_column = _find_column((*ID_NAMES, "query_id", "query-id", "qid"), column_by_name)
    # A column of queries can be called "id" or the like; it is then no column of ids.
    id_column = None if id_column == text_column else id_column
    documents = read_documents(path, Columns(id=id_column, text=text_column))
    # Numbers beside two columns or more are ids. A list of numbers may well be one of searches, as for parts.
    is_numeric = len(table_preview.columns) > 2 and all(text.strip().isdecimal() for text in documents.texts)
    if column is None and documents.texts and is_numeric:
        raise _refuse_judgements(path)
    return collect_queries(documents.texts, dataset_queries, documents.ids if id_column else None, str(path))


def _refuse_judgements(path: Path) -> DataError:
    """Return the error for a file of judgements in the place of searches."""
    return DataError(f"{path} holds judgements, not searches: give it as qrels= or --qrels", JUDGEMENTS_AS_SEARCHES)


def collect_queries(
    texts: Iterable[str],
    dataset_queries: Queries | None = None,
    ids: Iterable[str] | None = None,
    source_name: str = "the text",
) -> AskedQueries:
    """Collect the distinct queries of lines of text, for example typed or pasted ones.

    dataset_queries: queries whose ids are used for equal texts; ids: of the lines, by default digests of the texts;
    source_name: name of the lines in an error. Raises DataError if there is no query.
    """
    dataset_queries = Queries((), ()) if dataset_queries is None else dataset_queries
    id_by_text = dict(zip(map(_normalise_whitespace, dataset_queries.texts), dataset_queries.ids, strict=True))
    text_by_id = dict(zip(dataset_queries.ids, dataset_queries.texts, strict=True))
    line_ids: list[str | None] = []
    clashing_ids: list[str] = []
    # Without ids of the lines, None repeats as often as there are texts.
    query_texts, source_ids = map(_normalise_whitespace, texts), repeat(None) if ids is None else ids
    for query_text, line_id in zip(query_texts, source_ids, strict=ids is not None):
        if query_text and query_text not in id_by_text:
            if line_id is not None and line_id not in text_by_id:
                query_id = line_id
            else:
                # An id that belongs to another text cannot be used again: the query gets a digest as its id.
                query_id = f"q-{digest_of([query_text])[:10]}"
                clashing_ids += [] if line_id is None else [line_id]
            id_by_text[query_text], text_by_id[query_id] = query_id, query_text
        line_ids.append(id_by_text.get(query_text) if query_text else None)
    counts = Counter(query_id for query_id in line_ids if query_id is not None)
    if not counts:
        raise DataError(f"{source_name} holds no query; expected one a line, or a table with a column of them")
    n_repeated = sum(n_lines > 1 for n_lines in counts.values())
    notices = Notice.for_ids("ids stood for another query already; these queries got other ids", clashing_ids)
    if n_repeated:
        verb = "query was" if n_repeated == 1 else "queries were"
        notices = (Notice(f"{verb} asked more than once, judged once", n_repeated), *notices)
    queries = Queries(tuple(counts), tuple(text_by_id[query_id] for query_id in counts))
    return AskedQueries(queries, dict(counts), tuple(line_ids), notices)


def _find_column(usual_names: Iterable[str], column_by_name: Mapping[str, str]) -> str | None:
    """Return the table's column with the most likely usual name; None if none of the names occurs.

    column_by_name: the table's columns by their names in lower case.
    """
    return next(filter(None, map(column_by_name.get, usual_names)), None)


def _normalise_whitespace(text: str) -> str:
    """Return a text with single spaces between words, by which queries are compared."""
    return " ".join(text.split())
