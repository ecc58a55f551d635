"""SQLite file of a log: sealed lines in transactions, and those of a JSONL log taken over."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from engine.data.cache import explained
from engine.data.sqlite import code_of, connect, make_tables, write_ahead
from engine.errors import DataError
from engine.feedback.serialization import (
    BEGINNING,
    START,
    TORN,
    End,
    Verified,
    damaged,
    has_line,
    read_jsonl,
    seal_of,
    verified,
)
from engine.values import Notice

APPLICATION, UNCOUNTED, VERSION = 0x4F524147, 1, 2
"""What SQLite's header calls such a file ("ORAG"), the format of older ones, without `last`, and that of today's."""
TABLES = {
    "records": "CREATE TABLE records (number INTEGER PRIMARY KEY, line TEXT NOT NULL)",
    "taken": "CREATE TABLE taken (seal TEXT NOT NULL)",
    "last": "CREATE TABLE last (number INTEGER NOT NULL, seal TEXT NOT NULL)",
}
"""records: the lines of the log, counted from 1; taken: up to which line the JSONL log beside it was taken over; last:
how many lines there are, and the seal of the last: changed with them in one transaction, so none can be cut off."""
_UNUSABLE = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY,
}  # fmt: skip


@contextmanager
def transaction(path: Path, *, write: bool = False, create: bool = False) -> Iterator[Database]:
    """A log file in one transaction; with `write` as its only writer. All changes are kept, or none.

    create: make the file where there is none. Between transactions nobody has the file open, so it can be copied and
    replaced. Raises DataError for a file that is something else or damaged, FrontierError where it cannot be opened or
    written.
    """
    with _errors(path), closing(connect(path, "rwc" if create else "rw")) as db:
        # Bytes that are no text are damage, and noticed as such.
        db.text_factory = lambda raw: raw.decode("ascii", "replace")
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA synchronous = FULL")
        if not _format(db, path):
            if not create:
                raise damaged(path, 1, "")
            make_tables(db, lambda: bool(_format(db, path)), TABLES, application_id=APPLICATION, user_version=VERSION)
            write_ahead(db)
        db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        database = Database(path, db)
        if _format(db, path) == VERSION:
            _refuse_other_end(database, db)
        elif write:
            # Older versions, which would not count, say from now on that they cannot use it.
            db.execute(TABLES["last"])
            db.execute(f"PRAGMA user_version = {VERSION}")
            _note_end(db, database.end())
        yield database
        # What is not committed is rolled back when the file is closed.
        db.execute("COMMIT")


def _format(db: sqlite3.Connection, path: Path) -> int:
    """The version of the tables of a log, 0 where there are none; a DataError where there is anything else."""
    schema = {name: sql for name, sql in db.execute("SELECT name, sql FROM sqlite_master")}
    application, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if not schema and not application:
        return 0
    if application != APPLICATION:
        raise DataError(f"{path} is a database, but no log of feedback; choose another file")
    tables = TABLES if version != UNCOUNTED else {name: sql for name, sql in TABLES.items() if name != "last"}
    if version not in (UNCOUNTED, VERSION) or schema != tables:
        raise DataError(f"{path} is of another version of Frontier (format {version}, not {VERSION})")
    return int(version)


class Database:
    """The lines of a log, within a `transaction`."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path = path
        self._db = db

    def end(self) -> End:
        """The last line's number and seal; `BEGINNING` where there is no line."""
        (number,) = self._db.execute("SELECT IFNULL(MAX(number), 0) FROM records").fetchone()
        return number, self.seal(number)

    def seal(self, number: int) -> str:
        """The seal of the line of a number, `START` for 0, "" where there is none."""
        return seal_of(self.line(number)) if number else START

    def line(self, number: int) -> str:
        """The line of a number, "" where there is none."""
        row = self._db.execute("SELECT line FROM records WHERE number = ?", (number,)).fetchone()
        return row[0] if row and isinstance(row[0], str) else ""

    def lines(self, start: End = BEGINNING) -> Iterator[Verified]:
        """The lines behind one. Raises DataError that names the first that is not as it was written."""
        intact = start[0]

        rows = self._db.execute("SELECT number, line FROM records WHERE number > ? ORDER BY number", (intact,))
        try:
            for line in verified(rows, start, self.path, _kept):
                yield line
                intact += 1
        except sqlite3.DatabaseError as error:
            if code_of(error) in _UNUSABLE:
                raise
            raise damaged(self.path, intact + 1, _kept(intact, self.path.name)) from None

    def append(self, lines: Iterable[str]) -> None:
        """Add lines."""
        self._db.executemany("INSERT INTO records (line) VALUES (?)", ((line,) for line in lines))
        _note_end(self._db, self.end())

    def replace(self, lines: Iterable[str]) -> None:
        """Put lines in place of all others."""
        self._db.execute("DELETE FROM records")
        self.append(lines)

    def pending(self, older: Path) -> tuple[list[Verified], str, tuple[Notice, ...]]:
        """The lines of a JSONL log that are to be appended here, the seal of its last line, and notices.

        Lines that do not go on from the last one here are not appended, and said.
        """
        taken, end = self._taken(), self.end()
        try:
            if has_line(older, taken, last=True):
                return [], taken, ()
            lines, notices = read_jsonl(older)
        except DataError as error:
            if end == BEGINNING:
                raise
            return [], taken, (Notice(f"older log beside this one cannot be read: {error}", 1),)
        notices = (TORN,) if TORN in notices else ()  # nor does a log that others add to say where it ends
        seals = [START, *(seal for _, _, seal in lines)]
        known = seals.index(taken) if taken in seals else 0
        while known < len(lines) and self.line(known + 1) == lines[known][0]:
            known += 1
        if known < len(lines) and end != (known, seals[known]):
            what = f"lines of {older.name} are not in this log, which was written to before they were; they stay there"
            return [], taken, (*notices, Notice(what, len(lines) - known, (f"line {known + 1}",)))
        return lines[known:], seals[-1], notices

    def take_over(self, older: Path) -> tuple[Notice, ...]:
        """Append what a JSONL log holds beyond what was taken over before; what is to be said about it."""
        lines, seal, notices = self.pending(older)
        self.append(line for line, _, _ in lines)
        if seal != self._taken():
            self.forget_older()
            self._db.execute("INSERT INTO taken VALUES (?)", (seal,))
        return notices

    def continues(self, older: Path) -> bool:
        """Whether this log goes on from a JSONL log, as that stands."""
        taken = self._taken()
        return taken != START and has_line(older, taken)

    def forget_older(self) -> None:
        """Forget how far the JSONL log beside this one was taken over."""
        self._db.execute("DELETE FROM taken")

    def _taken(self) -> str:
        row = self._db.execute("SELECT seal FROM taken").fetchone()
        return str(row[0]) if row else START


