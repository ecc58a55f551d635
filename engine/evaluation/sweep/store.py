"""Finished cells of sweeps in one SQLite file: every cell one transaction, many writers, nothing twice."""

import json
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from engine.data import cache
from engine.data.files import MAX_GROWTH_RATIO
from engine.data.sqlite import connect_database, make_tables, primary_code, write_ahead
from engine.errors import DataError
from engine.evaluation.curve import N_BANDS, Curve
from engine.evaluation.sweep.cell import Cell, means, result_digest
from engine.progress import counted
from engine.values import digest_of

PLAIN = ("key", "label", "method", "k", "split", "left_out", "returned", "milliseconds", "digest")
"""The columns that hold a field of a Cell as it is."""
COLUMNS = (*PLAIN, "decoder", "queries", "metrics", "values", "provenance")
CURVE = (
    "selector", "label", "method", "parameter", "interval", "k", "split", "queries", "left_out", "tolerance",
    "resamples", "seed",
)  # fmt: skip
"""The fields of a Curve that are kept as they are."""
LISTED = ", ".join(f'"{name}"' for name in COLUMNS)
AMONG = "WHERE key IN (SELECT value FROM json_each(?))"
"""The rows whose keys a JSON list names: one parameter, however many they are."""
TABLES = {
    "queries": "CREATE TABLE queries (digest TEXT PRIMARY KEY, ids TEXT NOT NULL) WITHOUT ROWID",
    "cells": """
CREATE TABLE cells (
    key TEXT PRIMARY KEY, decoder TEXT NOT NULL, label TEXT NOT NULL, method TEXT NOT NULL, k INTEGER NOT NULL,
    split TEXT NOT NULL, queries TEXT NOT NULL REFERENCES queries, metrics TEXT NOT NULL, "values" BLOB NOT NULL,
    left_out INTEGER NOT NULL, returned REAL NOT NULL, milliseconds REAL NOT NULL, provenance TEXT NOT NULL,
    digest TEXT NOT NULL, finished TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
)""",
    "curves": "CREATE TABLE curves (key TEXT PRIMARY KEY, facts TEXT NOT NULL, arrays BLOB)",
    "studies": "CREATE TABLE studies (key TEXT PRIMARY KEY, facts TEXT NOT NULL)",
    "seals": "CREATE TABLE seals (key TEXT PRIMARY KEY, seal TEXT NOT NULL) WITHOUT ROWID",
}
ALL_KEYS = "SELECT key FROM cells UNION SELECT key FROM curves UNION SELECT key FROM studies"
"""The keys of all rows that have a seal, the digest of the row."""


