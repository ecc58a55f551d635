"""Snapshot files: the page's state and its results, one JSON file each, sealed; and differences between two."""

import json
import math
import re
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dashboard.sharing.export_results import PARAMETER_COLUMNS
from engine.data import cache
from engine.errors import DataError
from engine.paths import home
from engine.values import digest_of, replace_surrogates

SECTION, SUFFIX = "snapshots", ".json"
IDENT = re.compile(r"[0-9a-f]{32}")
LONGEST_NAME, LARGEST = 80, 64_000_000
BOTH, OLDER, NEWER = "both", "older only", "newer only"


@dataclass(frozen=True)
class SavedAnswer:
    """One decoder's set at the time of a snapshot."""

    title: str
    setting: str  # the decoder as text
    documents: tuple[tuple[str, str], ...]  # (id, title), best first
    figures: Mapping[str, float | None]  # metric's title → value, None where it does not exist
    words: str = ""  # the decoder for people
    parameters: tuple[tuple[str, ...], ...] = ()  # stage, name, symbol, value and default of each


@dataclass(frozen=True, kw_only=True)
class PageSnapshot:
    """The state of the page and its results at one time."""

    name: str
    state: Mapping[str, str]  # a link's parameters
    corpus: str
    digest: str  # of the corpus
    vectors: str  # digest of its embeddings
    encoder: str
    query: str
    answers: Mapping[str, SavedAnswer]  # by the decoder's name
    frontier: str  # the program's version
    made: str  # time of its making, UTC, ISO 8601
    id: str  # names its file

    @property
    def when(self) -> str:
        """The time of its making as people read it."""
        return self.made[:16].replace("T", " ") + " UTC"


