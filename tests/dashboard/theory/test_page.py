"""The Theory page: every view draws on the demo, and teaches where there is nothing to show."""

import math
import operator
from dataclasses import replace

import numpy as np
import pytest

import engine
from dashboard.charts.theory import plot_recall
from dashboard.services import jobs
from dashboard.services.source import Source
from dashboard.theory import dimensions
from dashboard.theory.page import GROUPS
from engine.theory.margins import margin, relevant_margins
from engine.theory.measured_dimensions import TRIED_DIMENSIONS, LengthDimension, find_reached_dimension
from engine.theory.random_projections import find_kept_dimensions
from engine.views.theory import compare_with_bound, compute_needed, proof, turn_query
from support import pages
from support.draws import deepen
from support.patience import patient
from support.theory_page import open_theory_view, read_messages

SUPPORT, BEST, MARGINS, DIMENSION, SEGMENTS = GROUPS["Proofs"]
EXACT = "Exact vs 50 steps"


def every_view(app):
    """The names of all views, each drawn."""
    for group, views in GROUPS.items():
        pages.pick(app, "Group", group)
        for view in views:
            pages.pick(app, "View", view)
            yield view


@pytest.fixture
def few(tmp_path):
    """So many documents without judgements."""

    def make(count):
        texts = ["a red apple grows on the old tree", "a green pear fell from the tree", "cars are fast and red today"]
        return pages.csv_source(tmp_path / f"few{count}.csv", enumerate(texts[:count]))

    return make


def test_the_support_is_the_top_k_and_the_angle_moves_it():
    app = open_theory_view(SUPPORT, k=4)
    assert "returns exactly the top 4 here. Proved" in read_messages(
        app
    ) and "No top-k returns this set" in read_messages(app)
    assert pages.column(app, "In the set") == ["✓"] * 4 + [""] * 5
    assert [weight > 0 for weight in pages.column(app, "Weight")] == [True] * 4 + [False] * 5
    app.slider(key="k").set_value(7).run()
    assert "returns exactly the top 7 here" in read_messages(app)
    app.slider(key="theory.angle").set_value(45).run()
    assert "A ranking by score returns the same set here" in read_messages(app)
    app.slider(key="theory.angle").set_value(90).run()
    assert "Support: document 3." in read_messages(app) and not app.exception


def test_margins_of_labelled_queries_and_of_passages():
    app = open_theory_view(MARGINS)
    assert list(dict.fromkeys(pages.column(app, "Vectors"))) == ["bm25", "boolean", "dense"]
    judged = pages.column(app, "Median")
    assert app.get("plotly_chart")
    pages.pick(app, "Queries", "Synthetic queries (passages)")
    pages.finish_jobs(app)
    passages = pages.column(app, "Median")
    assert len(passages) == len(judged) and np.mean(passages) > np.mean(judged)


def number(shown):
    """A dimension as it is shown, whatever stands before it."""
    return int(shown.removeprefix("> ").removeprefix("≤ ").replace(",", ""))


def test_the_bound_grows_as_the_error_shrinks_and_corollary_1_beside_it_asks_for_more():
    app = open_theory_view(DIMENSION)
    assert "The bound is loose: it asks for" in read_messages(app)
    pairs, queries = pages.tables(app, "Bound's k")
    assert len(pages.tables(app, "Corollary 1")) == 2
    assert all(a <= b for a, b in zip(queries["Bound's k"], queries["Corollary 1"], strict=True))
    for least, simple in zip(queries["Margin ε"], queries["Corollary 1"], strict=True):
        assert simple - 1 <= 12 * least**-2 * math.log(4 / 0.05) < simple
    assert all(map(operator.lt, map(number, pairs["Bound's k"]), map(number, pairs["Corollary 1"])))
    app.slider(key="theory.error").set_value(0.01)
    strict = pages.column(pages.run(app), "Bound's k")
    assert len(strict) == len(pairs) and all(map(operator.lt, map(number, pairs["Bound's k"]), map(number, strict)))


def test_the_smallest_dimension_by_length():
    app = open_theory_view(DIMENSION, **{"theory.dimension.what": dimensions.RECALL_VIEW})
    shown, measured = pages.column(app, "Smallest k"), pages.column(app, "k = 64")
    assert len(shown) == 4 and all(0 <= share <= 1 for share in measured) and app.get("plotly_chart")
    values = pages.first_table(app, "Smallest k")
    for index, k in enumerate(shown):
        shares = {d: values[f"k = {d:,}"][index] for d in TRIED_DIMENSIONS}
        assert number(k) == (find_reached_dimension(shares, 0.9) or TRIED_DIMENSIONS[-1])
    job = app.session_state["jobs"]["theory"]
    app.slider(key="theory.target").set_value(0.5)
    fewer = pages.column(pages.run(app), "Smallest k")
    assert len(fewer) == 4 and all(map(operator.lt, map(number, fewer), map(number, shown)))
    assert app.session_state["jobs"]["theory"] is job, "another target is read off what was measured"