class Store:
    """A file of finished cells; made where there is none.

    path: of the file. Raises DataError for a file that is something else.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise DataError(f"store must lie in a folder that exists; there is no {str(self.path.parent)!r}")
        with self._open() as db:
            if not self._has_tables(db):
                make_tables(db, lambda: self._has_tables(db), TABLES)
            write_ahead(db)

    @classmethod
    def of(cls, store: "Store | str | Path | None") -> "Store | None":
        """The store, or the one at a path; None for none."""
        return cls(store) if isinstance(store, str | Path) else store

    def put(self, cell: Cell) -> bool:
        """Keep a cell; False where it was there already."""
        ids = json.dumps(cell.queries)
        names = sorted(cell.values)
        table = np.stack([np.asarray(cell.values[name], dtype="<f8") for name in names])
        with self._open() as db, db:
            db.execute("BEGIN IMMEDIATE")
            digest = digest_of([ids])
            db.execute("INSERT OR IGNORE INTO queries VALUES (?, ?)", (digest, ids))
            decoder, provenance = json.dumps(cell.decoder), json.dumps(dict(cell.provenance))
            row = [*attrgetter(*PLAIN)(cell), decoder, digest, json.dumps(names), table.tobytes(), provenance]
            new = db.execute(f"INSERT OR IGNORE INTO cells ({LISTED}) VALUES ({', '.join('?' * len(row))})", row)
            if new.rowcount:
                # Of what stands there, as SQLite has made some whole numbers real.
                _seal(
                    db,
                    cell.key,
                    (*db.execute(f"SELECT {LISTED} FROM cells WHERE key = ?", (cell.key,)).fetchone(), ids),
                )
            return bool(new.rowcount)

    def known(self, keys: Collection[str]) -> set[str]:
        """Which of the keys are there."""
        with self._open() as db:
            return {key for (key,) in db.execute(f"SELECT key FROM cells {AMONG}", (json.dumps(list(keys)),))}

    def points(self, keys: Collection[str] | None = None) -> Iterator[Cell]:
        """The cells, in the order in which they were kept; of these keys only, where given.

        What others write meanwhile is not among them. Raises DataError for a cell whose values are not those that were
        written.
        """
        among, given = ("", ()) if keys is None else (AMONG, (json.dumps(list(keys)),))
        with self._open() as db:
            # One view of the file for both.
            db.execute("BEGIN")
            lists = dict(db.execute("SELECT digest, ids FROM queries"))
            seals = _seals(db)
            for values in db.execute(f"SELECT {LISTED} FROM cells {among} ORDER BY rowid", given):
                row = dict(zip(COLUMNS, values, strict=True))
                try:
                    _check(seals, row["key"], (*values, lists[row["queries"]]))
                    cell = _cell(row, lists)
                except (ValueError, KeyError, TypeError):
                    what = f"the cell {row['label']} at k = {row['k']}"
                    raise DataError(f"{self.path}: {what} is damaged; delete the file, sweep again") from None
                yield cell
            if keys is None and (lost := len(seals.keys() - {key for (key,) in db.execute(ALL_KEYS)})):
                raise DataError(f"{self.path}: {counted(lost, 'row')} missing; delete the file, sweep again")

    def put_curve(self, curve: Curve) -> None:
        """Keep an exact frontier's curve."""
        names, plain = sorted(curve.means), {name: getattr(curve, name) for name in CURVE}
        arrays = [curve.breakpoints, *(curve.means[n] for n in names), *(curve.bands[n].ravel() for n in names)]
        table = zlib.compress(np.concatenate(arrays, dtype="<f8").tobytes())
        with self._open() as db, db:
            db.execute("BEGIN IMMEDIATE")
            row = curve.key, json.dumps({**plain, "metrics": names, "provenance": dict(curve.provenance)}), table
            if db.execute("INSERT OR IGNORE INTO curves VALUES (?, ?, ?)", row).rowcount:
                _seal(db, curve.key, row)

    def curves(self, keys: Collection[str] | None = None) -> Iterator[Curve]:
        """The curves, or those with these keys, in the order in which they were kept. Raises DataError as `points`."""
        among, given = ("", ()) if keys is None else (AMONG, (json.dumps(list(keys)),))
        with self._open() as db:
            rows = db.execute(f"SELECT key, facts, arrays FROM curves {among} ORDER BY rowid", given).fetchall()
            seals = _seals(db)
        for key, facts, arrays in rows:
            try:
                _check(seals, key, (key, facts, arrays))
                yield _curve(key, json.loads(facts), np.frombuffer(_unpacked(arrays), dtype="<f8"))
            except (ValueError, KeyError, TypeError, AttributeError, zlib.error):
                raise DataError(f"{self.path}: a curve is damaged; delete the file, sweep again") from None

    def put_study(self, facts: Mapping[str, Any]) -> None:
        """Keep a study, plain values with its question under "asked", in place of an earlier one of that question."""
        row = digest_of([json.dumps(facts["asked"], sort_keys=True)]), json.dumps(facts)
        with self._open() as db, db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR REPLACE INTO studies VALUES (?, ?)", row)
            _seal(db, row[0], row)

    def studies(self) -> list[dict[str, Any]]:
        """The studies, the one kept last first. Raises DataError for one that is damaged."""
        with self._open() as db:
            rows = db.execute("SELECT key, facts FROM studies ORDER BY rowid DESC").fetchall()
            seals = _seals(db)
        try:
            for row in rows:
                _check(seals, row[0], row)
            return [json.loads(facts) for _, facts in rows]
        except (ValueError, KeyError):
            raise DataError(f"{self.path}: a study is damaged; delete the file, tune again") from None

    def _has_tables(self, db: sqlite3.Connection) -> bool:
        """Whether the tables are there; a DataError where others are."""
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not tables >= TABLES.keys():
            raise DataError(f"{self.path} is a database, but not one of Frontier's; choose another file")
        return bool(tables)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection of this thread's own."""
        try:
            with closing(connect_database(self.path)) as db:
                # Bytes that are no text are damage, and found out as such.
                db.text_factory = lambda raw: raw.decode("utf-8", "replace")
                yield db
        except UnicodeDecodeError:  # of SQLite's message about damage
            raise DataError(f"{self.path} cannot be used as a store of sweeps: it is damaged") from None
        except sqlite3.DatabaseError as error:
            full = primary_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
            fix = "; free some room, or keep the store in another folder" if full else ""
            raise DataError(f"{self.path} cannot be used as a store of sweeps: {error}{fix}") from None


