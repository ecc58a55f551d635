"""Reading of documents from CSV, TSV, JSON Lines and Parquet files; ids and texts are never changed.

CSV: fields that hold commas, quotes or line breaks stand in double quotes, a quote inside them is doubled (RFC 4180);
semicolons, tabs or bars in place of commas are recognised by the header.
TSV: no quoting at all, as in judgement files and most published corpora; a double quote is a character like any other.
"""

import csv
import json
import re
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine.data import line_texts
from engine.data.columns import (
    HEADER_RULES,
    TEXT_NAMES,
    CellKind,
    ColumnChoice,
    ColumnFacts,
    Columns,
    check_text_column,
    choose_columns,
    describe_cell,
    describe_column,
    looks_like_data,
    name_columns,
    normalize_name,
    offer_vectors,
)
from engine.data.excel import read_sheet_rows
from engine.data.files import HeldFile, is_gzip, split_suffix
from engine.data.json_array import read_json_array
from engine.data.json_files import decode_json
from engine.data.judgement_files import is_judgement_name
from engine.data.line_texts import LineTexts
from engine.data.parquet import ParquetTable
from engine.data.textfiles import (
    LONG_LINE_CHARS,
    MAX_LINE_BYTES,
    MAX_LINE_PARTS,
    SILENT_PROGRESS,
    check_line_parts,
    read_lines,
)
from engine.data.vector_column import VectorColumn
from engine.errors import DataError, RepeatedIdError
from engine.progress import Progress, counted
from engine.values import Notice, replace_surrogates

NumberedRows = Generator[tuple[int, Mapping[str, Any]]]
NumberedFields = Iterator[tuple[int, list[Any]]]
TableFile = Path | HeldFile

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
TEXT_SUFFIXES = (".csv", ".tsv", *JSON_SUFFIXES)
TABLE_SUFFIXES = (*TEXT_SUFFIXES, ".parquet", ".xlsx")
TABLE_KINDS = (
    "a .csv, .tsv, .jsonl, .ndjson or .json file (or one of them with .gz behind it), a .parquet or .xlsx file, or a "
    "folder of .parquet files"
)

PARQUET_SUFFIX = ".parquet"
CSV_SEPARATORS = (",", ";", "\t", "|")
"""Possible column separators of a CSV file, in the order in which its header is searched."""
REPEATED_ID_RULES = ("refuse", "first", "number")
"""Treatments of an id that an earlier row has: raise an error, keep the first row alone, number the others."""

# What tells the files of one table apart: "-00000-of-00002", or a number alone.
_SHARD_NUMBER = re.compile(r"(?:^|[-_.])(?:part-?)?\d+(?:-of-\d+)?(?:-[0-9a-f-]{8,})?(?:[-_.]\w+)?$")
# Rows that are read to learn the columns of a JSON Lines file and to guess their meaning.
_MAX_HEAD_ROWS = 20
# Characters from which a separator is guessed if the header has several candidates.
_MAX_SAMPLE_CHARS = 8_192
# Characters of a cell in a preview.
_MAX_CELL_CHARS = 1 << 16
# The limit of a spreadsheet; each row of a preview is a mapping of all columns.
_MAX_COLUMNS = 16_384
_MAX_EXACT_FLOAT = 2**53
# Names of Parquet files in a data set's folder that hold no documents.
_OTHER_PARTS = frozenset({"queries", "aspects"})
_ABSENT = object()


@dataclass(frozen=True, kw_only=True)
class Preview:
    """First rows of a table, as text; a cell shows its first 65,536 characters.

    total_rows: None if only a full read would tell; nested_keys: keys of objects called "metadata"; facts: of each
    column; notices: about the first line and what else was not read
    """

    columns: tuple[str, ...]
    first_rows: list[dict[str, str]]
    total_rows: int | None
    guessed_columns: Columns
    nested_keys: tuple[str, ...] = ()
    facts: Mapping[str, ColumnFacts] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


class Documents(NamedTuple):
    """Content of a table: ids, texts, titles and metadata columns of one length, and notices for a person.

    vectors: (n, d) float32, None without a column of them
    """

    ids: tuple[str, ...]
    texts: Sequence[str]
    titles: Sequence[str]
    notices: tuple[Notice, ...]
    metadata: Mapping[str, tuple[str, ...]]
    vectors: np.ndarray | None = None