def test_the_dimension_from_which_on_all_reach_a_target():
    recall_at = {16: 0.95, 64: 0.5, 32: 0.1, 128: 0.9, 256: 1.0}
    assert [find_reached_dimension(recall_at, t) for t in (0, 0.2, 0.5, 0.9, 0.91, 1)] == [16, 64, 64, 128, 256, 256]
    assert find_reached_dimension({16: 0.5}, 0.6) is None and find_reached_dimension({}, 0.5) is None
    with pytest.raises(engine.ParamError, match="target"):
        find_reached_dimension({16: 1.0}, 1.5)


def test_bins_where_no_dimension_is_enough_stand_above_all_that_were_tried():
    rows = [
        LengthDimension(1, 9, 5, 4, {16: 0.9, 32: 1.0}, 16),
        LengthDimension(10, 19, 5, 0, {}, None),
        LengthDimension(20, 30, 5, 4, {16: 0.1, 32: 0.2}, None),
    ]
    (drawn,) = plot_recall(rows, [16, None, None], (16, 32), 0.9, is_dark=False).data
    assert drawn.x == (0, 2) and drawn.y == (16, 64)
    assert [symbol.endswith("open") for symbol in drawn.marker.symbol] == [False, True]
    assert "k > 32" in drawn.hovertext[1] and "10 to 19" not in "".join(drawn.hovertext)


def test_the_words_of_a_large_corpus_are_counted_by_a_job_once(few, monkeypatch, go):
    monkeypatch.setattr(dimensions, "MAX_PAGE_CHARACTERS", 0)
    counts = dimensions.count_passage_words
    monkeypatch.setattr(dimensions, "count_passage_words", lambda space: go.wait(patient(60)) and counts(space))
    monkeypatch.setattr(dimensions, "has_words", lambda space: go.is_set())
    app = pages.screen("theory", few(3), **{"theory.view": SEGMENTS})
    pages.pick(app, "Query", "Similar")
    if pages.job_of(app, "theory").title == "Margins of segments":
        pages.finish_jobs(app, "theory")
    counting = pages.job_of(app, "theory")
    assert counting.title == "Counting words" and not pages.tables(app, "Passages")
    go.set()
    app = pages.finish_jobs(app)
    assert app.session_state["jobs"]["theory"] is counting and counting.result
    assert "No pairs: " in read_messages(app) or "The theorem " in read_messages(app)


def test_a_study_that_ends_while_the_page_is_drawn_keeps_its_place(few, monkeypatch):
    monkeypatch.setattr(dimensions, "MAX_PAGE_CHARACTERS", 0)
    monkeypatch.setattr(dimensions, "has_words", lambda space: False)
    draw_study = dimensions.run_study

    def draw_and_wait(key, *arguments, **options):
        result = draw_study(key, *arguments, **options)
        jobs.find_job("theory", key).join(patient(60))
        return result

    monkeypatch.setattr(dimensions, "run_study", draw_and_wait)
    app = pages.pick(open_theory_view(SUPPORT, few(3)), "Query", "Similar")
    pages.pick(app, "View", SEGMENTS)
    assert pages.job_of(app, "theory").title == "Margins of segments" and not pages.tables(app, "Passages")
    pages.run(app)
    assert pages.job_of(app, "theory").title == "Counting words"


@pytest.mark.deep
def test_exact_against_steps_measures():
    app = open_theory_view(EXACT)
    assert "FISTA's step is 1/L" in read_messages(app) and "λ₁ = 0.1, λ₂ = 0.1" in read_messages(app)
    app = pages.press_and_finish(app, "steps.start", "steps")
    job = pages.job_of(app, "steps")
    assert "the exact answer has" in read_messages(app) and job.error is None and len(job.result) > 5


def test_boxes_stand_for_a_view_until_its_study_has_something(go, monkeypatch):
    relevant = dimensions.relevant_margins
    monkeypatch.setattr(
        dimensions, "relevant_margins", lambda *args, **how: go.wait(patient(60)) and relevant(*args, **how)
    )
    app = pages.screen("theory", **{"theory.view": MARGINS})
    boxes = [html.value for html in app.get("html") if "frontier-skeleton" in html.value]
    assert len(boxes) == 1 and pages.job_of(app, "theory").is_active and not app.get("plotly_chart")
    # No view stands in another's place, so the old one goes before the new one is computed.
    assert len(app.get("empty")) >= sum(map(len, GROUPS.values())) - 1
    go.set()
    app = pages.finish_jobs(app)
    assert not any("frontier-skeleton" in html.value for html in app.get("html"))


@pytest.mark.parametrize("count", deepen([1, 2, 3], [2, 3]))
def test_small_corpora_without_judgements_teach(few, count):
    source = few(count)
    app = pages.pick(open_theory_view(SUPPORT, source), "Query", "Similar")
    said_of = {view: read_messages(pages.finish_jobs(app)) for view in every_view(app)}
    for view in (MARGINS, DIMENSION):
        alone = "needs two documents" in said_of[view]
        assert alone == (count == 1)
        assert ("No labelled queries: " in said_of[view]) == (count > 1)
    assert "returns exactly the top" in said_of[SUPPORT] or "does not apply to this query" in said_of[SUPPORT]
    assert any(word in said_of[SEGMENTS] for word in ("No pairs: ", "The theorem ", "needs two documents"))


