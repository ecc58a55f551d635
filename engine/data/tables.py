"""Documents from one file: CSV, TSV, JSON Lines or Parquet. Ids and texts are kept byte for byte, never interpreted.

CSV: fields that hold commas, quotes or line breaks stand in double quotes, a quote inside them is doubled (RFC 4180);
semicolons, tabs or bars in place of commas are recognised by the header.
TSV: no quoting at all, as in judgement files and most published corpora; a double quote is a character like any other.
"""

import csv
import json
import re
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.data import line_texts
from engine.data.line_texts import LineTexts
from engine.data.textfiles import SILENT, lines
from engine.errors import DataError, RepeatedIdError
from engine.progress import Progress, counted
from engine.values import Notice, replace_surrogates

Rows = Generator[tuple[int, Mapping[str, Any]]]

ID_NAMES = ("id", "_id", "doc_id", "docid", "document_id", "documentid", "uid", "uuid")
TEXT_NAMES = ("text", "body", "content", "passage", "description")
TITLE_NAMES = ("title", "name", "headline", "heading", "subject")

_ID_ENDING = re.compile("(_id|(^|_)(no|nr|number|code|key|ref))$")

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
KINDS = "a .csv, .tsv, .jsonl, .ndjson or .parquet file (decompressed)"

SEPARATORS = (",", ";", "\t", "|")
"""Between the columns of a CSV file, as its header is searched for them."""
REPEATED = ("refuse", "first", "number")
"""What is done about an id that an earlier row has: an error, the first row alone is kept, the others are numbered."""

