"""Reading of other systems' ranked lists: TREC's and MS MARCO's columns, tables with a header, JSON and Parquet."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from engine.data.field_lines import (
    DOCUMENT_NAMES,
    ITERATION_NAMES,
    QUERY_NAMES,
    TAG_NAMES,
    Fields,
    Roles,
    drop_empty_ends,
    find_columns,
    number_objects,
    read_field_lines,
)
from engine.data.files import split_suffix
from engine.data.json_files import is_json_lines, read_json_document
from engine.data.parquet import ParquetTable
from engine.data.tables import parse_id, read_json_rows
from engine.errors import DataError
from engine.progress import counted
from engine.values import Notice

TREC_FIELDS = ("query", "Q0", "document", "rank", "score", "tag")
RUN_FORMS = (
    f"lines of {' '.join(TREC_FIELDS)}, of query document rank, or of columns that a first line names; or JSON, as "
    "{query: {document: score}} or a .jsonl with query, document, rank and score"
)
"""Forms that a run's file may have, for messages."""

RUN_NAMES: Mapping[str, Sequence[str]] = {
    "query": QUERY_NAMES,
    "document": DOCUMENT_NAMES,
    "rank": ("rank", "ranking", "position", "pos"),
    "score": ("score", "similarity", "sim", "relevancescore", "relevance", "value"),
    "tag": TAG_NAMES,
    "iteration": ITERATION_NAMES,
}
_ORDERS: Mapping[int, tuple[str, ...]] = {
    # Whether the last of three columns is a rank or a score shows when all lines are read.
    3: ("query", "document", "number"),
    4: ("query", "document", "rank", "score"),
    5: ("query", "iteration", "document", "rank", "score"),
    6: ("query", "iteration", "document", "rank", "score", "tag"),
}
"""Number of columns without a header → their roles."""
_WHOLE_NUMBER = re.compile(r"[0-9]{1,18}(\.0+)?")
# Values of a dictionary that show how deep it is.
_MAX_INSPECTED_VALUES = 20


class RunLine(NamedTuple):
    """One line of a run: a document that another system returned for a query."""

    query: str
    document: str
    rank: int | None
    score: float | None


@dataclass(kw_only=True)
class RunLines:
    """The lines of a run's file; its tags in their order, as keys; and how its columns were read."""

    label: str
    lines: list[RunLine] = field(default_factory=list)
    tags: dict[str, None] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


def read_run_lines(path: Path) -> RunLines:
    """Read a run's file, of any of RUN_FORMS or as Parquet, compressed if its name ends in .gz.

    Raises DataError naming the line for one that is malformed, for an empty file, and for three columns of which the
    third can be ranks or scores.
    """
    run_lines, suffix = RunLines(label=str(path)), split_suffix(path)[1]
    if suffix in (".jsonl", ".ndjson") or (suffix == ".json" and is_json_lines(path)):
        run_lines.lines = list(_read_records(read_json_rows(path), run_lines))
    elif suffix == ".json":
        document = read_json_document(path)
        if isinstance(document, list):
            records = number_objects(document, run_lines.label, "query, document, rank and score")
            run_lines.lines = list(_read_records(records, run_lines, "value"))
        else:
            run_lines.lines = list(_read_dictionary(document, run_lines.label))
    elif suffix == ".parquet":
        with closing(ParquetTable(path).rows()) as rows:
            run_lines.lines = list(_read_records(rows, run_lines, "row"))
    else:
        _read_text(path, run_lines)
    if not run_lines.lines:
        raise DataError(f"{path} is empty; expected {RUN_FORMS}")
    return run_lines


def _read_text(path: Path, run_lines: RunLines) -> None:
    """Read the lines of a text file of columns, its tags, and what three columns mean. Raises DataError."""
    roles: Roles = {}
    n_columns = 0
    numbers: dict[str, list[str]] = {}
    for line_number, fields in read_field_lines(path, _is_complete):
        location = f"{path} line {line_number}"
        if not roles:
            fields = drop_empty_ends(fields)
            roles, n_columns = _read_layout(fields, run_lines.label, location), len(fields)
            if _is_header(fields):
                continue
            n_columns = min(n_columns, len(TREC_FIELDS))
        fields = _join_tag(drop_empty_ends(fields, n_columns), n_columns, roles)
        if len(fields) != n_columns:
            listed_roles = " ".join(TREC_FIELDS) if n_columns == len(TREC_FIELDS) else " ".join(roles)
            raise DataError(f"{location}: expected {counted(n_columns, 'field')} ({listed_roles}), found {len(fields)}")
        values = {role: fields[column] for role, column in roles.items()}
        if "tag" in values:
            run_lines.tags[values["tag"]] = None
        if "number" in values:
            numbers.setdefault(values["query"], []).append(values["number"])
            values["score"] = values["number"]
        run_lines.lines.append(_build_line(values, location))
    if numbers:
        _resolve_numbers(run_lines, numbers)


