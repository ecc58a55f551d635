"""The Theory page: every view draws on the demo, and teaches where there is nothing to show."""

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from test_pages import screen, table, texts  # noqa: F401

import engine
from dashboard.charts.theory import recall_figure
from dashboard.state import Source
from dashboard.theory import recall, segments
from dashboard.theory.page import VIEWS
from engine.theory import kept_from, relevant_margins
from engine.theory.by_length import margin
from engine.theory.dimensions import DIMENSIONS, LengthDimension, reached
from engine.views import against_bound, needed, proof, turned

SUPPORT, MARGINS, DIMENSION, SEGMENTS, EXACT, *_ = VIEWS


def theory(view, source=None, **session):
    app = screen("theory", source, **{"theory.view": view, **session})
    return finished(app)


def finished(app):
    """The page after its job."""
    job = app.session_state["jobs"].get("theory") if "jobs" in app.session_state else None
    if job is not None:
        job.join(120)
        app.run()
    assert not app.exception, app.exception
    return app


def said(app):
    return texts(app) + " ".join(e.value for e in app.success)


def columns(app, name):
    """The column of this name of the first table that has one."""
    return next(list(t.value[name]) for t in app.dataframe if name in t.value)


@pytest.fixture
def few(tmp_path):
    """So many documents without judgements."""

    def make(count):
        file = tmp_path / f"few{count}.csv"
        texts = ["a red apple grows on the old tree", "a green pear fell from the tree", "cars are fast and red today"]
        file.write_text("id,text\n" + "".join(f"{at},{text}\n" for at, text in enumerate(texts[:count])))
        return Source(str(file))

    return make


def test_the_support_is_the_top_k_and_the_angle_moves_it():
    app = theory(SUPPORT, k=4)
    assert "the support is exactly the top 4" in said(app) and "No top-k is this set" in said(app)
    assert columns(app, "In the set") == ["✓"] * 4 + [""] * 5
    assert [weight > 0 for weight in columns(app, "Weight")] == [True] * 4 + [False] * 5
    next(s for s in app.slider if s.key.startswith("theory.k")).set_value(7).run()
    assert "the support is exactly the top 7" in said(app)
    app.slider(key="theory.angle").set_value(45).run()
    assert "A ranking by score finds the same set here" in said(app)
    app.slider(key="theory.angle").set_value(90).run()
    assert "Support: document 3." in said(app) and not app.exception


def test_margins_of_labelled_queries_and_of_passages():
    app = theory(MARGINS)
    assert list(dict.fromkeys(columns(app, "Vectors"))) == ["bm25", "boolean", "dense"]
    judged = columns(app, "Median")
    assert app.get("plotly_chart")
    next(g for g in app.button_group if g.label == "Queries").set_value("Passages of the corpus").run()
    finished(app)
    passages = columns(app, "Median")
    assert len(passages) == len(judged) and np.mean(passages) > np.mean(judged)


def test_the_dimension_that_was_enough_grows_as_the_error_shrinks():
    app = theory(DIMENSION, **{"theory.error": 0.3})
    loose = [int(k.replace(",", "")) for k in columns(app, "Bound's k")]
    assert "How loose the bound is here" in said(app)
    app.slider(key="theory.error").set_value(0.01).run()
    strict = [int(k.replace(",", "")) for k in columns(app, "Bound's k")]
    assert not app.exception and all(a < b for a, b in zip(loose, strict, strict=True))


def test_corollary_1_stands_beside_the_bound_and_asks_for_more():
    app = theory(DIMENSION)
    for column in ("Bound's k", "Corollary 1"):
        assert sum(column in t.value for t in app.dataframe) == 2
    pairs, queries = (t.value for t in app.dataframe if "Corollary 1" in t.value)
    assert all(a <= b for a, b in zip(queries["Bound's k"], queries["Corollary 1"], strict=True))
    for least, simple in zip(queries["Margin ε"], queries["Corollary 1"], strict=True):
        assert simple - 1 <= 12 * least**-2 * math.log(4 / 0.05) < simple
    plainly = [[int(k.replace(",", "")) for k in pairs[column]] for column in ("Bound's k", "Corollary 1")]
    assert all(a < b for a, b in zip(*plainly, strict=True))


