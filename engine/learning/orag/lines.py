"""Records as lines of text, and back: one JSON object a line, sealed, numbers exact to the last bit.

A line's first entry is a seal over the seal before it and the rest of the line: a line that was changed, lost or moved
is found out, and so is everything after it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from engine.errors import DataError
from engine.learning.orag.checking import NONSENSE, list_of_texts, refuse_odd
from engine.learning.orag.events import Event, Query
from engine.learning.orag.journal import Changed, Marked, Record, Undone
from engine.values import Corpus

START = "0" * 16
"""What stands for a seal before the first line."""
_HEAD, _CUT = '{"seal":"', 9 + 16


def sealed(body: Mapping[str, Any], before: str) -> tuple[str, str]:
    """A line, with its line break, and its seal; before: the seal of the line before it."""
    text = json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":"))[1:]
    seal = _seal(text, before)
    return f'{_HEAD}{seal}",{text}\n', seal


def head(seal: str) -> bytes:
    """What a line of that seal begins with."""
    return f'{_HEAD}{seal}",'.encode()


def opened(line: str, before: str) -> tuple[dict[str, Any], str] | None:
    """What a line without its line break holds, and its seal; None where it is not as it was written."""
    seal, text = line[len(_HEAD) : _CUT], line[_CUT + 2 :]
    if line[: len(_HEAD)] != _HEAD or line[_CUT : _CUT + 2] != '",' or seal != _seal(text, before):
        return None
    try:
        return json.loads("{" + text), seal
    except (ValueError, RecursionError):
        return None


def _seal(text: str, before: str) -> str:
    return blake2b(f"{before}{text}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


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

    def named(rows: Sequence[int]) -> list[str]:
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
                "items": "all" if everyone else named(record.items),
                "coefficients": packed(np.asarray(record.coefficients)) if wide else list(record.coefficients),
                "shown": named(record.shown),
                "writer": record.writer,
                "time": record.time,
                "query": {"text": record.query.text, "vector": packed(record.query.vector)},
            }
        case Undone():
            return {"op": "undo", "ids": list(record.ids), "back": list(record.back), "whole": record.whole}
        case Changed():
            drift = {ids[row]: packed(vector) for row, vector in record.drift.items()}
            return {"op": "documents", "came": named(record.came), "went": named(record.went), "drift": drift}
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
            return Changed(rows(body["came"]), rows(body["went"]), drift)
        case "snapshot":
            return Marked(*list_of_texts([body["name"]], "name"))
    raise DataError(f"a record of an unknown kind, {body['op']!r}; a newer version of Frontier may have written it")


def _event(body: Mapping[str, Any], everyone: Sequence[int], dimension: int, rows: Any) -> Event:
    query = Query(_vector(body["query"]["vector"], dimension), body["query"]["text"])
    items = everyone if body["items"] == "all" else rows(body["items"])
    found = body["coefficients"]
    coefficients = unpacked(found) if isinstance(found, str) else tuple(found)
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
