"""Lines of ids and numbers, as judgements and runs are written: their separators, headers and names of columns."""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.data.textfiles import MAX_SHORT_LINE_BYTES, SILENT_PROGRESS, read_lines
from engine.errors import DataError
from engine.progress import Progress

QUERY_NAMES = (
    "queryid", "qid", "topicid", "query", "topic", "questionid", "question", "querynumber", "topicnumber", "q",
)  # fmt: skip
DOCUMENT_NAMES = (
    "corpusid", "docno", "docid", "documentid", "pid", "passageid", "productid", "itemid", "paragraphid", "chunkid",
    "document", "doc", "passage", "item", "did", "id",
)  # fmt: skip
TAG_NAMES = ("tag", "runtag", "runid", "run", "runname", "system")
ITERATION_NAMES = ("iteration", "iter", "q0", "0", "round", "unused")
"""Names of columns without spaces, signs and capitals, the surest first: a table may have both query_id and query."""

CSV_MARKS = (",", ";", "|")
_INDEX_NAMES = ("", "unnamed0", "index", "rownames")
_WHOLE_FLOAT = re.compile(r"([+-]?[0-9]+)\.0+")
_SPACES = re.compile(r"[ \t]+")
Fields = list[str]
Roles = dict[str, int]
"""Role of a column, as "query" or "document" → its place in a line."""


def normalize_column(column_name: str) -> str:
    """Return a column's name in small letters and digits alone: "Query-ID" and "query_id" as "queryid"."""
    return re.sub(r"[\W_]+", "", column_name).lower()


def find_columns(column_names: Sequence[str], usual_names: Mapping[str, Sequence[str]], file_label: str) -> Roles:
    """Find the columns with usual names: role → place; roles without one are left out.

    usual_names: role → its names, the surest first. Raises DataError if the name of a role stands twice.
    """
    normalized_names = list(map(normalize_column, column_names))
    roles: Roles = {}
    for role, role_names in usual_names.items():
        matching_name = next((name for name in role_names if name in normalized_names), None)
        if matching_name is None:
            continue
        roles[role] = normalized_names.index(matching_name)
        if normalized_names.count(matching_name) > 1:
            repeated_name = column_names[roles[role]]
            raise DataError(f"{file_label}: two columns are called {repeated_name!r}; give each a name of its own")
    return roles


def list_other_columns(column_names: Sequence[str], roles: Roles) -> list[int]:
    """Return the places of columns without a role, but for those that number the rows."""
    used_columns = set(roles.values())
    is_index = [normalize_column(name) in _INDEX_NAMES for name in column_names]
    return [column for column in range(len(column_names)) if column not in used_columns and not is_index[column]]


def read_field_lines(
    file_path: Path, is_complete: Callable[[Fields], bool], progress: Progress = SILENT_PROGRESS
) -> Iterator[tuple[int, Fields]]:
    """Yield line number and fields of each line that is not blank; the first line decides the separator.

    Tabs separate fields, which may then hold spaces; else commas, semicolons or bars as in a CSV file, with quotes;
    else any number of spaces. is_complete: function that recognises the fields of a whole line; it decides where a line
    has both tabs and spaces, or both commas and spaces. Raises DataError for a line that is too long or is not CSV.
    """
    separator: str | None = None
    for line_number, line_text in read_lines(file_path, progress, max_bytes=MAX_SHORT_LINE_BYTES):
        line_text = line_text.removesuffix("\n").removesuffix("\r")
        if not line_text.strip():
            continue
        if separator is None:
            separator = _guess_separator(line_text, is_complete)
        try:
            yield line_number, split_fields(line_text, separator)
        except csv.Error as error:
            raise DataError(
                f"{file_path.name} line {line_number}: not CSV: {error}; a field must not hold a line break"
            ) from None


def split_fields(line_text: str, separator: str) -> Fields:
    """Split a line at tabs, at CSV's marks, or, if the separator is a space or the line has no tab, at spaces."""
    if separator in CSV_MARKS:
        return next(csv.reader([line_text], delimiter=separator, skipinitialspace=True, strict=True))
    if separator == "\t" and "\t" in line_text:
        return line_text.split("\t")
    return _SPACES.split(line_text.strip(" \t"))


def _guess_separator(line_text: str, is_complete: Callable[[Fields], bool]) -> str:
    """Guess the separator from a file's first line: a tab, a mark of CSV files, or a space."""
    space_fields = split_fields(line_text, " ")
    if "\t" in line_text:
        # Lines such as "301 0<tab>d1 1" are TREC's, in which any white space separates.
        is_spaced = not is_complete(drop_empty_ends(line_text.split("\t"))) and is_complete(space_fields)
        return " " if is_spaced else "\t"
    # A comma that ends each field is a separator too: "q1, d1, 1".
    mark = max(CSV_MARKS, key=line_text.count)
    has_marks = mark in line_text and (
        not is_complete(space_fields) or all(f.endswith(mark) for f in space_fields[:-1])
    )
    return mark if has_marks else " "


def drop_empty_ends(fields: Fields, n_min: int = 0) -> Fields:
    """Return the fields of a line without the empty ones at its end, but at least the first `n_min`."""
    n_fields = len(fields)
    while n_fields > n_min and not fields[n_fields - 1].strip():
        n_fields -= 1
    return fields[:n_fields]


def number_objects(values: Iterable[Any], file_label: str, expected: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Number the objects of a JSON list from 1. Raises DataError for another value; expected: keys, for the error."""
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise DataError(f"{file_label} value {number}: expected an object with {expected}")
        yield number, value


def match_ids(ids: Collection[str], known_ids: Collection[str]) -> dict[str, str]:
    """Find the known ids that unknown ones mean: unknown → known.

    The two differ in form alone: as "12.0" and "12", by spaces around the id, or by double quotes around it. An id that
    could mean several is left out.
    """
    unknown_ids = [id_text for id_text in ids if id_text not in known_ids]
    if not unknown_ids:
        return {}
    wanted_forms = set(map(_reduce_id, unknown_ids))
    candidates: dict[str, list[str]] = {}
    for known_id in known_ids:
        if (form := _reduce_id(known_id)) in wanted_forms:
            candidates.setdefault(form, []).append(known_id)
    matches: dict[str, str] = {}
    for unknown_id in unknown_ids:
        matching_ids = candidates.get(_reduce_id(unknown_id), [])
        if len(matching_ids) == 1:
            matches[unknown_id] = matching_ids[0]
    return matches


def describe_matches(matches: Mapping[str, str]) -> list[str]:
    """Return each matched id with the known one that it means, for a notice."""
    return [f"{unknown_id} = {known_id}" for unknown_id, known_id in matches.items()]


def _reduce_id(id_text: str) -> str:
    """Return an id without spaces and double quotes around it, and a whole float without its point."""
    reduced_id = id_text.strip()
    if len(reduced_id) > 1 and reduced_id[0] == reduced_id[-1] == '"':
        reduced_id = reduced_id[1:-1].strip()
    float_match = _WHOLE_FLOAT.fullmatch(reduced_id)
    return float_match[1] if float_match else reduced_id