class _OpenTable(NamedTuple):
    """Opened table: names of its columns, its rows, their number if it is declared, and notices."""

    column_names: list[str]
    records: NumberedRows
    total_rows: int | None
    notices: tuple[Notice, ...] = ()


def preview_table(
    table_file: str | TableFile,
    max_rows: int = _MAX_HEAD_ROWS,
    separator: str | None = None,
    *,
    header: str = "auto",
    requested: ColumnChoice | None = None,
) -> Preview:
    """Read the first rows of a table and guess the roles of its columns. Raises DataError.

    A role is guessed by usual names, else that of texts by their length. separator: of a CSV file, None to guess it;
    header: "first" if the first line names the columns, "none" if it is data, "auto" to guess it; requested: columns of
    roles that are not guessed.
    """
    table_file = Path(table_file) if isinstance(table_file, str) else table_file
    opened = _open_table(table_file, separator=separator, header=header, max_rows=max_rows + 1)
    if not opened.column_names:
        raise DataError(f"{table_file.name} is empty")
    # One row more than is shown is read: it tells whether the table ends with the preview.
    first_rows: list[dict[str, str]] = []
    cell_kinds: dict[str, list[CellKind]] = {column_name: [] for column_name in opened.column_names}
    nested: dict[str, None] = {}
    with closing(opened.records):
        # Rows are converted one at a time, because as text an object is a tenth as large.
        for _row_number, record in islice(opened.records, max_rows + 1):
            preview_row: dict[str, str] = {}
            for column_name, column_kinds in cell_kinds.items():
                cell_text = format_value(record.get(column_name))[:_MAX_CELL_CHARS]
                preview_row[column_name] = replace_surrogates(cell_text)
                column_kinds.append(describe_cell(record.get(column_name)))
            first_rows.append(preview_row)
            # BEIR puts further fields of a document into one object, whose keys can be loaded as columns.
            if type(metadata_object := record.get("metadata")) is dict:
                nested |= dict.fromkeys(islice(metadata_object, _MAX_COLUMNS))
    total_rows = opened.total_rows
    if total_rows is None and len(first_rows) <= max_rows:
        total_rows = len(first_rows)
    facts: dict[str, ColumnFacts] = {}
    for column_name, column_kinds in cell_kinds.items():
        facts[column_name] = describe_column([row[column_name] for row in first_rows], column_kinds)
    return Preview(
        columns=tuple(opened.column_names),
        first_rows=first_rows[:max_rows],
        total_rows=total_rows,
        guessed_columns=choose_columns(facts, requested),
        nested_keys=tuple(nested)[:_MAX_COLUMNS],
        facts=facts,
        notices=opened.notices,
    )