_HEAD = 20  # rows looked at to learn the columns of a JSON Lines file and to guess what they mean
_BATCH = 4096  # rows between two looks at `stop`
_SAMPLE = 16_384  # characters from which a separator is guessed where the header has several
_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a table are the id, the text and the title; without an id column rows are numbered from 0.

    metadata: columns that are kept beside the documents, as text.
    """

    id: str | None = None
    text: str
    title: str | None = None
    metadata: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """Those that a table must have."""
        return tuple(name for name in (self.id, self.text, self.title, *self.metadata) if name is not None)


@dataclass(frozen=True)
class Preview:
    """The first rows of a table, as text.

    total: how many rows there are, None where only a full read would tell; nested: keys of objects called "metadata"
    """

    columns: tuple[str, ...]
    rows: list[dict[str, str]]
    total: int | None
    guess: Columns
    nested: tuple[str, ...] = ()


def named_columns(names: Mapping[str, str]) -> Columns:
    """The columns of a mapping: "text", and "id" and "title" where a table has them. Raises DataError."""
    if "text" not in names or not names.keys() <= {"text", "id", "title"}:
        raise DataError(f"columns must name text, and may name id and title; got {', '.join(names) or 'nothing'}")
    return Columns(id=names.get("id"), text=names["text"], title=names.get("title"))


class Documents(NamedTuple):
    """What a table holds: ids, texts, titles and columns of one length, and what a person should know about them."""

    ids: tuple[str, ...]
    texts: Sequence[str]
    titles: Sequence[str]
    notices: tuple[Notice, ...]
    metadata: Mapping[str, tuple[str, ...]]


def preview(path: str | Path, rows: int = _HEAD, separator: str | None = None) -> Preview:
    """The columns, the first rows and a mapping guessed by usual names, else by long texts. Raises DataError."""
    path = Path(path)
    names, records = _open(path, separator=separator)
    if not names:
        raise DataError(f"{path.name} is empty")
    with closing(records):
        head = list(islice(records, rows + 1))
    total = len(head) if len(head) <= rows else None
    if _suffix(path) == ".parquet":
        from pyarrow.parquet import read_metadata

        total = int(read_metadata(path).num_rows)
    shown = [{name: replace_surrogates(_shown(record.get(name))) for name in names} for _, record in head[:rows]]
    objects = [more for _, record in head if type(more := record.get("metadata")) is dict]
    nested = tuple(dict.fromkeys(key for more in objects for key in more))
    return Preview(tuple(names), shown, total, _guess(names, shown), nested)


def read_documents(
    path: str | Path,
    columns: Columns | None = None,
    watch: Progress = SILENT,
    *,
    metadata: Sequence[str] = (),
    separator: str | None = None,
    repeated: str = "refuse",
) -> Documents:
    """Every row of a table as a document, in file order; columns: None guesses.

    metadata: further columns to keep, in JSON also keys of an object "metadata"; what no row has is left out.
    separator: of a CSV file, None guesses; repeated: one of REPEATED. A missing title and a null text are empty.
    Texts and titles of a JSON Lines file of more than `line_texts.LARGE` bytes stay there. Raises DataError naming
    file, row and cause; Cancelled.
    """
    path, notices = Path(path), []
    if repeated not in REPEATED:
        raise DataError(f"repeated must be one of {', '.join(map(repr, REPEATED))}; got {repeated!r}")
    guessed = columns is None
    columns = preview(path, separator=separator).guess if columns is None else columns
    columns = replace(columns, metadata=tuple(dict.fromkeys((*columns.metadata, *metadata))))
    passages = _Passages(path, columns)
    _, records = _open(path, columns, watch, separator, passages.ends)
    places = array("q")
    ids: list[str] = []
    kept: dict[str, list[str | None]] = {name: [] for name in columns.metadata}
    for number, record in records:
        places.append(number)
        text = record.get(columns.text, _ABSENT)
        text = text if type(text) is str else _as_text(text, columns.text, path, number, record)
        if columns.id is None:
            ids.append(str(len(ids)))
        else:
            doc = record.get(columns.id, _ABSENT)
            ids.append(doc if type(doc) is str else as_id(doc, _place(path, number), columns.id))
        title = record.get(columns.title) if columns.title is not None else ""
        title = title if type(title) is str else _as_text(title, columns.title or "", path, number, record)
        passages.add(text, title)
        for name, values in kept.items():
            values.append(_named(record, name))
    if columns.id is None:
        notices.append(Notice("rows without an id column: their ids are row numbers, counted from 0", len(ids)))
    if guessed and _usual(columns.text) not in TEXT_NAMES:
        notices.append(Notice(f"texts taken from column {columns.text!r}: no column has a usual name", len(ids)))
    if _suffix(path) == ".tsv":
        what = "texts stand in double quotes, which were kept: TSV has no quoting (for quoted fields, save as CSV)"
        notices += Notice.of(what, (doc for doc, text in zip(ids, passages.texts, strict=True) if _looks_quoted(text)))
    ids, rows, remarks = _each_once(path, ids, places, repeated)
    present = {name: values for name, values in kept.items() if any(value is not None for value in values)}
    return Documents(
        tuple(ids),
        *passages.of(places, rows),
        (*notices, *remarks),
        {name: tuple(values[row] or "" for row in rows) for name, values in present.items()},
    )


class _Passages:
    """Texts and titles of the rows as they are read: in memory, but for a large JSON Lines file, where they stay.

    ends: of its lines, which `lines` gives; None in memory
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self.columns = path, columns
        self.texts: list[str] = []
        self.titles: list[str] = []
        stay = _suffix(path) in (".jsonl", ".ndjson") and path.is_file() and path.stat().st_size > line_texts.LARGE
        self.ends = array("q") if stay else None
        self._facts = line_texts.file_facts(path) if stay else ""
        self._titled = False

    def add(self, text: str, title: str) -> None:
        self._titled = self._titled or bool(title)
        if self.ends is None:
            self.texts.append(text)
            self.titles.append(title)

    def of(self, places: Sequence[int], rows: Sequence[int]) -> tuple[Sequence[str], Sequence[str]]:
        """Texts and titles of some rows; places: the line number of each row, from 1."""
        if self.ends is None:
            return tuple(self.texts[row] for row in rows), tuple(self.titles[row] for row in rows)
        line = np.asarray(places)[np.asarray(rows, np.int64)]
        ends = np.asarray(self.ends)
        texts = LineTexts(self.path, self.columns.text, np.stack([ends[line - 1], ends[line]], axis=1), self._facts)
        title = self.columns.title if self._titled else None
        return texts, texts.of_field(title) if title else ("",) * len(texts)


def _named(record: Mapping[str, Any], name: str) -> str | None:
    """A column's value in a row, or in the row's object "metadata", as BEIR has it; None where neither has it."""
    value, more = record.get(name, _ABSENT), record.get("metadata")
    if value is _ABSENT and type(more) is dict:
        value = more.get(name, _ABSENT)
    return None if value is _ABSENT else _shown(value)


