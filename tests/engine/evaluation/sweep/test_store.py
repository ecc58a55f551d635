"""A store of sweeps keeps cells as they were, whoever writes, reads or dies meanwhile, and refuses what is none."""

import json
import sqlite3
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest

import engine
from engine.evaluation.curve import N_BANDS, Curve, Steps
from engine.evaluation.sweep import store as storing
from engine.evaluation.sweep.cell import make_cell
from engine.evaluation.sweep.store import Store
from support.patience import patient
from support.points import digest_of_all
from support.sweeps import KS, METRICS, make_patients, put_patient, start_client, toy

QUERIES = ("q7", "q1", "q10", "é\ud800")


def cell(seed=0, k=5, queries=QUERIES, **changes):
    """A point of made-up values, nasty ones among them."""
    values = {m: np.random.default_rng([seed, i]).random(len(queries)) for i, m in enumerate(("recall", "ilad"))}
    values["ilad"][: len(queries) // 2] = np.nan
    values["recall"][0], values["recall"][-1] = 1 / 3, 5e-324
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.1), depth=seed + 1)
    fields = {
        "left_out": 1,
        "returned": 4.75,
        "milliseconds": 1e-3 / 3,
        "digests": {"corpus": "c0ffee"},
        "device": "cpu",
    }
    return replace(make_cell(decoder, k, "dév", queries, values, **fields), **changes)


def are_equal(a, b):
    """Return True if two cells are bitwise equal in every field."""
    np.testing.assert_equal(vars(a), vars(b))
    return True


def rows(path, question, *values):
    with editing(path) as db:
        return db.execute(question, values).fetchall()


@contextmanager
def editing(path):
    """A connection that ends with its changes kept, and leaves no file beside."""
    with closing(sqlite3.connect(path)) as db, db:
        yield db


def test_cells_come_back_as_they_were_and_in_the_order_they_were_kept(tmp_path):
    store = Store(tmp_path / "cells.db")
    stored = [cell(seed) for seed in (3, 1, 2)] + [cell(1, k=2), cell(1, queries=("q1",))]
    stored[4] = replace(stored[4], key="other", digest=storing.compute_result_digest("other", stored[4].values))
    assert all(store.put_cell(c) for c in stored)
    loaded = list(Store(str(tmp_path / "cells.db")).read_cells())
    assert len(loaded) == 5 and all(are_equal(a, b) for a, b in zip(stored, loaded, strict=True))
    assert loaded[0].values["recall"][-1] == 5e-324 and np.isnan(loaded[0].values["ilad"][0])
    keys = [c.key for c in stored]
    assert store.find_stored_keys([keys[1], "nosuch"]) == {keys[1]} and store.find_stored_keys([]) == set()
    assert [p.key for p in store.read_cells([keys[2], keys[0], "nosuch"])] == [keys[0], keys[2]]
    assert rows(store.path, "SELECT count(*) FROM queries") == [(2,)], "a list of queries is kept once"


def test_a_time_without_its_mark_is_of_many_queries_together(tmp_path):
    store, fields = (
        Store(tmp_path / "cells.db"),
        dict(left_out=0, returned=5.0, milliseconds=2.5, digests={}, device="cpu"),
    )
    old = cell(1)
    new = make_cell(engine.Decoder(engine.make("ssd")), 5, "dév", QUERIES, old.values, **fields, n_calls=3)
    assert store.put_cell(old) and store.put_cell(new)
    assert [(p.milliseconds, p.latency) for p in store.read_cells()] == [(old.milliseconds, None), (2.5, 2.5)]
    assert new.provenance["timed"] == "median of 3 single calls" and "timed" not in old.provenance
    unmarked = make_cell(engine.Decoder(engine.make("ssd")), 5, "dév", QUERIES, old.values, **fields)
    assert (unmarked.key, unmarked.digest) == (new.key, new.digest), "neither key nor digest knows of times"


def test_putting_a_cell_twice_changes_nothing(tmp_path):
    store = Store(tmp_path / "cells.db")
    first = cell()
    assert store.put_cell(first)
    rows_before = rows(store.path, "SELECT * FROM cells")
    assert not store.put_cell(first) and not store.put_cell(replace(first, milliseconds=9.0))
    assert rows(store.path, "SELECT * FROM cells") == rows_before
    assert are_equal(next(store.read_cells()), first)