def test_the_smallest_dimension_by_length():
    app = theory(DIMENSION, **{"theory.dimension.what": recall.TITLE})
    shown, measured = columns(app, "Smallest k"), columns(app, "k = 64")
    assert len(shown) == 4 and all(0 <= share <= 1 for share in measured) and app.get("plotly_chart")
    values = next(t.value for t in app.dataframe if "Smallest k" in t.value)
    for at, k in enumerate(shown):
        shares = {d: values[f"k = {d:,}"][at] for d in DIMENSIONS}
        expected = reached(shares, 0.9)
        assert k.removeprefix("> ").removeprefix("≤ ") == f"{expected or DIMENSIONS[-1]:,}"
    job = app.session_state["jobs"]["theory"]
    app.slider(key="theory.target").set_value(0.5).run()
    fewer = columns(app, "Smallest k")
    number = [[int(k.removeprefix("> ").removeprefix("≤ ").replace(",", "")) for k in ks] for ks in (fewer, shown)]
    assert not app.exception and all(a < b for a, b in zip(*number, strict=True))
    assert app.session_state["jobs"]["theory"] is job, "another target is read off what was measured"


def test_the_dimension_from_which_on_all_reach_a_target():
    recall_at = {16: 0.95, 64: 0.5, 32: 0.1, 128: 0.9, 256: 1.0}
    assert [reached(recall_at, t) for t in (0, 0.2, 0.5, 0.9, 0.91, 1)] == [16, 64, 64, 128, 256, 256]
    assert reached({16: 0.5}, 0.6) is None and reached({}, 0.5) is None
    with pytest.raises(engine.ParamError, match="target"):
        reached({16: 1.0}, 1.5)


def test_bins_where_no_dimension_is_enough_stand_above_all_that_were_tried():
    rows = [
        LengthDimension(1, 9, 5, 4, {16: 0.9, 32: 1.0}, 16),
        LengthDimension(10, 19, 5, 0, {}, None),
        LengthDimension(20, 30, 5, 4, {16: 0.1, 32: 0.2}, None),
    ]
    (drawn,) = recall_figure(rows, [16, None, None], (16, 32), 0.9, dark=False).data
    assert drawn.x == (0, 2) and drawn.y == (16, 64)
    assert [symbol.endswith("open") for symbol in drawn.marker.symbol] == [False, True]
    assert "k > 32" in drawn.hovertext[1] and "10 to 19" not in "".join(drawn.hovertext)


def test_segments_of_the_question():
    app = theory(SEGMENTS)
    assert "The theorem speaks of" in said(app) and len(columns(app, "Passages")) >= 1
    assert "which must not be" not in said(app)


def test_the_words_of_a_large_corpus_are_counted_by_a_job_once(few, monkeypatch):
    monkeypatch.setattr(segments, "AT_ONCE", 0)
    counts, go = segments.words_of, threading.Event()
    monkeypatch.setattr(segments, "words_of", lambda space: go.wait(60) and counts(space))
    monkeypatch.setattr(segments, "has_words", lambda space: go.is_set())
    app = screen("theory", few(3), **{"theory.view": SEGMENTS})
    next(g for g in app.button_group if g.label == "Query").set_value("Similar").run()
    assert not app.exception and app.session_state["jobs"]["theory"].title == "Counting words"
    assert "On many queries of this corpus" not in " ".join(m.value for m in app.markdown)
    go.set()
    app = finished(app)
    assert "On many queries of this corpus" in " ".join(m.value for m in app.markdown)
    counting = app.session_state["jobs"]["theory"]
    finished(app)
    assert "No two documents can be compared" in said(app) or "The theorem speaks of" in said(app)
    assert counting.title != "Counting words" or counting.result


def test_exact_against_steps_measures():
    app = theory(EXACT)
    assert "A step goes 1/L far" in said(app) and "λ₁ = 0.1, λ₂ = 0.1" in said(app)
    app.button(key="steps.start").click().run()
    app.session_state["jobs"]["steps"].join(120)
    app.run()
    assert not app.exception and "the minimiser gives" in said(app)


def similar(app):
    """The page asked for what is like the first document."""
    next(g for g in app.button_group if g.label == "Query").set_value("Similar").run()
    return finished(app)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_small_corpora_without_judgements_teach(few, count):
    source = few(count)
    said_of = {view: said(similar(theory(view, source))) for view in VIEWS}
    for view in (MARGINS, DIMENSION):
        alone = "needs two documents" in said_of[view]
        assert alone == (count == 1)
        assert ("This corpus has no judged queries" in said_of[view]) == (count > 1)
    assert "the support is exactly" in said_of[SUPPORT] or "The theorem says nothing" in said_of[SUPPORT]
    assert "No two documents can be compared" in said_of[SEGMENTS] or "The theorem speaks of" in said_of[SEGMENTS]


