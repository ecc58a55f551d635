"""Documents from one file: CSV, TSV, JSON Lines or Parquet. Ids and texts are kept byte for byte, never interpreted.

CSV: fields that hold commas, quotes or line breaks stand in double quotes, a quote inside them is doubled (RFC 4180);
semicolons, tabs or bars in place of commas are recognised by the header.
TSV: no quoting at all, as in judgement files and most published corpora; a double quote is a character like any other.
"""

import csv
import json
import re
from array import array
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.data import line_texts
from engine.data.files import HeldFile
from engine.data.line_texts import LineTexts
from engine.data.parquet import ParquetTable
from engine.data.textfiles import LONGEST, SILENT, lines
from engine.errors import DataError, RepeatedIdError
from engine.progress import Progress, counted
from engine.values import Notice, replace_surrogates

Rows = Generator[tuple[int, Mapping[str, Any]]]
TableFile = Path | HeldFile

ID_NAMES = ("id", "_id", "doc_id", "docid", "document_id", "documentid", "uid", "uuid")
TEXT_NAMES = ("text", "body", "content", "passage", "description")
TITLE_NAMES = ("title", "name", "headline", "heading", "subject")

_ID_ENDING = re.compile("(_id|(^|_)(no|nr|number|code|key|ref))$")

TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
SUFFIXES = (*TEXT_SUFFIXES, ".parquet")
KINDS = "a .csv, .tsv, .jsonl, .ndjson or .parquet file (decompressed)"

SEPARATORS = (",", ";", "\t", "|")
"""Between the columns of a CSV file, as its header is searched for them."""
REPEATED = ("refuse", "first", "number")
"""What is done about an id that an earlier row has: an error, the first row alone is kept, the others are numbered."""

