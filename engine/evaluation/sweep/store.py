"""Store of finished sweep cells in one SQLite file: a transaction each, many writers, no duplicates."""

import json
import math
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from engine.data import cache
from engine.data.files import MAX_GROWTH_RATIO
from engine.data.sqlite import connect_database, make_tables, primary_code, write_ahead
from engine.decoder import LIMIT_FIELDS
from engine.errors import DataError
from engine.evaluation.curve import N_BANDS, Curve, Steps
from engine.evaluation.sweep.cell import Cell, compute_means, compute_result_digest
from engine.progress import counted
from engine.values import digest_of

PLAIN_FIELDS = ("key", "label", "method", "k", "split", "left_out", "returned", "milliseconds", "digest")
"""Columns that hold a field of a Cell unchanged."""
CELL_COLUMNS = (*PLAIN_FIELDS, "decoder", "queries", "metrics", "values", "provenance")
COUNT_PREFIX = "count of "
"""Before the name of a count of documents in the column of metrics, whose numbers follow those of the metrics."""
CURVE_FIELDS = (
    "selector", "label", "method", "parameter", "interval", "k", "split", "queries", "left_out", "tolerance",
    "resamples", "seed", "limits",
)  # fmt: skip
"""Fields of a Curve that are stored unchanged."""
CELL_FIELDS = ", ".join(f'"{name}"' for name in CELL_COLUMNS)
KEY_FILTER = "WHERE key IN (SELECT value FROM json_each(?))"
"""Selects the rows whose keys are in a JSON list: one SQL parameter for any number of keys."""
MALFORMED_ERRORS = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError, zlib.error)
"""Errors of a row that is none of ours: a seal shows that it is as it was written, not that this program wrote it."""
STAGE_NAMES, DECODER_FIELDS = {"select", "retrieve", "rerank"}, {"depth", *LIMIT_FIELDS}
"""Entries of a stored decoder: its stages, of which a cell may lack all but the first, and plain values."""
STORE_TABLES = {
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
SEALED_KEYS = "SELECT key FROM cells UNION SELECT key FROM curves UNION SELECT key FROM studies"
"""Selects the keys of all rows that have a seal, the digest of the row."""


class Store:
    """A file of finished cells, curves and studies; created where there is none.

    Each row has a seal, a digest of its values, by which later damage is noticed.

    path: of the file. Raises DataError for a file of another kind.
    """

    def __init__(self, path: str | Path) -> None:
        """Open a store file, and create its tables if it has none. Raises DataError for another database."""
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise DataError(f"store must lie in a folder that exists; there is no {str(self.path.parent)!r}")
        with self._open() as db:
            if not self._has_tables(db):
                make_tables(db, lambda: self._has_tables(db), STORE_TABLES)
            write_ahead(db)

    @classmethod
    def open_store(cls, store: "Store | str | Path | None") -> "Store | None":
        """Return the store itself, or open the one at a path; None for None."""
        return cls(store) if isinstance(store, str | Path) else store

    def put_cell(self, cell: Cell) -> bool:
        """Store a cell with a seal: a digest of its row, by which reading finds later damage.

        A cell is one decoder's metrics, query by query, at one k. Returns False if a cell with its key was stored
        already, which stays as it is.
        """
        ids_json = json.dumps(cell.queries)
        metrics = sorted(cell.values)
        value_table = np.stack([np.asarray(cell.values[metric], dtype="<f8") for metric in metrics])
        packed_values = value_table.tobytes() + _pack_counts(cell.counts.values())
        names_json = json.dumps([*metrics, *map(COUNT_PREFIX.__add__, cell.counts)])
        with self._open() as db, db:
            # The write lock is taken first: a transaction that begins by reading may not get it beside other writers.
            db.execute("BEGIN IMMEDIATE")
            query_digest = digest_of([ids_json])
            db.execute("INSERT OR IGNORE INTO queries VALUES (?, ?)", (query_digest, ids_json))
            decoder_json, provenance_json = json.dumps(cell.decoder), json.dumps(dict(cell.provenance))
            json_fields = [decoder_json, query_digest, names_json, packed_values, provenance_json]
            cell_row, marks = [*attrgetter(*PLAIN_FIELDS)(cell), *json_fields], ", ".join("?" * len(CELL_COLUMNS))
            inserted = db.execute(f"INSERT OR IGNORE INTO cells ({CELL_FIELDS}) VALUES ({marks})", cell_row)
            if inserted.rowcount:
                # The seal is of the row as read back, since SQLite turns some integers into reals.
                stored_row = db.execute(f"SELECT {CELL_FIELDS} FROM cells WHERE key = ?", (cell.key,)).fetchone()
                _write_seal(db, cell.key, (*stored_row, ids_json))
            return bool(inserted.rowcount)

    def find_stored_keys(self, keys: Collection[str]) -> set[str]:
        """Return those of the keys that have a stored cell.

        A cell is one decoder's metrics, query by query, at one k.
        """
        with self._open() as db:
            key_rows = db.execute(f"SELECT key FROM cells {KEY_FILTER}", (json.dumps(list(keys)),))
            return set(map(itemgetter(0), key_rows))

    def read_cells(self, keys: Collection[str] | None = None) -> Iterator[Cell]:
        """Yield stored cells in the order of storing; only those with these keys, if given.

        A cell is one decoder's metrics, query by query, at one k. Cells that are written meanwhile are not included.
        Raises DataError for a cell whose values have changed since it was written.
        """
        key_filter, sql_keys = ("", ()) if keys is None else (KEY_FILTER, (json.dumps(list(keys)),))
        with self._open() as db:
            # One transaction, so that both queries read the same state of the file.
            db.execute("BEGIN")
            query_lists = dict(db.execute("SELECT digest, ids FROM queries"))
            row_seals = _read_seals(db)
            for values in db.execute(f"SELECT {CELL_FIELDS} FROM cells {key_filter} ORDER BY rowid", sql_keys):
                cell_row = dict(zip(CELL_COLUMNS, values, strict=True))
                try:
                    _check_seal(row_seals, cell_row["key"], (*values, query_lists[cell_row["queries"]]))
                    cell = _cell_from_row(cell_row, query_lists)
                except MALFORMED_ERRORS:
                    cell_name = f"the cell {cell_row['label']} at k = {cell_row['k']}"
                    raise DataError(f"{self.path}: {cell_name} is damaged; delete the file, sweep again") from None
                yield cell
            # A seal without its row means that the row was lost.
            if keys is None and (n_lost := len(row_seals.keys() - set(map(itemgetter(0), db.execute(SEALED_KEYS))))):
                raise DataError(f"{self.path}: {counted(n_lost, 'row')} missing; delete the file, sweep again")

    def read_measured_queries(self, corpus: str) -> list[tuple[frozenset[str], frozenset[str]]]:
        """Return the ids of the queries that cells over a corpus have measured, with their metrics, each pair once.

        A cell is one decoder's metrics, query by query, at one k. corpus: digest of the corpus, whose queries may have
        been measured with any vectors and judgements
        """
        with self._open() as db:
            pairs = db.execute(
                "SELECT DISTINCT queries.ids, cells.metrics FROM cells JOIN queries ON queries.digest = cells.queries "
                "WHERE json_extract(cells.provenance, '$.corpus') = ?",
                (corpus,),
            ).fetchall()
        return [(frozenset(json.loads(ids)), frozenset(json.loads(metrics))) for ids, metrics in pairs]

    def put_curve(self, curve: Curve) -> None:
        """Store an exact frontier's curve with a seal, a digest of its row, unless its key is stored already."""
        # All numbers in one compressed array, in an order that `_curve_from_row` undoes; it averages the steps again.
        metrics, steps = sorted(curve.means), curve.steps
        plain_fields = dict(zip(CURVE_FIELDS, attrgetter(*CURVE_FIELDS)(curve), strict=True))
        columns = [*map(curve.bands.__getitem__, metrics), steps.step_starts, *map(steps.values.__getitem__, metrics)]
        columns += steps.counts.values()
        packed = zlib.compress(np.concatenate(list(map(np.ravel, columns)), dtype="<f8").tobytes())
        step_counts = np.bincount(steps.query_index, minlength=len(curve.queries)).tolist()
        with self._open() as db, db:
            db.execute("BEGIN IMMEDIATE")
            array_facts = {"metrics": metrics, "step_counts": step_counts, "counts": list(steps.counts)}
            curve_facts = {**plain_fields, **array_facts, "provenance": dict(curve.provenance)}
            curve_row = curve.key, json.dumps(curve_facts), packed
            if db.execute("INSERT OR IGNORE INTO curves VALUES (?, ?, ?)", curve_row).rowcount:
                _write_seal(db, curve.key, curve_row)

    def read_curves(self, keys: Collection[str] | None = None) -> Iterator[Curve]:
        """Yield stored curves, only those with these keys if given. Raises DataError for a damaged one."""
        key_filter, sql_keys = ("", ()) if keys is None else (KEY_FILTER, (json.dumps(list(keys)),))
        with self._open() as db:
            rows = db.execute(f"SELECT key, facts, arrays FROM curves {key_filter} ORDER BY rowid", sql_keys).fetchall()
            row_seals = _read_seals(db)
        for key, facts, packed in rows:
            try:
                _check_seal(row_seals, key, (key, facts, packed))
                numbers = np.frombuffer(_decompress_numbers(packed), dtype="<f8")
                yield _curve_from_row(key, json.loads(facts), numbers)
            except MALFORMED_ERRORS:
                raise DataError(f"{self.path}: a curve is damaged; delete the file, sweep again") from None

    def put_study(self, study_facts: Mapping[str, Any]) -> None:
        """Store a tuning study as plain values; an earlier one with an equal question, "asked", is replaced."""
        study_row = digest_of([json.dumps(study_facts["asked"], sort_keys=True)]), json.dumps(study_facts)
        with self._open() as db, db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT OR REPLACE INTO studies VALUES (?, ?)", study_row)
            _write_seal(db, study_row[0], study_row)

    def read_studies(self) -> list[dict[str, Any]]:
        """Read the studies, the last stored first. Raises DataError for a damaged one."""
        with self._open() as db:
            study_rows = db.execute("SELECT key, facts FROM studies ORDER BY rowid DESC").fetchall()
            row_seals = _read_seals(db)
        studies = []
        try:
            for study_row in study_rows:
                _check_seal(row_seals, study_row[0], study_row)
                studies.append(dict(json.loads(study_row[1])))
        except MALFORMED_ERRORS:
            raise DataError(f"{self.path}: a study is damaged; delete the file, tune again") from None
        return studies

    def _has_tables(self, db: sqlite3.Connection) -> bool:
        """Return True if the store's tables exist. Raises DataError if the file has only other tables."""
        table_names = set(map(itemgetter(0), db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")))
        if table_names and not table_names >= STORE_TABLES.keys():
            raise DataError(f"{self.path} is a database, but not one of Frontier's; choose another file")
        return bool(table_names)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open a connection to the file for a with-block; errors of SQLite become DataErrors."""
        try:
            with closing(connect_database(self.path)) as db:
                # Bytes that are not text are damage, which the seals, digests of the rows, reveal.
                db.text_factory = lambda raw_bytes: raw_bytes.decode("utf-8", "replace")
                yield db
        except UnicodeDecodeError:  # of SQLite's message about damage
            raise DataError(f"{self.path} cannot be used as a store of sweeps: it is damaged") from None
        except sqlite3.DatabaseError as error:
            is_disk_full = primary_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
            fix_hint = "; free some room, or keep the store in another folder" if is_disk_full else ""
            raise DataError(f"{self.path} cannot be used as a store of sweeps: {error}{fix_hint}") from None


def _decompress_numbers(packed_numbers: bytes, max_bytes: int | None = None) -> bytes:
    """Decompress numbers. Raises ValueError or zlib.error for more than such a row can hold, or cut data."""
    unpacker = zlib.decompressobj()
    # The limit, 1 MiB at least where it is not known, keeps a damaged or hostile row from filling the memory.
    limit = max(1 << 20, MAX_GROWTH_RATIO * len(packed_numbers)) if max_bytes is None else max_bytes
    numbers = unpacker.decompress(packed_numbers, limit)
    if not unpacker.eof:
        raise ValueError
    return numbers


def _pack_counts(columns: Iterable[np.ndarray]) -> bytes:
    """Compress counts of documents by query; nothing for no counts."""
    # Most queries have the same few numbers, so the counts take a small part of a row.
    table_bytes = b"".join(np.asarray(column, dtype="<i4").tobytes() for column in columns)
    return zlib.compress(table_bytes) if table_bytes else b""


def _digest_row(values: Any) -> str:
    """Compute the digest of a table row's values."""
    return digest_of([json.dumps(values, sort_keys=True, default=bytes.hex)])


def _write_seal(db: sqlite3.Connection, row_key: str, values: Sequence[Any]) -> None:
    """Store a row's digest beside it, so that later changes are noticed."""
    db.execute("INSERT OR REPLACE INTO seals VALUES (?, ?)", (row_key, _digest_row(values)))


def _read_seals(db: sqlite3.Connection) -> dict[str, str]:
    """Read the seals of all rows, by key."""
    return dict(db.execute("SELECT key, seal FROM seals"))


def _check_seal(row_seals: Mapping[str, str], row_key: str, values: Sequence[Any]) -> None:
    """Raise ValueError or KeyError if a row lacks the digest that was stored with it, its seal.

    row_seals: key → digest; values: the row's values now
    """
    if row_seals[row_key] != _digest_row(values):
        raise ValueError


def cached_file(section: str, name: str) -> Path:
    """Return the path of a store in the cache folder.

    If the cache folder cannot be written to, it is the path of a copy of the store in a temporary folder.
    """
    cache_path, store_path = cache.entry_path(section, name), cache.open_section(section) / name
    if cache_path != store_path and not store_path.exists():
        # If the store in the cache cannot be read, the copy stays empty, and its contents are computed again.
        with (
            suppress(DataError, sqlite3.Error),
            closing(connect_database(cache_path)) as db,
            closing(connect_database(store_path)) as copy_database,
        ):
            db.backup(copy_database)
    return store_path


def _cell_from_row(cell_row: Mapping[str, Any], query_lists: Mapping[str, str]) -> Cell:
    """Build a Cell from a stored row; query_lists: digest → JSON list of query ids, shared by cells.

    Raises ValueError, KeyError or TypeError if it is damaged.
    """
    names, query_ids = json.loads(cell_row["metrics"]), json.loads(query_lists[cell_row["queries"]])
    decoder, provenance = json.loads(cell_row["decoder"]), json.loads(cell_row["provenance"])
    _check_cell_types(cell_row, [*names, *query_ids], decoder, provenance)
    queries = tuple(query_ids)
    metrics = [name for name in names if not name.startswith(COUNT_PREFIX)]
    count_names = [name.removeprefix(COUNT_PREFIX) for name in names[len(metrics) :]]
    n_bytes, n_count_bytes = 8 * len(metrics) * len(queries), 4 * len(count_names) * len(queries)
    value_table = np.frombuffer(cell_row["values"][:n_bytes], dtype="<f8").reshape(len(metrics), len(queries))
    columns = dict(zip(metrics, value_table, strict=True))
    count_bytes = _decompress_numbers(cell_row["values"][n_bytes:], n_count_bytes) if n_count_bytes else b""
    count_table = np.frombuffer(count_bytes, dtype="<i4").reshape(len(count_names), len(queries))
    if compute_result_digest(cell_row["key"], columns) != cell_row["digest"]:
        raise ValueError
    plain_fields = dict(zip(PLAIN_FIELDS, itemgetter(*PLAIN_FIELDS)(cell_row), strict=True))
    parsed_fields = {"values": columns, "mean": compute_means(columns), "provenance": provenance}
    parsed_fields["counts"] = dict(zip(count_names, count_table, strict=True))
    return Cell(decoder=decoder, queries=queries, **plain_fields, **parsed_fields)


def _check_cell_types(
    cell_row: Mapping[str, Any], names: Sequence[Any], decoder: Any, provenance: Mapping[str, Any]
) -> None:
    """Raise a TypeError or ValueError if a stored cell has values of another kind than a sweep writes.

    names: of metrics, counts and queries; decoder: as `decoder_to_json` writes it
    """
    texts = [*names, *provenance.keys(), *provenance.values()]
    texts += [cell_row[name] for name in ("key", "label", "method", "split", "digest")]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError
    # Tables compare stages as sets of their fields, so each field is a plain value.
    stages = {name: stage for name, stage in decoder.items() if isinstance(stage, dict)}
    has_stages = {"select"} <= stages.keys() <= STAGE_NAMES and decoder.keys() <= STAGE_NAMES | DECODER_FIELDS
    if not has_stages or not all(isinstance(stage["name"], str) for stage in stages.values()):
        raise TypeError
    stage_values = [value for stage in stages.values() for value in stage.values()]
    other_values = {name: value for name, value in decoder.items() if name not in stages}
    if any(other_values.get(name) is not None for name in STAGE_NAMES):
        raise TypeError
    plain_values = [*stage_values, *other_values.values()]
    if not all(value is None or isinstance(value, str | float | int) for value in plain_values):
        raise TypeError
    numbers = [cell_row[name] for name in ("k", "left_out", "returned", "milliseconds")]
    if not all(isinstance(number, int | float) and math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError
    if not all(-(2**63) <= value < 2**63 for value in plain_values if isinstance(value, int)):
        raise ValueError


def _curve_from_row(curve_key: str, curve_facts: dict[str, Any], packed_numbers: np.ndarray) -> Curve:
    """Build a Curve from a stored row: its facts as JSON values, and all its numbers in one array.

    Raises ValueError, KeyError or TypeError if it is damaged.
    """
    metrics, step_counts, queries = map(curve_facts.pop, ("metrics", "step_counts", "queries"))
    count_names = curve_facts.pop("counts")
    n_metrics, n_steps = len(metrics), sum(step_counts)
    # The order of `put_curve`: bands, starts of the steps, their metrics and their counts of documents.
    lengths = [2 * N_BANDS] * n_metrics + [n_steps] * (1 + n_metrics + len(count_names))
    # Checked before anything is repeated: the row could ask for more steps than it holds.
    if sum(lengths) != len(packed_numbers) or len(step_counts) != len(queries) or min(step_counts) < 1:
        raise ValueError
    columns = np.split(packed_numbers, np.cumsum(lengths[:-1]))
    bands = {metric: band.reshape(-1, 2) for metric, band in zip(metrics, columns[:n_metrics], strict=True)}
    query_index, values = np.repeat(np.arange(len(queries)), step_counts), columns[n_metrics + 1 : 2 * n_metrics + 1]
    step_values = dict(zip(metrics, values, strict=True))
    counts = dict(zip(count_names, columns[2 * n_metrics + 1 :], strict=True))
    min_value, max_value = curve_facts["interval"] = tuple(curve_facts["interval"])
    steps = Steps(
        interval=(min_value, max_value), query_index=query_index, step_starts=columns[n_metrics], values=step_values,
        counts=counts,
    )  # fmt: skip
    breakpoints, means = steps.average(curve_facts["tolerance"])
    band_positions = np.linspace(min_value, max_value, N_BANDS)
    return Curve(
        key=curve_key, queries=tuple(queries), breakpoints=breakpoints, means=means, band_positions=band_positions,
        bands=bands, steps=steps, **curve_facts,
    )  # fmt: skip