def test_measured_queries_are_those_of_a_corpus_each_list_with_its_metrics_once(tmp_path):
    store = Store(tmp_path / "cells.db")
    assert store.read_measured_queries("c0ffee") == []
    for each in (cell(), cell(seed=1), cell(k=10, queries=("q1", "q2")), cell(queries=("other",), k=3)):
        store.put_cell(each)
    elsewhere = cell(seed=5, queries=("q99",))
    store.put_cell(replace(elsewhere, key="elsewhere", provenance={"corpus": "dec0de"}))
    expected = [set(QUERIES), {"q1", "q2"}, {"other"}]
    measured = store.read_measured_queries("c0ffee")
    assert sorted(map(sorted, dict(measured))) == sorted(map(sorted, expected)) and len(measured) == 3
    assert {metrics for _ids, metrics in measured} == {frozenset({"recall", "ilad"})}


def test_a_cell_is_one_transaction_written_ahead(tmp_path, monkeypatch):
    store = Store(tmp_path / "cells.db")
    assert rows(store.path, "PRAGMA journal_mode") == [("wal",)]

    def full(*_):
        raise sqlite3.DatabaseError("full")

    with monkeypatch.context() as patch, pytest.raises(engine.DataError, match=r"cells.db cannot be used as .*: full"):
        patch.setattr(storing, "_write_seal", full)
        store.put_cell(cell(k=9))
    assert rows(store.path, "SELECT count(*) FROM cells") == [(0,)]
    assert rows(store.path, "SELECT count(*) FROM queries") == [(0,)], "the queries of a cell that failed went with it"
    assert store.put_cell(cell(k=8)) and len(list(store.read_cells())) == 1


def test_killed_writer_leaves_only_complete_cells(tmp_path):
    """Whatever part of the log has reached the disk."""
    store, after = Store(tmp_path / "cells.db"), tmp_path / "after.db"
    stored = [cell(seed) for seed in range(3)]
    with editing(store.path) as connection:
        # While somebody reads, the log is not folded into the file.
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM cells").fetchall()
        for c in stored:
            store.put_cell(c)
        log = (tmp_path / "cells.db-wal").read_bytes()
        content = store.path.read_bytes()
    n_loaded = []
    for length in np.linspace(0, len(log), 40).astype(int):
        after.write_bytes(content)
        (tmp_path / "after.db-wal").write_bytes(log[:length])
        cells = list(Store(after).read_cells())
        assert all(are_equal(a, b) for a, b in zip(stored, cells, strict=False))
        assert Store(after).put_cell(cell(9))
        n_loaded.append(len(cells))
    assert n_loaded == sorted(n_loaded) and set(n_loaded) == {0, 1, 2, 3}


def test_concurrent_reader_sees_only_complete_cells(tmp_path):
    """A reader in the middle of the file neither waits for a writer, nor holds it up, nor sees half of what it adds."""
    store = Store(tmp_path / "cells.db")
    store.put_cell(cell(1, queries=("a",)))
    store.put_cell(cell(2, queries=("b",)))
    reader = store.read_cells()
    assert next(reader).queries == ("a",)
    assert store.put_cell(cell(3, queries=("c",)))
    assert [p.queries for p in reader] == [("b",)]
    assert [p.queries for p in store.read_cells()] == [("a",), ("b",), ("c",)]


def test_read_cells_returns_one_snapshot(tmp_path, monkeypatch):
    """A cell that is kept between the two looks of a reader is in neither."""
    store, late = Store(tmp_path / "cells.db"), [cell(2, queries=("b",))]
    store.put_cell(cell(1, queries=("a",)))

    class Slow(sqlite3.Connection):
        def execute(self, question, *values):
            cursor = super().execute(question, *values)
            if question.endswith("FROM queries"):
                cursor = cursor.fetchall()
                store.put_cell(late.pop())
            return cursor

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Slow if late else sqlite3.Connection)
    )
    assert [p.queries for p in store.read_cells()] == [("a",)]
    assert not late and [p.queries for p in store.read_cells()] == [("a",), ("b",)]