def new(name: str, **state: Any) -> PageSnapshot:
    """A snapshot of this moment, not saved yet. Raises DataError for a name without a letter."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return PageSnapshot(name=_clean_name(name), frontier=_version(), made=made, id=uuid.uuid4().hex, **state)


def save(snapshot: PageSnapshot) -> PageSnapshot:
    """Write a snapshot; a number is added to a name that another has. Raises FrontierError where it cannot write."""
    other_names = {other.name for other in read_all()[0] if other.id != snapshot.id}
    suffixes = ("", *(f" ({count})" for count in range(2, len(other_names) + 2)))
    names = (snapshot.name[: LONGEST_NAME - len(suffix)] + suffix for suffix in suffixes)
    snapshot = replace(snapshot, name=next(name for name in names if name not in other_names))
    data = asdict(snapshot)
    data["seal"] = digest_of([json.dumps(data, sort_keys=True)])
    cache.write(_file(snapshot.id), json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1).encode())
    return snapshot


def read_all() -> tuple[list[PageSnapshot], list[str]]:
    """All snapshots, the newest first, and the files that cannot be read, each with the reason."""
    readable, broken = [], []
    for file in sorted(folder().glob(f"*{SUFFIX}")):
        if not IDENT.fullmatch(file.stem):  # not ours, or being written at this moment
            continue
        try:
            readable.append(_read(file))
        except FileNotFoundError:  # somebody has just deleted it
            continue
        except (OSError, DataError) as error:
            broken.append(f"{replace_surrogates(file.name)}: {error}")
    return sorted(readable, key=lambda s: (s.made, s.id), reverse=True), broken


def rename(ident: str, name: str) -> PageSnapshot:
    """Save a snapshot under another name. Raises DataError where it is gone or the name has no letter."""
    name = _clean_name(name)
    try:
        return save(replace(_read(_file(ident)), name=name))
    except FileNotFoundError:
        raise DataError("this view has been deleted in the meantime") from None


def delete(ident: str) -> None:
    """Remove a snapshot, if it is still there."""
    _file(ident).unlink(missing_ok=True)


def folder() -> Path:
    """The folder of snapshots, beside the cache and no part of it: clearing the cache leaves them."""
    return home() / SECTION


def corpus_difference(older: PageSnapshot, newer: PageSnapshot) -> str | None:
    """A sentence where two snapshots are of different corpora or vectors, None where they are of the same."""
    if (older.digest, older.vectors) == (newer.digest, newer.vectors):
        return None
    kind = "the same documents with other vectors" if older.digest == newer.digest else "different corpora"
    corpora = (f"{s.corpus}, {s.encoder}, embeddings {s.vectors[:8]}" for s in (older, newer))
    return f"They are of {kind}: {' and '.join(corpora)}. Documents are matched by id."


def setting_differences(older: PageSnapshot, newer: PageSnapshot) -> list[tuple[str, str, str]]:
    """(setting, older's, newer's) wherever two states differ; "–" where one has no such setting."""
    names = dict.fromkeys([*older.state, *newer.state])
    rows = ((name, older.state.get(name, "–"), newer.state.get(name, "–")) for name in names)
    return [row for row in rows if row[1] != row[2]]


def metric_differences(
    older: PageSnapshot, newer: PageSnapshot
) -> list[tuple[str, str, float | None, float | None, float | None]]:
    """(decoder, metric, older's, newer's, newer's − older's) of every metric that either has."""
    rows = []
    for name in dict.fromkeys([*older.answers, *newer.answers]):
        a, b = (s.answers[name].figures if name in s.answers else {} for s in (older, newer))
        title = (older.answers.get(name) or newer.answers[name]).title
        for metric in dict.fromkeys([*a, *b]):
            x, y = a.get(metric), b.get(metric)
            rows.append((title, metric, x, y, None if x is None or y is None else y - x))
    return rows


def set_differences(older: SavedAnswer, newer: SavedAnswer) -> list[tuple[str, str, int | None, int | None, str]]:
    """(id, title, rank in the older, rank in the newer, membership) of every document of two sets, shared first."""
    a, b = ({doc: rank for rank, (doc, _) in enumerate(answer.documents, 1)} for answer in (older, newer))
    titles = dict([*newer.documents, *older.documents])
    rows = [
        (doc, titles[doc], a.get(doc), b.get(doc), BOTH if doc in a and doc in b else OLDER if doc in a else NEWER)
        for doc in dict.fromkeys([*a, *b])
    ]
    return sorted(rows, key=lambda row: (BOTH, OLDER, NEWER).index(row[4]))


def _read(file: Path) -> PageSnapshot:
    if file.stat().st_size > LARGEST:
        raise DataError("it is too large for a saved view; delete the file")
    try:
        data = json.loads(file.read_bytes())
        if data.pop("seal") != digest_of([json.dumps(data, sort_keys=True)]):
            raise ValueError
        answers = {_text(name): _answer(answer) for name, answer in data["answers"].items()}
        state = {_text(name): _text(value) for name, value in data["state"].items()}
        texts = {n: _text(data[n]) for n in ("corpus", "digest", "vectors", "encoder", "query", "frontier", "made")}
        return PageSnapshot(name=_clean_name(data["name"]), state=state, answers=answers, id=file.stem, **texts)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("it is not a saved view, or damaged; delete the file") from None


def _answer(data: Any) -> SavedAnswer:
    documents = tuple((_text(doc), _text(title)) for doc, title in data["documents"])
    figures = {_text(title): None if v is None else _number(v) for title, v in data["figures"].items()}
    parameters = tuple(tuple(map(_text, row)) for row in data["parameters"])
    if any(len(row) != len(PARAMETER_COLUMNS) for row in parameters):
        raise TypeError
    title, setting, words = (_text(data[name]) for name in ("title", "setting", "words"))
    return SavedAnswer(title, setting, documents, figures, words, parameters)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return replace_surrogates(value)


def _number(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError
    return float(value)


def _file(ident: str) -> Path:
    if not IDENT.fullmatch(ident):
        raise DataError(f"no snapshot has the id {ident!r}")
    return folder() / f"{ident}{SUFFIX}"


def _clean_name(name: str) -> str:
    """The name in one line, without control characters, not too long."""
    words = "".join(c if c.isprintable() else " " for c in replace_surrogates(name)).split()
    if not words:
        raise DataError("a saved view needs a name: type one")
    return " ".join(words)[:LONGEST_NAME]


def _version() -> str:
    try:
        return version("frontier-retrieval")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"
