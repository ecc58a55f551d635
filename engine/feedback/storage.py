"""Logs on disk: records in a SQLite file, one transaction a vote; JSONL as import and export.

Several processes may write to one log: whoever writes reads what others have added since, folds it, and only then adds
their own, in one transaction. Older logs are JSONL: one is taken over into a SQLite file beside it, and stays as it is.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from engine.data.cache import explained, write
from engine.data.locks import locked
from engine.decoder import QueryLike
from engine.errors import DataError, FrontierError, ParamError
from engine.feedback.database import Database, transaction
from engine.feedback.dynamic_corpus import change
from engine.feedback.migration import begin, body_of_beginning, carried, everyone, refuse_other_corpus
from engine.feedback.presets import Preset, preset_of
from engine.feedback.records import Event, Record
from engine.feedback.serialization import (
    BEGINNING,
    NONSENSE,
    START,
    End,
    body_of,
    counted,
    read_jsonl,
    record_of,
    sealed,
)
from engine.feedback.session import Session, feed, recorded, redo, reset, restore, session, snapshot, undo
from engine.paths import data_home, make_folder
from engine.space import Space
from engine.values import Notice, digest_of

SETTLED = 50_000_000
"""Nanoseconds after which a further change gives a file another time; clocks of file systems tick every few million."""
P = ParamSpec("P")


def _written(operation: Callable[Concatenate[Session, P], Session]) -> Callable[Concatenate[Log, P], Session]:
    """An operation on sessions as a method of logs."""

    @wraps(operation)
    def method(log: Log, /, *args: P.args, **kwargs: P.kwargs) -> Session:
        return log.write(lambda now: operation(now, *args, **kwargs))

    return method


class Log:
    """An open log: its session as of now, and operations that write to it; thread-safe.

    path: of the SQLite file; notices: what had to be said when it was opened or read.
    """

    def __init__(self, path: str | Path, space: Space, writer: str | None = None) -> None:
        """Open a log that exists, by its own path or that of the JSONL log that it goes on from.

        writer: tells its events apart from those of others, random by default.
        """
        self.path, self._older = paths_of(path)
        self.notices: tuple[Notice, ...] = ()
        self._space = space
        self._writer = secrets.token_hex(4) if writer is None else writer
        self._mutex = threading.Lock()
        self._end: End = BEGINNING
        self._older_stat: tuple[int, ...] | None = None
        self._read_stamp: tuple[Any, ...] | None = None
        self._session: Session
        self._everyone: Sequence[int] = ()
        _refuse_unusable(path, space)
        self.refresh()

    @property
    def session(self) -> Session:
        """The session after all that this log is known to hold; `refresh` asks the file again."""
        return self._session

    def refresh(self) -> Session:
        """The session after all that is in the file by now."""
        with self._mutex:
            stamp = self._stamp()
            if stamp is None or stamp != self._read_stamp:
                with self._transaction() as database:
                    self._read(database)
                self._read_stamp = stamp
            return self._session

    def write(self, step: Callable[[Session], Session]) -> Session:
        """The session after a step, whose records are on the disk when this returns.

        step: from a session to one that goes on from it; it is called on what is in the file by then, which may be more
        than one has seen. Raises FrontierError where the file cannot be written: then nothing has happened.
        """
        with self._mutex:
            with self._transaction(write=True) as database:
                self._read(database)
                before, (number, seal) = self._session, self._end
                after = step(before)
                _refuse_other_past(before, after)
                records = after.journal.records[before.position : after.position]
                lines, seal = _sealed(records, self._space, seal)
                database.append(lines)
            if records:
                self._session, self._end = after, (number + len(lines), seal)
            return self._session

    def feed(self, event: Event) -> Session:
        """The session after a piece of feedback; the log notes the time."""
        event = event if event.time is not None else replace(event, time=time.time())
        return self.write(lambda now: feed(now, event))

    undo, redo, reset = _written(undo), _written(redo), _written(reset)
    snapshot, restore, change = _written(snapshot), _written(restore), _written(change)

    @contextmanager
    def _transaction(self, write: bool = False) -> Iterator[Database]:
        """The file in one transaction; what was added to a JSONL log beside it is taken over first."""
        with locked(self._older):
            stat = _stat(self._older)
            changed = stat is not None and (stat != self._older_stat or not self.path.exists())
            if not exists(self.path):
                raise self._missing()
            with transaction(self.path, write=write or changed, create=changed) as database:
                notices = database.take_over(self._older) if changed else ()
                yield database
            self._older_stat, self.notices = stat, (*self.notices, *notices)

    def _stamp(self) -> tuple[Any, ...] | None:
        """What changes with the files; None where one changed so lately that another change need not show in it."""
        stats = [_stat(file) for file in (self.path, self.path.with_name(self.path.name + "-wal"), self._older)]
        if stats[0] is None or time.time_ns() - max(stat[2] for stat in stats if stat) < SETTLED:
            return None
        return tuple(stats)

    def _read(self, database: Database) -> None:
        """Fold what is in the file and not yet in the session."""
        number, seal = self._end
        # A log that was replaced is read from its beginning.
        if database.seal(number) != seal:
            number, seal = BEGINNING
        lines = list(database.lines((number, seal)))
        bodies = [body for _, body, _ in lines]
        if number:
            session = _with(self.path, self._session, bodies, self._everyone, number)
        elif bodies:
            session, notices, self._everyone = _begun(self.path, bodies[0], self._space, self._writer)
            session = _with(self.path, session, bodies[1:], self._everyone, 1)
            self.notices = (*self.notices, *notices)
        else:
            raise self._missing()
        if lines:
            self._end = number + len(lines), lines[-1][2]
        self._session = session

    def _missing(self) -> DataError:
        return DataError(f"{self.path} does not exist; begin a log with engine.orag.log(path, space)")


def log(
    path: str | Path,
    space: Space,
    preset: str | Preset | None = None,
    *,
    queries: QueryLike | None = None,
    carry: bool = False,
    **overrides: Any,
) -> Log:
    """The log of that path, begun where there is none; preset, queries, overrides: as `session` has them.

    path: of a SQLite file, or of a JSONL log, which is taken over into one beside it and stays as it is. A log that
    exists learns as it was begun to, and says so where another preset was asked for. carry: where the corpus has
    changed since, keep what still holds, and all that there was in a JSONL file beside it. Raises DataError for a file
    that is no log, is damaged, or was begun on another corpus or encoder; FrontierError where it cannot be written.
    """
    _refuse_unusable(path, space, carry)
    notices: tuple[Notice, ...] = ()
    begin_one = partial(session, space, preset or "default", queries=queries, **overrides)
    blank = None if exists(path) else begin_one()
    with _created(path) as database:
        existed = database.end() != BEGINNING
        if not existed:
            database.append(_lines(blank or begin_one()))
        elif carry:
            notices = _carried_in_place(database, space)
    opened = Log(path, space)
    current = opened.session.preset
    if existed and (preset is not None or overrides) and preset_of(preset or current, overrides) != current:
        notices = (
            *notices,
            Notice(f"other setting was asked for; the log learns as it was begun to ({current.name})", 1),
        )
    opened.notices = (*notices, *opened.notices)
    return opened


def save(session: Session, path: str | Path) -> Path:
    """Write a session as a log, whole or not at all; `load` and `log` read it. Raises FrontierError.

    path: of a JSONL file, or with the ending .sqlite of a SQLite file.
    """
    path, lines = Path(path), _lines(session)
    file, _ = paths_of(path)
    if file == path:
        with _created(file) as database:
            database.replace(lines)
        return path
    if file.is_file():
        # The log beside it does not go on from what this file will hold.
        with suppress(FrontierError), transaction(file, write=True) as database:
            database.forget_older()
    write(path, _text(lines))
    return path


def load(path: str | Path, space: Space, *, carry: bool = False) -> tuple[Session, tuple[Notice, ...]]:
    """The session that a log holds, and notices about it; the file is left as it is.

    path: of a SQLite file or a JSONL file; of one that a SQLite log beside it goes on from, what that holds.
    carry: over a corpus that has changed since, what still holds. Raises DataError as `log`.
    """
    path, bodies, notices = _contents(Path(path))
    if carry:
        with _naming(path):
            session, more = carried(bodies[0], bodies[1:], space)
        return session, (*notices, *more)
    begun, more, rows = _begun(path, bodies[0], space, "")
    return _with(path, begun, bodies[1:], rows, 1), (*notices, *more)


def place(space: Space) -> Path:
    """Path of a space's log, one for each corpus and encoder, in FRONTIER_HOME or the user's data folder."""
    encoder = space.embeddings.encoder
    vectors = encoder.digest if encoder else space.embeddings.digest
    corpus = space.corpus.name
    name = re.sub(r"[^a-z0-9]+", "-", corpus.lower()).strip("-")[:40] or "corpus"
    if name != corpus:
        # What a file name cannot hold still tells corpora apart.
        name = f"{name}-{digest_of([corpus])[:8]}"
    return data_home() / "feedback" / f"{name}-{vectors[:8]}{SUFFIX}"


def paths_of(path: str | Path) -> tuple[Path, Path]:
    """The SQLite file of a log and the JSONL file that it may go on from, by the path of either."""
    path = Path(path)
    if path.suffix == SUFFIX:
        return path, path.with_suffix(OLDER)
    return path.with_suffix(SUFFIX) if path.suffix == OLDER else path.with_name(path.name + SUFFIX), path


def exists(path: str | Path) -> bool:
    """Whether there is a log of that path, in SQLite or JSONL."""
    return any((stat := _stat(file)) is not None and stat[1] > 0 for file in paths_of(path))


def begin_log(session: Session, path: str | Path) -> None:
    """Begin a log with a session, unless there is one."""
    with _created(path) as database:
        if database.end() == BEGINNING:
            database.append(_lines(session))


def replace_log(session: Session, path: str | Path) -> Path | None:
    """Put a session in place of a log; returns the JSONL file beside it that keeps what it held."""
    with _created(path) as database:
        copy = None if database.end() == BEGINNING else _back_up(database, ".aside")
        database.replace(_lines(session))
    return copy


def move_aside(path: str | Path) -> Path:
    """Rename a log that cannot be used, and all that belongs to it; returns its new name."""
    file, older = paths_of(path)
    tag = uuid.uuid4().hex[:6]
    moved = []
    with explained(file):
        for part in (file, older, *(file.with_name(file.name + ending) for ending in ("-wal", "-shm"))):
            if part.exists():
                moved.append(part.rename(part.with_name(f"{file.stem}.{tag}.aside{part.name[len(file.stem) :]}")))
    return moved[0]


SUFFIX, OLDER = ".sqlite", ".jsonl"
"""Endings of logs in SQLite, and of older ones."""


def _back_up(database: Database, ending: str) -> Path:
    """Save all lines beside a log as `<stem>.<random><ending>`."""
    copy = database.path.with_name(f"{database.path.stem}.{uuid.uuid4().hex[:12]}{ending}")
    write(copy, _text([line for line, _, _ in database.lines()]))
    return copy


@contextmanager
def _created(path: str | Path) -> Iterator[Database]:
    """The SQLite file for one writer, made where there is none, with the lines of a JSONL log beside it."""
    file, older = paths_of(path)
    with explained(file):
        make_folder(file.parent)
    with locked(older), transaction(file, write=True, create=True) as database:
        if older.is_file():
            # Whoever opens the log says what there is to say.
            database.take_over(older)
        yield database


def _contents(path: Path) -> tuple[Path, list[dict[str, Any]], tuple[Notice, ...]]:
    """The file that holds a log, what its lines hold, and what is to be said about them."""
    file, older = paths_of(path)
    if file.is_file():
        with transaction(file) as database:
            if file == path or not older.is_file() or database.continues(older):
                lines = list(database.lines())
                more, _, notices = database.pending(older) if older.is_file() else ([], START, ())
                if lines := lines + more:
                    return file, [body for _, body, _ in lines], notices
    path = older if older.is_file() else path
    lines, notices = read_jsonl(path)
    return path, [body for _, body, _ in lines], notices


def _stat(path: Path) -> tuple[int, ...] | None:
    """Inode, size and modification time of a file, None where there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _lines(session: Session) -> list[str]:
    """All lines of a session's log."""
    line, seal = sealed(body_of_beginning(session), START)
    return [line, *_sealed(session.records, session.space, seal)[0]]