def _each_once(
    path: Path, ids: list[str], places: Sequence[int], repeated: str
) -> tuple[list[str], Sequence[int], tuple[Notice, ...]]:
    """The ids with no id twice, the rows that they are of, and a remark on what was done about others."""
    first: dict[str, int] = {}
    again = [row for row, doc in enumerate(ids) if first.setdefault(doc, row) != row]
    if not again:
        return ids, range(len(ids)), ()
    doc = ids[again[0]]
    if repeated == "refuse":
        kind = "row" if _suffix(path) == ".parquet" else "line"
        raise RepeatedIdError(
            f"{_place(path, places[again[0]])}: {kind} {places[first[doc]]} has the id {doc!r} already "
            f"({counted(len(again), 'row repeats', 'rows repeat')} an id); "
            'keep the first of each (repeated="first", --repeated first) or number the others '
            f'(repeated="number", --repeated number, as {doc + "-2"!r})'
        )
    if repeated == "first":
        gone = Notice.of("rows were left out: an earlier one has their id", (ids[row] for row in again))
        return list(first), list(first.values()), gone
    renamed, number = list(ids), dict.fromkeys(first, 1)
    for row in again:
        doc = ids[row]
        number[doc] += 1
        while f"{doc}-{number[doc]}" in first:
            number[doc] += 1
        renamed[row] = f"{doc}-{number[doc]}"
    what = "rows have an id that an earlier one has: a number was put behind it"
    return renamed, range(len(ids)), Notice.of(what, (renamed[row] for row in again))


def as_id(value: Any, place: str, column: str = "id") -> str:
    """An id as text: text as it is, a whole number in decimal. Raises DataError for anything else, naming `place`."""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    what = "nothing" if value is _ABSENT else "null" if value is None else f"{_shown(value)} ({type(value).__name__})"
    raise DataError(f"{place}: the id in {column!r} must be text or a whole number; found {what}")


def _as_text(value: Any, column: str, path: Path, number: int, record: Mapping[str, Any]) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is _ABSENT:
        has = ", ".join(map(repr, record)) or "nothing"
        raise DataError(f"{_place(path, number)}: {column!r} is missing (an empty text is legal); found {has}")
    raise DataError(f"{_place(path, number)}: {column!r} must be text; found {_shown(value)} ({type(value).__name__})")


def guess_separator(path: Path) -> str:
    """What stands between the columns of a CSV file: the only one that its header has, else what csv.Sniffer finds."""
    with closing(lines(path)) as numbered:
        head = [text for _, text in islice(numbered, _HEAD)]
    found = [mark for mark in SEPARATORS if head and mark in head[0]]
    if len(found) < 2:
        return (found or SEPARATORS)[0]
    try:
        return csv.Sniffer().sniff("".join(head)[:_SAMPLE], "".join(found)).delimiter
    except csv.Error:
        return found[0]


def _open(
    path: Path,
    columns: Columns | None = None,
    watch: Progress = SILENT,
    separator: str | None = None,
    ends: "array[int] | None" = None,
) -> tuple[list[str], Rows]:
    """The column names of a table and its rows; `columns`: those that must be there and that alone may be read.

    ends: gets the ends of the lines of a JSON Lines file, as of `lines`
    """
    required = list(dict.fromkeys(columns.required)) if columns else None
    suffix = _suffix(path)
    if separator is not None and (suffix != ".csv" or len(separator) != 1 or separator in '"\r\n'):
        raise DataError(f"separator must be one character between the columns of a .csv file; got {separator!r}")
    match suffix:
        case ".csv":
            names, records = _with_header(path, _csv_rows(path, watch, separator or guess_separator(path)))
        case ".tsv":
            names, records = _with_header(path, _tsv_rows(path, watch))
        case ".jsonl" | ".ndjson":
            records = json_rows(path, watch, ends)
            head = list(islice(records, _HEAD))
            # Keys may differ from line to line: a missing one is an error of its line.
            names = list(dict.fromkeys(key for _, record in head for key in record))
            return names, (row for part in (head, records) for row in part)
        case ".parquet":
            names, records = _parquet(path, required, watch)
        case _:
            raise DataError(f"{path.name}: cannot read {suffix or 'a file without a suffix'}; expected {KINDS}")
    for name in required or ():
        if names.count(name) != 1:
            number = f"{names.count(name)} columns" if name in names else "no column"
            raise DataError(f"{path.name}: {number} called {name!r}; it has {', '.join(map(repr, names))}")
    return names, records