def read_documents(
    table_file: str | TableFile,
    columns: Columns | ColumnChoice | None = None,
    progress: Progress = SILENT_PROGRESS,
    *,
    metadata: Sequence[str] = (),
    separator: str | None = None,
    header: str = "auto",
    repeated_rule: str = "refuse",
) -> Documents:
    """Read every row of a table as a document, in file order.

    columns: a mapping of roles to columns leaves the other roles to be guessed, None all of them. metadata: further
    columns to load, in JSON also keys of an object "metadata"; columns that no row has are left out. separator: of a
    CSV file, None guesses; header: as of `preview_table`; repeated_rule: "refuse", "first" or "number", what is done
    with a row whose id an earlier one has: an error, leave it out, or add a number to its id. A missing title and a
    null text are empty. Texts and titles of a JSON Lines file above `line_texts.LARGE_FILE_BYTES` stay on the disk.
    Raises DataError naming file, row and cause; Cancelled.
    """
    table_file = Path(table_file) if isinstance(table_file, str) else table_file
    if repeated_rule not in REPEATED_ID_RULES:
        raise DataError(f"repeated must be one of {', '.join(map(repr, REPEATED_ID_RULES))}; got {repeated_rule!r}")
    columns, guess_notices = _resolve_columns(table_file, columns, separator, header)
    columns = replace(columns, metadata=tuple(dict.fromkeys((*columns.metadata, *metadata))))
    passages = _Passages(table_file, columns)
    opened = _open_table(table_file, columns, progress, separator, passages.line_ends, header=header)
    row_numbers = array("q")
    ids: list[str] = []
    metadata_columns: dict[str, list[str | None]] = {column_name: [] for column_name in columns.metadata}
    vector_column = None
    if columns.vectors is not None:
        vector_column = VectorColumn(columns.vectors, partial(_locate_row, table_file))
    with closing(opened.records):
        for row_number, record in opened.records:
            row_numbers.append(row_number)
            # Values that are strings already, nearly all, skip the function calls below.
            document_text = record.get(columns.text, _ABSENT) if columns.text is not None else ""
            if type(document_text) is not str:
                document_text = _parse_text(document_text, columns.text or "", table_file, row_number, record)
            doc_id = str(len(ids)) if columns.id is None else record.get(columns.id, _ABSENT)
            if columns.id is not None and (not doc_id or type(doc_id) is not str):
                doc_id = parse_id(doc_id, _locate_row(table_file, row_number), columns.id)
            ids.append(doc_id)
            title = record.get(columns.title) if columns.title is not None else ""
            if type(title) is not str:
                title = _parse_text(title, columns.title or "", table_file, row_number, record)
            passages.add_passage(document_text, title)
            if vector_column is not None:
                vector_column.add_vector(record.get(vector_column.column_name), row_number)
            for column_name, column_values in metadata_columns.items():
                column_values.append(_read_metadata_value(record, column_name))
    notices = (*opened.notices, *guess_notices(len(ids)), *_note_rows(table_file, columns, ids, passages.texts))
    ids, row_ids, id_notices = _resolve_repeated_ids(table_file, ids, row_numbers, repeated_rule)
    metadata_values: dict[str, tuple[str, ...]] = {}
    for column_name, column_values in metadata_columns.items():
        # None stands for rows without the column, an empty text for an empty cell.
        if column_values.count(None) < len(column_values):
            metadata_values[column_name] = tuple(column_values[row_id] or "" for row_id in row_ids)
    texts, titles = passages.take_passages(row_numbers, row_ids)
    matrix = None if vector_column is None else vector_column.take_matrix(row_ids)
    return Documents(tuple(ids), texts, titles, (*notices, *id_notices), metadata_values, matrix)


def _resolve_columns(
    table_file: TableFile, columns: Columns | ColumnChoice | None, separator: str | None, header: str
) -> tuple[Columns, Callable[[int], Iterator[Notice]]]:
    """Return the roles of a table's columns, and a function from its number of rows to notices of what was guessed.

    Raises DataError if no column can be the texts.
    """
    if isinstance(columns, Columns):
        return columns, lambda n_rows: iter(())
    preview = preview_table(table_file, separator=separator, header=header, requested=columns)
    chosen_columns, is_text_guessed = preview.guessed_columns, "text" not in (columns or {})
    check_text_column(table_file.name, preview.facts, chosen_columns)

    def describe_guesses(n_rows: int) -> Iterator[Notice]:
        """Yield notices of texts from an unusual column, and of vectors that are not used."""
        text = chosen_columns.text
        if is_text_guessed and text is not None and normalize_name(text) not in TEXT_NAMES:
            yield Notice(f"texts taken from column {text!r}: no column has a usual name", n_rows)
        for column, offer in offer_vectors(preview.facts, chosen_columns.vectors).items():
            yield describe_unused_vectors(n_rows, column, offer)

    return chosen_columns, describe_guesses


def describe_unused_vectors(n_rows: int, column: str, offer: str) -> Notice:
    """Return a notice of a column of vectors that is not used; offer: as of `offer_vectors`."""
    return Notice(f"rows have vectors of their own, which are not used: {offer}", n_rows, hint=f"vectors={column}")


def _note_rows(table_file: TableFile, columns: Columns, ids: Sequence[str], texts: Sequence[str]) -> tuple[Notice, ...]:
    """Return notices of rows that were read in a way that a person may not expect."""
    notices: tuple[Notice, ...] = ()
    if columns.id is None:
        notices += (
            Notice(
                "rows without an id column: their ids are row numbers, counted from 0", len(ids),
                singular="row without an id column: its id is its number, counted from 0",
            ),
        )  # fmt: skip
    if find_table_suffix(table_file) == ".tsv":
        remark = "texts stand in double quotes, which were kept: TSV has no quoting (for quoted fields, save as CSV)"
        notices += Notice.for_ids(remark, compress(ids, map(_is_quoted, texts)))
    return notices


