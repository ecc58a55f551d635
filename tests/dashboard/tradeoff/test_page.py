"""The Trade-off page without a browser, and what it asks of the engine."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import engine
from dashboard.charts.frontier import frontier_figure, strata_figure
from dashboard.services import query_vectors, sweeps
from dashboard.services.source import Source
from dashboard.tradeoff import selection
from engine.data.encoders import embedded
from engine.errors import ParamError
from engine.evaluation.frontier import best_of_each, frontier
from engine.evaluation.paired import by_query
from engine.evaluation.statistics import compare
from engine.evaluation.stratification import KINDS, stratify
from engine.evaluation.sweep.sweep import grid, stored_cells
from support.charts import figure, ids
from support.demo import demo_counts
from support.pages import (
    assert_plain,
    begun,
    beir,
    cancelled,
    csv_source,
    ended,
    first_table,
    job_of,
    keys,
    pick,
    screen,
    texts,
    worked,
)
from support.patience import patient
from support.sweeps import toy

FEW = ["top_k", "mmr", "vrsd"]


@pytest.fixture(autouse=True)
def forgotten():
    """As in a server that has just started."""
    sweeps._CELLS.clear()
    query_vectors._VECTORS.clear()


def tradeoff(source=None, **session):
    return screen("tradeoff", source, **{"tradeoff.decoders": FEW, **session})


def measured(source=None, **session):
    """The page when its job has ended."""
    app = ended(tradeoff(source, **session))
    job = job_of(app, sweeps.PURPOSE)
    assert job is None or (job.error is None and job.result)
    return app


def swept(decoders=None, **asked):
    space, queries, qrels = toy(batch=24)
    decoders = decoders or [*grid("top_k"), *grid("mmr", 5), *grid("vrsd")]
    return list(engine.sweep(decoders, space, queries, qrels, 5, ("recall", "ilad"), **asked))


def test_a_small_corpus_is_measured_without_asking_and_kept():
    app = measured()
    assert len(ids(figure(app))) == 8 and f"Means over the {demo_counts()['dev']} labelled queries" in texts(app)
    decoders = first_table(app, "Decoder")["Decoder"]
    assert len(decoders) == 3 and "top_k" in decoders[0]
    assert any("Holm" in t.value for t in app.text)
    sweeps._CELLS.clear()
    again = tradeoff()
    assert job_of(again, sweeps.PURPOSE) is None, "the file has all of it"
    assert ids(figure(again)) == ids(figure(app))


def test_the_setting_of_explore_lies_on_its_curve_and_the_set_of_a_point_is_shown():
    app = measured(**{"explore.mmr.relevance_weight": 0.37})
    drawn = figure(app)
    assert any("relevance_weight=0.37" in label for label in ids(drawn))
    assert any(a["text"] == "λ 0.37" for a in drawn["layout"]["annotations"])
    assert "Click a point of the chart" in texts(app)
    label = next(i for i in ids(figure(app)) if "relevance_weight=0.2" in i)
    app.session_state[selection.OPEN] = label
    app.run()
    assert "λ = 0.2" in texts(app) and "Click a point of the chart" not in texts(app)
    rows = first_table(app, "Change")
    assert {"NEW", "DROPPED"} <= set(rows["Change"])
    figures_ = first_table(app, "This query")
    assert list(figures_[""]) == ["Recall@10", "ILAD@10"] and figures_["All"].notna().all()


def test_much_is_measured_when_asked_and_stops_when_asked(monkeypatch):
    monkeypatch.setattr(sweeps, "BY_ITSELF", 0)
    app = tradeoff(**{"tradeoff.values": 3, "k": 7})
    assert job_of(app, sweeps.PURPOSE) is None and not app.get("plotly_chart")
    assert f"6 settings and every value of the parameter of 1 decoder on {demo_counts()['dev']} queries" in texts(app)
    point = engine.sweep

    def until_two(*args, **asked):
        for index, cell in enumerate(point(*args, **asked)):
            yield cell
            if index == 1:
                asked["stop"].wait(patient(60))

    monkeypatch.setattr(engine, "sweep", until_two)
    begun(app, "tradeoff.start", sweeps.PURPOSE, 2)
    assert len(ids(figure(app))) == 2, "what is finished is drawn meanwhile"
    assert cancelled(app, sweeps.PURPOSE).button(key="tradeoff.start").label == "Resume"
    kept = len(ids(figure(app)))
    assert 2 <= kept < 6 and f"{kept} of 6 settings are measured" in texts(app)
    monkeypatch.setattr(engine, "sweep", point)
    assert len(ids(figure(worked(app, "tradeoff.start")))) == 6 and "tradeoff.start" not in keys(app)


def test_one_query_is_answered_at_once_has_no_bands_and_without_judgements_another_axis():
    app = tradeoff(**{"tradeoff.scope": "This query"})
    drawn = figure(app)
    assert job_of(app, sweeps.PURPOSE) is None and len(ids(drawn)) == 8 and "One query: no band" in texts(app)
    assert not [trace for trace in drawn["data"] if trace.get("fill") == "toself"]
    assert "Recall@10" in drawn["layout"]["yaxis"]["title"]["text"]
    pick(app, "Query", "Typed")
    assert "Ask something in the sidebar" in texts(app)
    next(a for a in app.text_area if a.label == "Your query").set_value("median of an array").run()
    assert not app.exception and "no Recall for it" in texts(app)
    assert "Recall" not in figure(app)["layout"]["yaxis"]["title"]["text"]


def test_a_corpus_without_judgements_teaches(tmp_path):
    rows = [(i, f"<img src=x> ![x](http://192.0.2.1/{i}.png) :red[{i}] thing {i % 7}") for i in range(40)]
    app = tradeoff(csv_source(tmp_path / "hostile.csv", rows))
    assert "no judgements" in texts(app)
    pick(app, "Query", "Similar")
    assert not app.exception and len(ids(figure(app))) == 8
    assert "Recall" not in json.dumps(figure(app)["layout"]) and not any("Recall" in s.label for s in app.selectbox)
    assert_plain(app, "<img", "![x]")


def test_aspects_can_be_an_axis(tmp_path):
    documents = [(f"d{i}", f"{['red', 'green', 'blue'][i % 3]} thing number {i}") for i in range(24)]
    queries = [(f"q{i}", f"{c} things") for i, c in enumerate(["red", "green", "blue", "red and blue"])]
    beir(tmp_path, documents, queries, test=[(f"q{i}", f"d{j}") for i in range(4) for j in range(i, 24, 3)])
    rows = [f"q{i}\ta{j % 2}\td{j}\t1\n" for i in range(4) for j in range(i, 24, 3)]
    (tmp_path / "aspects.tsv").write_text("".join(["query-id\taspect-id\tcorpus-id\tscore\n", *rows]))
    app = measured(Source(str(tmp_path)), **{"tradeoff.y.judged": "s_recall", "k": 4})
    assert "S-recall@4" in figure(app)["layout"]["yaxis"]["title"]["text"] and len(ids(figure(app))) == 8
    pick(pick(app, "View", "Kinds of queries"), "By", "aspects")
    assert len(app.get("plotly_chart")) == 2


def test_time_can_be_the_axis_to_the_right_and_what_has_none_is_counted():
    asked = {"k": 9, "tradeoff.x.judged": "milliseconds"}
    app = measured(**asked)
    drawn = figure(app)
    assert len(ids(drawn)) == 8 and drawn["layout"]["xaxis"]["type"] == "log"
    assert drawn["layout"]["xaxis"]["title"]["text"] == "← milliseconds a query" and "median of a few" in texts(app)
    assert "ms a query" in first_table(app, "Decoder") and "no time" not in texts(app)
    assert any("least time" in slider.label for slider in app.slider)
    assert list(first_table(app, "This query")[""]) == ["Recall@9", "ms a query"]
    for view in ("Queries won and lost", "Kinds of queries"):
        assert not pick(app, "View", view).exception
    app = pick(pick(app, "View", "Differences"), "Queries", "This query")
    assert not app.exception and "ILAD@9" in figure(app)["layout"]["xaxis"]["title"]["text"], "no time of one query"
    with closing(sqlite3.connect(sweeps.store().path)) as db, db:
        old = db.execute(
            "UPDATE cells SET provenance = json_remove(provenance, '$.timed') WHERE method = 'mmr' AND k = 9"
        )
    sweeps._CELLS.clear()
    app = tradeoff(**asked)
    assert job_of(app, sweeps.PURPOSE) is None, "no cell is computed again for its time"
    assert len(ids(figure(app))) == 8 - old.rowcount == 2
    assert f"{old.rowcount} settings have no time and were left out" in texts(app)


def test_queries_won_and_lost_and_kinds_of_queries():
    app = measured(**{"tradeoff.view": "Queries won and lost"})
    headings = [t.value for t in app.text if t.value.startswith(("Won:", "Lost:"))]
    assert len(headings) == 2 and all(f"of {demo_counts()['dev']} queries" in line for line in headings)
    lost = next(t.value for t in app.dataframe if "Query" in t.value and (t.value["Δ"] < 0).all())
    assert lost["Δ"].is_monotonic_increasing
    pick(app, "View", "Kinds of queries")
    for by in ("relevant", "length", "words"):
        pick(app, "By", by)
        assert json.loads(app.get("plotly_chart")[1].proto.spec)["layout"]["xaxis"]["title"]["text"] == KINDS[by]


def test_many_queries_are_drawn_from():
    app = measured(**{"tradeoff.decoders": ["top_k", "mmr"]})
    slider = next(s for s in app.select_slider if s.label == "Labelled queries")
    count = demo_counts()["dev"]
    assert slider.options == ["100", f"all {count}"] and slider.value == count
    slider.set_value(100).run()
    ended(app)
    assert "Means over the 100 labelled queries" in texts(app) and f"drawn at random from {count}" in texts(app)


def test_the_chart_marks_what_it_is_told_to():
    points = swept()
    found = frontier(points, "ilad", "recall", 5)
    label = points[2].label
    plain = frontier_figure(found, ("ILAD", "Recall"), False)
    told = frontier_figure(found, ("ILAD", "Recall"), True, current=[label], opened=label, banded=(), one_entry=True)
    names = [trace.name for trace in told.data]
    assert "set in Explore" in names and "shown beside" in names and "MMR" in names
    bands = [[t for t in f.data if t.fill == "toself"] for f in (plain, told)]
    assert bands[0] and not bands[1]
    assert {i for t in told.data for i in t.customdata or ()} == {p.label for p in points}
    dominated = {p.point.label for p in found.points if p.dominated}
    for trace in told.data:
        for i, width in zip(trace.customdata or (), trace.marker.line.width if trace.customdata else (), strict=True):
            assert (width == 0) == (i in dominated)


def test_values_on_the_chart_do_not_cover_each_other():
    curves = frontier(swept([*grid("top_k"), *grid("mmr", 5), *grid("dpp", 5), *grid("ssd", 5)]), "ilad", "recall", 5)
    labels = frontier_figure(curves, ("ILAD", "Recall"), False).layout.annotations
    wide = max(p.x for p in curves.points) - min(p.x for p in curves.points)
    tall = max(p.y for p in curves.points) - min(p.y for p in curves.points)
    assert 2 <= len(labels) < 6
    for index, a in enumerate(labels):
        assert all(abs(a.x - b.x) >= 0.08 * wide or abs(a.y - b.y) >= 0.05 * tall for b in labels[:index])


def test_the_best_of_each_stand_behind_the_baseline():
    found = frontier(swept(), "ilad", "recall", 5)
    base = next(p for p in found.points if p.point.method == "top_k")
    best = best_of_each(found, base.point.label, 0.8)
    assert best[0] is base and [p.point.method for p in best] == ["top_k", "mmr", "vrsd"]
    with pytest.raises(ParamError, match="baseline"):
        best_of_each(found, "nothing", 0.9)
    with pytest.raises(ParamError, match="share"):
        best_of_each(found, base.point.label, 2)


def test_query_by_query_adds_up():
    points = swept()
    row = compare(points, "recall", points[0], 5)[0]
    rows = by_query(points[1], points[0], "recall", 5, among=points)
    assert len(rows) == row.queries and np.mean([r.difference for r in rows]) == pytest.approx(row.difference)
    assert tuple(row.wins) == tuple(
        sum(r.difference > 0 if s > 0 else r.difference < 0 if s < 0 else r.difference == 0 for r in rows)
        for s in (1, 0, -1)
    )
    assert [r.difference for r in rows] == sorted((r.difference for r in rows), reverse=True)


def test_differences_by_kind_are_paired():
    points, (_, _, qrels) = swept(), toy(batch=24)
    counts = {query: len(qrels.relevant(query)) for query in qrels.grades}
    rows = stratify(points, "recall", counts, 5, against=points[0].label)
    whole = compare(points, "recall", points[0], 5)[0]
    own = [r for r in rows if r.label == points[1].label]
    mean = sum(r.mean * r.queries for r in own) / sum(r.queries for r in own)
    assert mean == pytest.approx(whole.difference)
    assert all(r.mean == r.low == r.high == 0 for r in rows if r.label == points[0].label and r.low is not None)
    drawn = strata_figure(rows, {p.label: p.method for p in points}, "relevant", "Recall@5", "top_k", False)
    assert len(drawn.data) == len(points)


def test_what_a_file_holds_is_told_without_computing(tmp_path):
    space, queries, qrels = toy()
    decoders = grid("mmr", 4)
    asked = {"space": space, "queries": queries, "qrels": qrels, "k": 5, "metrics": ("recall", "ilad")}
    store = tmp_path / "cells.db"
    assert stored_cells(decoders, **asked, store=store) == ([], 4)
    done = list(engine.sweep(decoders[:3], **asked, store=store))
    found, missing = stored_cells(decoders, **asked, store=store)
    assert [p.digest for p in found] == [p.digest for p in done] and missing == 1
    assert stored_cells(decoders, **asked | {"k": 4}, store=store) == ([], 4)


def test_embedded_reads_and_never_embeds(demo):
    texts_ = ["never seen before", "nor this"]
    assert embedded(engine.Queries.of(texts_)) is None
    made = engine.embed(engine.Queries.of(texts_))
    assert embedded(engine.Queries.of(texts_)) == made


def test_a_sample_is_the_same_every_time():
    queries = engine.Queries(tuple("abcdefgh"), tuple("ABCDEFGH"))
    some = queries.sample(3)
    assert len(some) == 3 and some == queries.sample(3) and list(some.ids) == sorted(some.ids)
    assert queries.sample(8) is queries and queries.sample(3, seed=1) != some
