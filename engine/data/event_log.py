"""Event logs: a SQLite file of JSON events, numbered from 1, each with a checksum; exported as JSONL.

Several processes may write to one log. A writer first reads the events that others have added, and then adds its own
in one transaction (write-ahead, fully synchronous). Checksums are compared whenever a row is read. Between transactions
no process has the file open, so it can be copied and replaced.
"""

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Any, ClassVar

from engine.data import files
from engine.data.cache import translate_write_errors, write
from engine.data.sqlite import connect_database, make_tables, primary_code, write_ahead
from engine.display import OneLine
from engine.errors import DataError
from engine.paths import make_folder
from engine.progress import counted

APPLICATION_ID = 0x46524C47
"""Marks SQLite files of event logs ("FRLG")."""
LOG_TABLES = {
    "meta": "CREATE TABLE meta (kind TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL, checksum TEXT NOT NULL)",
    "events": "CREATE TABLE events (number INTEGER PRIMARY KEY, body TEXT NOT NULL, checksum TEXT NOT NULL)",
}
"""meta: one row with the kind of log, its random id and its header; events: one row for each event."""
MTIME_RESOLUTION_NS = 50_000_000
"""File times may not distinguish writes closer together than this."""
UNUSABLE_CODES = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
}  # fmt: skip
"""SQLite's codes for a file that cannot be opened or written but is not damaged."""
# Beginning of a line of an export, of 13 characters, and the index behind the 16 digits that follow it.
LINE_START, CHECKSUM_END = '{"checksum":"', 13 + 16
Position = tuple[str, int, str]
"""Id of a log, the number of one of its events (0: before the first), and that event's checksum."""
NO_POSITION: Position = ("", 0, "")


class _NoTablesError(DataError):
    """A database without tables."""


class EventLog(OneLine):
    """Follower of a log: each event is read once, and all of them again if the file was replaced.

    Subclasses name the kind of log and implement `_fold` and `_forget`; they hold `_mutex` around `_follow` and
    `_writing`.
    """

    kind: ClassVar[str]

    def _describe(self) -> str:
        return str(self.path)

    def __init__(self, path: str | Path) -> None:
        """Follow the log at a path, which need not exist; nothing is read yet."""
        self.path = Path(path)
        self._mutex = threading.Lock()
        # The last event that was processed, and the file's times then; None if it must be read again in any case.
        self._position = NO_POSITION
        self._stamp: tuple[Any, ...] | None = None

    def _fold(self, header: dict[str, Any] | None, events: Sequence[dict[str, Any]], number: int) -> None:
        """Process events that were read from the file.

        header: the log's header if it was read from its start, so that earlier state is to be replaced; None if
        `events` follow those already processed. number: number of events before these.
        """
        raise NotImplementedError

    def _forget(self) -> None:
        """Discard all state, or raise an error, because there is no file."""
        raise NotImplementedError

    def _follow(self) -> None:
        """Read the events added to the file since the last call, and pass them to `_fold`.

        Both `_fold`, which processes events, and `_forget`, which discards all state or raises an error if there is no
        file, are the subclass's. A file with the same size and times is not opened.
        """
        if not log_exists(self.path):
            self._position, self._stamp = NO_POSITION, None
            self._forget()
            return
        file_stamp = self._file_times()
        if file_stamp is None or file_stamp != self._stamp:
            try:
                with open_log(self.path, self.kind) as log_rows:
                    self._take_in(log_rows)
            except _NoTablesError:  # another process is just making the log, which has no events yet
                self._position, file_stamp = NO_POSITION, None
                self._forget()
            self._stamp = file_stamp

    @contextmanager
    def _writing(self, new_header: Mapping[str, Any] | None = None) -> "Iterator[LogRows]":
        """Lock the log for writing, with all its events processed; appended events are durable on exit.

        new_header: header of the log to create if there is none.
        """
        # Without a log to write into, a subclass's `_forget` may raise that there is none.
        if new_header is None and not log_exists(self.path):
            self._forget()
        with open_log(self.path, self.kind, write=True, create=new_header is not None) as log_rows:
            if new_header is not None and not log_rows.id:
                log_rows.replace(new_header)
            self._take_in(log_rows)
            yield log_rows
            position = log_rows.position()
        # Stored only after the commit: events that were rolled back do not count as processed.
        self._position = position

    def _take_in(self, log_rows: "LogRows") -> None:
        """Pass the log's events that are not yet processed to `_fold`; all of them if the log is another one.

        `_fold` is the subclass's, and processes events. The log continues the one read before if its id, and its
        checksum of the last event that was processed, are still the same.
        """
        log_id, number, checksum = self._position
        is_continued = log_id != "" and log_id == log_rows.id and log_rows.checksum(number) == checksum
        # If anything below raises, the next call reads the log from its start.
        self._position = NO_POSITION
        if not is_continued:
            log_rows.check()
            number = 0
        self._fold(None if is_continued else log_rows.header(), log_rows.read(number), number)
        self._position = log_rows.position()

    def _file_times(self) -> tuple[Any, ...] | None:
        """Return inode, size and time of the log and its journal, to detect later changes.

        Returns None if the last change is so recent that a further one might leave these values the same.
        """
        file_stats = list(map(_read_stat, (self.path, self.path.with_name(f"{self.path.name}-wal"))))
        newest_time = max((change_time for _, _, change_time in filter(None, file_stats)), default=0)
        is_settled = file_stats[0] is not None and time.time_ns() - newest_time >= MTIME_RESOLUTION_NS
        return tuple(file_stats) if is_settled else None