class _Passages:
    """Texts and titles of the rows read so far; those of a large JSON Lines file stay on the disk.

    line_ends: offsets of the ends of its lines, as `read_lines` collects them; None in memory
    """

    def __init__(self, table_file: TableFile, table_columns: Columns) -> None:
        """Start without rows; texts stay on the disk if the table is a large JSON Lines file.

        Of such a file only the ends of the lines are collected, and its size and time, which show a later change.
        """
        path = self.table_path = table_file.path if isinstance(table_file, HeldFile) else table_file
        self.table_columns = table_columns
        self.texts: list[str] = []
        self.titles: list[str] = []
        is_json = isinstance(table_file, Path) and find_table_suffix(table_file) in (".jsonl", ".ndjson")
        # Offsets into a compressed file would not find a line again.
        is_json = is_json and not is_gzip(table_file) and table_columns.text is not None
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
        disk_texts = LineTexts(self.table_path, self.table_columns.text or "", spans=line_spans, facts=self._facts)
        title_field = self.table_columns.title if self._titled else None
        return disk_texts, disk_texts.select_field(title_field) if title_field else ("",) * len(disk_texts)


def _read_metadata_value(record: Mapping[str, Any], column_name: str) -> str | None:
    """Return the value of a column in a row as text; None if the row does not have it.

    As in BEIR, the value may also stand in the row's object "metadata".
    """
    value, metadata_object = record.get(column_name, _ABSENT), record.get("metadata")
    if value is _ABSENT and type(metadata_object) is dict:
        value = metadata_object.get(column_name, _ABSENT)
    return None if value is _ABSENT else format_value(value)


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
    if repeated_rule == "refuse":
        doc_id = ids[repeated_rows[0]]
        row_kind = _name_row_kind(table_file)
        problem = (
            f"{_locate_row(table_file, row_numbers[repeated_rows[0]])}: {row_kind} {row_numbers[first_rows[doc_id]]} "
            f"has the id {doc_id!r} already ({counted(len(repeated_rows), 'row repeats', 'rows repeat')} an id)"
        )
        next_name = repr(f"{doc_id}-2")
        raise RepeatedIdError(
            f'{problem}; keep the first of each (repeated="first", --repeated first) or number the others '
            f'(repeated="number", --repeated number, as {next_name})',
            f"{problem}; keep the first of each, or number the others, as {next_name}",
        )
    if repeated_rule == "first":
        remark = "rows were left out: an earlier one has their id"
        singular = "row was left out: an earlier one has its id"
        omission_notice = Notice.for_ids(remark, map(ids.__getitem__, repeated_rows), singular=singular)
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
    singular = "row has an id that an earlier one has: a number was put behind it"
    notices = Notice.for_ids(renaming_remark, map(renamed_ids.__getitem__, repeated_rows), singular=singular)
    return renamed_ids, range(len(ids)), notices


def parse_id(id_value: Any, location: str, column_name: str = "id") -> str:
    """Check the id of a document or row as it was read, and return it as text.

    A whole number is written in decimal, also one that is held as a float, as pandas does beside missing values.
    location: file and row, for the error. Raises DataError for any other type.
    """
    # Larger floats are not exact, so that two ids may have become one.
    if isinstance(id_value, float) and id_value.is_integer() and abs(id_value) < _MAX_EXACT_FLOAT:
        return str(int(id_value))
    if isinstance(id_value, str | int) and not isinstance(id_value, bool) and id_value != "":
        return str(id_value)
    id_description = "null" if id_value is None else _describe_value(id_value)
    if id_value is _ABSENT:
        id_description = "nothing"
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
    return "an empty text" if value == "" else f"{format_value(value)[:80]} ({type(value).__name__})"


def guess_separator(table_file: TableFile) -> str:
    """Guess the column separator of a CSV file: the only one in its header, else the guess of csv.Sniffer."""
    with closing(read_lines(table_file)) as numbered_lines:
        return _guess_delimiter(_take_first_lines(map(itemgetter(1), numbered_lines)))


def _take_first_lines(file_lines: Iterable[str]) -> list[str]:
    """Return the first lines of a file, enough to guess its separator."""
    head_lines: list[str] = []
    for line_text in islice(file_lines, _MAX_HEAD_ROWS):
        head_lines.append(line_text)
        if sum(map(len, head_lines)) >= _MAX_SAMPLE_CHARS:
            break
    return head_lines


