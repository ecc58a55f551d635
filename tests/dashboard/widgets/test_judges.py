"""Whose judgements count on Trade-off and Tune: people's, or a model's too, which people's correct."""

import re

import pytest

from dashboard.services import query_vectors, sweeps
from engine.judging.log import JudgingLog, locate_log
from support import pages
from support.judged_log import JUDGE, judge_table

DECODERS = {"decoders": ["top_k", "mmr"], "k": 5}


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A judged table in a home and a memory of this test's own."""
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    pages.fresh_corpora(monkeypatch)
    for memory in (sweeps._CELLS, sweeps._CURVES, query_vectors._QUERY_VECTORS):
        memory.clear()
    return judge_table(tmp_path)


def tradeoff(table, judge=JUDGE):
    """The page once a click has measured what is missing."""
    app = pages.finish_jobs(pages.screen("tradeoff", table, **DECODERS, **{"tradeoff.judges": judge}))
    starts = [button.key for button in app.button if button.key == f"{sweeps.SWEEP_PURPOSE}.start"]
    return pages.press_and_finish(app, starts[0], sweeps.SWEEP_PURPOSE) if starts else app


@pytest.mark.deep
def test_trade_off_is_decided_by_both_judges_and_tune_agrees_on_the_queries(table):
    alone = pages.texts(tradeoff(table, judge=""))
    assert "judged by" not in alone
    shown = pages.texts(tradeoff(table))
    n_model, n_people = map(int, re.search(rf"judged by {JUDGE} on (\d+) queries, corrected by (\d+)", shown).groups())
    # Half of the searches belong to dev; one that a person graded in part is the model's alone.
    assert n_people < n_model < 32 and f"the {n_people} of them that people graded wholly after it correct it" in shown
    assert "gives your grade to" in shown
    asked = {"tune.method": "mmr", "tune.judges": JUDGE, "tune.points": 3}
    app = pages.press_and_finish(pages.screen("tune", table, **DECODERS, **asked), "tune.start", "tune")
    (outcome,) = app.session_state["tune.outcomes"].values()
    judge = outcome.tuned.decision.judge
    assert (judge.model_queries, judge.person_queries) == (n_model, n_people)
    assert f"corrected by {n_people} of yours" in pages.texts(app)


def test_until_the_models_part_is_measured_the_page_says_that_people_alone_count(table, monkeypatch):
    measure = sweeps._measure_part
    monkeypatch.setattr(sweeps, "_measure_part", lambda part, job: None if part.judge else measure(part, job))
    shown = pages.texts(tradeoff(table))
    assert f"Nothing is measured by {JUDGE} yet: people's judgements alone count below." in shown
    assert "judged by" not in shown


def test_a_model_without_enough_grades_of_people_is_not_counted(table):
    log = JudgingLog(locate_log(pages.load(table).space.corpus))
    # The person takes all grades back but those of four searches.
    for _ in range(5 * 20 + 1):
        log.undo("ann")
    app = pages.screen("tradeoff", table, **DECODERS, **{"tradeoff.judges": JUDGE})
    assert re.search(
        rf"{JUDGE} counts once people have graded 5 queries of dev wholly, begun after its last answer",
        pages.texts(app),
    )
    assert "People's judgements alone count." in [error.value for error in app.error]


def test_without_a_model_there_is_no_choice(tmp_path, monkeypatch):
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    app = pages.screen("tradeoff", **{"tradeoff.judges": JUDGE})
    assert "tradeoff.judges" not in [box.key for box in app.selectbox]
