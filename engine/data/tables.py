"""Reading of documents from CSV, TSV, JSON Lines and Parquet files; ids and texts are never changed.

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
from itertools import chain, compress, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.data import line_texts
from engine.data.files import HeldFile
from engine.data.line_texts import LineTexts
from engine.data.parquet import ParquetTable
from engine.data.textfiles import MAX_LINE_BYTES, SILENT_PROGRESS, read_lines
from engine.errors import DataError, RepeatedIdError
from engine.progress import Progress, counted
from engine.values import Notice, replace_surrogates

NumberedRows = Generator[tuple[int, Mapping[str, Any]]]
NumberedFields = Iterator[tuple[int, list[str]]]
TableFile = Path | HeldFile

ID_NAMES = ("id", "_id", "doc_id", "docid", "document_id", "documentid", "uid", "uuid")
TEXT_NAMES = ("text", "body", "content", "passage", "description")
TITLE_NAMES = ("title", "name", "headline", "heading", "subject")

_ID_ENDING = re.compile("(_id|(^|_)(no|nr|number|code|key|ref))$")

TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
TABLE_SUFFIXES = (*TEXT_SUFFIXES, ".parquet")
TABLE_KINDS = "a .csv, .tsv, .jsonl, .ndjson or .parquet file (decompressed)"

CSV_SEPARATORS = (",", ";", "\t", "|")
"""Possible column separators of a CSV file, in the order in which its header is searched."""
REPEATED_ID_RULES = ("refuse", "first", "number")
"""Treatments of an id that an earlier row has: raise an error, keep the first row alone, number the others."""

# Rows that are read to learn the columns of a JSON Lines file and to guess their meaning.
_MAX_HEAD_ROWS = 20
# Characters from which a separator is guessed if the header has several candidates.
_MAX_SAMPLE_CHARS = 8_192
# Characters of a cell in a preview.
_MAX_CELL_CHARS = 1 << 16
# The limit of a spreadsheet; each row of a preview is a mapping of all columns.
_MAX_COLUMNS = 16_384
# Longer lines are checked before they are parsed.
_LONG_LINE_CHARS = 1 << 16
# Commas and brackets in a long line: each may become an object of a hundred times its size.
_MAX_LINE_PARTS = 1 << 19
_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Roles of a table's columns: id, text and title; without an id column rows are numbered from 0.

    metadata: columns that are loaded beside the documents, as text.
    """

    id: str | None = None
    text: str
    title: str | None = None
    metadata: tuple[str, ...] = ()

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(name for name in (self.id, self.text, self.title, *self.metadata) if name is not None)


@dataclass(frozen=True)
class Preview:
    """First rows of a table, as text; a cell shows its first 65,536 characters.

    total_rows: None if only a full read would tell; nested_keys: keys of objects called "metadata"
    """

    columns: tuple[str, ...]
    first_rows: list[dict[str, str]]
    total_rows: int | None
    guessed_columns: Columns
    nested_keys: tuple[str, ...] = ()


def parse_columns(column_names: Mapping[str, str]) -> Columns:
    """Build the roles of a table's columns from a mapping of role to column name.

    The role "text" is required; "id" and "title" are optional. Raises DataError for any other role.
    """
    if "text" not in column_names or not column_names.keys() <= {"text", "id", "title"}:
        listed_names = ", ".join(column_names) or "nothing"
        raise DataError(f"columns must name text, and may name id and title; got {listed_names}")
    return Columns(id=column_names.get("id"), text=column_names["text"], title=column_names.get("title"))


class Documents(NamedTuple):
    """Content of a table: ids, texts, titles and metadata columns of one length, and notices for a person."""

    ids: tuple[str, ...]
    texts: Sequence[str]
    titles: Sequence[str]
    notices: tuple[Notice, ...]
    metadata: Mapping[str, tuple[str, ...]]


