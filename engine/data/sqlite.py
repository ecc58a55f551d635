"""SQLite files that several processes write at once: their tables made in one transaction, changes written ahead."""

import sqlite3
import time
from collections.abc import Callable, Mapping

WAIT = 60.0
"""Seconds that a writer waits for another one."""


def make_tables(
    db: sqlite3.Connection, has_tables: Callable[[], bool], tables: Mapping[str, str], **pragmas: int
) -> None:
    """Make the tables of a file that has none, in one transaction.

    has_tables: looked at again within, as another process may be making the same file
    tables: name → the statement that makes it
    pragmas: what the header is to say of the file, such as its version
    """
    db.execute("BEGIN IMMEDIATE")
    if not has_tables():
        for statement in tables.values():
            db.execute(statement)
        for name, value in pragmas.items():
            db.execute(f"PRAGMA {name} = {value}")
    db.execute("COMMIT")


def write_ahead(db: sqlite3.Connection) -> None:
    """Have changes written ahead: a reader never waits, and a process that dies leaves whole transactions only."""
    until = time.monotonic() + WAIT
    while db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # While others use the file this fails at once, however long the time to wait.
            if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def code_of(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 where Python's module complains."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
