"""A store of sweeps keeps cells as they were, whoever writes, reads or dies meanwhile, and refuses what is none."""

import sqlite3
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest

import engine
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
    known = {
        "left_out": 1,
        "returned": 4.75,
        "milliseconds": 1e-3 / 3,
        "digests": {"corpus": "c0ffee"},
        "device": "cpu",
    }
    return replace(make_cell(decoder, k, "dév", queries, values, **known), **changes)


def equal(a, b):
    """Whether two points are the same in every field, their numbers to the last bit."""
    np.testing.assert_equal(vars(a), vars(b))
    return True


def rows(path, question, *values):
    with changing(path) as db:
        return db.execute(question, values).fetchall()


@contextmanager
def changing(path):
    """A connection that ends with its changes kept, and leaves no file beside."""
    with closing(sqlite3.connect(path)) as db, db:
        yield db


def test_cells_come_back_as_they_were_and_in_the_order_they_were_kept(tmp_path):
    store = Store(tmp_path / "cells.db")
    kept = [cell(seed) for seed in (3, 1, 2)] + [cell(1, k=2), cell(1, queries=("q1",))]
    kept[4] = replace(kept[4], key="other", digest=storing.compute_result_digest("other", kept[4].values))
    assert all(store.put_cell(c) for c in kept)
    found = list(Store(str(tmp_path / "cells.db")).read_cells())
    assert len(found) == 5 and all(equal(a, b) for a, b in zip(kept, found, strict=True))
    assert found[0].values["recall"][-1] == 5e-324 and np.isnan(found[0].values["ilad"][0])
    keys = [c.key for c in kept]
    assert store.find_stored_keys([keys[1], "nosuch"]) == {keys[1]} and store.find_stored_keys([]) == set()
    assert [p.key for p in store.read_cells([keys[2], keys[0], "nosuch"])] == [keys[0], keys[2]]
    assert rows(store.path, "SELECT count(*) FROM queries") == [(2,)], "a list of queries is kept once"


def test_a_time_without_its_mark_is_of_many_queries_together(tmp_path):
    store, known = (
        Store(tmp_path / "cells.db"),
        dict(left_out=0, returned=5.0, milliseconds=2.5, digests={}, device="cpu"),
    )
    old = cell(1)
    new = make_cell(engine.Decoder(engine.make("ssd")), 5, "dév", QUERIES, old.values, **known, n_calls=3)
    assert store.put_cell(old) and store.put_cell(new)
    assert [(p.milliseconds, p.latency) for p in store.read_cells()] == [(old.milliseconds, None), (2.5, 2.5)]
    assert new.provenance["timed"] == "median of 3 single calls" and "timed" not in old.provenance
    plain = make_cell(engine.Decoder(engine.make("ssd")), 5, "dév", QUERIES, old.values, **known)
    assert (plain.key, plain.digest) == (new.key, new.digest), "neither key nor digest knows of times"


def test_to_put_twice_changes_nothing(tmp_path):
    store = Store(tmp_path / "cells.db")
    first = cell()
    assert store.put_cell(first)
    before = rows(store.path, "SELECT * FROM cells")
    assert not store.put_cell(first) and not store.put_cell(replace(first, milliseconds=9.0))
    assert rows(store.path, "SELECT * FROM cells") == before
    assert equal(next(store.read_cells()), first)


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


def test_a_writer_that_dies_leaves_whole_cells_only(tmp_path):
    """Whatever part of the log has reached the disk."""
    store, after = Store(tmp_path / "cells.db"), tmp_path / "after.db"
    kept = [cell(seed) for seed in range(3)]
    with changing(store.path) as other:
        # While somebody reads, the log is not folded into the file.
        other.execute("BEGIN")
        other.execute("SELECT * FROM cells").fetchall()
        for c in kept:
            store.put_cell(c)
        log = (tmp_path / "cells.db-wal").read_bytes()
        whole = store.path.read_bytes()
    found = []
    for length in np.linspace(0, len(log), 40).astype(int):
        after.write_bytes(whole)
        (tmp_path / "after.db-wal").write_bytes(log[:length])
        cells = list(Store(after).read_cells())
        assert all(equal(a, b) for a, b in zip(kept, cells, strict=False))
        assert Store(after).put_cell(cell(9))
        found.append(len(cells))
    assert found == sorted(found) and set(found) == {0, 1, 2, 3}


def test_who_reads_sees_whole_cells_while_others_write(tmp_path):
    """A reader in the middle of the file neither waits for a writer, nor holds it up, nor sees half of what it adds."""
    store = Store(tmp_path / "cells.db")
    store.put_cell(cell(1, queries=("a",)))
    store.put_cell(cell(2, queries=("b",)))
    reader = store.read_cells()
    assert next(reader).queries == ("a",)
    assert store.put_cell(cell(3, queries=("c",)))
    assert [p.queries for p in reader] == [("b",)]
    assert [p.queries for p in store.read_cells()] == [("a",), ("b",), ("c",)]