def preview_table(table_file: str | TableFile, max_rows: int = _MAX_HEAD_ROWS, separator: str | None = None) -> Preview:
    """Read the first rows of a table and guess the roles of its columns. Raises DataError.

    A role is guessed by usual names, else that of texts by their length. separator: of a CSV file, None to guess it.
    """
    table_file = Path(table_file) if isinstance(table_file, str) else table_file
    column_names, records, total_rows = _open_table(table_file, separator=separator, max_rows=max_rows + 1)
    if not column_names:
        raise DataError(f"{table_file.name} is empty")
    # One row more than is shown is read: it tells whether the table ends with the preview.
    first_rows: list[dict[str, str]] = []
    nested: dict[str, None] = {}
    with closing(records):
        # Rows are converted one at a time, because as text an object is a tenth as large.
        for _row_number, record in islice(records, max_rows + 1):
            preview_row: dict[str, str] = {}
            for column_name in column_names:
                cell_text = _format_value(record.get(column_name))[:_MAX_CELL_CHARS]
                preview_row[column_name] = replace_surrogates(cell_text)
            first_rows.append(preview_row)
            # BEIR puts further fields of a document into one object, whose keys can be loaded as columns.
            if type(metadata_object := record.get("metadata")) is dict:
                nested |= dict.fromkeys(islice(metadata_object, _MAX_COLUMNS))
    if total_rows is None and len(first_rows) <= max_rows:
        total_rows = len(first_rows)
    first_rows = first_rows[:max_rows]
    guessed_columns = _guess_columns(column_names, first_rows)
    return Preview(tuple(column_names), first_rows, total_rows, guessed_columns, tuple(nested)[:_MAX_COLUMNS])


def read_documents(
    table_file: str | TableFile,
    columns: Columns | None = None,
    progress: Progress = SILENT_PROGRESS,
    *,
    metadata: Sequence[str] = (),
    separator: str | None = None,
    repeated_rule: str = "refuse",
) -> Documents:
    """Read every row of a table as a document, in file order; columns: None guesses.

    metadata: further columns to load, in JSON also keys of an object "metadata"; columns that no row has are left out.
    separator: of a CSV file, None guesses; repeated_rule: one of REPEATED_ID_RULES. A missing title and a null text are
    empty. Texts and titles of a JSON Lines file above `line_texts.LARGE_FILE_BYTES` stay on the disk. Raises DataError
    naming file, row and cause; Cancelled.
    """
    table_file, notices = Path(table_file) if isinstance(table_file, str) else table_file, []
    if repeated_rule not in REPEATED_ID_RULES:
        raise DataError(f"repeated must be one of {', '.join(map(repr, REPEATED_ID_RULES))}; got {repeated_rule!r}")
    is_guessed = columns is None
    columns = preview_table(table_file, separator=separator).guessed_columns if columns is None else columns
    columns = replace(columns, metadata=tuple(dict.fromkeys((*columns.metadata, *metadata))))
    passages = _Passages(table_file, columns)
    _, records, _ = _open_table(table_file, columns, progress, separator, passages.line_ends)
    row_numbers = array("q")
    ids: list[str] = []
    metadata_columns: dict[str, list[str | None]] = {column_name: [] for column_name in columns.metadata}
    with closing(records):
        for row_number, record in records:
            row_numbers.append(row_number)
            # Values that are strings already, nearly all, skip the function calls below.
            document_text = record.get(columns.text, _ABSENT)
            if type(document_text) is not str:
                document_text = _parse_text(document_text, columns.text, table_file, row_number, record)
            doc_id = str(len(ids)) if columns.id is None else record.get(columns.id, _ABSENT)
            if columns.id is not None and (not doc_id or type(doc_id) is not str):
                doc_id = parse_id(doc_id, _locate_row(table_file, row_number), columns.id)
            ids.append(doc_id)
            title = record.get(columns.title) if columns.title is not None else ""
            if type(title) is not str:
                title = _parse_text(title, columns.title or "", table_file, row_number, record)
            passages.add_passage(document_text, title)
            for column_name, column_values in metadata_columns.items():
                column_values.append(_read_metadata_value(record, column_name))
    if columns.id is None:
        notices.append(Notice("rows without an id column: their ids are row numbers, counted from 0", len(ids)))
    if is_guessed and _normalize_name(columns.text) not in TEXT_NAMES:
        notices.append(Notice(f"texts taken from column {columns.text!r}: no column has a usual name", len(ids)))
    if _lower_suffix(table_file) == ".tsv":
        remark = "texts stand in double quotes, which were kept: TSV has no quoting (for quoted fields, save as CSV)"
        notices += Notice.for_ids(remark, compress(ids, map(_is_quoted, passages.texts)))
    ids, row_ids, id_notices = _resolve_repeated_ids(table_file, ids, row_numbers, repeated_rule)
    metadata_values: dict[str, tuple[str, ...]] = {}
    for column_name, column_values in metadata_columns.items():
        # None stands for rows without the column, an empty text for an empty cell.
        if column_values.count(None) < len(column_values):
            metadata_values[column_name] = tuple(column_values[row_id] or "" for row_id in row_ids)
    texts, titles = passages.take_passages(row_numbers, row_ids)
    return Documents(tuple(ids), texts, titles, (*notices, *id_notices), metadata_values)