def test_own_vectors_have_margins_of_words_only(tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))
    words = ["one two three four five six", "two three five seven eight nine", "nine ten one two six", "a b c d e f g"]
    (tmp_path / "corpus.jsonl").write_text(
        "".join(f'{{"_id": "{at}", "text": "{text}"}}\n' for at, text in enumerate(words))
    )
    source = Source(str(tmp_path))
    app = theory(MARGINS, source)
    assert "own vectors" in said(app) and set(columns(app, "Vectors")) == {"bm25", "boolean"}
    assert "must be of unit length" in said(theory(SUPPORT, source))


def test_hostile_documents_stay_text(table):  # noqa: F811
    for view in VIEWS:
        app = theory(view, Source(str(table)))
        for kind in (app.markdown, app.caption, app.info, app.warning, app.error, app.success):
            assert not any(bad in e.value for e in kind for bad in ("<img", "192.0.2.1", ":red["))


def test_nothing_asked_teaches():
    for view in (SUPPORT, SEGMENTS, EXACT):
        app = screen("theory", **{"theory.view": view})
        next(g for g in app.button_group if g.label == "Query").set_value("Typed").run()
        assert not app.exception and "Ask something in the sidebar" in texts(app)


def test_relevant_margins_are_the_smallest_over_the_rest(demo):
    dataset, space = demo
    split = next(iter(dataset.qrels))
    queries = engine.embed(dataset.judged(split).sample(5))
    (found,) = relevant_margins(space, queries, dataset.qrels[split], "dense", bins=1)
    vectors = space.vectors.double().numpy()
    expected = []
    for name, q in zip(queries.ids, queries.vectors.double().numpy(), strict=True):
        relevant = [space.corpus.position[d] for d in dataset.qrels[split].relevant(name)]
        rest = [row for row in range(len(space)) if row not in relevant]
        expected += [np.nanmin([margin(q, vectors[row], vectors[other]) for other in rest]) for row in relevant]
    assert found.values == pytest.approx(sorted(expected), abs=1e-9)
    assert found.first == pytest.approx(np.mean(np.array(expected) > 0))


def test_a_turned_query_has_the_weights_of_orthogonal_documents():
    for angle in range(0, 91, 6):
        found, at = turned(angle, 0.2), math.radians(angle)
        expected = (0.0, max(0.0, math.cos(at) - 0.2), max(0.0, math.sin(at) - 0.2))
        assert found.weights == pytest.approx(expected, abs=1e-9)
    assert not turned(20).ranked and turned(45).ranked


def test_a_proof_holds_for_every_size(demo):
    _, space = demo
    query = space.vectors[3]
    for k in (1, 6, 20):
        found = proof(space, query, k)
        assert found.same and found.certified and found.support == k and sum(row.inside for row in found.rows) == k


def test_bounds_beside_what_was_measured(demo):
    dataset, _ = demo
    queries = dataset.judged(next(iter(dataset.qrels))).sample(30)
    found = engine.pair_errors(dataset.corpus, queries, dimensions=(32, 128, 512), bins=3, draws=8, accuracy=0.9)
    assert kept_from(found, 0.1) == tuple(own.dimension for own in found.bins)
    for own, row in zip(found.bins, against_bound(found, 0.1), strict=True):
        assert row.guaranteed == own.guaranteed and row.measured == own.dimension
        assert row.times is None or row.times == pytest.approx(row.guaranteed / row.measured)
    with pytest.raises(engine.ParamError, match="error"):
        kept_from(found, 1.5)


def test_what_shares_of_the_queries_need(demo):
    dataset, _ = demo
    queries = dataset.judged(next(iter(dataset.qrels))).sample(30)
    found = engine.margins(dataset.corpus, queries, ranks=(1,), bins=1)
    rows = needed(found, 0.1)
    for row in rows:
        assert (found.rows[0].values >= row.margin).mean() >= row.share
        assert row.dimension == engine.sufficient_dimension(row.margin, 0.1)
    assert [r.dimension for r in rows] == sorted(r.dimension for r in rows)
    with pytest.raises(engine.ParamError, match="one bin"):
        needed(replace(found, rows=found.rows * 2), 0.1)
