"""SQLite files that several processes write: tables created in one transaction, write-ahead logs.

Files that cannot be written are read as they are, completely or not at all.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from engine.errors import DataError
from engine.paths import file_mode, is_frontier_path

BUSY_TIMEOUT_SECONDS = 60.0
"""A writer waits this long for another one."""
READ_ONLY_CODES = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY}
"""Error codes for a file, or its folder, that cannot be written."""

_COMPUTED_OBJECTS_QUERY = """
SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR rootpage = 0
UNION ALL SELECT m.name FROM sqlite_master m, pragma_table_xinfo(m.name) x WHERE m.type = 'table' AND x.hidden"""
"""Views, triggers, virtual tables, and tables with generated columns: a few bytes of them can be endless rows."""


def connect_database(database_path: Path, mode: Literal["rw", "rwc"] = "rwc") -> sqlite3.Connection:
    """Open a connection without implicit transactions; with "rwc" a missing file is created.

    A file that cannot be written is opened for reading. Raises DataError if it cannot be read either, because its
    latest changes are in a journal beside it. Raises DataError also for a file that holds more than plain tables.
    """
    if mode == "rwc" and is_frontier_path(database_path) and not database_path.exists():
        with suppress(OSError):  # SQLite says what is in the way
            # Files beside it get the mode that it has.
            os.close(os.open(database_path, os.O_WRONLY | os.O_CREAT, file_mode(database_path)))
    try:
        return _open_connection(database_path, mode)
    except sqlite3.OperationalError as error:
        if primary_code(error) not in READ_ONLY_CODES or not database_path.is_file():
            raise
    try:
        # This includes the write-ahead log, and succeeds only while another process has the file open.
        return _open_connection(database_path, "ro")
    except sqlite3.OperationalError:
        journal_files = [database_path.with_name(f"{database_path.name}{ending}") for ending in ("-wal", "-journal")]
        if pending_names := [path.name for path in journal_files if path.exists() and path.stat().st_size]:
            raise DataError(
                f"{database_path} lies where nothing can be written, and changes that belong to it are in "
                f"{pending_names[0]}, which could not be read there; copy both files to a folder that you can write to"
            ) from None
        # Without pending changes the file is complete and no process is writing, so it is safe to call it immutable.
        return _open_connection(database_path, "ro&immutable=1")


def _open_connection(database_path: Path, mode: str) -> sqlite3.Connection:
    """Connect to a database; mode: that of SQLite's URI, such as "ro" for reading.

    Raises DataError if it holds more than plain tables: the contents of views and the like are computed, perhaps
    without end.
    """
    connection = sqlite3.connect(
        f"{database_path.absolute().as_uri()}?mode={mode}", uri=True, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None
    )
    try:
        if computed_row := connection.execute(_COMPUTED_OBJECTS_QUERY).fetchone():  # the first query opens the file
            cause = f"it holds {computed_row[0]!r:.80}, which computes what it shows"
            raise DataError(f"{database_path} is of another version of Frontier, or of another program: {cause}")
    except BaseException:
        connection.close()
        raise
    return connection


def make_tables(
    connection: sqlite3.Connection, has_tables: Callable[[], bool], tables: Mapping[str, str], **pragmas: int
) -> None:
    """Create the tables of a file that has none, in one transaction.

    has_tables: called again within the transaction, because another process may be creating the same file
    tables: name → the statement that creates it
    pragmas: values for the file's header, such as its version
    """
    connection.execute("BEGIN IMMEDIATE")
    if not has_tables():
        for statement in tables.values():
            connection.execute(statement)
        for pragma_name, pragma_value in pragmas.items():
            connection.execute(f"PRAGMA {pragma_name} = {pragma_value}")
    connection.execute("COMMIT")


def write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log: readers never wait, and a killed process leaves only full transactions.

    A file that can only be read stays as it is.
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if primary_code(error) in READ_ONLY_CODES:
                return
            # While others use the file this fails at once, whatever the connection's timeout.
            if primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def primary_code(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code, 0 for errors of Python's module."""
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