class _Passages:
    """Texts and titles of the rows read so far; those of a large JSON Lines file stay on the disk.

    line_ends: offsets of the ends of its lines, as `read_lines` collects them; None in memory
    """

    def __init__(self, table_file: TableFile, columns: Columns) -> None:
        """Decide by the size of the file if texts stay on the disk."""
        path = self.table_path = table_file.path if isinstance(table_file, HeldFile) else table_file
        self.table_columns = columns
        self.texts: list[str] = []
        self.titles: list[str] = []
        is_json = isinstance(table_file, Path) and _lower_suffix(table_file) in (".jsonl", ".ndjson")
        stays_on_disk = is_json and path.is_file() and path.stat().st_size > line_texts.LARGE_FILE_BYTES
        self.line_ends = array("q") if stays_on_disk else None
        self._facts = line_texts.file_facts(path) if stays_on_disk else ""
        self._titled = False

    def add_passage(self, document_text: str, title: str) -> None:
        """Add text and title of the next row of the table, in memory.

        If texts stay on the disk, only note whether any row has a title.
        """
        self._titled = self._titled or bool(title)
        if self.line_ends is None:
            self.texts.append(document_text)
            self.titles.append(title)

    def take_passages(self, row_numbers: Sequence[int], row_ids: Sequence[int]) -> tuple[Sequence[str], Sequence[str]]:
        """Return texts and titles of some of the rows that were added.

        row_numbers: the line of each added row in the file, from 1; row_ids: the chosen rows, from 0.
        """
        if self.line_ends is None:
            return tuple(map(self.texts.__getitem__, row_ids)), tuple(map(self.titles.__getitem__, row_ids))
        # Line i, counted from 1, lies between the ends of lines i - 1 and i.
        line_numbers = np.asarray(row_numbers)[np.asarray(row_ids, np.int64)]
        end_offsets = np.asarray(self.line_ends)
        line_spans = np.stack([end_offsets[line_numbers - 1], end_offsets[line_numbers]], axis=1)
        disk_texts = LineTexts(self.table_path, self.table_columns.text, spans=line_spans, facts=self._facts)
        title_field = self.table_columns.title if self._titled else None
        return disk_texts, disk_texts.select_field(title_field) if title_field else ("",) * len(disk_texts)


def _read_metadata_value(record: Mapping[str, Any], column_name: str) -> str | None:
    """Return the value of a column in a row as text; None if the row does not have it.

    As in BEIR, the value may also stand in the row's object "metadata".
    """
    value, metadata_object = record.get(column_name, _ABSENT), record.get("metadata")
    if value is _ABSENT and type(metadata_object) is dict:
        value = metadata_object.get(column_name, _ABSENT)
    return None if value is _ABSENT else _format_value(value)