def test_own_vectors_have_margins_of_words_only(tmp_path):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))
    words = ["one two three four five six", "two three five seven eight nine", "nine ten one two six", "a b c d e f g"]
    source = Source(str(pages.beir(tmp_path, [(str(row), text) for row, text in enumerate(words)])))
    app = open_theory_view(MARGINS, source)
    assert "own vectors" in read_messages(app) and set(pages.column(app, "Vectors")) == {"bm25", "boolean"}
    assert "must be of unit length" in read_messages(open_theory_view(SUPPORT, source))


def test_hostile_documents_stay_text(table):
    app = open_theory_view(SUPPORT, Source(str(table)))
    for _ in every_view(app):
        pages.assert_plain(pages.finish_jobs(app), "<img", "192.0.2.1", ":red[")


def test_best_sets_stand_beside_what_selectors_return():
    app = open_theory_view(BEST)
    best, own, worst = (pages.column(app, name) for name in ("Best set", "Its set", "Worst set"))
    assert all(b >= o - 1e-9 >= w - 2e-9 for b, o, w in zip(best, own, worst, strict=True))
    shares = [(o - w) / (b - w) for b, o, w in zip(best, own, worst, strict=True)]
    assert pages.column(app, "From worst to best") == pytest.approx(shares)
    assert "between sets beats the best set" in pages.texts(app) and "best set" in pages.texts(app)


def test_nothing_asked_teaches():
    app = pages.pick(pages.screen("theory"), "Query", "Typed")
    for view in every_view(app):
        assert ("Pick a query" in pages.texts(app)) == (view in (SUPPORT, BEST, EXACT))


def test_relevant_margins_are_the_smallest_over_the_rest(demo):
    dataset, space = demo
    split = next(iter(dataset.qrels))
    queries = engine.embed(dataset.judged(split).sample(5))
    (result,) = relevant_margins(space, queries, dataset.qrels[split], "dense", bins=1)
    vectors = space.vectors.double().numpy()
    expected = []
    for name, q in zip(queries.ids, queries.vectors.double().numpy(), strict=True):
        relevant = [space.corpus.position[d] for d in dataset.qrels[split].relevant(name)]
        rest = [row for row in range(len(space)) if row not in relevant]
        expected += [np.nanmin([margin(q, vectors[row], vectors[other]) for other in rest]) for row in relevant]
    assert result.values == pytest.approx(sorted(expected), abs=1e-9)
    assert result.first == pytest.approx(np.mean(np.array(expected) > 0))


def test_a_turned_query_has_the_weights_of_orthogonal_documents():
    for angle in range(0, 91, 6):
        result, turn = turn_query(angle, 0.2), math.radians(angle)
        expected = (0.0, max(0.0, math.cos(turn) - 0.2), max(0.0, math.sin(turn) - 0.2))
        assert result.weights == pytest.approx(expected, abs=1e-9)
    assert not turn_query(20).is_ranked and turn_query(45).is_ranked


def test_a_proof_holds_for_every_size(demo):
    _, space = demo
    query = space.vectors[3]
    for k in (1, 6, 20):
        result = proof(space, query, k)
        assert result.same and result.certified and result.support == k and sum(row.inside for row in result.rows) == k


def test_bounds_beside_what_was_measured(demo):
    dataset, _ = demo
    queries = dataset.judged(next(iter(dataset.qrels))).sample(30)
    result = engine.pair_errors(dataset.corpus, queries, dimensions=(32, 128, 512), bins=3, draws=8, accuracy=0.9)
    assert find_kept_dimensions(result, 0.1) == tuple(own.dimension for own in result.bins)
    for own, row in zip(result.bins, compare_with_bound(result, 0.1), strict=True):
        assert row.guaranteed == own.guaranteed and row.measured == own.dimension
        assert row.times is None or row.times == pytest.approx(row.guaranteed / row.measured)
    with pytest.raises(engine.ParamError, match="error"):
        find_kept_dimensions(result, 1.5)


def test_what_shares_of_the_queries_need(demo):
    dataset, _ = demo
    queries = dataset.judged(next(iter(dataset.qrels))).sample(30)
    result = engine.margins(dataset.corpus, queries, ranks=(1,), bins=1)
    rows = compute_needed(result, 0.1)
    for row in rows:
        assert (result.rows[0].values >= row.margin).mean() >= row.share
        assert row.dimension == engine.sufficient_dimension(row.margin, 0.1)
    assert [r.dimension for r in rows] == sorted(r.dimension for r in rows)
    with pytest.raises(engine.ParamError, match="one bin"):
        compute_needed(replace(result, rows=result.rows * 2), 0.1)
