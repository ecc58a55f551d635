"""Rows of a .json file: an array of objects, or one object after the other, parsed one at a time."""

import codecs
import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from engine.data.columns import ID_NAMES, TEXT_NAMES, TITLE_NAMES
from engine.data.files import HeldFile, check_growth, is_gzip, measure_file, open_content, translate_read_errors
from engine.data.json_files import JSON_DECODER
from engine.data.textfiles import LINE_MEMORY_BYTES, MAX_LINE_BYTES, SILENT_PROGRESS, check_line_parts
from engine.errors import DataError
from engine.progress import Progress

# Bytes that are read at a time; a row of fewer characters cannot become too many values.
_CHUNK_BYTES = 1 << 19
_ARRAY_ADVICE = "expected an array of objects, [{…}, {…}], or one object after the other"
_PANDAS_ADVICE = 'from pandas: frame.to_json(path, orient="records"); else save the inner list alone'
_ID_NAMES, _TEXT_NAMES = frozenset(ID_NAMES), frozenset((*TEXT_NAMES, *TITLE_NAMES))
_USUAL_NAMES = _ID_NAMES | _TEXT_NAMES


def read_json_array(
    table_file: Path | HeldFile, progress: Progress = SILENT_PROGRESS
) -> Generator[tuple[int, Mapping[str, Any]]]:
    """Yield (number from 1, object) for each object of a .json file: an array, or objects one after the other.

    One object that maps ids to documents, as BEIR's loader holds a corpus, has a row for each id.

    The file is read in pieces, so that no more than a row is in memory. Raises DataError for anything else.
    """
    with open_content(table_file) as (stream, disk_file):
        reader = _JsonReader(table_file, stream, disk_file)
        first_mark = reader.peek_mark()
        if first_mark not in ("[", "{"):
            raise DataError(f"{table_file.name} begins with {first_mark[:1]!r}; {_ARRAY_ADVICE}")
        is_array = first_mark == "["
        reader.skip_marks("[" if is_array else "")
        row_number = 0
        while (mark := reader.peek_mark()) and not (is_array and mark == "]"):
            row_number += 1
            if is_array and row_number > 1:
                reader.expect_comma(row_number)
            record = reader.read_object(row_number)
            if row_number == 1 and not is_array and not reader.peek_mark():
                if mapped_rows := _list_mapped_rows(record):
                    yield from enumerate(mapped_rows, start=1)
                    return
                _check_single_object(table_file, record)
            progress(disk_file.tell(), reader.n_bytes, f"reading {table_file.name}")
            yield row_number, record
        if is_array:
            reader.skip_marks("]")
            if reader.peek_mark():
                raise DataError(f"{table_file.name} goes on behind its array; {_ARRAY_ADVICE}")