class LogRows:
    """Rows of a log within a transaction; `id` is empty in a new log."""

    def __init__(self, path: Path, kind: str, connection: sqlite3.Connection) -> None:
        """Read the log's id and number of events. Raises DataError for a log of another kind."""
        self.path, self._kind, self._db = path, kind, connection
        meta_rows = connection.execute("SELECT kind, id FROM meta").fetchall()
        if len(meta_rows) > 1 or (meta_rows and meta_rows[0][0] != kind):
            raise DataError(f"{path} is a log of {meta_rows[0][0]}, not of {kind}; choose another file")
        self.id = str(meta_rows[0][1]) if meta_rows else ""
        (self.count,) = connection.execute("SELECT IFNULL(MAX(number), 0) FROM events").fetchone()

    def header(self) -> dict[str, Any]:
        """Return the header of the log, {} for a new one. Raises DataError if it is damaged."""
        for kind, log_id, header_body, checksum in self._db.execute("SELECT kind, id, body, checksum FROM meta"):
            if checksum != _checksum(kind, log_id, header_body):
                raise DataError(f"{self.path} is damaged: its header is not as it was written; {RESTORE_ADVICE}")
            return _parse_object(header_body, f"{self.path}: its header")
        return {}

    def check(self) -> None:
        """Raise DataError if SQLite finds damage in the file."""
        # The 1 makes SQLite stop at the first damage.
        (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise DataError(f"{self.path} is damaged ({verdict}); {RESTORE_ADVICE}")

    def checksum(self, number: int) -> str:
        """Return the checksum of an event, "" if there is none."""
        checksum_row = self._db.execute("SELECT checksum FROM events WHERE number = ?", (number,)).fetchone()
        return str(checksum_row[0]) if checksum_row else ""

    def position(self) -> Position:
        """Return the position of the last event, by which a later read detects that the log continues."""
        return self.id, self.count, self.checksum(self.count)

    def read(self, number: int = 0) -> list[dict[str, Any]]:
        """Read the events after the first `number`, and compare their checksums.

        Raises DataError that names the first damaged event.
        """
        events: list[dict[str, Any]] = []
        select_query = "SELECT number, body, checksum FROM events WHERE number > ? ORDER BY number"
        for row_number, event_body, checksum in self._db.execute(select_query, (number,)):
            expected = number + len(events) + 1
            if row_number != expected or checksum != _checksum(expected, event_body):
                delete_command = f'sqlite3 {self.path.name} "DELETE FROM events WHERE number >= {expected}"'
                raise _damaged(f"{self.path} event {expected}", expected - 1, delete_command)
            events.append(_parse_object(event_body, f"{self.path} event {expected}"))
        return events

    def append(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Append events to the log, each with its number, from 1, and a checksum."""
        for event_body in map(_format_json, events):
            self.count += 1
            event_row = self.count, event_body, _checksum(self.count, event_body)
            self._db.execute("INSERT INTO events VALUES (?, ?, ?)", event_row)

    def replace(self, header: Mapping[str, Any], events: Iterable[Mapping[str, Any]] = ()) -> None:
        """Replace all that the log holds by a new header and new events, under a new random id.

        By the id, other processes notice that it is another log.
        """
        header_body = _format_json(header)
        self.id, self.count = secrets.token_hex(8), 0
        self._db.execute("DELETE FROM meta")
        self._db.execute("DELETE FROM events")
        meta_row = self._kind, self.id, header_body
        self._db.execute("INSERT INTO meta VALUES (?, ?, ?, ?)", (*meta_row, _checksum(*meta_row)))
        self.append(events)


@contextmanager
def open_log(path: Path, kind: str, *, write: bool = False, create: bool = False) -> Iterator[LogRows]:
    """Open a log in one transaction, with `write` as its only writer: all changes are kept, or none.

    create: make the file if there is none. Raises DataError for a file of another kind or a damaged one, FrontierError
    if it cannot be opened or written.
    """
    if create:
        with translate_write_errors(path):
            make_folder(path.parent)
    if log_exists(path):
        files.check_regular(path, path.stat().st_mode)
    with _translated_errors(path, kind), closing(connect_database(path, "rwc" if create else "rw")) as connection:
        # Bytes that are not text fail the checksum, and are thus reported as damage.
        connection.text_factory = lambda raw: raw.decode("ascii", "replace")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = FULL")
        has_tables = partial(_has_tables, connection, path, kind)
        if not has_tables():
            if not create:
                raise _NoTablesError(f"{path} is no log of {kind}; choose another file")
            make_tables(connection, has_tables, LOG_TABLES, application_id=APPLICATION_ID)
            write_ahead(connection)
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield LogRows(path, kind, connection)
        # After an error nothing is committed, and closing the file rolls the transaction back.
        connection.execute("COMMIT")


def log_exists(path: Path) -> bool:
    """Return True if the path exists and is not an empty file, which counts as no log yet."""
    try:
        file_stat = os.stat(path)
    except OSError:
        return False
    return not S_ISREG(file_stat.st_mode) or file_stat.st_size > 0


def write_jsonl(path: Path, header: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Path:
    """Write a log as lines of JSON: header, events, and a last line with their number; atomically.

    The last line lets a reader detect a file that was cut off.
    """
    log_lines: list[str] = []
    for number, event_text in enumerate(map(_format_json, (header, *events))):
        # The checksum becomes the first field of the object, whose opening brace is cut off.
        log_lines.append(f'{LINE_START}{_checksum(number, event_text)}",{event_text[1:]}\n')
    write(path, "".join([*log_lines, _end_line(len(events)), "\n"]).encode("ascii"))
    return path


def read_jsonl(path: Path, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read header and events of an exported log.

    Each line is a JSON object that begins with a checksum of the rest; the header comes first, and a line with the
    number of events last. Raises DataError for a file that is not a log, for a changed line, and for a file that was
    cut off.
    """
    with files.translate_read_errors(path), files.open_regular(path) as log_file:
        log_lines = log_file.read().decode("ascii", "replace").removesuffix("\n").split("\n")
    bodies: list[dict[str, Any]] = []
    for number, log_line in enumerate(log_lines):
        # The export is complete only if its last line is an end line with the right number of events.
        if log_line == _end_line(number - 1) and number == len(log_lines) - 1 > 0:
            return bodies[0], bodies[1:]
        # Behind the checksum a quote and a comma stand in place of the opening brace.
        event_text = "{" + log_line[CHECKSUM_END + 2 :]
        if log_line[:CHECKSUM_END] != f"{LINE_START}{_checksum(number, event_text)}":
            if not number:
                raise DataError(f"{path} is no log of {kind}, or its first line is damaged; choose another file")
            keep_command = f"(head -n {number} {path.name}; echo '{_end_line(number - 1)}') > kept.jsonl"
            raise _damaged(f"{path} line {number + 1}", number, keep_command)
        bodies.append(_parse_object(event_text, f"{path} line {number + 1}"))
    raise DataError(
        f"{path} was cut off: it does not say after {counted(len(bodies) - 1, 'event')} that these are all. Export it "
        f"again, or go on with what is left: echo '{_end_line(len(bodies) - 1)}' >> {path.name}"
    )


RESTORE_ADVICE = "copy the file back from a backup"


def _end_line(n_events: int) -> str:
    """Return the last line of an export, which shows that it was not cut off."""
    return f'{{"op":"end","events":{n_events}}}'


def _damaged(location: str, n_intact: int, keep_command: str) -> DataError:
    """Return the error for a damaged event of a log, which advises how to go on.

    n_intact: number of events before it; keep_command: a shell command that keeps only those.
    """
    return DataError(
        f"{location} is not as it was written; the {n_intact:,} before it are whole. Copy the file back from a backup, "
        f"or keep those only: {keep_command}"
    )


def _parse_object(json_text: str, location: str) -> dict[str, Any]:
    """Parse a header or an event. Raises DataError for JSON that no log of ours holds, whatever its checksum says."""
    # A checksum shows that a row is as it was written, not that this program wrote it.
    try:
        value = json.loads(json_text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{location} is not as Frontier writes it ({str(error)[:200]}); {RESTORE_ADVICE}") from None
    if not isinstance(value, dict):
        raise DataError(f"{location} is not as Frontier writes it, a JSON object; {RESTORE_ADVICE}")
    return value


def _format_json(event_body: Mapping[str, Any]) -> str:
    return json.dumps(event_body, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _checksum(*parts: object) -> str:
    """Return a checksum of several texts or numbers."""
    return blake2b("\n".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _read_stat(path: Path) -> tuple[int, int, int] | None:
    """Return inode, size and modification time of a file, None if it does not exist."""
    try:
        file_stat = os.stat(path)
    except OSError:
        return None
    return file_stat.st_ino, file_stat.st_size, file_stat.st_mtime_ns


def _has_tables(connection: sqlite3.Connection, path: Path, kind: str) -> bool:
    """Return True if a database has the tables of a log, False if it has none.

    Raises DataError for any other tables.
    """
    table_schema = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if not table_schema and not application:
        return False
    if application != APPLICATION_ID or table_schema != LOG_TABLES:
        raise DataError(f"{path} is a database, but no log of {kind} of this version of Frontier; choose another file")
    return True


@contextmanager
def _translated_errors(path: Path, kind: str) -> Iterator[None]:
    """Translate SQLite's errors into those of the package.

    Raises DataError for a damaged file or one that is no log, FrontierError if it cannot be opened or written.
    """
    try:
        yield
    except UnicodeDecodeError:  # of SQLite's message about damage
        raise DataError(f"{path} is damaged; {RESTORE_ADVICE}") from None
    except sqlite3.DatabaseError as error:
        if primary_code(error) == sqlite3.SQLITE_NOTADB:
            raise DataError(f"{path} is no log of {kind}; choose another file") from None
        if primary_code(error) not in UNUSABLE_CODES:
            raise DataError(f"{path} is damaged ({error}); {RESTORE_ADVICE}") from None
        # The file is not damaged: raised as an OSError here, the error becomes that of a file that cannot be written.
        with translate_write_errors(path):
            raise OSError(primary_code(error), str(error)) from None