def _note_end(db: sqlite3.Connection, end: End) -> None:
    """Note where a log ends."""
    db.execute("DELETE FROM last")
    db.execute("INSERT INTO last VALUES (?, ?)", end)


def _refuse_other_end(log: Database, db: sqlite3.Connection) -> None:
    """Raise a DataError unless a log ends where its last writer noted it."""
    notes, (number, seal) = db.execute("SELECT number, seal FROM last").fetchall(), log.end()
    if notes == [(number, seal)] or not (notes or number):
        return
    written = notes[0][0] if len(notes) == 1 and isinstance(notes[0][0], int) else 0
    if written > number:
        raise DataError(
            f"{log.path} ends at record {number}, and {written} were written: the last were cut off. Copy the file "
            f"back from a backup, or move it aside once what is left is in another file: {_kept(number, log.path.name)}"
        )
    for _ in log.lines():
        pass  # names the first that is not as it was written
    raise damaged(log.path, written + 1, _kept(written, log.path.name))


def _kept(count: int, name: str) -> str:
    """A command that writes the first lines of a log to a file."""
    return f'sqlite3 {name} "SELECT line FROM records WHERE number <= {count} ORDER BY number" > kept.jsonl'


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """SQLite's errors as the package's."""
    try:
        yield
    except UnicodeDecodeError:  # of SQLite's message about damage
        raise DataError(f"{path} is damaged; copy the file back from a backup") from None
    except sqlite3.DatabaseError as error:
        if code_of(error) == sqlite3.SQLITE_NOTADB:
            raise damaged(path, 1, "") from None
        if code_of(error) not in _UNUSABLE:
            raise DataError(f"{path} is damaged ({error}); copy the file back from a backup") from None
        with explained(path):
            raise OSError(code_of(error), str(error)) from None
