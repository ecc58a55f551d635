"""Choosing among decoders: dev alone chooses, test tests all that were chosen from, and a refusal says what to do."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_1samp

import engine
from engine.evaluation.tuning.tune import choose
from engine.evaluation.tuning.tuned import suggest_next_step
from support.sweeps import toy

FEW = ("mmr", "vrsd", "frank_wolfe")


@pytest.fixture(scope="module")
def problem():
    """(space, queries, judgements by split): the halves of a toy problem's queries."""
    space, queries, qrels = toy(batch=40)
    return space, queries, engine.evaluation.splits.split_in_half(qrels, 0)


def means(cell, base, metrics):
    both = np.all([np.isfinite(c.values[m]) for c in (cell, base) for m in metrics], axis=0)
    return {m: cell.values[m][both].mean() for m in metrics}


@pytest.mark.parametrize("objective", ["diverse", engine.Objective("maximise", metric="ilad"), "knee"])
def test_dev_chooses_whatever_test_says(problem, objective):
    space, queries, qrels = problem
    found = choose(space, queries, qrels, objective=objective, k=5, selectors=FEW, points=4)
    turned = engine.Qrels({query: {space.corpus.ids[0]: 1} for query in qrels["test"].grades})
    other = choose(space, queries, qrels | {"test": turned}, objective=objective, k=5, selectors=FEW, points=4)
    assert found.decoder == other.decoder and [c.decoder for c in found.candidates] == [
        c.decoder for c in other.candidates
    ]
    assert {c.decoder.select.spec.name for c in found.candidates} == set(FEW) and found.reference.name == "Top-k"
    assert found.winner.name in found.sentences[0] and len(found.table) == 5


def test_each_is_at_its_best_and_the_best_of_these_is_taken(problem):
    """Against every setting measured one by one; MMR, with a path, may be better than its grid."""
    space, queries, qrels = problem
    wanted = engine.Objective("diverse", share=0.9)
    found = choose(space, queries, qrels, objective=wanted, k=5, selectors=FEW, points=4, test=None)
    base, own = found.base, {c.decoder.select.spec.name: c for c in found.candidates}
    assert found.test is None and found.is_confirmed is None and found.status == "measured on dev only"

    def value(cell):
        both = np.all([np.isfinite(c.values[m]) for c in (cell, base) for m in ("recall", "ilad")], axis=0)
        slack = (cell.values["recall"] - 0.9 * base.values["recall"])[both]
        low = ttest_1samp(slack, 0, alternative="greater").confidence_interval(0.95).low
        return cell.values["ilad"][both].mean() if low >= -1e-12 else low - 9

    judged = queries.take([i for i, q in enumerate(queries.ids) if q in qrels["dev"].grades])
    for name in FEW:
        cells = list(engine.sweep(engine.grid(name, 4), space, judged, qrels["dev"], 5, ("recall", "ilad")))
        best = max(map(value, cells))
        assert value(own[name].dev) >= best - 1e-9
        assert name == "mmr" or value(own[name].dev) == pytest.approx(best)
        assert own[name].settings == len(cells)
    assert value(found.winner.dev) == pytest.approx(max(value(c.dev) for c in found.candidates))


def test_the_test_is_corrected_over_all_that_were_compared(problem):
    space, queries, qrels = problem
    found = choose(space, queries, qrels, k=5, selectors=FEW, points=3)
    for metric in found.objective.metrics:
        rows = [row for row in found.comparisons if row.metric == metric]
        tests = [found.base_test, *(c.test for c in found.candidates)]
        expected = engine.compare(tests, metric, found.base_test, 5)
        assert [(r.label, r.p_holm, r.comparisons) for r in rows] == [(r.label, r.p_holm, len(FEW)) for r in expected]


def test_what_is_not_confirmed_names_the_next_step(problem):
    space, queries, qrels = problem
    found = choose(space, queries, qrels, k=5, selectors=FEW, points=3)
    low = replace(
        found.winner.test, values=found.winner.test.values | {"recall": found.base_test.values["recall"] * 0.8}
    )
    missed = replace(found, candidates=(replace(found.winner, test=low), *found.candidates[1:]))
    assert missed.is_confirmed is False and missed.status == "not confirmed on test"
    assert "Next: ask for a share of 80%, which it kept on test" in suggest_next_step(missed)
    assert missed.sentences[-1] == suggest_next_step(missed) and missed.as_json()["confirmed"] is False
    best = replace(low, values={m: found.base_test.values[m] for m in low.values})
    same = replace(missed, candidates=(replace(found.winner, test=best),))
    assert same.is_confirmed in (True, False) and "ask for" not in suggest_next_step(same)


def test_another_scorer_is_tried_behind_one_baseline(problem):
    space, queries, qrels = problem
    found = choose(space, queries, qrels, k=5, selectors=["top_k", "vrsd"], scorers=["dense", "truncated"], test=None)
    tried = {(c.decoder.retrieve.spec.name, c.decoder.select.spec.name) for c in found.candidates}
    assert tried == {("dense", "vrsd"), ("truncated", "top_k"), ("truncated", "vrsd")}


def test_what_is_measured_is_kept(problem, tmp_path):
    space, queries, qrels = problem
    file = tmp_path / "cells.db"
    asked = {"k": 5, "selectors": FEW, "points": 3, "store": file}
    first, written = choose(space, queries, qrels, **asked), rows(file)
    again = choose(space, queries, qrels, **asked)
    assert again.as_json() == first.as_json() and rows(file) == written > 10, "nothing was measured again"


def rows(file):
    """The number of rows of all tables."""
    with closing(sqlite3.connect(file)) as store:
        tables = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
        return sum(store.execute(f"select count(*) from {name}").fetchone()[0] for name in tables)


def test_what_cannot_be_chosen_from_is_refused(problem):
    space, queries, qrels = problem
    with pytest.raises(engine.ParamError, match="selectors must be among top_k, mmr"):
        choose(space, queries, qrels, selectors=["bm25"])
    with pytest.raises(engine.ParamError, match="selectors must name another one than top_k"):
        choose(space, queries, qrels, selectors=["top_k"])


def test_where_nothing_is_sure_the_baseline_stays(problem):
    """Settings that lose what must be kept on half of the queries: kept in the mean, perhaps, but not for certain."""
    space, queries, qrels = problem
    found = choose(space, queries, qrels, k=5, selectors=["frank_wolfe"], points=2)
    nearest, base = found.candidates[0], found.base
    losing = base.values["recall"] * np.where(np.arange(len(base.queries)) % 2, 0.9, 1.02)
    few = replace(nearest, dev=replace(nearest.dev, values=nearest.dev.values | {"recall": losing}))
    choosing = replace(found.choosing, satisfied=False, surest=0.937)
    stays = replace(found, candidates=(few,), choosing=choosing)
    assert stays.decoder == found.baseline and stays.winner is found.reference and stays.is_confirmed is None
    assert stays.status == "stays: no other is sure to keep 95% on dev" and stays.winner_gain is None
    assert f"ask for a share of 93%, which {few.name} is sure to keep" in suggest_next_step(stays)
    assert re.search(r"or judge \d+ more queries for dev\.$", suggest_next_step(stays))
    assert stays.sentences[0].startswith("Top-k: stays, of 1 decoder") and "100.0% of Top-k's" in stays.outcome
    sure = choose(space, queries, qrels, objective=engine.Objective("diverse", share=0.5), k=5, selectors=["vrsd"])
    assert not sure.stays and sure.decoder == sure.candidates[0].decoder