def _is_complete(fields: Fields) -> bool:
    """Return True if a run's line may consist of these fields."""
    if _is_header(fields):
        return True
    number_column = 3 if len(fields) >= len(TREC_FIELDS) else len(fields) - 1
    return len(fields) >= min(_ORDERS) and _is_number(fields[number_column])


def _is_header(fields: Fields) -> bool:
    """Return True if a file's first line names its columns."""
    if any(_is_number(text) for text in fields if text.strip() != "0"):
        return False
    roles = find_columns(fields, RUN_NAMES, "a run")
    return {"query", "document"} <= roles.keys() and ("rank" in roles or "score" in roles)


def _is_number(text: str) -> bool:
    """Return True if a field is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_layout(fields: Fields, label: str, location: str) -> Roles:
    """Find the roles of columns by a header or by their number. Raises DataError if they are none of a run."""
    if _is_header(fields):
        return find_columns(fields, RUN_NAMES, label)
    order = _ORDERS.get(min(len(fields), max(_ORDERS)))
    has_iteration = len(fields) > 1 and fields[1].strip().lower() in ("0", "q0")
    if order is None or (len(fields) == 5 and not has_iteration):
        expected = f"{len(TREC_FIELDS)} fields ({' '.join(TREC_FIELDS)})"
        raise DataError(f"{location}: expected {expected}, found {len(fields)}; or {RUN_FORMS}")
    if len(fields) == 4 and has_iteration:
        raise DataError(
            f"{location}: query, {fields[1]}, document and grade are judgements, not a run; expected {RUN_FORMS}"
        )
    return {role: column for column, role in enumerate(order)}


def _join_tag(fields: Fields, n_columns: int, roles: Roles) -> Fields:
    """Return the fields of a line, with a tag of several words as one of them."""
    if len(fields) > n_columns and roles.get("tag") == n_columns - 1:
        return [*fields[: n_columns - 1], " ".join(fields[n_columns - 1 :])]
    return fields


def _build_line(values: Mapping[str, Any], location: str) -> RunLine:
    """Build a line of a run from its values by role. Raises DataError for a rank or a score that is none."""
    numbers: dict[str, Any] = {}
    for role in ("rank", "score"):
        value = values.get(role)
        numbers[role] = None if value is None else parse_number(value, role, location)
    return RunLine(values["query"], values["document"], numbers["rank"], numbers["score"])


def _resolve_numbers(run_lines: RunLines, numbers: Mapping[str, Sequence[str]]) -> None:
    """Decide whether the third of three columns holds ranks or scores, and note it.

    numbers: query → the texts of its lines' third column. Ranks are whole numbers, each once a query, that rise from
    line to line or are 1, 2, 3 … in any order; scores have fractions, or fall. Raises DataError if both is possible.
    """
    kind: str | None = "score"
    if all(_WHOLE_NUMBER.fullmatch(text.strip()) for texts in numbers.values() for text in texts):
        kind = _guess_kind([[int(float(text)) for text in texts] for texts in numbers.values()])
    if kind is None:
        raise DataError(
            f"{run_lines.label}: the third column can be ranks or scores; name the columns in a first line (query, "
            "document and rank, or score)"
        )
    n_lines = len(run_lines.lines)
    if kind == "rank":
        run_lines.lines = [RunLine(line.query, line.document, int(line.score or 0), None) for line in run_lines.lines]
    run_lines.notices = (
        Notice(f"lines of {Path(run_lines.label).name} are read as query, document and {kind}", n_lines),
    )


def _guess_kind(number_lists: Sequence[Sequence[int]]) -> str | None:
    """Return "rank" or "score" for the whole numbers of each query's lines; None if they can be either."""
    are_distinct = all(len(set(numbers)) == len(numbers) for numbers in number_lists)
    are_rising = all(lower < upper for numbers in number_lists for lower, upper in pairwise(numbers))
    are_falling = all(lower >= upper for numbers in number_lists for lower, upper in pairwise(numbers))
    # Places are counted from 0 or from 1, without gaps.
    are_places = are_distinct and all(
        min(numbers) <= 1 and max(numbers) - min(numbers) == len(numbers) - 1 for numbers in number_lists
    )
    if are_places and (are_rising or not are_falling):
        return "rank"
    if are_places:
        return None
    # Lists of one document each both rise and fall.
    if are_rising:
        return None if are_falling else "rank"
    return "score" if are_falling else None