def _csv_rows(path: Path, watch: Progress, separator: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # the module's own limit is 131,072 characters: a book chapter is longer
    reader = csv.reader((text for _, text in lines(path, watch)), delimiter=separator, strict=True)
    while True:
        first = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cause = str(error)
            if "new-line" in cause:  # the module's advice is for programmers
                cause = "a carriage return outside double quotes; lines must end in LF or CRLF"
            raise DataError(f"{path.name} line {first}: not CSV: {cause}") from None
        if fields:
            yield first, fields


def _tsv_rows(path: Path, watch: Progress) -> Iterator[tuple[int, list[str]]]:
    for number, text in lines(path, watch):
        if text := text.removesuffix("\n").removesuffix("\r"):
            yield number, text.split("\t")


def _with_header(path: Path, rows: Iterator[tuple[int, list[str]]]) -> tuple[list[str], Rows]:
    _, names = next(rows, (0, None))
    if names is None:
        raise DataError(f"{path.name} is empty; its first line must name the columns")

    def records() -> Rows:
        for number, fields in rows:
            if len(fields) != len(names):
                quoted = _suffix(path) == ".tsv" and any('"' in field for field in fields)
                advice = "; TSV has no quoting, so save quoted fields with line breaks or tabs as CSV" if quoted else ""
                raise DataError(f"{path.name} line {number}: expected {len(names)} fields, found {len(fields)}{advice}")
            yield number, dict(zip(names, fields, strict=True))

    return names, records()


def json_rows(path: Path, watch: Progress = SILENT, ends: "array[int] | None" = None) -> Rows:
    """(line number, object) of each line of a JSON Lines file; blank lines are passed over. Raises DataError.

    ends: as of `lines`
    """
    for number, text in lines(path, watch, ends):
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            if not text.strip():
                continue
            place = f"{path.name} line {number} column {error.pos + 1}"
            raise DataError(f"{place}: {error.msg}; every line must be one whole JSON object") from None
        except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets nested too deep
            raise DataError(f"{path.name} line {number}: {error}") from None
        if type(record) is not dict:
            kind = type(record).__name__
            raise DataError(f"{path.name} line {number} column 1: every line must be a JSON object; found a {kind}")
        yield number, record


def _parquet(path: Path, required: list[str] | None, watch: Progress) -> tuple[list[str], Rows]:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    unreadable = (pa.ArrowException, ValueError, OSError)
    try:
        file = ParquetFile(path)
        names, total = list(file.schema_arrow.names), file.metadata.num_rows
    except unreadable as error:
        raise DataError(f"{path.name} is not a readable Parquet file: {error}") from None

    def records() -> Rows:
        batches, done = file.iter_batches(_BATCH, columns=required), 0
        with file:
            while True:
                watch(done, total, f"reading {path.name}")
                try:
                    batch = next(batches)
                    values = [column.to_pylist() for column in batch.columns]
                except StopIteration:
                    return
                except unreadable as error:
                    raise DataError(f"{path.name}, in the {_BATCH} rows after row {done}: {error}") from None
                for row in zip(*values, strict=True):
                    done += 1
                    yield done, dict(zip(batch.schema.names, row, strict=True))

    return names, records()


def _guess(names: list[str], head: list[dict[str, str]]) -> Columns:
    usual = {_usual(name): name for name in reversed(names)}

    def first(known: Iterable[str]) -> str | None:
        return next((usual[name] for name in known if name in usual), None)

    doc, text, title = first(ID_NAMES), first(TEXT_NAMES), first(TITLE_NAMES)
    if doc is None and _ID_ENDING.search(_usual(names[0])) and len({row[names[0]] for row in head}) == len(head):
        doc = names[0]  # "ticket id", "Record No" and the like, where it tells the first rows apart
    if text is None:
        others = [name for name in names if name not in (doc, title)] or [title or names[0]]
        text = max(others, key=lambda name: sum(len(row[name]) for row in head))
    return Columns(id=doc if doc != text else None, text=text, title=title if title != text else None)


def _usual(name: str) -> str:
    """A column's name as the usual ones are written: "Doc ID", "doc-id" and "docId" as "doc_id"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\s.-]+", "_", name.strip()).lower()


def _looks_quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1].replace('""', "")


def _place(path: Path, number: int) -> str:
    return f"{path.name} {'row' if _suffix(path) == '.parquet' else 'line'} {number}"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)  # dates and decimals, as Parquet has them


def _suffix(path: str | Path) -> str:
    return Path(path).suffix.lower()