def _guess_delimiter(head_lines: Sequence[str]) -> str:
    """Guess the column separator: the only one in the header, else the guess of csv.Sniffer.

    A header without any has one column, for which the first of the known separators will do.
    """
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
    header: str = "auto",
) -> _OpenTable:
    """Open a table; return its column names, its rows, its number of rows if the file declares it, and notices.

    columns: those that are required, and the only ones that need be read; line_ends: receives the offsets of the ends
    of the lines of a JSON Lines file; max_rows: the most rows to read, None for all.
    """
    required_names = list(dict.fromkeys(columns.required)) if columns else None
    file_suffix = find_table_suffix(table_file)
    if separator is not None and (file_suffix != ".csv" or len(separator) != 1 or separator in '"\r\n'):
        raise DataError(f"separator must be one character between the columns of a .csv file; got {separator!r}")
    if header not in HEADER_RULES:
        raise DataError(f"header must be one of {', '.join(map(repr, HEADER_RULES))}; got {header!r}")
    match file_suffix:
        case ".csv":
            opened = _split_header(table_file, _read_csv_rows(table_file, progress, separator), header)
        case ".tsv":
            opened = _split_header(table_file, _read_tsv_rows(table_file, progress), header)
        case ".xlsx":
            sheet_rows, sheet_notices = read_sheet_rows(_find_path(table_file), progress)
            opened = _split_header(table_file, sheet_rows, header, sheet_notices)
        case ".jsonl" | ".ndjson" | ".json":
            # Keys may differ from row to row, so that required ones are not checked here; a missing one is an error of
            # its row. Without a choice of columns the names are those of the first rows.
            column_names = [] if columns else _list_json_keys(table_file, file_suffix)
            return _OpenTable(column_names, _read_json(table_file, file_suffix, progress, line_ends), None)
        case _ if file_suffix == PARQUET_SUFFIX:
            vectors = columns.vectors if columns else None
            opened = _open_parquet(_find_path(table_file), required_names, max_rows, vectors, progress)
        case _:
            kind = file_suffix or "a file without a suffix"
            raise DataError(f"{table_file.name}: cannot read {kind}; expected {TABLE_KINDS}")
    _check_columns(table_file, opened.column_names, required_names or ())
    return opened


def find_table_suffix(table_file: TableFile) -> str:
    """Return the suffix by which a table is read: in lower case, that of its content for a .gz file.

    A folder is one of Parquet files.
    """
    _, file_suffix = split_suffix(table_file)
    # This is asked for single rows too, so that text files are not looked up.
    if file_suffix not in TEXT_SUFFIXES and isinstance(table_file, Path) and table_file.is_dir():
        return PARQUET_SUFFIX
    return file_suffix


def _find_path(table_file: TableFile) -> Path:
    return table_file if isinstance(table_file, Path) else table_file.path


def _read_json(
    table_file: TableFile,
    file_suffix: str,
    progress: Progress = SILENT_PROGRESS,
    line_ends: "array[int] | None" = None,
) -> NumberedRows:
    """Return the rows of a JSON file: lines, or elements of an array for the suffix .json."""
    if file_suffix == ".json":
        return read_json_array(table_file, progress)
    return read_json_rows(table_file, progress, line_ends)


def _list_json_keys(table_file: TableFile, file_suffix: str) -> list[str]:
    """List the keys of the first rows of a JSON file. Raises DataError for too many."""
    with closing(_read_json(table_file, file_suffix)) as head_records:
        first_records = map(itemgetter(1), islice(head_records, _MAX_HEAD_ROWS))
        column_names = list(dict.fromkeys(chain.from_iterable(first_records)))
    _check_columns(table_file, column_names, ())
    return column_names


def list_parquet_shards(folder: Path) -> list[Path]:
    """List a folder's Parquet files of documents, by name. Raises DataError if they are several splits.

    Shards of one table are called train-00000-of-00002.parquet or 0000.parquet, as data set libraries write them. Files
    of judgements and of queries beside them are no documents.
    """
    shards = sorted(filter(_is_shard, folder.iterdir()))
    table_names = sorted({_SHARD_NUMBER.sub("", path.stem) for path in shards})
    if len(table_names) > 1:
        listed_names = ", ".join(map(repr, table_names[:5]))
        raise DataError(
            f"{folder} holds Parquet files of {len(table_names)} tables: {listed_names}; give one of the files, or a "
            "folder with the files of one table"
        )
    return shards


