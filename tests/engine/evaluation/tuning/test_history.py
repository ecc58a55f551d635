"""Studies of a store: newest first, a question once, and the words of what came out."""

import sqlite3
from contextlib import closing

import pytest

import engine
from engine.evaluation.splits import split_in_half
from engine.evaluation.sweep.store import Store
from engine.evaluation.tuning.history import read_history, record_study
from engine.evaluation.tuning.tune import choose, tune
from engine.evaluation.tuning.tuned import average_outcome
from support.sweeps import toy


def test_history_lists_studies_newest_first_without_repeats(tmp_path):
    space, queries, qrels = toy(batch=40)
    options = (space, queries, split_in_half(qrels, 0))
    store = Store(tmp_path / "cells.db")
    assert read_history(store) == []
    study = tune("mmr", *options, objective=engine.Objective("maximise", metric="ilad"), k=5, points=3, values="grid")
    every = choose(*options, k=5, selectors=["mmr", "vrsd"], points=3)
    first = record_study(store, study, "MMR", {"select": "mmr"})
    second = record_study(store, every, "every decoder", {"select": "all", "fixed": [["l1", 0.1]]})
    assert read_history(store) == [second, first]
    again = record_study(store, study, "MMR", {"select": "mmr"})
    assert read_history(store) == [again, second] and again.chosen == "MMR · λ 0"
    chosen_mean, base_mean = study.chosen_test.mean["ilad"], study.base_test.mean["ilad"]
    assert (
        again.kept == ""
        and again.won == f"ILAD +{100 * (chosen_mean / base_mean - 1):.0f}%"
        and again.status == study.status
    )
    assert (second.dev, second.test, second.k, second.share, again.share) == ("dev", "test", 5, 0.95, None)
    assert tuple(second.sentences) == every.chosen_because and tuple(again.sentences) == study.chosen_because
    recall = average_outcome(every)
    assert second.kept == f"{recall[0]['recall'] / recall[1]['recall']:.1%}"
    assert second.row[1:4] == (
        "every decoder",
        "most diversity (ILAD), sure to keep 95% of Top-k's Recall, k = 5",
        every.winner.name,
    )
    with closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE studies SET facts = 'sand'")
    with pytest.raises(engine.DataError, match="a study is damaged"):
        read_history(store)