class _JsonReader:
    """Text of a JSON file as it is read: the part that is not parsed yet, and where it lies in the file."""

    def __init__(self, table_file: Path | HeldFile, stream: BinaryIO, disk_file: BinaryIO) -> None:
        """Start before the first byte. stream: the content; disk_file: the file, which may be compressed."""
        self.table_file, self._stream = table_file, stream
        self.n_bytes = measure_file(table_file, disk_file)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._position, self._n_dropped, self._n_read, self._n_rows = "", 0, 0, 0, 0
        self._is_at_end = False

    def peek_mark(self) -> str:
        """Skip white space; return the next character, "" at the end."""
        while True:
            while self._position < len(self._text) and self._text[self._position] in " \t\r\n":
                self._position += 1
            if self._position < len(self._text) or not self._read_more(_CHUNK_BYTES):
                return self._text[self._position : self._position + 1]

    def skip_marks(self, mark: str) -> None:
        """Skip a mark that `peek_mark` returned; raise DataError if the file has ended before it."""
        if mark and self.peek_mark() != mark:
            raise DataError(f"{self.table_file.name} ends before its closing {mark!r}; is it whole?")
        self._position += len(mark)

    def expect_comma(self, row_number: int) -> None:
        """Skip the comma between two objects of an array. Raises DataError for another mark."""
        mark = self.peek_mark()
        if mark != ",":
            location = self._locate(row_number, self._position)
            raise DataError(f"{location}: expected ',' or ']' before the object; found {mark!r}")
        self._position += 1

    def read_object(self, row_number: int) -> dict[str, Any]:
        """Return the next object. Raises DataError for any other value, and for an object of too many bytes."""
        self._n_rows = row_number
        mark = self.peek_mark()
        if mark != "{":
            location = self._locate(row_number, self._position)
            cause = f"found {mark!r}" if mark else "the file ends here"
            raise DataError(f"{location}: every element must be a JSON object; {cause}")
        while True:
            n_chars = len(self._text) - self._position
            if n_chars > 2 * _CHUNK_BYTES:
                check_line_parts(self.table_file, row_number, self._text[self._position :], ",[{")
            try:
                record, self._position = JSON_DECODER.raw_decode(self._text, self._position)
            except json.JSONDecodeError as json_error:
                # The object may be cut off only because it was not read to its end.
                if n_chars <= MAX_LINE_BYTES and self._read_more(max(_CHUNK_BYTES, n_chars)):
                    continue
                location = self._locate(row_number, json_error.pos)
                raise DataError(f"{location}: {json_error.msg}; {_ARRAY_ADVICE}") from None
            except (ValueError, RecursionError) as json_error:
                raise DataError(f"{self._locate(row_number, self._position)}: {json_error}") from None
            return dict(record)

    def _read_more(self, n_bytes: int) -> bool:
        """Read a further part of the file and drop the parsed one; return False at the end."""
        if self._is_at_end:
            return False
        with translate_read_errors(self.table_file):
            raw_bytes = self._stream.read(n_bytes)
        self._is_at_end = not raw_bytes
        self._n_read += len(raw_bytes)
        if is_gzip(self.table_file):
            # A short row takes far more memory as an object of Python than as text.
            memory_bytes = self._n_read + LINE_MEMORY_BYTES * self._n_rows
            check_growth(self.table_file, self.n_bytes, memory_bytes, "decompress it")
        try:
            new_text = self._decoder.decode(raw_bytes, final=self._is_at_end)
        except UnicodeDecodeError as error:
            offset = self._n_read - len(raw_bytes) + error.start
            raise DataError(
                f"{self.table_file.name} is not UTF-8 near byte {offset:,}; save the file as UTF-8"
            ) from None
        self._n_dropped += self._position
        self._text, self._position = self._text[self._position :] + new_text, 0
        return bool(raw_bytes) or bool(new_text)

    def _locate(self, row_number: int, position: int) -> str:
        """Return file, row and character as text, for an error message."""
        return f"{self.table_file.name} row {row_number}, character {self._n_dropped + position + 1:,}"


def _list_mapped_rows(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rows of an object that maps ids to documents; none for any other object."""
    values = list(record.values())
    if not _USUAL_NAMES.isdisjoint(map(str.lower, record)) or not all(isinstance(value, dict) for value in values):
        return []
    # Without a text of its own a value is no document: it may be a whole table under its name.
    if any(_TEXT_NAMES.isdisjoint(map(str.lower, value)) for value in values):
        return []
    # Where a document has its id inside too, that one counts.
    rows = []
    for key, value in record.items():
        has_id = not _ID_NAMES.isdisjoint(map(str.lower, value))
        rows.append(value if has_id else {"_id": key, **value})
    return rows


def _check_single_object(table_file: Path | HeldFile, record: Mapping[str, Any]) -> None:
    """Raise DataError for a file that is one object, of lists, objects or unnamed texts: its rows lie inside.

    pandas writes its columns so, other tools put the rows under one key, or ids before their texts.
    """
    values = list(record.values())
    has_only_parts = bool(values) and all(isinstance(value, dict | list) for value in values)
    has_rows_inside = any(isinstance(value, list) and value and isinstance(value[0], dict) for value in values)
    has_only_texts = len(values) > 1 and all(isinstance(value, str) for value in values)
    is_nameless = has_only_texts and _USUAL_NAMES.isdisjoint(map(str.lower, record))
    if not (has_only_parts or has_rows_inside or is_nameless):
        return
    listed_keys = ", ".join(map(repr, list(record)[:5]))
    advice = 'if its keys are ids, write {"id": {"text": "…"}, …}' if is_nameless else _PANDAS_ADVICE
    raise DataError(
        f"{table_file.name} is one object with {listed_keys}, not a row for each document; {_ARRAY_ADVICE}; {advice}"
    )