def has_shards(folder: Path) -> bool:
    """Return True if a path is a folder with Parquet files of documents."""
    return folder.is_dir() and any(map(_is_shard, folder.iterdir()))


def _is_shard(path: Path) -> bool:
    """Return True for a Parquet file that holds documents by its name, and not judgements, aspects or queries."""
    is_other_part = is_judgement_name(path.name) or path.stem.lower() in _OTHER_PARTS
    return path.suffix.lower() == PARQUET_SUFFIX and not is_other_part


def _open_parquet(
    table_path: Path, required_names: list[str] | None, max_rows: int | None, vectors: str | None, progress: Progress
) -> _OpenTable:
    """Open a Parquet file, or a folder of several with the same columns, whose rows follow each other.

    vectors: name of the column whose lists of numbers become arrays.
    """
    shards = list_parquet_shards(table_path) if table_path.is_dir() else [table_path]
    if not shards:
        raise DataError(f"{table_path} holds no .parquet file; expected {TABLE_KINDS}")
    first_table = ParquetTable(shards[0], required_names, max_rows, vectors)
    if len(shards) == 1:
        return _OpenTable(first_table.names, first_table.rows(progress), first_table.total)

    def records() -> NumberedRows:
        """Yield the rows of all shards, numbered as if they were one table."""
        n_done = 0
        for shard_number, shard_path in enumerate(shards):
            is_first = shard_number == 0
            table = first_table if is_first else ParquetTable(shard_path, required_names, max_rows, vectors)
            _check_columns(shard_path, table.names, required_names or ())
            with closing(table.rows(progress)) as shard_rows:
                for row_number, record in shard_rows:
                    yield n_done + row_number, record
            n_done += table.total

    remark = f"Parquet files of {table_path.name} were read as one table"
    return _OpenTable(first_table.names, records(), None, Notice.for_ids(remark, map(_name_path, shards)))


def _name_path(path: Path) -> str:
    return path.name


def _check_columns(table_file: TableFile, column_names: list[str], required_names: Iterable[str]) -> None:
    """Raise a DataError if a table has too many columns, or not each required one exactly once."""
    if len(column_names) > _MAX_COLUMNS:
        raise DataError(f"{table_file.name} has {len(column_names):,} columns; at most {_MAX_COLUMNS:,} are read")
    for column_name in required_names:
        if column_names.count(column_name) != 1:
            name_count = f"{column_names.count(column_name)} columns" if column_name in column_names else "no column"
            listed_names = ", ".join(map(repr, column_names[:_MAX_HEAD_ROWS]))
            raise DataError(f"{table_file.name}: {name_count} called {column_name!r}; it has {listed_names}")


def _read_csv_rows(table_file: TableFile, progress: Progress, separator: str | None) -> NumberedFields:
    """Yield line number and fields of each row of a CSV file; separator: None to guess it.

    A row may span several lines, if a quoted field holds line breaks. Raises DataError that names the row's first line.
    """
    # The default limit of the csv module is 131,072 characters; a book chapter is longer.
    csv.field_size_limit(2**31 - 1)
    # Where the row in progress begins, and its characters and separators so far; the loop resets them for each row.
    first_line, n_characters, n_parts = 1, 0, 0
    file_lines: Iterable[str] = map(itemgetter(1), read_lines(table_file, progress))
    if separator is None:
        head_lines = _take_first_lines(file_lines)
        # The lines taken to guess the separator are put back in front.
        separator, file_lines = _guess_delimiter(head_lines), chain(head_lines, file_lines)

    def check_lines() -> Iterator[str]:
        """Yield the lines and limit the size of a row: an unclosed quote joins all lines that follow it."""
        nonlocal n_characters, n_parts
        for line_text in file_lines:
            # Separators are counted in long rows only: short ones cannot become many values.
            n_characters += len(line_text)
            if n_characters > LONG_LINE_CHARS:
                n_parts += line_text.count(separator)
                if n_characters > MAX_LINE_BYTES or n_parts > MAX_LINE_PARTS:
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
            if len(line_text) > LONG_LINE_CHARS:
                check_line_parts(table_file, row_number, line_text, "\t")
            yield row_number, line_text.split("\t")


