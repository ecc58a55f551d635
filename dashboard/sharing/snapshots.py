"""Saved snapshots: a state and what was seen, one JSON file each; and what two of them differ in. No page in here."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from engine.data import cache
from engine.errors import DataError
from engine.home import home
from engine.values import showable

SECTION, SUFFIX = "snapshots", ".json"
FORMAT = 1
IDENT = re.compile(r"[0-9a-f]{32}")
LONGEST_NAME, LARGEST = 80, 64_000_000
BOTH, OLDER, NEWER = "both", "older only", "newer only"


@dataclass(frozen=True)
class Answer:
    """One decoder's set as it was. documents: (id, title), best first; figures: title → value, None without one."""

    title: str
    setting: str
    documents: tuple[tuple[str, str], ...]
    figures: Mapping[str, float | None]


@dataclass(frozen=True)
class Snapshot:
    """state: as a link's parameters; made: when, in UTC; answers: by the decoder's name; id: of its file."""

    name: str
    state: Mapping[str, str]
    corpus: str
    digest: str
    vectors: str
    encoder: str
    query: str
    answers: Mapping[str, Answer]
    frontier: str
    made: str
    id: str

    @property
    def when(self) -> str:
        """The moment as people read it."""
        return self.made[:16].replace("T", " ") + " UTC"


def new(name: str, **what: Any) -> Snapshot:
    """A snapshot of this moment, not saved yet. Raises DataError for a name without a letter."""
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return Snapshot(name=_named(name), frontier=_version(), made=made, id=uuid.uuid4().hex, **what)


def save(snapshot: Snapshot) -> Snapshot:
    """Write it, under a name that no other has. Raises FrontierError where that cannot be."""
    taken = {other.name for other in listed()[0] if other.id != snapshot.id}
    name, count = snapshot.name, 1
    while name in taken:
        count += 1
        more = f" ({count})"
        name = snapshot.name[: LONGEST_NAME - len(more)] + more
    snapshot = replace(snapshot, name=name)
    data = {"format": FORMAT, **asdict(snapshot)}
    cache.write(_file(snapshot.id), json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1).encode())
    return snapshot


def listed() -> tuple[list[Snapshot], list[str]]:
    """All snapshots, the newest first, and the files that cannot be read, each with why."""
    found, broken = [], []
    for file in sorted(folder().glob(f"*{SUFFIX}")):
        if not IDENT.fullmatch(file.stem):  # not ours, or being written at this moment
            continue
        try:
            found.append(_read(file))
        except FileNotFoundError:  # somebody has just deleted it
            continue
        except (OSError, DataError) as error:
            broken.append(f"{showable(file.name)}: {error}")
    return sorted(found, key=lambda s: (s.made, s.id), reverse=True), broken


def rename(ident: str, name: str) -> Snapshot:
    """Give it another name. Raises DataError where it is gone or the name has no letter."""
    name = _named(name)
    try:
        return save(replace(_read(_file(ident)), name=name))
    except FileNotFoundError:
        raise DataError("this snapshot has been deleted in the meantime") from None


def delete(ident: str) -> None:
    """Remove it; one that is gone already is no error."""
    _file(ident).unlink(missing_ok=True)


def folder() -> Path:
    """Where snapshots lie: beside the cache, and no part of it: clearing the cache leaves them."""
    return home() / SECTION


def apart(older: Snapshot, newer: Snapshot) -> str | None:
    """How two snapshots are of different corpora; None where they are of one."""
    if (older.digest, older.vectors) == (newer.digest, newer.vectors):
        return None
    what = "the same documents with other vectors" if older.digest == newer.digest else "different corpora"
    of = (f"{s.corpus}, {s.encoder}, fingerprint {s.vectors[:8]}" for s in (older, newer))
    return f"These are of {what}: {' and '.join(of)}. Documents count as the same where their ids are."


def settings_apart(older: Snapshot, newer: Snapshot) -> list[tuple[str, str, str]]:
    """(what, older's, newer's) wherever two states differ; "–" where one has no such setting."""
    names = dict.fromkeys([*older.state, *newer.state])
    rows = ((n, older.state.get(n, "–"), newer.state.get(n, "–")) for n in names)
    return [row for row in rows if row[1] != row[2]]


def figures_apart(older: Snapshot, newer: Snapshot) -> list[tuple[str, str, float | None, float | None, float | None]]:
    """(decoder, metric, older's, newer's, newer's − older's) of every figure that either has."""
    rows = []
    for name in dict.fromkeys([*older.answers, *newer.answers]):
        a, b = (s.answers[name].figures if name in s.answers else {} for s in (older, newer))
        title = (older.answers.get(name) or newer.answers[name]).title
        for metric in dict.fromkeys([*a, *b]):
            x, y = a.get(metric), b.get(metric)
            rows.append((title, metric, x, y, None if x is None or y is None else y - x))
    return rows


def sets_apart(older: Answer, newer: Answer) -> list[tuple[str, str, int | None, int | None, str]]:
    """(id, title, rank in the older, rank in the newer, where) of every document of two sets, shared ones first."""
    a, b = ({doc: rank for rank, (doc, _) in enumerate(answer.documents, 1)} for answer in (older, newer))
    titles = dict([*newer.documents, *older.documents])
    rows = [
        (doc, titles[doc], a.get(doc), b.get(doc), BOTH if doc in a and doc in b else OLDER if doc in a else NEWER)
        for doc in dict.fromkeys([*a, *b])
    ]
    return sorted(rows, key=lambda row: (BOTH, OLDER, NEWER).index(row[4]))


def counted(rows: Sequence[tuple]) -> str:
    """How many documents two sets share, in words."""
    at = [row[4] for row in rows]
    return f"{at.count(BOTH)} in both, {at.count(OLDER)} {OLDER}, {at.count(NEWER)} {NEWER}"


def _read(file: Path) -> Snapshot:
    if file.stat().st_size > LARGEST:
        raise DataError("it is larger than any snapshot; delete the file")
    try:
        data = json.loads(file.read_bytes())
        if data["format"] > FORMAT:
            raise DataError("a newer Frontier has written it; update Frontier to see it")
        answers = {_text(name): _answer(answer) for name, answer in data["answers"].items()}
        state = {_text(name): _text(value) for name, value in data["state"].items()}
        words = {n: _text(data[n]) for n in ("corpus", "digest", "vectors", "encoder", "query", "frontier", "made")}
        return Snapshot(name=_named(data["name"]), state=state, answers=answers, id=file.stem, **words)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("it is not a snapshot, or damaged; delete the file") from None


def _answer(data: Any) -> Answer:
    documents = tuple((_text(doc), _text(title)) for doc, title in data["documents"])
    figures = {_text(title): None if v is None else _number(v) for title, v in data["figures"].items()}
    return Answer(_text(data["title"]), _text(data["setting"]), documents, figures)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return showable(value)


def _number(value: Any) -> float:
    if not math.isfinite(value):
        raise ValueError
    return float(value)


def _file(ident: str) -> Path:
    if not IDENT.fullmatch(ident):
        raise DataError(f"no snapshot has the id {ident!r}")
    return folder() / f"{ident}{SUFFIX}"


def _named(name: str) -> str:
    """The name in one line, without control characters, not too long."""
    words = "".join(c if c.isprintable() else " " for c in showable(name)).split()
    if not words:
        raise DataError("a snapshot needs a name: type one")
    return " ".join(words)[:LONGEST_NAME]


def _version() -> str:
    try:
        return version("frontier-retrieval")
    except PackageNotFoundError:  # a checkout that is not installed
        return "unknown"
