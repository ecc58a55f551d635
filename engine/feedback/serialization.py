"""Records as plain JSON values, and back: numbers exact to the last bit."""

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from engine.errors import DataError, ParamError
from engine.feedback.presets import LEAST_TEMPERATURE, MODES
from engine.feedback.records import SAYS, CorpusChange, Event, Marked, Query, Record, Undone, is_whole
from engine.values import Corpus

LATEST = 1e11
"""Seconds since 1970 after which no feedback was given: the year 5138."""
NONSENSE = (
    ArithmeticError, AttributeError, IndexError, KeyError, ParamError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""Errors of reading a line with unexpected content."""


def packed(array: np.ndarray) -> str:
    """An array as text: its little-endian bytes in base64, behind its type."""
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return f"{array.dtype.str[1:]}:{base64.b64encode(array.tobytes()).decode()}"


def unpacked(text: str) -> np.ndarray:
    """The same back, read-only; ValueError where it is no such text or not finite."""
    kind, _, raw = text.partition(":")
    if kind not in ("f4", "f8"):
        raise ValueError(f"numbers of type {kind!r}")
    array = np.frombuffer(base64.b64decode(raw, validate=True), dtype=f"<{kind}").astype(kind)
    if not np.isfinite(array).all():
        raise ValueError("numbers that are not finite")
    array.flags.writeable = False
    return array


def body_of(record: Record, corpus: Corpus) -> dict[str, Any]:
    """A record as plain JSON values; documents by id."""
    ids = corpus.ids

    def ids_of(rows: Sequence[int]) -> list[str]:
        return [ids[row] for row in rows]

    match record:
        case Event():
            # What could not be read back is not written.
            refuse_odd(record)
            everyone = len(record.items) == len(ids) and tuple(record.items) == tuple(range(len(ids)))
            wide = not isinstance(record.coefficients, tuple)
            return {
                "op": "feed",
                "id": record.id,
                "round": record.round,
                "kind": record.kind,
                "item": ids[record.item],
                "good": record.good,
                "person": record.person,
                "propensity": record.propensity,
                "mode": record.mode,
                "items": "all" if everyone else ids_of(record.items),
                "coefficients": packed(np.asarray(record.coefficients)) if wide else list(record.coefficients),
                "shown": ids_of(record.shown),
                "writer": record.writer,
                "time": record.time,
                "query": {"text": record.query.text, "vector": packed(record.query.vector)},
            }
        case Undone():
            return {"op": "undo", "ids": list(record.ids), "back": list(record.back), "whole": record.whole}
        case CorpusChange():
            drift = {ids[row]: packed(vector) for row, vector in record.drift.items()}
            return {"op": "documents", "came": ids_of(record.came), "went": ids_of(record.went), "drift": drift}
        case Marked():
            return {"op": "snapshot", "name": record.name}


def record_of(body: Mapping[str, Any], corpus: Corpus, dimension: int, everyone: Sequence[int]) -> Record:
    """The record that a line holds; everyone: the rows that "all" means.

    Raises DataError, without the place, where it makes no sense for this corpus.
    """
    try:
        return _record(body, corpus, dimension, everyone)
    except DataError:
        raise
    except NONSENSE as error:
        raise DataError(f"a record that is none ({type(error).__name__}: {error})") from None


def _record(body: Mapping[str, Any], corpus: Corpus, dimension: int, everyone: Sequence[int]) -> Record:
    def row(doc: str) -> int:
        if doc not in corpus.position:
            raise DataError(f"feedback about {doc!r}, which this corpus does not have")
        return corpus.position[doc]

    def rows(docs: Sequence[str]) -> tuple[int, ...]:
        return tuple(row(doc) for doc in list_of_texts(docs, "documents"))

    match body["op"]:
        case "feed":
            return _event(body, everyone, dimension, rows)
        case "undo":
            ids, back = (tuple(list_of_texts(body[name], name)) for name in ("ids", "back"))
            return Undone(ids, back, body["whole"] is True)
        case "documents":
            drift = {row(doc): _vector(text, dimension) for doc, text in body["drift"].items()}
            return CorpusChange(rows(body["came"]), rows(body["went"]), drift)
        case "snapshot":
            return Marked(*list_of_texts([body["name"]], "name"))
    raise DataError(f"a record of an unknown kind, {body['op']!r}; a newer version of Frontier may have written it")


def _event(body: Mapping[str, Any], everyone: Sequence[int], dimension: int, rows: Any) -> Event:
    query = Query(_vector(body["query"]["vector"], dimension), body["query"]["text"])
    items = everyone if body["items"] == "all" else rows(body["items"])
    values = body["coefficients"]
    coefficients = unpacked(values) if isinstance(values, str) else tuple(values)
    if len(coefficients) != len(items) or len(set(items)) != len(items):
        raise DataError(f"feedback with {len(coefficients)} coefficients for {len(set(items))} documents")
    (item,) = rows([body["item"]])
    if not body["id"]:
        raise DataError(f"id must be text; got {body['id']!r}")
    event = Event(
        body["round"], body["kind"], query, items, coefficients, item, body["good"], body["propensity"], body["mode"],
        rows(body["shown"]), body["person"], body["writer"], body["time"], body["id"],
    )  # fmt: skip
    refuse_odd(event)
    return event


def _vector(text: str, dimension: int) -> np.ndarray:
    vector = unpacked(text)
    if vector.shape != (dimension,):
        raise DataError(f"a vector of {len(vector)} numbers where the corpus has {dimension}")
    return vector


def refuse_odd(event: Event) -> None:
    """Raise a DataError that names an impossible value of an event, whose rows are of the corpus."""
    _that(is_whole(event.round) and 1 <= event.round < 2**63, "round", "a whole number in [1, 2⁶³)", event.round)
    known = isinstance(event.kind, str) and isinstance(event.good, bool) and (event.kind, event.good) in SAYS
    _that(known, "kind and good", "what feedback can say", (event.kind, event.good))
    _that(event.mode in MODES, "mode", f"one of {', '.join(MODES)}", event.mode)
    chance = event.propensity
    _that(chance is None or (_real(chance) and 0 < chance <= 1), "propensity", "in (0, 1] or none", chance)
    time = event.time
    _that(time is None or (_real(time) and 0 <= time < LATEST), "time", f"in [0, {LATEST:g}) or none", time)
    for name, text in (("person", event.person), ("query's text", event.query.text)):
        _that(text is None or isinstance(text, str), name, "text or none", text)
    _that(isinstance(event.writer, str), "writer", "text", event.writer)
    _that(isinstance(event.id, str) and event.id != "", "id", "text", event.id)
    wide = isinstance(event.coefficients, np.ndarray)
    finite = np.isfinite(event.coefficients).all() if wide else all(map(_real, event.coefficients))
    _that(finite, "coefficients", "finite numbers", event.coefficients)
    _that(event.item in event.items, "item", "one of the documents that it moves", event.item)


def refuse_odd_beginning(body: Mapping[str, Any]) -> None:
    """Raise a DataError that names a value of a log's header which cannot be."""
    _that(body.get("op") == "begin", "op", "begin", body.get("op"))
    texts = body.get("documents")
    _that(_named_texts(texts) and texts, "documents", "digests by id", texts)
    for name in ("corpus", "embeddings"):
        _that(isinstance(body.get(name), str), name, "text", body.get(name))
    encoder = body.get("encoder")
    _that(encoder is None or _named_texts(encoder), "encoder", "named texts or none", encoder)
    _that(is_whole(body.get("dimension")) and body["dimension"] > 0, "dimension", "in [1, ∞)", body.get("dimension"))
    _that(isinstance(body.get("preset"), dict), "preset", "named values", body.get("preset"))
    heat = body.get("temperature")
    _that(_real(heat) and heat >= LEAST_TEMPERATURE, "temperature", f"in [{LEAST_TEMPERATURE:g}, ∞)", heat)


def list_of_texts(value: Any, name: str) -> list[str]:
    """The value, a list of texts. Raises DataError."""
    _that(isinstance(value, list) and all(isinstance(each, str) for each in value), name, "a list of texts", value)
    return list(value)


def _that(holds: Any, name: str, domain: str, value: Any) -> None:
    if not holds:
        raise DataError(f"{name} must be {domain}; got {repr(value)[:80]}")


def _named_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _real(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
