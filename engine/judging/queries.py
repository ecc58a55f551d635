"""Queries to judge: typed, pasted, from a table or a log of searches; an id depends on nothing but the text."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from engine.data.tables import ID_NAMES, Columns, preview_table, read_documents
from engine.data.textfiles import read_lines
from engine.errors import DataError
from engine.values import Notice, Queries, digest_of

NAMES = ("query", "text", "search", "question", "q", "keywords", "search_term", "search term")
"""Usual names of a column of queries."""


@dataclass(frozen=True, eq=False)
class AskedQueries:
    """Queries of a list, each once.

    queries: in the order in which they first stand there
    counts: query id → how often it was asked
    lines: the query id of each line, None where it is empty
    notices: what was left out or merged
    """

    queries: Queries
    counts: Mapping[str, int]
    lines: tuple[str | None, ...]
    notices: tuple[Notice, ...] = ()


def read_queries(path: str | Path, column: str | None = None, known: Queries | None = None) -> AskedQueries:
    """The queries of a file: one a line of text (.txt, .log), or a column of a .csv, .tsv, .jsonl or .parquet table.

    column: of the texts; by default the one with a usual name, else the one that looks like texts. known: queries
    whose ids are kept where the text is the same. Raises DataError.
    """
    path = Path(path)
    if path.suffix.lower() in (".txt", ".log", ""):
        return asked((text for _, text in read_lines(path)), known, place=str(path))
    seen = preview_table(path)
    names = {name.strip().lower(): name for name in reversed(seen.columns)}
    text = column or next((names[name] for name in NAMES if name in names), seen.guessed_columns.text)
    if text not in seen.columns:
        raise DataError(f"{path} has no column {text!r}; it has {', '.join(map(repr, seen.columns))}")
    doc = next((names[name] for name in (*ID_NAMES, "query_id", "query-id", "qid") if name in names), None)
    rows = read_documents(path, Columns(id=doc if doc != text else None, text=text))
    return asked(rows.texts, known, rows.ids if doc not in (None, text) else None, str(path))


def asked(
    texts: Iterable[str], known: Queries | None = None, ids: Iterable[str] | None = None, place: str = "the text"
) -> AskedQueries:
    """The queries among lines of text, such as were typed or pasted.

    known: queries whose ids are kept where the text is the same; ids: of the lines, where they have some, else digests
    of the texts. place: what an error calls the lines. Raises DataError where there is no query.
    """
    known = Queries((), ()) if known is None else known
    id_of = {_plain(text): query for query, text in zip(known.ids, known.texts, strict=True)}
    text_of = dict(zip(known.ids, known.texts, strict=True))
    found: list[str | None] = []
    clashing: list[str] = []
    for text, given in zip(map(_plain, texts), repeat(None) if ids is None else ids, strict=ids is not None):
        if text and text not in id_of:
            query = f"q-{digest_of([text])[:10]}" if given is None or given in text_of else given
            clashing += [given] if given in text_of else []
            id_of[text], text_of[query] = query, text
        found.append(id_of.get(text) if text else None)
    counts = Counter(query for query in found if query is not None)
    if not counts:
        raise DataError(f"{place} holds no query; expected one a line, or a table with a column of them")
    notices = (
        *(
            (Notice(f"{'query was' if repeated == 1 else 'queries were'} asked more than once, judged once", repeated),)
            if (repeated := sum(count > 1 for count in counts.values()))
            else ()
        ),
        *Notice.of("ids stood for another query already; these queries got other ids", clashing),
    )
    queries = Queries(tuple(counts), tuple(text_of[query] for query in counts))
    return AskedQueries(queries, dict(counts), tuple(found), notices)


def _plain(text: str) -> str:
    return " ".join(text.split())
