"""Conversion of records to plain JSON values and back; numbers are exact to the last bit."""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from engine.errors import DataError, ParamError
from engine.feedback.presets import MIN_TEMPERATURE, UPDATE_MODES
from engine.feedback.records import KIND_OUTCOMES, Bookmark, CorpusChange, Event, Query, Record, Undone, is_whole
from engine.progress import counted
from engine.values import Corpus

#: Latest time of an event, in seconds since 1970: the year 5138.
MAX_EVENT_TIME_SECONDS = 1e11
#: Errors that reading a line with unexpected content can raise.
PARSE_ERRORS = (
    ArithmeticError, AttributeError, IndexError, KeyError, ParamError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def encode_array(array: np.ndarray) -> str:
    """Encode an array as text: its type, a colon, and its little-endian bytes in base64."""
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return f"{array.dtype.str[1:]}:{base64.b64encode(array.tobytes()).decode()}"


def decode_array(encoded: str) -> np.ndarray:
    """Decode an array from the text that `encode_array` made; it is read-only.

    Raises ValueError for other text, and for numbers that are not finite.
    """
    dtype_name, _, base64_text = encoded.partition(":")
    if dtype_name not in ("f4", "f8"):
        raise ValueError(f"numbers of type {dtype_name!r}")
    array = np.frombuffer(base64.b64decode(base64_text, validate=True), dtype=f"<{dtype_name}").astype(dtype_name)
    if not np.isfinite(array).all():
        raise ValueError("numbers that are not finite")
    array.flags.writeable = False
    return array


def record_to_json(record: Record, corpus: Corpus) -> dict[str, Any]:
    """Convert a record of a session to plain JSON values, with documents by their ids.

    An event that moves every document, in order, has "all" in place of their ids. Raises DataError for an event that
    could not be read back.
    """
    doc_ids = corpus.ids

    def ids_of(row_indices: Sequence[int]) -> list[str]:
        """Return the ids of documents given by row."""
        return [doc_ids[row_index] for row_index in row_indices]

    match record:
        case Event():
            # An event that could not be read back is refused before it is written.
            validate_event(record)
            moves_all_rows = len(record.items) == len(doc_ids) and tuple(record.items) == tuple(range(len(doc_ids)))
            values = record.coefficients
            coefficients = list(values) if isinstance(values, tuple) else encode_array(np.asarray(values))
            return {
                "op": "feed",
                "id": record.id,
                "round": record.round,
                "kind": record.kind,
                "item": doc_ids[record.item],
                "good": record.good,
                "person": record.person,
                "propensity": record.propensity,
                "mode": record.mode,
                "items": "all" if moves_all_rows else ids_of(record.items),
                "coefficients": coefficients,
                "shown": ids_of(record.shown),
                "writer": record.writer,
                "time": record.time,
                "query": {"text": record.query.text, "vector": encode_array(record.query.vector)},
            }
        case Undone():
            return {"op": "undo", "ids": list(record.ids), "back": list(record.back), "whole": record.is_reset}
        case CorpusChange():
            drift_by_id = {doc_ids[row_index]: encode_array(vector) for row_index, vector in record.drift.items()}
            return {"op": "documents", "came": ids_of(record.came), "went": ids_of(record.went), "drift": drift_by_id}
        case Bookmark():
            return {"op": "snapshot", "name": record.name}


def parse_record(body: Mapping[str, Any], corpus: Corpus, dimension: int, all_rows: Sequence[int]) -> Record:
    """Build a record from a line of a log, given as plain JSON values.

    all_rows: the rows that "all" stands for in an event that moves every document. Raises DataError, without the line's
    position, for an invalid record or one of another corpus.
    """
    try:
        return _parse_body(body, corpus, dimension, all_rows)
    except DataError:
        raise
    except PARSE_ERRORS as error:
        raise DataError(f"a record that is none ({type(error).__name__}: {error})") from None


def _parse_body(body: Mapping[str, Any], corpus: Corpus, dimension: int, all_rows: Sequence[int]) -> Record:
    """Build a record of a log from plain JSON values, whose types are not checked.

    all_rows: the rows that "all" stands for. Raises DataError for an unknown document or kind of record, and any of
    PARSE_ERRORS, which `parse_record` translates, for values of the wrong type.
    """

    def find_row(doc_id: str) -> int:
        """Return the row of a document. Raises DataError if the corpus does not have it."""
        if doc_id not in corpus.position:
            raise DataError(f"feedback about {doc_id!r}, which this corpus does not have")
        return corpus.position[doc_id]

    def find_rows(doc_ids: Sequence[str]) -> tuple[int, ...]:
        """Return the rows of a list of documents. Raises DataError if one is unknown."""
        return tuple(find_row(doc_id) for doc_id in parse_text_list(doc_ids, "documents"))

    match body["op"]:
        case "feed":
            return _parse_event(body, all_rows, dimension, find_rows)
        case "undo":
            undone_ids, redone_ids = parse_text_list(body["ids"], "ids"), parse_text_list(body["back"], "back")
            return Undone(tuple(undone_ids), tuple(redone_ids), body["whole"] is True)
        case "documents":
            drifts = {find_row(doc_id): _parse_vector(text, dimension) for doc_id, text in body["drift"].items()}
            return CorpusChange(find_rows(body["came"]), find_rows(body["went"]), drifts)
        case "snapshot":
            (snapshot_name,) = parse_text_list([body["name"]], "name")
            return Bookmark(snapshot_name)
    raise DataError(f"a record of an unknown kind, {body['op']!r}; a newer version of Frontier may have written it")


def _parse_event(body: Mapping[str, Any], all_rows: Sequence[int], dimension: int, find_rows: Any) -> Event:
    """Build an event from plain JSON values. Raises DataError for an invalid one.

    all_rows: the rows that "all" stands for; find_rows: function from document ids to rows.
    """
    query = Query(_parse_vector(body["query"]["vector"], dimension), body["query"]["text"])
    item_rows = all_rows if body["items"] == "all" else find_rows(body["items"])
    json_coefficients = body["coefficients"]
    coefficients = decode_array(json_coefficients) if isinstance(json_coefficients, str) else tuple(json_coefficients)
    if len(coefficients) != len(item_rows) or len(set(item_rows)) != len(item_rows):
        raise DataError(
            f"feedback with {counted(len(coefficients), 'coefficient')} for {counted(len(set(item_rows)), 'document')}"
        )
    (item_row,) = find_rows([body["item"]])
    if not body["id"]:
        raise DataError(f"id must be text; got {body['id']!r}")
    event = Event(
        body["round"], body["kind"], query=query, items=item_rows, coefficients=coefficients, item=item_row,
        good=body["good"], propensity=body["propensity"], mode=body["mode"], shown=find_rows(body["shown"]),
        person=body["person"], writer=body["writer"], time=body["time"], id=body["id"],
    )  # fmt: skip
    validate_event(event)
    return event


def _parse_vector(encoded: str, dimension: int) -> np.ndarray:
    """Decode a (dimension,) vector from text. Raises DataError for another length."""
    vector = decode_array(encoded)
    if vector.shape != (dimension,):
        raise DataError(f"a vector of {counted(len(vector), 'number')} where the corpus has {dimension}")
    return vector


def validate_event(event: Event) -> None:
    """Raise a DataError that names the first invalid value of an event.

    Its rows are not checked against a corpus: the caller has done so.
    """
    _require(is_whole(event.round) and 1 <= event.round < 2**63, "round", "a whole number in [1, 2⁶³)", event.round)
    has_types = isinstance(event.kind, str) and isinstance(event.good, bool)
    is_valid_kind = has_types and (event.kind, event.good) in KIND_OUTCOMES
    _require(is_valid_kind, "kind and good", "what feedback can say", (event.kind, event.good))
    _require(event.mode in UPDATE_MODES, "mode", f"one of {', '.join(UPDATE_MODES)}", event.mode)
    propensity, event_time = event.propensity, event.time
    is_probability = propensity is None or (_is_finite_number(propensity) and 0 < propensity <= 1)
    _require(is_probability, "propensity", "in (0, 1] or none", propensity)
    is_time = event_time is None or (_is_finite_number(event_time) and 0 <= event_time < MAX_EVENT_TIME_SECONDS)
    _require(is_time, "time", f"in [0, {MAX_EVENT_TIME_SECONDS:g}) or none", event_time)
    for field_name, text in (("person", event.person), ("query's text", event.query.text)):
        _require(text is None or isinstance(text, str), field_name, "text or none", text)
    _require(isinstance(event.writer, str), "writer", "text", event.writer)
    _require(isinstance(event.id, str) and event.id != "", "id", "text", event.id)
    is_array = isinstance(event.coefficients, np.ndarray)
    # Arrays are checked at once: an event that moves all documents has a coefficient for each.
    is_finite = np.isfinite(event.coefficients).all() if is_array else all(map(_is_finite_number, event.coefficients))
    _require(is_finite, "coefficients", "finite numbers", event.coefficients)
    _require(event.item in event.items, "item", "one of the documents that it moves", event.item)


def validate_header(header: Mapping[str, Any]) -> None:
    """Raise a DataError that names the first invalid value of a log's header."""
    _require(header.get("op") == "begin", "op", "begin", header.get("op"))
    text_digests = header.get("documents")
    _require(_is_text_mapping(text_digests) and text_digests, "documents", "digests by id", text_digests)
    for field_name in ("corpus", "embeddings"):
        _require(isinstance(header.get(field_name), str), field_name, "text", header.get(field_name))
    encoder = header.get("encoder")
    _require(encoder is None or _is_text_mapping(encoder), "encoder", "named texts or none", encoder)
    dimension = header.get("dimension")
    _require(is_whole(dimension) and dimension > 0, "dimension", "in [1, ∞)", dimension)
    _require(isinstance(header.get("preset"), dict), "preset", "named values", header.get("preset"))
    temperature = header.get("temperature")
    is_temperature = _is_finite_number(temperature) and temperature >= MIN_TEMPERATURE
    _require(is_temperature, "temperature", f"in [{MIN_TEMPERATURE:g}, ∞)", temperature)


def parse_text_list(value: Any, field_name: str) -> list[str]:
    """Return the value as a list of texts. Raises DataError that names the field for any other value."""
    is_text_list = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    _require(is_text_list, field_name, "a list of texts", value)
    return list(value)


def _require(is_valid: Any, field_name: str, domain: str, value: Any) -> None:
    """Raise a DataError that names field, domain and value, unless the value is valid."""
    if not is_valid:
        raise DataError(f"{field_name} must be {domain}; got {repr(value)[:80]}")


def _is_text_mapping(value: Any) -> bool:
    """Return True for a dictionary whose values are texts."""
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_finite_number(value: Any) -> TypeGuard[float]:
    """Return True for a finite real number that is no bool."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