def _resolve_repeated_ids(
    table_file: TableFile, ids: list[str], row_numbers: Sequence[int], repeated_rule: str
) -> tuple[list[str], Sequence[int], tuple[Notice, ...]]:
    """Make the ids of a table's rows distinct by a rule: "refuse", "first" or "number".

    "first" leaves out later rows with the id, "number" renames them. row_numbers: the line of each row in the file, for
    the error. Returns distinct ids, the row of each in the file (from 0), and notices of the repeated ones. Raises
    RepeatedIdError if the rule is to refuse them.
    """
    first_rows: dict[str, int] = {}
    # `setdefault` returns the first row that has the id; a row that differs from it is a repeat.
    repeated_rows = [row_id for row_id, doc_id in enumerate(ids) if first_rows.setdefault(doc_id, row_id) != row_id]
    if not repeated_rows:
        return ids, range(len(ids)), ()
    doc_id = ids[repeated_rows[0]]
    if repeated_rule == "refuse":
        row_kind = "row" if _lower_suffix(table_file) == ".parquet" else "line"
        raise RepeatedIdError(
            f"{_locate_row(table_file, row_numbers[repeated_rows[0]])}: {row_kind} {row_numbers[first_rows[doc_id]]} "
            f"has the id {doc_id!r} already ({counted(len(repeated_rows), 'row repeats', 'rows repeat')} an id); "
            'keep the first of each (repeated="first", --repeated first) or number the others '
            f'(repeated="number", --repeated number, as {doc_id + "-2"!r})'
        )
    if repeated_rule == "first":
        remark = "rows were left out: an earlier one has their id"
        omission_notice = Notice.for_ids(remark, map(ids.__getitem__, repeated_rows))
        return list(first_rows), list(first_rows.values()), omission_notice
    # The first row with an id keeps it and counts as number 1, so that repeats are numbered from 2.
    renamed_ids, last_suffixes = list(ids), dict.fromkeys(first_rows, 1)
    for row_id in repeated_rows:
        doc_id = ids[row_id]
        last_suffixes[doc_id] += 1
        # A suffix that some row has as its own id is skipped.
        while f"{doc_id}-{last_suffixes[doc_id]}" in first_rows:
            last_suffixes[doc_id] += 1
        renamed_ids[row_id] = f"{doc_id}-{last_suffixes[doc_id]}"
    renaming_remark = "rows have an id that an earlier one has: a number was put behind it"
    return renamed_ids, range(len(ids)), Notice.for_ids(renaming_remark, map(renamed_ids.__getitem__, repeated_rows))


def parse_id(id_value: Any, location: str, column_name: str = "id") -> str:
    """Check the id of a document or row as it was read, and return it as text.

    A whole number is written in decimal. location: file and row, for the error. Raises DataError for any other type.
    """
    if isinstance(id_value, str | int) and not isinstance(id_value, bool) and id_value != "":
        return str(id_value)
    id_description = "nothing" if id_value is _ABSENT else "null" if id_value is None else _describe_value(id_value)
    raise DataError(f"{location}: the id in {column_name!r} must be text or a whole number; found {id_description}")


def _parse_text(value: Any, column_name: str, table_file: TableFile, row_number: int, record: Mapping[str, Any]) -> str:
    """Return a cell of a table as text, for a text or title that is no string already.

    A null is an empty text, a whole number is written in decimal. Raises DataError for missing cells and other types.
    column_name, table_file, row_number, record: locate the cell in the error.
    """
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    location = _locate_row(table_file, row_number)
    if value is _ABSENT:
        available = ", ".join(map(repr, islice(record, _MAX_HEAD_ROWS))) or "nothing"
        raise DataError(f"{location}: {column_name!r} is missing (an empty text is legal); found {available}")
    raise DataError(f"{location}: {column_name!r} must be text; found {_describe_value(value)}")


def _describe_value(value: Any) -> str:
    """Describe a value that a cell must not have, with its type, for an error message."""
    return "an empty text" if value == "" else f"{_format_value(value)[:80]} ({type(value).__name__})"


def guess_separator(table_file: TableFile) -> str:
    """Guess the column separator of a CSV file: the only one in its header, else the guess of csv.Sniffer."""
    with closing(read_lines(table_file)) as numbered_lines:
        return _guess_delimiter(_take_first_lines(map(itemgetter(1), numbered_lines)))