_HEAD = 20  # rows looked at to learn the columns of a JSON Lines file and to guess what they mean
_SAMPLE = 8_192  # characters from which a separator is guessed where the header has several
_CELL = 1 << 16  # characters of a cell that a preview shows
_COLUMNS = 16_384  # as many as a spreadsheet can have: each row of a preview is a mapping of all
_LONG = 1 << 16  # bytes of a line that is looked at before it is parsed
_PARTS = 1 << 19  # commas and brackets in such a line: each may become an object of a hundred times its size
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
    """The first rows of a table, as text, of which a cell shows the first 65,536 characters.

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


def preview(path: str | TableFile, rows: int = _HEAD, separator: str | None = None) -> Preview:
    """The columns, the first rows and a mapping guessed by usual names, else by long texts. Raises DataError."""
    path = Path(path) if isinstance(path, str) else path
    names, records, total = _open(path, separator=separator, rows=rows + 1)
    if not names:
        raise DataError(f"{path.name} is empty")
    shown: list[dict[str, str]] = []
    nested: dict[str, None] = {}
    with closing(records):
        # One row after the other: as text, an object is a tenth as large.
        for _, record in islice(records, rows + 1):
            shown.append({name: replace_surrogates(_shown(record.get(name))[:_CELL]) for name in names})
            if type(more := record.get("metadata")) is dict:
                nested |= dict.fromkeys(islice(more, _COLUMNS))
    if total is None and len(shown) <= rows:
        total = len(shown)
    return Preview(tuple(names), shown[:rows], total, _guess(names, shown[:rows]), tuple(nested)[:_COLUMNS])


def read_documents(
    path: str | TableFile,
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
    path, notices = Path(path) if isinstance(path, str) else path, []
    if repeated not in REPEATED:
        raise DataError(f"repeated must be one of {', '.join(map(repr, REPEATED))}; got {repeated!r}")
    guessed = columns is None
    columns = preview(path, separator=separator).guess if columns is None else columns
    columns = replace(columns, metadata=tuple(dict.fromkeys((*columns.metadata, *metadata))))
    passages = _Passages(path, columns)
    _, records, _ = _open(path, columns, watch, separator, passages.ends)
    places = array("q")
    ids: list[str] = []
    kept: dict[str, list[str | None]] = {name: [] for name in columns.metadata}
    with closing(records):
        for number, record in records:
            places.append(number)
            text = record.get(columns.text, _ABSENT)
            text = text if type(text) is str else _as_text(text, columns.text, path, number, record)
            if columns.id is None:
                ids.append(str(len(ids)))
            else:
                doc = record.get(columns.id, _ABSENT)
                ids.append(doc if doc and type(doc) is str else as_id(doc, _place(path, number), columns.id))
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
        notices += Notice.for_ids(
            what, (doc for doc, text in zip(ids, passages.texts, strict=True) if _looks_quoted(text))
        )
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

    def __init__(self, path: TableFile, columns: Columns) -> None:
        self.path, self.columns = path.path if isinstance(path, HeldFile) else path, columns
        self.texts: list[str] = []
        self.titles: list[str] = []
        stay = isinstance(path, Path) and _suffix(path) in (".jsonl", ".ndjson") and path.is_file()
        stay = stay and self.path.stat().st_size > line_texts.LARGE
        self.ends = array("q") if stay else None
        self._facts = line_texts.file_facts(self.path) if stay else ""
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
    path: TableFile, ids: list[str], places: Sequence[int], repeated: str
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
        gone = Notice.for_ids("rows were left out: an earlier one has their id", (ids[row] for row in again))
        return list(first), list(first.values()), gone
    renamed, number = list(ids), dict.fromkeys(first, 1)
    for row in again:
        doc = ids[row]
        number[doc] += 1
        while f"{doc}-{number[doc]}" in first:
            number[doc] += 1
        renamed[row] = f"{doc}-{number[doc]}"
    what = "rows have an id that an earlier one has: a number was put behind it"
    return renamed, range(len(ids)), Notice.for_ids(what, (renamed[row] for row in again))


def as_id(value: Any, place: str, column: str = "id") -> str:
    """An id as text: text as it is, a whole number in decimal. Raises DataError for anything else, naming `place`."""
    if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        return str(value)
    what = "nothing" if value is _ABSENT else "null" if value is None else _with_type(value)
    raise DataError(f"{place}: the id in {column!r} must be text or a whole number; found {what}")


def _as_text(value: Any, column: str, path: TableFile, number: int, record: Mapping[str, Any]) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is _ABSENT:
        has = ", ".join(map(repr, islice(record, _HEAD))) or "nothing"
        raise DataError(f"{_place(path, number)}: {column!r} is missing (an empty text is legal); found {has}")
    raise DataError(f"{_place(path, number)}: {column!r} must be text; found {_with_type(value)}")


def _with_type(value: Any) -> str:
    return "an empty text" if value == "" else f"{_shown(value)[:80]} ({type(value).__name__})"


def guess_separator(path: TableFile) -> str:
    """What stands between the columns of a CSV file: the only one that its header has, else what csv.Sniffer finds."""
    with closing(lines(path)) as numbered:
        return _separator_of(_first_lines(text for _, text in numbered))


def _first_lines(texts: Iterable[str]) -> list[str]:
    """As many lines as a separator is guessed from."""
    head: list[str] = []
    for text in islice(texts, _HEAD):
        head.append(text)
        if sum(map(len, head)) >= _SAMPLE:
            break
    return head


def _separator_of(head: Sequence[str]) -> str:
    found = [mark for mark in SEPARATORS if head and mark in head[0]]
    if len(found) < 2:
        return (found or SEPARATORS)[0]
    try:
        return csv.Sniffer().sniff("".join(head)[:_SAMPLE], "".join(found)).delimiter
    except csv.Error:
        return found[0]


def _open(
    path: TableFile,
    columns: Columns | None = None,
    watch: Progress = SILENT,
    separator: str | None = None,
    ends: "array[int] | None" = None,
    rows: int | None = None,
) -> tuple[list[str], Rows, int | None]:
    """The column names of a table, its rows, and how many it says it has, None where it says nothing.

    columns: those that must be there and that alone may be read; ends: gets the ends of the lines of a JSON Lines file,
    as of `lines`; rows: as many as are read, None for all
    """
    required = list(dict.fromkeys(columns.required)) if columns else None
    suffix, total = _suffix(path), None
    if separator is not None and (suffix != ".csv" or len(separator) != 1 or separator in '"\r\n'):
        raise DataError(f"separator must be one character between the columns of a .csv file; got {separator!r}")
    match suffix:
        case ".csv":
            names, records = _with_header(path, _csv_rows(path, watch, separator))
        case ".tsv":
            names, records = _with_header(path, _tsv_rows(path, watch))
        case ".jsonl" | ".ndjson":
            names, required, records = [], None, json_rows(path, watch, ends)
            if columns is None:
                # Keys may differ from line to line: a missing one is an error of its line.
                with closing(json_rows(path)) as head:
                    names = list(dict.fromkeys(key for _, record in islice(head, _HEAD) for key in record))
        case ".parquet":
            table = ParquetTable(path if isinstance(path, Path) else path.path, required, rows)
            names, records, total = table.names, table.rows(watch), table.total
        case _:
            raise DataError(f"{path.name}: cannot read {suffix or 'a file without a suffix'}; expected {KINDS}")
    if len(names) > _COLUMNS:
        raise DataError(f"{path.name} has {len(names):,} columns; at most {_COLUMNS:,} are read")
    for name in required or ():
        if names.count(name) != 1:
            number = f"{names.count(name)} columns" if name in names else "no column"
            listed = ", ".join(map(repr, names[:_HEAD]))
            raise DataError(f"{path.name}: {number} called {name!r}; it has {listed}")
    return names, records, total


def _csv_rows(path: TableFile, watch: Progress, separator: str | None) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # the module's own limit is 131,072 characters: a book chapter is longer
    first, length, parts = 1, 0, 0
    texts: Iterable[str] = (text for _, text in lines(path, watch))
    if separator is None:
        head = _first_lines(texts)
        separator, texts = _separator_of(head), chain(head, texts)

    def checked() -> Iterator[str]:
        """The lines, counted from the first of a row: a quote that nobody closes joins all that follow."""
        nonlocal length, parts
        for text in texts:
            length += len(text)
            if length > _LONG:
                parts += text.count(separator)
                if length > LONGEST or parts > _PARTS:
                    raise DataError(
                        f"{path.name} line {first}: the row that begins here goes on for {length:,} characters; "
                        "is a closing double quote missing?"
                    )
            yield text

    reader = csv.reader(checked(), delimiter=separator, strict=True)
    while True:
        first, length, parts = reader.line_num + 1, 0, 0
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


def _tsv_rows(path: TableFile, watch: Progress) -> Iterator[tuple[int, list[str]]]:
    for number, text in lines(path, watch):
        if text := text.removesuffix("\n").removesuffix("\r"):
            if len(text) > _LONG:
                _check_parts(path, number, text, "\t")
            yield number, text.split("\t")


def _check_parts(path: TableFile, number: int, text: str, marks: str) -> None:
    """Refuse a long line that would become far too many values. Raises DataError."""
    if (parts := sum(map(text.count, marks))) > _PARTS:
        raise DataError(
            f"{path.name} line {number} has {len(text):,} characters with {parts:,} of {' '.join(map(repr, marks))}; "
            f"at most {_PARTS:,} are read in so long a line"
        )


def _with_header(path: TableFile, rows: Iterator[tuple[int, list[str]]]) -> tuple[list[str], Rows]:
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


def json_rows(path: TableFile, watch: Progress = SILENT, ends: "array[int] | None" = None) -> Rows:
    """(line number, object) of each line of a JSON Lines file; blank lines are passed over. Raises DataError.

    ends: as of `lines`
    """
    for number, text in lines(path, watch, ends):
        if long := len(text) > _LONG:
            _check_parts(path, number, text, ",[{")
        try:
            record = _DECODE(text)
        except json.JSONDecodeError as error:
            if not text.strip():
                continue
            place = f"{path.name} line {number} column {error.pos + 1}"
            raise DataError(f"{place}: {error.msg}; every line must be one whole JSON object") from None
        except (ValueError, RecursionError) as error:  # a key twice; thousands of digits; brackets nested too deep
            raise DataError(f"{path.name} line {number}: {error}") from None
        if type(record) is not dict:
            kind = type(record).__name__
            raise DataError(f"{path.name} line {number} column 1: every line must be a JSON object; found a {kind}")
        if long and len(record) > _COLUMNS:
            raise DataError(f"{path.name} line {number} has {len(record):,} keys; at most {_COLUMNS:,} are read")
        yield number, record


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises ValueError where a key stands in it twice: which value is meant, nobody knows."""
    record = dict(pairs)
    if len(record) < len(pairs):
        key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {key[:80]!r} stands twice in one object; keep one of them")
    return record


_DECODE = json.JSONDecoder(object_pairs_hook=_unrepeated).decode


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


def _place(path: TableFile, number: int) -> str:
    return f"{path.name} {'row' if _suffix(path) == '.parquet' else 'line'} {number}"


def _shown(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)  # dates and decimals, as Parquet has them


def _suffix(path: TableFile) -> str:
    return path.suffix.lower()
