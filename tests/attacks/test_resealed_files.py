"""Strangers' files whose checksums fit: read, or refused by name, within bounded memory."""

import json
import sqlite3
from contextlib import closing

import pytest

import engine
from engine.evaluation.sweep import store as sweep_store
from support import resealed
from support.draws import seeds_of


@pytest.mark.threat(
    "votes, judgements, answers, a store of sweeps, a saved view, a checkpoint, evidence or an exported setting that a "
    "stranger changed at any place, and sealed again",
    "read and used, or refused by an error with its name; never another error, nor more than a GB of memory",
)
@seeds_of(range(12), range(300))
@pytest.mark.parametrize("name", resealed.KINDS)
def test_a_file_that_was_changed_and_sealed_again_is_used_or_refused(name, seeds, tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path))
    path = resealed.KINDS[name].make(tmp_path)
    resealed.KINDS[name].use(path)
    raw = path.read_bytes()
    outcomes = {resealed.read_changed(name, path, raw, seed) for seed in seeds}
    assert len(outcomes) > 1 or name == "saved view"  # unreadable views are listed beside the others


@pytest.mark.threat(
    "a store of sweeps whose decoders lack a depth, sealed again", "a decision on it is refused by name"
)
def test_a_decision_on_cells_without_a_depth_is_refused(tmp_path):
    path = resealed.KINDS["sweep"].make(tmp_path)
    with closing(sqlite3.connect(path)) as db, db:
        queries = dict(db.execute("SELECT digest, ids FROM queries"))
        for row in db.execute(f"SELECT {sweep_store.CELL_FIELDS} FROM cells").fetchall():
            cell = dict(zip(sweep_store.CELL_COLUMNS, row, strict=True))
            decoder = json.loads(cell["decoder"])
            del decoder["depth"]
            cell["decoder"] = json.dumps(decoder)
            db.execute("UPDATE cells SET decoder = ? WHERE key = ?", (cell["decoder"], cell["key"]))
            sweep_store._write_seal(db, cell["key"], (*cell.values(), queries.get(cell["queries"])))
    with pytest.raises(engine.ParamError, match="depth must be given"):
        resealed.KINDS["sweep"].use(path)
