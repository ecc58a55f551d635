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

NAMES = ("mmr", "vrsd", "frank_wolfe")


@pytest.fixture(scope="module")
def problem():
    """(space, queries, judgements by split): the halves of a toy problem's queries."""
    space, queries, qrels = toy(batch=40)
    return space, queries, engine.evaluation.splits.split_in_half(qrels, 0)


def means(cell, base, metrics):
    is_measured = np.all([np.isfinite(c.values[m]) for c in (cell, base) for m in metrics], axis=0)
    return {m: cell.values[m][is_measured].mean() for m in metrics}


@pytest.mark.parametrize("objective", ["diverse", engine.Objective("maximise", metric="ilad"), "knee"])
def test_choice_ignores_test_judgements(problem, objective):
    space, queries, qrels = problem
    choice = choose(space, queries, qrels, objective=objective, k=5, selectors=NAMES, points=4)
    turned = engine.Qrels({query: {space.corpus.ids[0]: 1} for query in qrels["test"].grades})
    again = choose(space, queries, qrels | {"test": turned}, objective=objective, k=5, selectors=NAMES, points=4)
    assert choice.decoder == again.decoder and [c.decoder for c in choice.candidates] == [
        c.decoder for c in again.candidates
    ]
    assert {c.decoder.select.spec.name for c in choice.candidates} == set(NAMES) and choice.reference.name == "Top-k"
    assert choice.winner.name in choice.sentences[0] and len(choice.table) == 5


def test_each_is_at_its_best_and_the_best_of_these_is_taken(problem):
    """Against every setting measured one by one; MMR, with a path, may be better than its grid."""
    space, queries, qrels = problem
    wanted = engine.Objective("diverse", share=0.9)
    choice = choose(space, queries, qrels, objective=wanted, k=5, selectors=NAMES, points=4, test=None)
    base, candidates = choice.base, {c.decoder.select.spec.name: c for c in choice.candidates}
    assert choice.test is None and choice.is_confirmed is None and choice.status == "measured on dev only"

    def value(cell):
        is_measured = np.all([np.isfinite(c.values[m]) for c in (cell, base) for m in ("recall", "ilad")], axis=0)
        slack = (cell.values["recall"] - 0.9 * base.values["recall"])[is_measured]
        low = ttest_1samp(slack, 0, alternative="greater").confidence_interval(0.95).low
        return cell.values["ilad"][is_measured].mean() if low >= -1e-12 else low - 9

    judged = queries.take([i for i, q in enumerate(queries.ids) if q in qrels["dev"].grades])
    for name in NAMES:
        cells = list(engine.sweep(engine.grid(name, 4), space, judged, qrels["dev"], 5, ("recall", "ilad")))
        best = max(map(value, cells))
        assert value(candidates[name].dev) >= best - 1e-9
        assert name == "mmr" or value(candidates[name].dev) == pytest.approx(best)
        assert candidates[name].settings == len(cells)
    assert value(choice.winner.dev) == pytest.approx(max(value(c.dev) for c in choice.candidates))


def test_p_values_are_corrected_over_all_candidates(problem):
    space, queries, qrels = problem
    choice = choose(space, queries, qrels, k=5, selectors=NAMES, points=3)
    for metric in choice.objective.metrics:
        rows = [row for row in choice.comparisons if row.metric == metric]
        tests = [choice.base_test, *(c.test for c in choice.candidates)]
        expected = engine.compare(tests, metric, choice.base_test, 5)
        assert [(r.label, r.p_holm, r.comparisons) for r in rows] == [(r.label, r.p_holm, len(NAMES)) for r in expected]


def test_unconfirmed_choice_names_next_step(problem):
    space, queries, qrels = problem
    choice = choose(space, queries, qrels, k=5, selectors=NAMES, points=3)
    low = replace(
        choice.winner.test, values=choice.winner.test.values | {"recall": choice.base_test.values["recall"] * 0.8}
    )
    missed = replace(choice, candidates=(replace(choice.winner, test=low), *choice.candidates[1:]))
    assert missed.is_confirmed is False and missed.status == "not confirmed on test"
    assert "Next: ask for a share of 80%, which it kept on test" in suggest_next_step(missed)
    assert missed.sentences[-1] == suggest_next_step(missed) and missed.as_json()["confirmed"] is False
    best = replace(low, values={m: choice.base_test.values[m] for m in low.values})
    same = replace(missed, candidates=(replace(choice.winner, test=best),))
    assert same.is_confirmed in (True, False) and "ask for" not in suggest_next_step(same)


def test_another_scorer_is_tried_behind_one_baseline(problem):
    space, queries, qrels = problem
    choice = choose(space, queries, qrels, k=5, selectors=["top_k", "vrsd"], scorers=["dense", "truncated"], test=None)
    tried = {(c.decoder.retrieve.spec.name, c.decoder.select.spec.name) for c in choice.candidates}
    assert tried == {("dense", "vrsd"), ("truncated", "top_k"), ("truncated", "vrsd")}


def test_choose_stores_its_measurements(problem, tmp_path):
    space, queries, qrels = problem
    file = tmp_path / "cells.db"
    options = {"k": 5, "selectors": NAMES, "points": 3, "store": file}
    first, written = choose(space, queries, qrels, **options), count_rows(file)
    again = choose(space, queries, qrels, **options)
    assert again.as_json() == first.as_json() and count_rows(file) == written > 10, "nothing was measured again"


def count_rows(file):
    """The number of rows of all tables."""
    with closing(sqlite3.connect(file)) as store:
        tables = [name for (name,) in store.execute("select name from sqlite_master where type = 'table'")]
        return sum(store.execute(f"select count(*) from {name}").fetchone()[0] for name in tables)


def test_choose_without_valid_candidates_raises_param_error(problem):
    space, queries, qrels = problem
    with pytest.raises(engine.ParamError, match="selectors must be among top_k, mmr"):
        choose(space, queries, qrels, selectors=["bm25"])
    with pytest.raises(engine.ParamError, match="selectors must name another one than top_k"):
        choose(space, queries, qrels, selectors=["top_k"])


def test_uncertain_candidates_leave_the_baseline(problem):
    """Settings that lose what must be kept on half of the queries: kept in the mean, perhaps, but not for certain."""
    space, queries, qrels = problem
    choice = choose(space, queries, qrels, k=5, selectors=["frank_wolfe"], points=2)
    nearest, base = choice.candidates[0], choice.base
    losing = base.values["recall"] * np.where(np.arange(len(base.queries)) % 2, 0.9, 1.02)
    unsure = replace(nearest, dev=replace(nearest.dev, values=nearest.dev.values | {"recall": losing}))
    choosing = replace(choice.choosing, satisfied=False, surest=0.937)
    stays = replace(choice, candidates=(unsure,), choosing=choosing)
    assert stays.decoder == choice.baseline and stays.winner is choice.reference and stays.is_confirmed is None
    assert stays.status == "stays: no other is sure to keep 95% on dev" and stays.winner_gain is None
    assert f"ask for a share of 93%, which {unsure.name} is sure to keep" in suggest_next_step(stays)
    assert re.search(r"or judge \d+ more queries for dev\.$", suggest_next_step(stays))
    assert stays.sentences[0].startswith("Top-k: stays, of 1 decoder") and "100.0% of Top-k's" in stays.outcome
    sure = choose(space, queries, qrels, objective=engine.Objective("diverse", share=0.5), k=5, selectors=["vrsd"])
    assert not sure.stays and sure.decoder == sure.candidates[0].decoder