def test_concurrent_creation_loses_no_cell(tmp_path):
    """Threads whose connections know nothing of one another, as those of two processes."""
    for attempt in range(4):
        path, start = tmp_path / f"{attempt}.db", threading.Barrier(6)

        def write(thread_index, path=path, start=start):
            start.wait(patient(30))
            store = Store(path)
            for seed in range(thread_index, thread_index + 4):
                store.put_cell(cell(seed))
                list(store.read_cells())

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(write, range(6)))
        loaded = {p.key: p for p in Store(path).read_cells()}
        assert len(loaded) == 9 and all(are_equal(loaded[c.key], c) for c in map(cell, range(9)))


@pytest.mark.deep
def test_two_sweeps_at_once_on_one_store_lose_no_cell(tmp_path, monkeypatch):
    path = tmp_path / "cells.db"
    halves = [range(0, 8), range(4, 12)]
    sweeps = [start_client(tmp_path / f"trail{i}", s, pace=0.02, store=str(path)) for i, s in enumerate(halves)]
    printed = [s.communicate(timeout=patient(120)) for s in sweeps]
    assert [s.returncode for s in sweeps] == [0, 0], printed
    put_patient(monkeypatch, tmp_path / "trail")
    alone = {p.key: p for p in engine.sweep(make_patients(range(12)), *toy(), KS, METRICS, split="toy")}
    stored = {p.key: p for p in Store(path).read_cells()}
    assert set(stored) == set(alone) and len(stored) == 12 * len(KS)
    assert digest_of_all(stored.values()) == digest_of_all(alone.values())
    for (out, _), starts in zip(printed, halves, strict=True):
        started_cells = [p for p in alone.values() if p.decoder["select"]["start"] in starts]
        assert out.strip() == digest_of_all(started_cells), "each saw all of its cells"


def make_database(path, *commands):
    """A database of another program, or one that lacks what a store has."""
    with editing(path) as db:
        for command in commands:
            db.execute(command)


HISTORY = "CREATE TABLE history (address TEXT)"


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda path: path.write_text("query,document,grade\n" * 500), "cannot be used as a store.*not a database"),
        (lambda path: make_database(path, HISTORY), "is a database, but not one of Frontier's; choose another file"),
        (lambda path: make_database(Store(path).path, "DROP TABLE seals"), "is a database, but not one of Frontier's"),
        (lambda path: path.mkdir(), "cannot be used as a store.*unable to open"),
    ],
)
def test_foreign_file_raises_error_and_is_unchanged(tmp_path, make, message):
    path = tmp_path / "cells.db"
    make(path)
    content_before = path.is_file() and path.read_bytes()
    with pytest.raises(engine.DataError, match=rf"(?s)cells\.db.*{message}"):
        Store(path)
    assert (path.is_file() and path.read_bytes()) == content_before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cells.db"]


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(engine.DataError, match=r"there is no '.*nowhere'"):
        Store(tmp_path / "nowhere" / "cells.db")