def _take_first_lines(line_texts_: Iterable[str]) -> list[str]:
    """Return the first lines of a file, enough to guess its separator."""
    head_lines: list[str] = []
    for line_text in islice(line_texts_, _MAX_HEAD_ROWS):
        head_lines.append(line_text)
        if sum(map(len, head_lines)) >= _MAX_SAMPLE_CHARS:
            break
    return head_lines


def _guess_delimiter(head_lines: Sequence[str]) -> str:
    """Guess the column separator: the only one in the header, else the guess of csv.Sniffer."""
    present_separators = [separator for separator in CSV_SEPARATORS if head_lines and separator in head_lines[0]]
    if len(present_separators) < 2:
        return (present_separators or CSV_SEPARATORS)[0]
    try:
        return csv.Sniffer().sniff("".join(head_lines)[:_MAX_SAMPLE_CHARS], "".join(present_separators)).delimiter
    except csv.Error:
        return present_separators[0]


def _open_table(
    table_file: TableFile,
    columns: Columns | None = None,
    progress: Progress = SILENT_PROGRESS,
    separator: str | None = None,
    line_ends: "array[int] | None" = None,
    max_rows: int | None = None,
) -> tuple[list[str], NumberedRows, int | None]:
    """Open a table; return its column names, its rows, and its number of rows.

    The number is None if the file does not declare it. columns: those that are required, and the only ones that need be
    read; line_ends: receives the offsets of the ends of the lines of a JSON Lines file; max_rows: the most rows to
    read, None for all.
    """
    required_names = list(dict.fromkeys(columns.required)) if columns else None
    file_suffix, total_rows = _lower_suffix(table_file), None
    if separator is not None and (file_suffix != ".csv" or len(separator) != 1 or separator in '"\r\n'):
        raise DataError(f"separator must be one character between the columns of a .csv file; got {separator!r}")
    match file_suffix:
        case ".csv":
            column_names, records = _split_header(table_file, _read_csv_rows(table_file, progress, separator))
        case ".tsv":
            column_names, records = _split_header(table_file, _read_tsv_rows(table_file, progress))
        case ".jsonl" | ".ndjson":
            column_names, required_names, records = [], None, read_json_rows(table_file, progress, line_ends)
            if columns is None:
                # Keys may differ from line to line; a missing key is an error of its line.
                with closing(read_json_rows(table_file)) as head_records:
                    first_records = map(itemgetter(1), islice(head_records, _MAX_HEAD_ROWS))
                    column_names = list(dict.fromkeys(chain.from_iterable(first_records)))
        case ".parquet":
            table_path = table_file if isinstance(table_file, Path) else table_file.path
            table = ParquetTable(table_path, required_names, max_rows)
            column_names, records, total_rows = table.names, table.rows(progress), table.total
        case _:
            kind = file_suffix or "a file without a suffix"
            raise DataError(f"{table_file.name}: cannot read {kind}; expected {TABLE_KINDS}")
    if len(column_names) > _MAX_COLUMNS:
        raise DataError(f"{table_file.name} has {len(column_names):,} columns; at most {_MAX_COLUMNS:,} are read")
    for column_name in required_names or ():
        if column_names.count(column_name) != 1:
            name_count = f"{column_names.count(column_name)} columns" if column_name in column_names else "no column"
            listed_names = ", ".join(map(repr, column_names[:_MAX_HEAD_ROWS]))
            raise DataError(f"{table_file.name}: {name_count} called {column_name!r}; it has {listed_names}")
    return column_names, records, total_rows


