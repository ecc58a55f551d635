"""Finished cells of sweeps in one SQLite file: every cell one transaction, many writers, nothing twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from engine.errors import DataError
from engine.evaluation.points import Point, means, result_digest
from engine.values import digest_of

VERSION = 1
WAIT = 60.0
"""Seconds that a writer waits for another one."""
COLUMNS = (
    'key, decoder, label, method, k, split, queries, metrics, "values", left_out, returned, milliseconds, '
    "provenance, digest"
)
SCHEMA = """
CREATE TABLE IF NOT EXISTS queries (digest TEXT PRIMARY KEY, ids TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
    key TEXT PRIMARY KEY, decoder TEXT NOT NULL, label TEXT NOT NULL, method TEXT NOT NULL, k INTEGER NOT NULL,
    split TEXT NOT NULL, queries TEXT NOT NULL REFERENCES queries, metrics TEXT NOT NULL, "values" BLOB NOT NULL,
    left_out INTEGER NOT NULL, returned REAL NOT NULL, milliseconds REAL NOT NULL, provenance TEXT NOT NULL,
    digest TEXT NOT NULL, finished TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);
"""


class Store:
    """A file of finished cells; made where there is none.

    path: of the file. Raises DataError for a file that is something else, or was written by another version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise DataError(f"store must lie in a folder that exists; there is no {str(self.path.parent)!r}")
        with self._open() as db:
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, VERSION):
                raise DataError(f"{self.path} is of another version of Frontier (format {found}, not {VERSION})")
            if found == 0 and db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise DataError(f"{self.path} is a database, but not one of Frontier's; choose another file")
            # Written ahead: a reader never waits, and a process that dies leaves whole cells only.
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(SCHEMA)
            db.execute(f"PRAGMA user_version = {VERSION}")

    def put(self, cell: Point) -> bool:
        """Keep a cell; False where it was there already."""
        ids = json.dumps(cell.queries)
        names = sorted(cell.values)
        table = np.stack([np.asarray(cell.values[name], dtype="<f8") for name in names])
        with self._open() as db, db:
            db.execute("BEGIN IMMEDIATE")
            asked = digest_of([ids])
            db.execute("INSERT OR IGNORE INTO queries VALUES (?, ?)", (asked, ids))
            new = db.execute(
                f"INSERT OR IGNORE INTO cells ({COLUMNS}) VALUES ({', '.join('?' * 14)})",
                (
                    cell.key, json.dumps(cell.decoder), cell.label, cell.method, cell.k, cell.split, asked,
                    json.dumps(names), table.tobytes(), cell.left_out, cell.returned, cell.milliseconds,
                    json.dumps(dict(cell.provenance)), cell.digest,
                ),
            )  # fmt: skip
            return bool(new.rowcount)

    def known(self, keys: Collection[str]) -> set[str]:
        """Which of the keys are there."""
        with self._open() as db:
            return {key for (key,) in db.execute("SELECT key FROM cells")} & set(keys)

    def points(self, keys: Collection[str] | None = None) -> Iterator[Point]:
        """The cells, in the order in which they were finished; of these keys only, where given.

        Raises DataError for a cell whose values are not those that were written.
        """
        wanted = None if keys is None else set(keys)
        with self._open() as db:
            lists = dict(db.execute("SELECT digest, ids FROM queries"))
            rows = db.execute(f"SELECT {COLUMNS} FROM cells ORDER BY finished, key")
            for key, decoder, label, method, k, split, asked, metrics, values, left_out, *rest in rows:
                if wanted is not None and key not in wanted:
                    continue
                returned, milliseconds, provenance, digest = rest
                names, queries = json.loads(metrics), tuple(json.loads(lists[asked]))
                table = np.frombuffer(values, dtype="<f8")
                found = dict(zip(names, table.reshape(len(names), -1), strict=True))
                if result_digest(key, found) != digest or table.size != len(names) * len(queries):
                    raise DataError(
                        f"{self.path}: the cell {label} at k = {k} is damaged; delete the file, sweep again"
                    )
                yield Point(
                    json.loads(decoder), label, method, k, split, queries, found, means(found), left_out, returned,
                    milliseconds, json.loads(provenance), key, digest,
                )  # fmt: skip

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection of this thread's own."""
        try:
            with closing(sqlite3.connect(self.path, timeout=WAIT)) as db:
                yield db
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path} cannot be used as a store of sweeps: {error}") from None