def test_what_is_read_is_of_one_moment(tmp_path, monkeypatch):
    """A cell that is kept between the two looks of a reader is in neither."""
    store, late = Store(tmp_path / "cells.db"), [cell(2, queries=("b",))]
    store.put_cell(cell(1, queries=("a",)))

    class Slow(sqlite3.Connection):
        def execute(self, question, *values):
            found = super().execute(question, *values)
            if question.endswith("FROM queries"):
                found = found.fetchall()
                store.put_cell(late.pop())
            return found

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Slow if late else sqlite3.Connection)
    )
    assert [p.queries for p in store.read_cells()] == [("a",)]
    assert not late and [p.queries for p in store.read_cells()] == [("a",), ("b",)]


def test_many_at_once_make_one_store_and_lose_no_cell(tmp_path):
    """Threads whose connections know nothing of one another, as those of two processes."""
    for attempt in range(8):
        path, start = tmp_path / f"{attempt}.db", threading.Barrier(6)

        def write(at, path=path, start=start):
            start.wait(patient(30))
            store = Store(path)
            for seed in range(at, at + 4):
                store.put_cell(cell(seed))
                list(store.read_cells())

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(write, range(6)))
        found = {p.key: p for p in Store(path).read_cells()}
        assert len(found) == 9 and all(equal(found[c.key], c) for c in map(cell, range(9)))


def test_two_sweeps_at_once_on_one_store_lose_no_cell(tmp_path, monkeypatch):
    path = tmp_path / "cells.db"
    halves = [range(0, 8), range(4, 12)]
    sweeps = [start_client(tmp_path / f"trail{i}", s, pace=0.02, store=str(path)) for i, s in enumerate(halves)]
    printed = [s.communicate(timeout=patient(120)) for s in sweeps]
    assert [s.returncode for s in sweeps] == [0, 0], printed
    put_patient(monkeypatch, tmp_path / "trail")
    alone = {p.key: p for p in engine.sweep(make_patients(range(12)), *toy(), KS, METRICS, split="toy")}
    kept = {p.key: p for p in Store(path).read_cells()}
    assert set(kept) == set(alone) and len(kept) == 12 * len(KS)
    assert digest_of_all(kept.values()) == digest_of_all(alone.values())
    for (out, _), starts in zip(printed, halves, strict=True):
        own = [p for p in alone.values() if p.decoder["select"]["start"] in starts]
        assert out.strip() == digest_of_all(own), "each saw all of its cells"


def marked(path, *commands):
    """A database of another program, or one that lacks what a store has."""
    with changing(path) as db:
        for command in commands:
            db.execute(command)


HISTORY = "CREATE TABLE history (address TEXT)"


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda path: path.write_text("query,document,grade\n" * 500), "cannot be used as a store.*not a database"),
        (lambda path: marked(path, HISTORY), "is a database, but not one of Frontier's; choose another file"),
        (lambda path: marked(Store(path).path, "DROP TABLE seals"), "is a database, but not one of Frontier's"),
        (lambda path: path.mkdir(), "cannot be used as a store.*unable to open"),
    ],
)
def test_what_is_no_store_is_refused_and_left_alone(tmp_path, make, message):
    path = tmp_path / "cells.db"
    make(path)
    before = path.is_file() and path.read_bytes()
    with pytest.raises(engine.DataError, match=rf"(?s)cells\.db.*{message}"):
        Store(path)
    assert (path.is_file() and path.read_bytes()) == before
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
    with changing(store.path) as db:
        db.execute(harm)
    with pytest.raises(engine.DataError, match=r"cells.db: the cell dense → mmr.* at k = 5 is damaged; delete the fi"):
        list(store.read_cells())


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("rest", ["cut", "noise"])
def test_a_damaged_file_is_refused_or_says_what_is_damaged(tmp_path, kept, rest):
    store = Store(tmp_path / "cells.db")
    cells = [cell(seed, queries=tuple(f"q{i}" for i in range(300))) for seed in range(20)]
    for c in cells:
        store.put_cell(c)
    whole = store.path.read_bytes()
    size = int(kept * len(whole))
    noise = np.random.default_rng(0).bytes(4096) if rest == "noise" else b""
    store.path.write_bytes(whole[:size] + noise + (whole[size + 4096 :] if noise else b""))
    with pytest.raises(engine.DataError, match=r"cells\.db.*(malformed|damaged|not a database)"):
        list(Store(store.path).read_cells())


def test_who_waits_too_long_says_so(tmp_path, monkeypatch):
    store = Store(tmp_path / "cells.db")
    monkeypatch.setattr("engine.data.sqlite.BUSY_TIMEOUT_SECONDS", 0.1)
    with changing(store.path) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(engine.DataError, match=r"cells.db cannot be used as a store of sweeps: database is locked"):
            store.put_cell(cell())
        db.rollback()
    assert store.put_cell(cell())
    assert [p.k for p in store.read_cells()] == [5]


@pytest.mark.threat("a curve of a few kB in a stranger's store unpacks to gigabytes", "refused before it does")
def test_curves_unpack_to_so_much_only(tmp_path):
    store = Store(tmp_path / "sweep.db")
    with changing(store.path) as db:
        db.execute("INSERT INTO curves VALUES ('a', '{}', ?)", (zlib.compress(bytes(8 << 20)),))
    with pytest.raises(ValueError):
        storing._decompress_numbers(zlib.compress(bytes(8 << 20)))
    numbers = np.random.default_rng(0).random(1000).tobytes()
    assert storing._decompress_numbers(zlib.compress(numbers)) == numbers
    with pytest.raises(engine.DataError, match="a curve is damaged"):
        list(store.read_curves())
