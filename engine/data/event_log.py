"""Event logs: a SQLite file of JSON events, numbered from 1, each with a checksum; exported as JSONL.

Several processes may write to one log. Whoever writes takes in what others have added since, and then adds events in
one transaction (write-ahead, fully synchronous). Checksums are compared whenever a row is read. Between transactions
nobody has the file open, so it can be copied and replaced.
"""

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Any, ClassVar

from engine.data import files
from engine.data.cache import explained, write
from engine.data.sqlite import code_of, connect, make_tables, write_ahead
from engine.errors import DataError
from engine.paths import make_folder

APPLICATION_ID = 0x46524C47
"""Marks SQLite files of event logs ("FRLG")."""
TABLES = {
    "meta": "CREATE TABLE meta (kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, checksum TEXT NOT NULL)",
    "events": "CREATE TABLE events (number INTEGER PRIMARY KEY, body TEXT NOT NULL, checksum TEXT NOT NULL)",
}
"""meta: one row, the kind of log, its random id and its header; events: what was added since."""
MTIME_RESOLUTION_NS = 50_000_000
"""File times may not distinguish writes closer together than this."""
UNUSABLE_CODES = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
}  # fmt: skip
"""SQLite's codes of a file that cannot be opened or written, and is not damaged."""
LINE_START, CHECKSUM_END = '{"checksum":"', 13 + 16
Position = tuple[str, int, str]
"""Id of a log, the number of one of its events (0: before the first), and that event's checksum."""
NOWHERE: Position = ("", 0, "")


class _NoTablesError(DataError):
    """A database without tables."""


class EventLog:
    """A log that is followed: each event is taken in once, and all of them again where another file took its place.

    Subclasses name the kind of log and implement `_fold` and `_forget`; they hold `_mutex` around `_follow` and
    `_writing`.
    """

    kind: ClassVar[str]

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._mutex = threading.Lock()
        self._position = NOWHERE
        self._stamp: tuple[Any, ...] | None = None

    def _fold(self, header: dict[str, Any] | None, events: Sequence[dict[str, Any]], number: int) -> None:
        """Take in events behind the first `number`; header: of the log, where it is read from its start."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Hold nothing, or raise: there is no file."""
        raise NotImplementedError

    def _follow(self) -> None:
        """Take in what the file holds by now; it is not opened where it has not changed."""
        if not exists(self.path):
            self._position, self._stamp = NOWHERE, None
            self._forget()
            return
        stamp = self._file_times()
        if stamp is None or stamp != self._stamp:
            try:
                with open_log(self.path, self.kind) as rows:
                    self._take_in(rows)
            except _NoTablesError:  # somebody is just making it
                self._position, stamp = NOWHERE, None
                self._forget()
            self._stamp = stamp

    @contextmanager
    def _writing(self, new_header: Mapping[str, Any] | None = None) -> "Iterator[Rows]":
        """The file with all its events taken in, and no other writer; what is appended is on the disk afterwards.

        new_header: of a log that is made where there is none.
        """
        if new_header is None and not exists(self.path):
            self._forget()
        with open_log(self.path, self.kind, write=True, create=new_header is not None) as rows:
            if new_header is not None and not rows.id:
                rows.replace(new_header)
            self._take_in(rows)
            yield rows
            position = rows.position()
        self._position = position

    def _take_in(self, rows: "Rows") -> None:
        log_id, number, checksum = self._position
        goes_on = log_id != "" and log_id == rows.id and rows.checksum(number) == checksum
        self._position = NOWHERE
        if not goes_on:
            rows.check()
            number = 0
        self._fold(None if goes_on else rows.header(), rows.read(number), number)
        self._position = rows.position()

    def _file_times(self) -> tuple[Any, ...] | None:
        """Inode, size and time of the files; None where one changed so lately that another change need not show."""
        stats = [_stat(file) for file in (self.path, self.path.with_name(f"{self.path.name}-wal"))]
        newest = max((stat[2] for stat in stats if stat), default=0)
        return None if stats[0] is None or time.time_ns() - newest < MTIME_RESOLUTION_NS else tuple(stats)


