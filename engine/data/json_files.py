"""JSON as data files hold it: a repeated key is an error, and a whole document is read within limits."""

import json
from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import Any

from engine.data.files import HeldFile, check_growth, measure_file, open_content, translate_read_errors
from engine.errors import DataError

MAX_JSON_BYTES = 512 << 20
"""Largest JSON document: it is read as a whole, and takes several times its size in memory."""

_CHUNK_BYTES = 1 << 20
_MARK_MEMORY_BYTES = 100


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


JSON_DECODER = json.JSONDecoder(object_pairs_hook=_build_json_object)
decode_json = JSON_DECODER.decode
"""Function from a JSON text to its value. Raises ValueError, for a repeated key too, or RecursionError."""


def read_json_document(file_path: Path | HeldFile) -> Any:
    """Read a file that holds one JSON value, decompressed if its name ends in .gz; a BOM is dropped.

    Raises DataError naming line and column for text that is not JSON, for a repeated key, and for a file of more than
    MAX_JSON_BYTES.
    """
    file_label = file_path.name
    try:
        json_text = _read_content(file_path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad_byte = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise DataError(f"{file_label} is not UTF-8: {bad_byte}; save it as UTF-8") from None
    try:
        return decode_json(json_text)
    except json.JSONDecodeError as error:
        raise DataError(f"{file_label} line {error.lineno} column {error.colno}: not JSON: {error.msg}") from None
    # A repeated key, a number of thousands of digits, or brackets nested too deep.
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file_label}: {error}") from None


def is_json_lines(file_path: Path | HeldFile) -> bool:
    """Return True if the first line of a file is a whole JSON object, of at most 1 MB, and another line follows."""
    with open_content(file_path) as (stream, _), translate_read_errors(file_path):
        first_line = stream.readline(_CHUNK_BYTES)
        has_more = first_line.endswith(b"\n") and bool(stream.read(_CHUNK_BYTES).strip())
    try:
        return has_more and isinstance(decode_json(first_line.decode("utf-8-sig")), dict)
    except (ValueError, RecursionError):
        return False


def _read_content(file_path: Path | HeldFile) -> bytearray:
    """Read a whole file, decompressed if its name ends in .gz.

    Raises DataError if it is too large, or would take far more memory than it has bytes.
    """
    content = bytearray()
    n_marks = 0
    with open_content(file_path) as (stream, disk_file), translate_read_errors(file_path):
        disk_bytes = measure_file(file_path, disk_file)
        _check_size(file_path, disk_bytes)
        while chunk := stream.read(_CHUNK_BYTES):
            content += chunk
            _check_size(file_path, len(content))
            # Each comma may be an entry of a dictionary, and each bracket one of a hundred times its size.
            n_marks += chunk.count(b",") + 2 * (chunk.count(b"{") + chunk.count(b"["))
            memory_bytes = 2 * len(content) + _MARK_MEMORY_BYTES * n_marks
            check_growth(file_path, disk_bytes, memory_bytes, "save it as JSON Lines, one object a line")
    return content


def _check_size(file_path: Path | HeldFile, n_bytes: int) -> None:
    """Raise DataError for more bytes than are read as one JSON document."""
    if n_bytes > MAX_JSON_BYTES:
        raise DataError(
            f"{file_path.name} has more than {MAX_JSON_BYTES >> 20} MB, the most that is read as one JSON document; "
            "save it as JSON Lines, one object a line"
        )