def _split_header(
    table_file: TableFile, numbered_rows: NumberedFields, header: str, notices: tuple[Notice, ...] = ()
) -> _OpenTable:
    """Take a table's column names from its first row, or name the columns of a table without a header.

    numbered_rows: line number and fields of each row of a CSV or TSV file or a sheet. Raises DataError for an empty
    file.
    """
    first_rows = list(islice(numbered_rows, 1 if header == "first" else _MAX_HEAD_ROWS))
    if not first_rows:
        raise DataError(f"{table_file.name} is empty; its first line must name the columns")
    first_fields = [list(map(format_value, fields)) for _row_number, fields in first_rows]
    is_headless = header == "none" or (header == "auto" and looks_like_data(first_fields))
    column_names = name_columns(first_fields) if is_headless else first_fields[0]
    if is_headless and header == "auto":
        listed_names = ", ".join(map(repr, column_names))
        notices += (
            Notice(f"first line looks like data and is read as such: the columns are called {listed_names}", 1),
        )
    data_rows = chain(first_rows if is_headless else first_rows[1:], numbered_rows)

    def records() -> NumberedRows:
        """Yield line number and values by column of each row. Raises DataError for a wrong number of fields."""
        for row_number, fields in data_rows:
            if len(fields) != len(column_names):
                cause = f"expected {len(column_names)} fields, found {len(fields)}"
                if find_table_suffix(table_file) == ".tsv" and '"' in "".join(fields):
                    cause += "; TSV has no quoting, so save quoted fields with line breaks or tabs as CSV"
                raise DataError(f"{_locate_row(table_file, row_number)}: {cause}")
            yield row_number, dict(zip(column_names, fields, strict=True))

    return _OpenTable(column_names, records(), None, notices)


def read_json_rows(
    table_file: TableFile, progress: Progress = SILENT_PROGRESS, line_ends: "array[int] | None" = None
) -> NumberedRows:
    """Yield (line number, object) for each line of a JSON Lines file; blank lines are skipped.

    line_ends: receives the offset of the first line, then of the end of each. Raises DataError for a line that is no
    object, or one of too many values.
    """
    for row_number, line_text in read_lines(table_file, progress, line_ends):
        if is_long := len(line_text) > LONG_LINE_CHARS:
            check_line_parts(table_file, row_number, line_text, ",[{")
        try:
            record = decode_json(line_text)
        except json.JSONDecodeError as json_error:
            if not line_text.strip():
                continue
            error_location = f"{table_file.name} line {row_number} column {json_error.pos + 1}"
            advice = _advise_on_array(row_number, line_text)
            cause = f"{json_error.msg}; every line must be one whole JSON object{advice}"
            raise DataError(f"{error_location}: {cause}") from None
        # A repeated key, a number of thousands of digits, or brackets nested too deep.
        except (ValueError, RecursionError) as json_error:
            raise DataError(f"{table_file.name} line {row_number}: {json_error}") from None
        if type(record) is not dict:
            type_name, advice = type(record).__name__, _advise_on_array(row_number, line_text)
            location = f"{table_file.name} line {row_number} column 1"
            raise DataError(f"{location}: every line must be a JSON object; found a {type_name}{advice}")
        if is_long and len(record) > _MAX_COLUMNS:
            location = f"{table_file.name} line {row_number}"
            raise DataError(f"{location} has {counted(len(record), 'key')}; at most {_MAX_COLUMNS:,} are read")
        yield row_number, record


def _advise_on_array(row_number: int, line_text: str) -> str:
    """Return what to do about a file of lines that begins as an array of objects; "" for any other one."""
    marks = "".join(line_text.split())
    is_array = row_number == 1 and (marks == "[" or marks.startswith("[{"))
    return "; a file that is one array of objects must end in .json" if is_array else ""


def _is_quoted(text: str) -> bool:
    """Return True if a text stands in double quotes, as a field of a CSV file does."""
    return len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1].replace('""', "")


def _locate_row(table_file: TableFile, row_number: int) -> str:
    """Return the file's name and the row's number as text, for an error message."""
    return f"{table_file.name} {_name_row_kind(table_file)} {row_number}"


def _name_row_kind(table_file: TableFile) -> str:
    """Return what a table's rows are counted as: lines of a text file, else rows."""
    return "row" if find_table_suffix(table_file) in (PARQUET_SUFFIX, ".json", ".xlsx") else "line"


def format_value(value: Any) -> str:
    """Return a value of any type as text: None as an empty one, lists and objects as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)  # dates and decimals, as Parquet has them