def _read_csv_rows(table_file: TableFile, progress: Progress, separator: str | None) -> NumberedFields:
    """Yield line number and fields of each row of a CSV file; separator: None to guess it.

    A row may span several lines, if a quoted field holds line breaks. Raises DataError that names the row's first line.
    """
    # The default limit of the csv module is 131,072 characters; a book chapter is longer.
    csv.field_size_limit(2**31 - 1)
    # Where the row in progress begins, and its characters and separators so far; the loop resets them for each row.
    first_line, n_characters, n_parts = 1, 0, 0
    line_texts_: Iterable[str] = map(itemgetter(1), read_lines(table_file, progress))
    if separator is None:
        head_lines = _take_first_lines(line_texts_)
        separator, line_texts_ = _guess_delimiter(head_lines), chain(head_lines, line_texts_)

    def check_lines() -> Iterator[str]:
        """Yield the lines and limit the size of a row: an unclosed quote joins all lines that follow it."""
        nonlocal n_characters, n_parts
        for line_text in line_texts_:
            # Separators are counted in long rows only: short ones cannot become many values.
            n_characters += len(line_text)
            if n_characters > _LONG_LINE_CHARS:
                n_parts += line_text.count(separator)
                if n_characters > MAX_LINE_BYTES or n_parts > _MAX_LINE_PARTS:
                    raise DataError(
                        f"{table_file.name} line {first_line}: the row that begins here goes on for "
                        f"{n_characters:,} characters; is a closing double quote missing?"
                    )
            yield line_text

    reader = csv.reader(check_lines(), delimiter=separator, strict=True)
    while True:
        first_line, n_characters, n_parts = reader.line_num + 1, 0, 0
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as csv_error:
            cause = str(csv_error)
            # The module's own advice is for programmers.
            if "new-line" in cause:
                cause = "a carriage return outside double quotes; lines must end in LF or CRLF"
            raise DataError(f"{table_file.name} line {first_line}: not CSV: {cause}") from None
        if fields:
            yield first_line, fields


def _read_tsv_rows(table_file: TableFile, progress: Progress) -> NumberedFields:
    """Yield line number and fields of each row of a TSV file; blank lines are skipped."""
    for row_number, line_text in read_lines(table_file, progress):
        if line_text := line_text.removesuffix("\n").removesuffix("\r"):
            if len(line_text) > _LONG_LINE_CHARS:
                _check_line_parts(table_file, row_number, line_text, "\t")
            yield row_number, line_text.split("\t")


def _check_line_parts(table_file: TableFile, row_number: int, line_text: str, counted_marks: str) -> None:
    """Raise DataError for a long line that would become far too many values in memory.

    counted_marks: characters each of which may begin a further value.
    """
    if (n_parts := sum(map(line_text.count, counted_marks))) > _MAX_LINE_PARTS:
        raise DataError(
            f"{table_file.name} line {row_number} has {len(line_text):,} characters with {n_parts:,} of "
            f"{' '.join(map(repr, counted_marks))}; at most {_MAX_LINE_PARTS:,} are read in so long a line"
        )


def _split_header(table_file: TableFile, numbered_rows: NumberedFields) -> tuple[list[str], NumberedRows]:
    """Take a table's column names from its first row; return them, and the other rows as mappings.

    numbered_rows: line number and fields of each row of a CSV or TSV file. Raises DataError for an empty file.
    """
    # A file without rows gives None.
    _, column_names = next(numbered_rows, (0, None))
    if column_names is None:
        raise DataError(f"{table_file.name} is empty; its first line must name the columns")

    def records() -> NumberedRows:
        """Yield line number and values by column of each row. Raises DataError for a wrong number of fields."""
        for row_number, fields in numbered_rows:
            if len(fields) != len(column_names):
                cause = f"expected {len(column_names)} fields, found {len(fields)}"
                if _lower_suffix(table_file) == ".tsv" and '"' in "".join(fields):
                    cause += "; TSV has no quoting, so save quoted fields with line breaks or tabs as CSV"
                raise DataError(f"{table_file.name} line {row_number}: {cause}")
            yield row_number, dict(zip(column_names, fields, strict=True))

    return column_names, records()


