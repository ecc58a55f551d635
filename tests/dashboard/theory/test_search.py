"""The Theory page's views on searching: depth of reranking, approximate search, segments of many queries."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import engine
from dashboard.charts.search import plot_approximate, plot_rerank_depth
from dashboard.services.source import Source
from dashboard.session.query import find_first_split
from engine.evaluation.studies.ann_indexes import INDEXES, usual_indexes
from engine.evaluation.studies.rerank_depth import compare_depths
from engine.views.theory import describe_segments
from support.pages import beir, column, csv_source, finish_jobs, pick, press_and_finish, run, screen, texts
from support.theory_page import open_theory_view, read_messages
from support.training import StopAfter

SEGMENTS, DEPTH, APPROXIMATE = "Segments", "Rerank depth", "ANN"


@pytest.fixture
def tiny(tmp_path):
    """A handful of documents without judgements."""
    words = enumerate(["red", "blue", "green"])
    return csv_source(
        tmp_path / "tiny.csv", [(i, f"the {word} thing number {i} is here for all to see") for i, word in words]
    )


@pytest.fixture
def vectors(tmp_path):
    """Documents with vectors of their own, and no encoder."""
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).standard_normal((30, 8)).astype(np.float32))
    return Source(str(beir(tmp_path, [(str(row), f"document number {row} has words") for row in range(30)])))


def test_a_metric_over_the_depth_and_the_depth_that_is_enough():
    app = open_theory_view(DEPTH)
    tried = column(app, "Reranked")
    assert tried[:3] == ["none", "10", "20"] and len(tried) > 5
    mrr = column(app, "MRR@10")
    best, plain = f"{max(mrr[1:]):.3f}", f"{mrr[0]:.3f}"
    (headline,) = [m.value for m in app.markdown if "MRR@10" in m.value]
    better, other = (plain, best) if plain > best else (best, plain)
    assert headline.startswith("**Reranking") and headline.index(better) < headline.index(other)
    assert "Mean of 100 queries" in read_messages(app)
    low, high = column(app, "from"), column(app, "to")
    assert all(a <= b <= c for a, b, c in zip(low, mrr, high, strict=True))
    pick(app, "Metric", "recall")
    assert not app.exception and column(app, "Recall@10")[1] == pytest.approx(column(app, "Recall@10")[0]), (
        "reranking ten documents cannot change which ten there are"
    )
    spec = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert spec["layout"]["xaxis"]["type"] == "log" and "Recall@10" in spec["layout"]["yaxis"]["title"]["text"]


def test_depth_refuses_what_changes_nothing_and_says_what_is_slow():
    app = screen("theory", **{"theory.group": "Search", "theory.view": DEPTH, "theory.depth.rerank": "dense"})
    assert "Choose another reranker" in texts(app) and not app.get("plotly_chart")
    app.selectbox(key="theory.depth.rerank").set_value("cross_encoder")
    assert "pairs of query and document" in texts(run(app))
    assert app.button(key="theory.start") and "theory" not in app.session_state["jobs"], "it must be asked for"


def test_depth_without_judgements_asks_for_passages(tiny):
    app = open_theory_view(DEPTH, tiny)
    assert "No labelled queries: " in read_messages(app) and column(app, "Reranked") == ["none", "3"]


def test_quality_against_time():
    pytest.importorskip("faiss")
    app = open_theory_view(APPROXIMATE)
    share, searches = column(app, "Exact"), column(app, "Search")
    assert searches[0] == "exact" and share[0] == 1 and {s.split("(")[0] for s in searches} == {"exact", *INDEXES}
    assert max(share[1:]) > min(share[1:]) and "of the exact answer" in read_messages(app)
    spec = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert spec["layout"]["xaxis"]["type"] == "log" and len(spec["data"]) == 1 + len(INDEXES)
    pick(app, "Quality", "mrr")
    spec = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert not app.exception and spec["layout"]["yaxis"]["title"]["text"] == "MRR@10"
    pick(app, "Indexes", list(INDEXES)[1:])
    finish_jobs(app)
    assert {s.split("(")[0] for s in column(app, "Search")} == {"exact", *list(INDEXES)[1:]}
    pick(app, "Indexes", [])
    assert "at least one scorer and one index" in texts(app)


def test_depth_needs_an_encoder_and_own_vectors_are_searched_for_their_like(vectors):
    app = open_theory_view(DEPTH, vectors)
    assert "own vectors" in read_messages(app) and not app.get("plotly_chart")
    pytest.importorskip("faiss")
    finish_jobs(pick(app, "View", APPROXIMATE))
    assert "no encoder for queries" in read_messages(app) and column(app, "Search")[0] == "exact"
    assert "MRR" not in [c for t in app.dataframe for c in t.value]


def test_without_faiss_the_page_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    app = open_theory_view(APPROXIMATE)
    assert "pip install 'frontier-retrieval[ann]'" in texts(app) and not app.get("plotly_chart")


def test_segments_of_the_question_and_of_many_queries_of_this_corpus(demo):
    app = open_theory_view(SEGMENTS)
    assert "holds for all of them" in read_messages(app) and "impossible" not in read_messages(app)
    assert "✓" in column(app, "Proved"), "the example is one for which the theorem holds"
    dataset, _ = demo
    queries = dataset.judged(find_first_split(dataset)).sample(100)
    result = engine.segments(dataset.corpus, queries)
    verdict, *details = describe_segments(result, 100, 50)
    assert f"**{verdict}**" in [m.value for m in app.markdown] and " ".join(details) in read_messages(app)
    assert f"{result.passages_gain:.0%} of the pairs" in read_messages(app)
    proved = column(app, "Proved")
    pick(app, "Pairs of", "Current query")
    assert column(app, "Proved") != proved


def test_what_is_said_of_segments():
    text = ("alpha beta gamma delta", "alpha beta other words", "alpha here is one more", "zeta eta theta iota")
    corpus = engine.Corpus(tuple("abcd"), text)
    short = describe_segments(engine.segments(corpus, ["alpha gamma"], passage_words=50), 1, 50)
    assert "a short document is one passage" in short[-1] and "The theorem covers" in short[0] and "100%" in short[2]
    # Every passage of two words shares "alpha" with the rest of its document.
    long = engine.Corpus(
        tuple("abc"), ("alpha beta alpha gamma", "alpha delta alpha eta", "alpha iota alpha theta kappa")
    )
    result = engine.segments(long, ["alpha beta"], passage_words=2)
    assert len(result) and not result.apart.any()
    assert "In 100% of the pairs the best passages share words" in describe_segments(result, 1, 2)[-1]
    none = describe_segments(engine.segments(corpus, ["nothing known"]), 1, 50)
    assert none == ("No pairs: none of 1 query shares words with two documents.",)


def test_a_stop_ends_the_segments(demo):
    dataset, _ = demo
    with pytest.raises(engine.Cancelled):
        engine.segments(dataset.corpus, ["array of zeros"], stop=StopAfter(0))


@pytest.mark.parametrize("dark", [False, True])
def test_charts_show_what_they_are_given(demo, dark):
    dataset, space = demo
    split = next(iter(dataset.qrels))
    queries, qrels = engine.embed(dataset.judged(split).sample(20)), dataset.qrels[split]
    top = engine.make("top_k")
    points = list(engine.sweep([engine.Decoder(top)], space, queries, qrels, 10, "mrr"))
    reranked = engine.Decoder(top, rerank=engine.make("bm25"))
    points += engine.rerank_depths([reranked], space, queries, qrels, depths=(10, 100))
    result = compare_depths(points, "mrr")
    figure = plot_rerank_depth(result, "MRR@10", dark)
    line = next(trace for trace in figure.data if trace.name == "reranked")
    assert list(line.x) == [10, 100] and list(line.y) == [row.mean for row in result.rows[1:]]
    assert any(trace.name.startswith("without reranking") for trace in figure.data if trace.name)
    old = plot_rerank_depth(compare_depths([replace(p, provenance={}) for p in points], "mrr"), "MRR@10", dark)
    assert "ms per query" in str(figure) and "ms per query" not in str(old), "no time that was not measured"
    one = compare_depths([p for p in points if p.decoder["rerank"]], "mrr")
    assert not any((t.name or "").startswith("without reranking") for t in plot_rerank_depth(one, "MRR@10", dark).data)
    pytest.importorskip("faiss")
    rows = list(
        engine.approximate(engine.make("dense"), space, queries, qrels, indexes=usual_indexes(len(space), ["ivf"]))
    )
    figure = plot_approximate(rows, [row.share for row in rows], "share", list(INDEXES.values()), dark)
    star, curve = figure.data
    assert star.marker.symbol == "star" and list(star.x) == [rows[0].milliseconds]
    assert list(curve.y) == [row.share for row in rows[1:]] and curve.name.endswith("IVF")
    two = [
        *rows,
        *engine.approximate(engine.make("dense"), space, queries, indexes=usual_indexes(len(space), ["hnsw"])),
    ]
    names = [t.name for t in plot_approximate(two, [r.share for r in two], "share", list(INDEXES.values()), dark).data]
    assert len(names) == len(set(names)) == 4 and any("links 8" in name for name in names)


def test_what_was_measured_before_a_stop_is_shown(monkeypatch):
    whole = engine.rerank_depths

    def stopped(*args, **options):
        points = whole(*args, **options)
        yield next(points)
        yield next(points)
        raise engine.Cancelled("stopped")

    monkeypatch.setattr(engine, "rerank_depths", stopped)
    # Parameters of its own, so that no other test's result is remembered.
    app = open_theory_view(DEPTH, **{"theory.depth.rerank.bm25.k1": 1.9})
    assert "Stopped." in read_messages(app) and len(column(app, "Reranked")) == 3 and app.get("plotly_chart")
    monkeypatch.undo()
    press_and_finish(app, "theory.start")
    assert "Stopped." not in read_messages(app) and len(column(app, "Reranked")) > 3