def test_an_empty_file_becomes_a_store(tmp_path):
    (tmp_path / "cells.db").touch()
    assert Store(tmp_path / "cells.db").put_cell(cell())


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE cells SET \"values\" = zeroblob(length(\"values\"))",
        "UPDATE cells SET \"values\" = substr(\"values\", 1, 13)",
        "UPDATE cells SET \"values\" = substr(\"values\", 1, 32)",
        "UPDATE cells SET metrics = '[\"ilad\", \"recall\", \"ndcg\"]'",
        "UPDATE cells SET metrics = '[\"recall\", \"ilad\"]'",
        "UPDATE cells SET provenance = 'half'",
        "UPDATE cells SET digest = 'another'",
        "UPDATE cells SET key = 'another'",
        "UPDATE queries SET ids = '[\"q1\"]'",
        "DELETE FROM queries",
    ],
)  # fmt: skip
def test_a_damaged_cell_is_named_not_used(tmp_path, harm):
    store = Store(tmp_path / "cells.db")
    store.put_cell(cell(3))
    assert len(list(store.read_cells())) == 1
    with editing(store.path) as db:
        db.execute(harm)
    with pytest.raises(engine.DataError, match=r"cells.db: the cell dense → mmr.* at k = 5 is damaged; delete the fi"):
        list(store.read_cells())


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("kept_share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("ending", ["cut", "noise"])
def test_a_damaged_file_is_refused_or_says_what_is_damaged(tmp_path, kept_share, ending):
    store = Store(tmp_path / "cells.db")
    cells = [cell(seed, queries=tuple(f"q{i}" for i in range(300))) for seed in range(20)]
    for c in cells:
        store.put_cell(c)
    content = store.path.read_bytes()
    size = int(kept_share * len(content))
    noise = np.random.default_rng(0).bytes(4096) if ending == "noise" else b""
    store.path.write_bytes(content[:size] + noise + (content[size + 4096 :] if noise else b""))
    with pytest.raises(engine.DataError, match=r"cells\.db.*(malformed|damaged|not a database)"):
        list(Store(store.path).read_cells())


def test_locked_store_raises_error_after_timeout(tmp_path, monkeypatch):
    store = Store(tmp_path / "cells.db")
    monkeypatch.setattr("engine.data.sqlite.BUSY_TIMEOUT_SECONDS", 0.1)
    with editing(store.path) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(engine.DataError, match=r"cells.db cannot be used as a store of sweeps: database is locked"):
            store.put_cell(cell())
        db.rollback()
    assert store.put_cell(cell())
    assert [p.k for p in store.read_cells()] == [5]


@pytest.mark.threat("a curve of a few kB in a stranger's store unpacks to gigabytes", "refused before it does")
def test_oversized_curve_is_rejected(tmp_path):
    store = Store(tmp_path / "sweep.db")
    with editing(store.path) as db:
        db.execute("INSERT INTO curves VALUES ('a', '{}', ?)", (zlib.compress(bytes(8 << 20)),))
    with pytest.raises(ValueError):
        storing._decompress_numbers(zlib.compress(bytes(8 << 20)))
    numbers = np.random.default_rng(0).random(1000).tobytes()
    assert storing._decompress_numbers(zlib.compress(numbers)) == numbers
    with pytest.raises(engine.DataError, match="a curve is damaged"):
        list(store.read_curves())


@pytest.mark.parametrize(
    "facts",
    [
        {"step_counts": [1 << 40, 2 - (1 << 40)]},
        {"step_counts": [1, 1, 0]},
        {"step_counts": [2, 1]},
        {"step_counts": [1.0, 1.0]},
        {"step_counts": None},
        {"metrics": ["ilad", "recall"]},
    ],
)
def test_curve_with_wrong_lengths_is_damaged(tmp_path, facts):
    store = Store(tmp_path / "sweep.db")
    values = {"ilad": np.array([0.25, 0.75])}
    steps = Steps(interval=(0.0, 1.0), query_index=np.arange(2), step_starts=np.zeros(2), values=values)
    curve = Curve(
        selector={"name": "mmr"}, label="mmr", method="mmr", parameter="relevance_weight", interval=(0.0, 1.0), k=2,
        split="dev", queries=("a", "b"), breakpoints=np.empty(0), means={"ilad": np.array([0.5])},
        band_positions=np.linspace(0, 1, N_BANDS), bands={"ilad": np.zeros((N_BANDS, 2))}, left_out=0, tolerance=1e-6,
        resamples=10, seed=0, provenance={}, key="c", steps=steps,
    )  # fmt: skip
    store.put_curve(curve)
    (stored,) = store.read_curves()
    assert stored.at(0.5) == {"ilad": 0.5} and len(stored) == 1 and stored.queries == ("a", "b")
    with editing(store.path) as db:
        key, stored_facts, arrays = db.execute("SELECT key, facts, arrays FROM curves").fetchone()
        row = key, json.dumps({**json.loads(stored_facts), **facts}), arrays
        db.execute("UPDATE curves SET facts = ?", (row[1],))
        # Whoever writes the row can write its seal too.
        storing._write_seal(db, key, row)
    with pytest.raises(engine.DataError, match="a curve is damaged; delete the file, sweep again"):
        list(store.read_curves())
