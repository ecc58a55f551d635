"""Views of a tuning with a budget: what is known before it, its leader while it runs, and dev beside test after it."""

import json

import pytest

import engine
from dashboard.charts.frontier import UNKNOWN_WIDTH
from dashboard.session.query import corpus_key
from dashboard.tuning import budget_views, form
from engine.evaluation.splits import subsample
from engine.evaluation.sweep.store import Store
from support import pages

QUICK = {"tune.method": "mmr", "tune.most": 80}


def list_charts(app):
    """Return the plotly figures on the page as plain JSON values."""
    return [json.loads(element.proto.spec) for element in app.get("plotly_chart")]


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An empty store of measurements, in place of that of this machine."""
    store = Store(tmp_path / "cells.db")
    monkeypatch.setattr(budget_views, "open_store", lambda: store)
    return store


def measure(store, split="dev", k=10):
    """Store Top-k and two settings of MMR on the queries that a quick look at the demo has."""
    loaded = pages.load()
    qrels = subsample(loaded.dataset.qrels[split], 80)
    queries = loaded.dataset.queries.only(set(qrels.grades))
    decoders = [engine.Decoder(engine.make("top_k"))]
    decoders += [engine.Decoder(engine.make("mmr", relevance_weight=weight)) for weight in (0.5, 0.9)]
    return list(engine.sweep(decoders, loaded.space, queries, qrels, k=k, split=split, store=store))


def test_known_before_a_run_without_measurements_is_a_sentence_and_the_sealed_split(store):
    app = pages.screen("tune", **QUICK)
    assert "Nothing is measured yet on dev." in pages.texts(app) and list_charts(app) == []
    (badge,) = [each.value for each in app.markdown if "sealed" in each.value]
    assert "80 queries · sealed" in badge, "beside the name of the split that it is of"


def test_a_split_of_which_trade_off_has_measured_queries_is_not_sealed(store):
    """Trade-off on all queries of a split, then Tune on its halves: the second half was seen a moment ago."""
    measure(store, split="test", k=5)
    app = pages.screen("tune", **QUICK)
    badges = [each.value for each in app.markdown if "80 queries ·" in each.value]
    assert len(badges) == 1 and "seen on Trade-off" in badges[0] and "sealed" not in badges[0]
    # The second half of test is no split of the corpus, yet some of its queries were among them.
    key = corpus_key(pages.load())
    halves = pages.screen("tune", **QUICK, **{f"tune.choose.{key}": "test", f"tune.report.{key}.test": form.HALVES})
    (badge,) = [each.value for each in halves.markdown if "-badge[" in each.value]
    assert "seen on Trade-off" in badge


def test_the_queries_that_a_tuning_has_reported_on_are_opened_though_they_are_half_a_split(store):
    key = corpus_key(pages.load())
    state = {f"tune.choose.{key}": "test", f"tune.report.{key}.test": form.HALVES}
    app = pages.screen("tune", **QUICK, **state)
    assert "sealed" in " ".join(each.value for each in app.markdown)
    app = pages.press_and_finish(app, "tune.start", "tune")
    badges = [each.value for each in app.markdown if "seen on Tune" in each.value]
    assert len(badges) == 1 and "sealed" not in badges[0]


def test_known_before_a_run_is_drawn_from_measurements_of_the_same_queries(store):
    cells = measure(store)
    measure(store, k=5)
    measure(store, split="test")
    app = pages.screen("tune", **QUICK)
    assert "**Measured before on dev: 2 settings**" in [each.value for each in app.markdown]
    (figure,) = list_charts(app)
    points = [x for trace in figure["data"] if trace.get("mode") == "markers" for x in trace["x"]]
    assert sorted(points) == pytest.approx(sorted(cell.mean["ilad"] for cell in cells))


def test_known_before_a_run_has_the_curve_of_every_weight_and_the_budget_in_view(store):
    """Straight lines between grid points, under a staircase, were another picture than Trade-off's of the same data."""
    cells = measure(store)
    loaded = pages.load()
    qrels = subsample(loaded.dataset.qrels["dev"], 80)
    queries = loaded.dataset.queries.only(set(qrels.grades))
    metrics = ("recall", "ilad")
    curve = engine.exact_frontier("mmr", loaded.space, queries, qrels, 10, metrics, split="dev", store=store)
    (figure,) = list_charts(pages.screen("tune", **QUICK))
    lines = [trace for trace in figure["data"] if trace.get("mode") == "lines"]
    assert sum(len(trace["x"]) for trace in lines) > len(cells) and len(curve) > len(cells)
    assert {trace["line"]["width"] for trace in lines} == {UNKNOWN_WIDTH}, "no chance is known, so none is drawn"
    assert "best of all" not in [trace.get("name") for trace in figure["data"]]
    assert all("0, 114, 178" in trace["line"]["color"] for trace in lines), "in its decoder's colour"
    low, high = figure["layout"]["yaxis"]["range"]
    assert low < 95 < high
    names = [each["text"] for each in figure["layout"]["annotations"]]
    assert "keep ≥ 95% of Top-k's Recall" in names, "the budget's line has a name"


def test_goal_without_a_budget_has_no_frontier_before_a_run(store):
    measure(store)
    app = pages.screen("tune", **{**QUICK, "tune.aim": "knee"})
    assert "Measured before" not in " ".join(each.value for each in app.markdown) and list_charts(app) == []


def test_running_tuning_names_its_leader_which_is_not_confirmed(monkeypatch):
    monkeypatch.setattr("dashboard.tuning.request.tune", pages.hold_after(engine.tune, 6))
    app = pages.screen("tune", **QUICK)
    job = pages.start_job(app, "tune.start", "tune", 6)
    base, *cells = job.partial
    decision = engine.decide([base, *cells], baseline=base)
    leader = decision.sure or decision.bet
    expected = f"{leader.name} leads, not confirmed" if leader else "No leader so far"
    assert f"**{expected}**" in [element.value for element in app.markdown]
    texts = pages.texts(app)
    # One count of settings, without the baseline, and the name that the form has for it.
    assert " of 11" in texts and " of 12" not in texts and "95% of Top-k's Recall" in texts
    assert "the baseline's" not in texts
    assert "So far: 5 of" in texts and len(list_charts(app)) == 1
    pages.cancel_job(app, "tune")


def test_result_draws_the_frontier_of_dev_and_what_is_kept_on_both_splits():
    app = pages.press_and_finish(pages.screen("tune", **QUICK), "tune.start", "tune")
    (outcome,) = app.session_state["tune.outcomes"].values()
    tuned = outcome.tuned
    assert "**Measured on dev, where the setting was chosen**" in [element.value for element in app.markdown]
    is_denied = tuned.decision.sure is not None and tuned.decision.sure.is_denied
    choice = "looked sure" if is_denied else "sure"
    frontier = next(figure for figure in list_charts(app) if figure["layout"].get("annotations"))
    assert f"{choice}: {tuned.decision.sure.name}" in [label["text"] for label in frontier["layout"]["annotations"]]
    slopes = next(figure for figure in list_charts(app) if figure["layout"]["xaxis"].get("tickvals") == [0, 1])
    (line,) = slopes["data"]
    cells = ((tuned.chosen, tuned.base), (tuned.chosen_test, tuned.base_test))
    assert line["y"] == pytest.approx([100 * own.mean["recall"] / base.mean["recall"] for own, base in cells])