def _unpacked(packed: bytes) -> bytes:
    """A curve's numbers; ValueError where they are far more than so many bytes ever were."""
    unpacker = zlib.decompressobj()
    numbers = unpacker.decompress(packed, max(1 << 20, MAX_GROWTH_RATIO * len(packed)))
    if not unpacker.eof:
        raise ValueError
    return numbers


def _digest(values: Any) -> str:
    return digest_of([json.dumps(values, sort_keys=True, default=bytes.hex)])


def _seal(db: sqlite3.Connection, key: str, row: Sequence[Any]) -> None:
    """Keep the seal of a row that is written in this transaction."""
    db.execute("INSERT OR REPLACE INTO seals VALUES (?, ?)", (key, _digest(row)))


def _seals(db: sqlite3.Connection) -> dict[str, str]:
    """The seals of rows by their keys."""
    return dict(db.execute("SELECT key, seal FROM seals"))


def _check(seals: Mapping[str, str], key: str, row: Sequence[Any]) -> None:
    """Raise ValueError or KeyError for a row that is not as it was written."""
    if seals[key] != _digest(row):
        raise ValueError


def cached_file(section: str, name: str) -> Path:
    """The file of a store in the cache; a copy that ends with the process where nothing can be written there."""
    kept, path = cache.entry_path(section, name), cache.open_section(section) / name
    if kept != path and not path.exists():
        # Without what cannot be read there: it is computed again.
        with (
            suppress(DataError, sqlite3.Error),
            closing(connect_database(kept)) as db,
            closing(connect_database(path)) as copy,
        ):
            db.backup(copy)
    return path


def _cell(row: Mapping[str, Any], lists: Mapping[str, str]) -> Cell:
    """A row as a Cell; ValueError, KeyError or TypeError where it is not as it was written."""
    names, queries = json.loads(row["metrics"]), tuple(json.loads(lists[row["queries"]]))
    table = np.frombuffer(row["values"], dtype="<f8").reshape(len(names), len(queries))
    values = dict(zip(names, table, strict=True))
    if result_digest(row["key"], values) != row["digest"]:
        raise ValueError
    decoder, provenance = json.loads(row["decoder"]), json.loads(row["provenance"])
    made = {"decoder": decoder, "queries": queries, "values": values, "mean": means(values), "provenance": provenance}
    return Cell(**{name: row[name] for name in PLAIN}, **made)


def _curve(key: str, facts: dict[str, Any], numbers: np.ndarray) -> Curve:
    """A row as a Curve; ValueError, KeyError or TypeError where it is not as it was written."""
    names = facts.pop("metrics")
    size, rest = divmod(len(numbers) + 1 - 2 * N_BANDS * len(names), 1 + len(names))
    if rest or size < 1:
        raise ValueError
    parts = np.split(numbers, np.cumsum([size - 1] + [size] * len(names) + [2 * N_BANDS] * (len(names) - 1)))
    low, high = facts["interval"] = tuple(facts["interval"])
    facts["queries"] = tuple(facts["queries"])
    means = dict(zip(names, parts[1 : len(names) + 1], strict=True))
    bands = {n: part.reshape(-1, 2) for n, part in zip(names, parts[len(names) + 1 :], strict=True)}
    places = np.linspace(low, high, N_BANDS)
    return Curve(key=key, breakpoints=parts[0], means=means, bands=bands, band_positions=places, **facts)