def _sealed(records: Iterable[Record], space: Space, seal: str) -> tuple[list[str], str]:
    """Records as lines that go on from one of a seal, and the seal of the last of them."""
    lines = []
    for record in records:
        line, seal = sealed(body_of(record, space.corpus), seal)
        lines.append(line)
    return lines, seal


def _text(lines: Sequence[str]) -> bytes:
    return ("".join(f"{line}\n" for line in lines) + counted(lines)).encode("ascii")


def _refuse_other_past(before: Session, after: Session) -> None:
    last = slice(max(before.position - 1, 0), before.position)
    same = after.journal.records[last] == before.journal.records[last]
    if after.start is not before.start or after.position < before.position or not same:
        raise ParamError("step must go on from the session that it is given; got one with another past")


def _refuse_unusable(path: str | Path, space: Space, carry: bool = False) -> None:
    """Raise a DataError for a JSONL log that is yet to be taken over and cannot be used."""
    file, older = paths_of(path)
    if not file.is_file() and older.is_file():
        load(older, space, carry=carry)


@contextmanager
def _naming(place: str | Path) -> Iterator[None]:
    """Say where it is that something cannot be used."""
    try:
        yield
    except FrontierError as error:
        raise DataError(f"{place}: {error}") from None


def _begun(path: Path, body: dict[str, Any], space: Space, writer: str) -> tuple[Session, tuple[Notice, ...], Any]:
    """The session of a log's first line, what is to be said about it, and the rows that "all" means."""
    with _naming(path):
        return begin(body, space, writer), refuse_other_corpus(body, space), everyone(body, space)


def _with(path: Path, session: Session, bodies: Sequence[dict[str, Any]], rows: Any, before: int) -> Session:
    """The session after the records of lines; before: how many lines stand before them."""
    records: list[Record] = []
    known: set[str] = set()
    space = session.space
    for number, body in enumerate(bodies, before + 1):
        with _naming(f"{path} line {number}"):
            record = record_of(body, space.corpus, space.vectors.shape[1], rows)
            if isinstance(record, Event):
                if record.id in known or session.journal.find(record.id, session.position):
                    raise DataError(f"feedback that is there already ({record.id!r})")
                known.add(record.id)
        records.append(record)
    with _naming(path):
        return recorded(session, *records)


def _carried_in_place(database: Database, space: Space) -> tuple[Notice, ...]:
    """Where the corpus has changed, back the log up and replace it by what still holds."""
    first, *bodies = (body for _, body, _ in database.lines())
    with suppress(*NONSENSE):
        refuse_other_corpus(first, space)
        return ()
    with _naming(database.path):
        session, notices = carried(first, bodies, space)
    copy = _back_up(database, OLDER)
    database.replace(_lines(session))
    return (*notices, Notice(f"log was kept as {copy.name}", 1))