class Rows:
    """The rows of a log within a transaction; `id` is empty in a log that was not begun."""

    def __init__(self, path: Path, kind: str, db: sqlite3.Connection) -> None:
        self.path, self._kind, self._db = path, kind, db
        meta = db.execute("SELECT kind, id FROM meta").fetchall()
        if len(meta) > 1 or (meta and meta[0][0] != kind):
            raise DataError(f"{path} is a log of {meta[0][0]}, not of {kind}; choose another file")
        self.id = str(meta[0][1]) if meta else ""
        (self.count,) = db.execute("SELECT IFNULL(MAX(number), 0) FROM events").fetchone()

    def header(self) -> dict[str, Any]:
        """Return what the log was begun with; nothing where it was not. Raises DataError where that is damaged."""
        for kind, log_id, body, checksum in self._db.execute("SELECT kind, id, body, checksum FROM meta"):
            if checksum != _checksum(kind, log_id, body):
                raise DataError(f"{self.path} is damaged: its header is not as it was written; {RESTORE}")
            return dict(json.loads(body))
        return {}

    def check(self) -> None:
        """Raise DataError where SQLite finds damage in the file."""
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise DataError(f"{self.path} is damaged ({verdict}); {RESTORE}")

    def checksum(self, number: int) -> str:
        """The checksum of an event, "" where there is none."""
        row = self._db.execute("SELECT checksum FROM events WHERE number = ?", (number,)).fetchone()
        return str(row[0]) if row else ""

    def position(self) -> Position:
        """The position of the last event."""
        return self.id, self.count, self.checksum(self.count)

    def read(self, number: int = 0) -> list[dict[str, Any]]:
        """Return the events behind the first `number`. Raises DataError that names the first damaged one."""
        events: list[dict[str, Any]] = []
        query = "SELECT number, body, checksum FROM events WHERE number > ? ORDER BY number"
        for row_number, body, checksum in self._db.execute(query, (number,)):
            expected = number + len(events) + 1
            if row_number != expected or checksum != _checksum(expected, body):
                delete = f'sqlite3 {self.path.name} "DELETE FROM events WHERE number >= {expected}"'
                raise _damaged(f"{self.path} event {expected}", expected - 1, delete)
            events.append(json.loads(body))
        return events

    def append(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add events."""
        for body in map(_as_text, events):
            self.count += 1
            self._db.execute("INSERT INTO events VALUES (?, ?, ?)", (self.count, body, _checksum(self.count, body)))

    def replace(self, header: Mapping[str, Any], events: Iterable[Mapping[str, Any]] = ()) -> None:
        """Begin the log anew, with these events in place of all others."""
        body = _as_text(header)
        self.id, self.count = secrets.token_hex(8), 0
        self._db.execute("DELETE FROM meta")
        self._db.execute("DELETE FROM events")
        row = self._kind, self.id, body
        self._db.execute("INSERT INTO meta VALUES (?, ?, ?, ?)", (*row, _checksum(*row)))
        self.append(events)


@contextmanager
def open_log(path: Path, kind: str, *, write: bool = False, create: bool = False) -> Iterator[Rows]:
    """A log in one transaction, with `write` as its only writer: all changes are kept, or none.

    create: make the file where there is none. Raises DataError for a file that is something else or damaged,
    FrontierError where it cannot be opened or written.
    """
    if create:
        with explained(path):
            make_folder(path.parent)
    if exists(path):
        files.check_regular(path, path.stat().st_mode)
    with _translated_errors(path, kind), closing(connect(path, "rwc" if create else "rw")) as db:
        # Bytes that are no text are damage, and noticed as such.
        db.text_factory = lambda raw: raw.decode("ascii", "replace")
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA synchronous = FULL")
        if not _has_tables(db, path, kind):
            if not create:
                raise _NoTablesError(f"{path} is no log of {kind}; choose another file")
            make_tables(db, lambda: _has_tables(db, path, kind), TABLES, application_id=APPLICATION_ID)
            write_ahead(db)
        db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield Rows(path, kind, db)
        # What is not committed is rolled back when the file is closed.
        db.execute("COMMIT")


def exists(path: Path) -> bool:
    """Return True if there is something of that path, other than an empty file."""
    try:
        stat = os.stat(path)
    except OSError:
        return False
    return not S_ISREG(stat.st_mode) or stat.st_size > 0


def write_jsonl(path: Path, header: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Path:
    """Write a log as lines of JSON, whole or not at all: its header, its events, and their number."""
    texts = map(_as_text, (header, *events))
    lines = [f'{LINE_START}{_checksum(number, text)}",{text[1:]}' for number, text in enumerate(texts)]
    write(path, "".join(f"{line}\n" for line in (*lines, _end_line(len(events)))).encode("ascii"))
    return path


def read_jsonl(path: Path, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read header and events of an exported log.

    Raises DataError for a file that is none, for a line that is not as it was written, and for one that was cut off.
    """
    with files.readable(path), files.opened(path) as file:
        lines = file.read().decode("ascii", "replace").removesuffix("\n").split("\n")
    bodies: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        if line == _end_line(number - 1) and number == len(lines) - 1 > 0:
            return bodies[0], bodies[1:]
        text = "{" + line[CHECKSUM_END + 2 :]
        if line[:CHECKSUM_END] != f"{LINE_START}{_checksum(number, text)}":
            if not number:
                raise DataError(f"{path} is no log of {kind}, or its first line is damaged; choose another file")
            keep = f"(head -n {number} {path.name}; echo '{_end_line(number - 1)}') > kept.jsonl"
            raise _damaged(f"{path} line {number + 1}", number, keep)
        bodies.append(json.loads(text))
    raise DataError(
        f"{path} was cut off: it does not say after {len(bodies) - 1:,} events that these are all. Export it again, or "
        f"go on with what is left: echo '{_end_line(len(bodies) - 1)}' >> {path.name}"
    )


RESTORE = "copy the file back from a backup"


def _end_line(count: int) -> str:
    return f'{{"op":"end","events":{count}}}'


def _damaged(place: str, intact: int, command: str) -> DataError:
    return DataError(
        f"{place} is not as it was written; the {intact:,} before it are whole. Copy the file back from a backup, or "
        f"keep those only: {command}"
    )


def _as_text(body: Mapping[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _checksum(*parts: object) -> str:
    return blake2b("\n".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _stat(path: Path) -> tuple[int, int, int] | None:
    """Return inode, size and modification time of a file, None where there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _has_tables(db: sqlite3.Connection, path: Path, kind: str) -> bool:
    """Return True for the tables of a log, False for none; raise DataError for any others."""
    schema = dict(db.execute("SELECT name, sql FROM sqlite_master"))
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if not schema and not application:
        return False
    if application != APPLICATION_ID or schema != TABLES:
        raise DataError(f"{path} is a database, but no log of {kind} of this version of Frontier; choose another file")
    return True


@contextmanager
def _translated_errors(path: Path, kind: str) -> Iterator[None]:
    """Raise SQLite's errors as the package's."""
    try:
        yield
    except UnicodeDecodeError:  # of SQLite's message about damage
        raise DataError(f"{path} is damaged; {RESTORE}") from None
    except sqlite3.DatabaseError as error:
        if code_of(error) == sqlite3.SQLITE_NOTADB:
            raise DataError(f"{path} is no log of {kind}; choose another file") from None
        if code_of(error) not in UNUSABLE_CODES:
            raise DataError(f"{path} is damaged ({error}); {RESTORE}") from None
        with explained(path):
            raise OSError(code_of(error), str(error)) from None