def read_json_rows(
    table_file: TableFile, progress: Progress = SILENT_PROGRESS, line_ends: "array[int] | None" = None
) -> NumberedRows:
    """Yield (line number, object) for each line of a JSON Lines file; blank lines are skipped.

    line_ends: as of `read_lines`. Raises DataError.
    """
    for row_number, line_text in read_lines(table_file, progress, line_ends):
        if is_long := len(line_text) > _LONG_LINE_CHARS:
            _check_line_parts(table_file, row_number, line_text, ",[{")
        try:
            record = _decode_json(line_text)
        except json.JSONDecodeError as json_error:
            if not line_text.strip():
                continue
            error_location = f"{table_file.name} line {row_number} column {json_error.pos + 1}"
            raise DataError(f"{error_location}: {json_error.msg}; every line must be one whole JSON object") from None
        # A repeated key, a number of thousands of digits, or brackets nested too deep.
        except (ValueError, RecursionError) as json_error:
            raise DataError(f"{table_file.name} line {row_number}: {json_error}") from None
        if type(record) is not dict:
            type_name = type(record).__name__
            location = f"{table_file.name} line {row_number} column 1"
            raise DataError(f"{location}: every line must be a JSON object; found a {type_name}")
        if is_long and len(record) > _MAX_COLUMNS:
            location = f"{table_file.name} line {row_number}"
            raise DataError(f"{location} has {len(record):,} keys; at most {_MAX_COLUMNS:,} are read")
        yield row_number, record


def _build_json_object(key_value_pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object of a JSON file from its keys and values, for the decoder.

    Raises ValueError for a repeated key, as it is unknown which of the values is meant.
    """
    record = dict(key_value_pairs)
    if len(record) < len(key_value_pairs):
        # The most common key is one that stands twice.
        ((object_key, _),) = Counter(map(itemgetter(0), key_value_pairs)).most_common(1)
        raise ValueError(f"the key {object_key[:80]!r} stands twice in one object; keep one of them")
    return record


_decode_json = json.JSONDecoder(object_pairs_hook=_build_json_object).decode


def _guess_columns(column_names: list[str], head_rows: list[dict[str, str]]) -> Columns:
    """Guess which columns hold ids, texts and titles: by usual names, else by the first rows."""
    # Of two columns with one normalized name the earlier is taken.
    column_of = {_normalize_name(column_name): column_name for column_name in reversed(column_names)}

    def find_column(usual_names: Iterable[str]) -> str | None:
        """Return the column with the first usual name that occurs; None if none does."""
        return next(filter(None, map(column_of.get, usual_names)), None)

    id_column, text_column, title_column = find_column(ID_NAMES), find_column(TEXT_NAMES), find_column(TITLE_NAMES)
    # A first column such as "ticket id" or "Record No" holds ids if it distinguishes the first rows.
    if id_column is None and _ID_ENDING.search(_normalize_name(column_names[0])):
        is_unique = len(set(map(itemgetter(column_names[0]), head_rows))) == len(head_rows)
        id_column = column_names[0] if is_unique else None
    if text_column is None:
        candidates = [column_name for column_name in column_names if column_name not in (id_column, title_column)]
        candidates = candidates or [title_column or column_names[0]]
        text_column = max(candidates, key=lambda column_name: sum(len(head_row[column_name]) for head_row in head_rows))
    # The column of texts is never that of ids or titles too.
    id_column = id_column if id_column != text_column else None
    title_column = title_column if title_column != text_column else None
    return Columns(id=id_column, text=text_column, title=title_column)


def _normalize_name(column_name: str) -> str:
    """Return a column's name in the style of the usual names: "Doc ID", "doc-id" and "docId" as "doc_id"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[\s.-]+", "_", column_name.strip()).lower()


def _is_quoted(text: str) -> bool:
    """Return True if a text stands in double quotes, as a field of a CSV file does."""
    return len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1].replace('""', "")


def _locate_row(table_file: TableFile, row_number: int) -> str:
    """Return the file's name and the row's number as text, for an error message."""
    return f"{table_file.name} {'row' if _lower_suffix(table_file) == '.parquet' else 'line'} {row_number}"


def _format_value(value: Any) -> str:
    """Return a value of any type as text: None as an empty one, lists and objects as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)  # dates and decimals, as Parquet has them


def _lower_suffix(table_file: TableFile) -> str:
    return table_file.suffix.lower()