def _read_records(
    records: Iterator[tuple[int, Mapping[str, Any]]], run_lines: RunLines, row_word: str = "line"
) -> Iterator[RunLine]:
    """Yield the lines of a run from objects. Raises DataError if ids, or both rank and score, are missing."""
    names: Fields = []
    roles: Roles = {}
    for line_number, record in records:
        location = f"{run_lines.label} {row_word} {line_number}"
        if list(record) != names:
            names = list(record)
            roles = find_columns(names, RUN_NAMES, location)
        for role in ("query", "document"):
            if role not in roles:
                raise DataError(f"{location}: no {role!r}; found {', '.join(map(repr, record)) or 'nothing'}")
        values = {role: record[names[column]] for role, column in roles.items()}
        if values.get("rank") is None and values.get("score") is None:
            raise DataError(f"{location}: neither 'rank' nor 'score'; one of them must order the documents")
        for role in ("query", "document"):
            values[role] = parse_id(values[role], location, names[roles[role]])
        if isinstance(values.get("tag"), str):
            run_lines.tags[values["tag"]] = None
        yield _build_line(values, location)


def _read_dictionary(document: Any, label: str) -> Iterator[RunLine]:
    """Yield the lines of {query: {document: score}}, or of {query: [document, …]} in the order of each list.

    The entries of a list may be pairs of document and score, or objects with both. Raises DataError for another shape.
    """
    for query, ranked in _unwrap(document, label).items():
        location = f"{label} query {query!r}"
        if isinstance(ranked, dict):
            for doc_id, score in ranked.items():
                yield RunLine(query, doc_id, None, parse_number(score, "score", f"{location}, document {doc_id!r}"))
            continue
        if not isinstance(ranked, list):
            raise DataError(f"{location}: expected {{document: score}} or a list; found {type(ranked).__name__}")
        for rank, entry in enumerate(ranked, 1):
            yield _read_entry(entry, query, rank, f"{location}, entry {rank}")


def _read_entry(entry: Any, query: str, rank: int, location: str) -> RunLine:
    """Read one entry of a query's list: a document, a pair of document and score, or an object with both.

    rank: its place in the list, which orders the documents unless objects have ranks. Raises DataError.
    """
    if isinstance(entry, dict):
        roles = find_columns(list(entry), RUN_NAMES, location)
        values = {role: list(entry.values())[column] for role, column in roles.items()}
        entry = [values.get("document"), values.get("score")]
        rank = rank if values.get("rank") is None else parse_number(values["rank"], "rank", location)
    if not isinstance(entry, list):
        entry = [entry, None]
    if len(entry) != 2:
        raise DataError(f"{location}: expected a document, or a document and a score; found {str(entry)[:80]}")
    document_id, score = entry
    document = parse_id(document_id, location, "document")
    return RunLine(query, document, rank, None if score is None else parse_number(score, "score", location))


def _unwrap(document: Any, label: str) -> dict[str, Any]:
    """Return the dictionary of queries, which MTEB puts below the names of a subset and a split.

    Raises DataError if there is none, or if there are several.
    """
    if not isinstance(document, dict):
        raise DataError(f"{label}: expected {{query: {{document: score}}}}; found {type(document).__name__}")
    ranked: dict[str, Any] = document
    while (depth := _measure_depth(ranked)) > 2:
        inner_keys = [key for key, value in ranked.items() if _measure_depth(value) == depth - 1]
        if len(inner_keys) > 1:
            listed_keys = ", ".join(map(repr, inner_keys[:5]))
            raise DataError(f"{label} holds several runs: {listed_keys}; save each as {{query: {{document: score}}}}")
        ranked = ranked[inner_keys[0]]
    return ranked


def _measure_depth(value: Any) -> int:
    """Return how many dictionaries lie inside one another, by the first values of each; 0 for another value."""
    if not isinstance(value, dict):
        return 0
    return 1 + max(map(_measure_depth, islice(value.values(), _MAX_INSPECTED_VALUES)), default=0)


def parse_number(value: Any, role: str, location: str) -> Any:
    """Parse a rank, a whole number from 0, or a finite score; DataError names `location` otherwise."""
    try:
        number: Any = float(value)
        # Python reads 1_000 as a number, which no other reader of runs does.
        if isinstance(value, bool) or not math.isfinite(number) or "_" in str(value):
            raise ValueError
        if role == "rank":
            if not _WHOLE_NUMBER.fullmatch(str(value).strip()):
                raise ValueError
            number = int(number)
    except (TypeError, ValueError, OverflowError):
        expected_text = "a whole number from 0" if role == "rank" else "a number"
        raise DataError(f"{location}: the {role} must be {expected_text}; found {value!r}") from None
    return number
