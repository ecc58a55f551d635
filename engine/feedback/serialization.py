"""Records as lines of JSON, and back: sealed, numbers exact to the last bit; JSONL files, read.

A line's first entry is a seal over the seal before it and the rest of the line, so a line that was changed, lost or
moved is detected. JSONL logs are what older versions wrote, and exports, which end with their count: behind the last
line break, where older versions see the rest of a line that was being written.
"""

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from engine.errors import DataError, ParamError
from engine.feedback.presets import LEAST_TEMPERATURE, MODES
from engine.feedback.records import SAYS, CorpusChange, Event, Marked, Query, Record, Undone, is_whole
from engine.values import Corpus, Notice

START = "0" * 16
"""Seal before the first line."""
LATEST = 1e11
"""Seconds since 1970 after which no feedback was given: the year 5138."""
NONSENSE = (
    ArithmeticError, AttributeError, IndexError, KeyError, ParamError, RecursionError, TypeError, ValueError,
)  # fmt: skip
"""Errors of reading a line with unexpected content."""
_HEAD, _CUT = '{"seal":"', 9 + 16
_LAST = '{"kind":"end","records":'
TORN = Notice("line at the end was torn, by a process that was killed while writing it, and is left out", 1)
UNCOUNTED = Notice("file does not say how many records it holds: an older version wrote it, or its end is missing", 1)


def sealed(body: Mapping[str, Any], before: str) -> tuple[str, str]:
    """A line, without a line break, and its seal; before: the seal of the line before it."""
    text = json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":"))[1:]
    seal = _seal(text, before)
    return f'{_HEAD}{seal}",{text}', seal


def seal_of(line: str) -> str:
    """The seal that a line says it has."""
    return line[len(_HEAD) : _CUT]


def opened(line: str, before: str) -> tuple[dict[str, Any], str] | None:
    """Content and seal of a line without its line break; None where it is not as it was written."""
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
    """Raise a DataError that names a value of a log's first line which cannot be."""
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


Verified = tuple[str, dict[str, Any], str]
"""A line without its line break, what it holds, and its seal."""
End = tuple[int, str]
"""The number of a line, from 1, and its seal, which speaks for all lines before it."""
BEGINNING: End = (0, START)
"""Before the first line."""


def verified(
    numbered: Iterable[tuple[int, Any]],
    start: End,
    path: Path,
    advice: Callable[[int, str], str] = "head -n {} {} > kept.jsonl".format,
) -> Iterator[Verified]:
    """Lines by number that continue the chain of seals; DataError at the first that does not.

    advice: from the number of whole lines and the file's name to a command that keeps them.
    """
    last, seal = start
    for expected, (number, line) in enumerate(numbered, last + 1):
        content = opened(line, seal) if number == expected and isinstance(line, str) else None
        if content is None:
            raise damaged(path, expected, advice(expected - 1, path.name))
        body, seal = content
        yield line, body, seal


def damaged(path: Path, number: int, command: str) -> DataError:
    """The error that names the first line that is not as it was written; command: keeps those before it."""
    if number == 1:
        return DataError(f"{path} is no log of feedback, or its first line is damaged")
    return DataError(
        f"{path} line {number} is not as it was written; the {number - 1} before it are whole. Copy the file back from "
        f"a backup, or keep those lines only: {command}"
    )


def counted(lines: Sequence[str]) -> str:
    """The end of an export of these lines, without a line break."""
    return f'{_LAST}{len(lines)},"seal":"{seal_of(lines[-1]) if lines else START}"}}'


def read_jsonl(path: Path) -> tuple[list[Verified], tuple[Notice, ...]]:
    """The lines of a file, and whether its end is torn, or says nothing of their number.

    Raises DataError for a file that is no log, for a line that is not as it was written, and for lines that are missing
    at the end of an export.
    """
    *lines, rest = (line.decode("ascii", "replace") for line in _bytes(path).split(b"\n"))
    if lines and lines[-1].startswith(_LAST) and not rest:  # an editor ended it with a line break
        rest = lines.pop()
    if not lines:
        raise damaged(path, 1, "")
    verified_lines = list(verified(enumerate(lines, 1), BEGINNING, path))
    if rest == counted(lines):
        return verified_lines, ()
    if rest.startswith(_LAST) and rest.endswith("}"):
        raise DataError(
            f"{path} line {len(lines) + 1} ends another log than these {len(lines)} lines ({rest}): some are missing, "
            f"or it was changed. Copy the file back from a backup, or keep them: head -n {len(lines)} {path.name} > "
            "kept.jsonl"
        )
    return verified_lines, (TORN,) if rest else (UNCOUNTED,)


def has_line(path: Path, seal: str, last: bool = False) -> bool:
    """Whether a file holds the line of a seal; last: as its last, with nothing after it."""
    raw = _bytes(path)
    whole, _, rest = raw.rpartition(b"\n")
    if rest.startswith(_LAST.encode()):
        raw = whole + b"\n"
    start = raw.rfind(b"\n", 0, -1) + 1 if last else 0
    # Within a line the quotes are escaped.
    head = f'{_HEAD}{seal}",'.encode()
    return head in raw[start:] and (not last or raw.endswith(b"\n"))


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
