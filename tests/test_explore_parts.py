"""The parts of Explore without a browser: the ranked diff, the reading panel, the redundancy of a set."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

import engine
from dashboard.charts.redundancy import EVERY_RANK, redundancy_figure
from dashboard.components.live_plot import Picked
from dashboard.explore import ranked, redundancy
from dashboard.explore.answers import Answer
from dashboard.explore.question import Asked
from dashboard.explore.reading import Opened
from dashboard.state import Loaded, Source
from engine import views
from engine.values import Dataset

HOSTILE = ("<img src=x onerror=alert(1)>", "![x](http://192.0.2.1/x.png)", "$\\href{javascript:alert(1)}{y}$", "`z`")
NAMES = list(engine.methods("selector"))


def part():
    import streamlit as st

    shown, *given = st.session_state["given"]
    shown.options(*given[2:])
    shown.show(*given)


def corpus(n=30, d=5, negative=False):
    """Documents that try to be markup, every seventh an exact duplicate of its neighbour."""
    draw = np.random.default_rng(5)
    rows = draw.normal(size=(n, d)) + (0 if negative else 1)
    rows[1::7] = rows[: len(rows[1::7]) * 7 : 7]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    texts = tuple(f"{HOSTILE[i % 4]} document {i}" for i in range(n))
    ids = tuple(f"id{i}" for i in range(n))
    titles = tuple(f"{HOSTILE[i % 4]} title {i}" if i % 2 else "" for i in range(n))
    documents = engine.Corpus(ids, texts, titles)
    space = engine.Space(documents, engine.Embeddings(torch.tensor(rows, dtype=torch.float32), ids), "cpu")
    return Loaded(Source("made"), Dataset(documents, engine.Queries(("q",), ("words",))), space, None)


def asked_of(loaded, k=6, depth=None, judged=True):
    vector = loaded.space.vectors[:3].sum(0)
    qrels = engine.Qrels({"q": {"id0": 1, "id9": 1, "id20": 2, "gone": 1}}) if judged else None
    return Asked("q", "words", vector / vector.norm(), qrels, k, depth)


def answered(loaded, asked, names, **params):
    query = engine.Embeddings(asked.vector.unsqueeze(0), ("q",))
    found, base = {}, None
    for name in names:
        stage = engine.make(name, **params.get(name, {}))
        decoder = engine.Decoder(select=stage, depth=asked.depth)
        ranking = engine.decode(decoder, loaded.space, query, k=asked.k)
        base = base or ranking
        figures = views.card(loaded.space, "q", ranking, base, asked.qrels, asked.k)
        found[name] = Answer(name, decoder, ranking, figures, 0.001)
    return found


def drawn(shown, loaded, asked, answers, **session):
    app = AppTest.from_function(part, default_timeout=60)
    app.session_state["given"] = (shown, loaded, asked, answers, NAMES[0])
    for key, value in session.items():
        app.session_state[key] = value
    app.run()
    assert not app.exception, app.exception
    assert_no_markup(app)
    return app


def reading(loaded, row=0):
    return Opened(loaded.space.corpus.digest, "words", row)


def assert_no_markup(app):
    for kind in (app.markdown, app.caption, app.info, app.warning, app.error):
        for element in kind:
            assert not any(bad in element.value for bad in HOSTILE)


def table(app, column):
    return [t.value for t in app.dataframe if column in t.value]


@pytest.fixture(scope="module")
def loaded():
    return corpus()


def test_sets_stand_beside_each_other_with_their_changes(loaded):
    asked = asked_of(loaded)
    answers = answered(loaded, asked, NAMES[:3])
    app = drawn(ranked, loaded, asked, answers)
    sets = table(app, "Nearest")
    assert len(sets) == 3 and ["Change" in s for s in sets] == [False, True, True]
    for name, shown in zip(answers, sets, strict=True):
        rows = [row for row in answers[name].ranking.index[0].tolist() if row >= 0]
        expected = [loaded.space.corpus.titles[r] or loaded.space.corpus.texts[r] for r in rows]
        assert list(shown["Document"])[: len(rows)] == expected
        assert list(shown["#"].dropna()) == list(range(1, len(rows) + 1))
    lacking = [t.value for t in app.text if t.value.startswith("Relevant, not returned")]
    assert lacking and all("gone (not in the corpus)" in line for line in lacking)


def test_more_decoders_than_fit_are_picked_and_forgotten_when_they_go(loaded):
    asked = asked_of(loaded)
    app = drawn(ranked, loaded, asked, answered(loaded, asked, NAMES[:6]), reading=reading(loaded))
    assert len(table(app, "Nearest")) == 3 and app.multiselect[0].value == NAMES[1:3]
    app.multiselect[0].set_value([NAMES[5], NAMES[2]]).run()
    assert not app.exception and len(table(app, "Nearest")) == 3
    assert list(table(app, "Why")[0]["Decoder"]) == [engine.methods()[n].title for n in (NAMES[0], NAMES[2], NAMES[5])]
    app.session_state["given"] = (ranked, loaded, asked, answered(loaded, asked, NAMES[:5]), NAMES[0])
    app.run()
    assert not app.exception and app.multiselect[0].value == [NAMES[2]] and len(table(app, "Nearest")) == 2
    app.multiselect[0].set_value([]).run()
    assert not app.exception and len(table(app, "Nearest")) == 1


def test_one_table_has_all_documents_of_all_sets(loaded):
    asked = asked_of(loaded)
    answers = answered(loaded, asked, NAMES)
    app = drawn(ranked, loaded, asked, answers, **{"ranked.layout": ranked.ONE}, reading=reading(loaded))
    (merged,) = table(app, "Sets")
    union = {row for a in answers.values() for row in a.ranking.index[0].tolist() if row >= 0}
    assert len(merged) == len(union) and {"✓", "Relevance"} <= set(merged.columns)
    assert sum(c.split(" ", 1)[-1] in {a.title for a in answers.values()} for c in merged.columns) == len(NAMES)
    assert list(table(app, "Why")[0]["Decoder"]) == [a.title for a in answers.values()]
    lacking = [t.value for t in app.text if t.value.startswith("Relevant, in no set")]
    assert len(lacking) == 1 and "gone" in lacking[0]


def test_without_judgements_there_is_no_tick(loaded):
    asked = asked_of(loaded, judged=False)
    answers = answered(loaded, asked, NAMES[:2])
    for layout in (ranked.SIDE, ranked.ONE):
        app = drawn(ranked, loaded, asked, answers, **{"ranked.layout": layout})
        assert not table(app, "✓") and not [c for c in app.caption if "judged" in c.value]


def test_the_panel_reads_the_document_that_was_opened_and_says_why(loaded):
    asked = asked_of(loaded)
    answers = answered(loaded, asked, ["top_k", "nnn", "mmr"])
    nothing = "Click a row to read the document"
    app = drawn(ranked, loaded, asked, answers)
    assert any(c.value.startswith(nothing) for c in app.caption) and not table(app, "Why")
    digest = loaded.space.corpus.digest
    for row in (17, 4):
        app = drawn(ranked, loaded, asked, answers, reading=Opened(digest, "words", row))
        assert any(loaded.space.corpus.texts[row] == t.value for t in app.text)
        (said,) = table(app, "Why")
        for at, answer in enumerate(answers.values()):
            expected = views.why(loaded.space, asked.vector, answer.ranking, row, answer.stage)
            assert said["Why"][at] == views.reasons(expected)
            assert (said["Rank"].isna()[at], said["Score"].isna()[at]) == (expected.rank is None,) * 2
        assert said["Would add"].notna().tolist() == [False, True, False]
    for other in (Opened("another corpus", "words", 17), Opened(digest, "another question", 17)):
        app = drawn(ranked, loaded, asked, answers, reading=other)
        assert any(c.value.startswith(nothing) for c in app.caption) and not table(app, "Why")


def test_empty_sets_are_said(loaded):
    asked = asked_of(loaded)
    answers = answered(loaded, asked, ["top_k", "nnn"], nnn={"l1": 50.0})
    app = drawn(ranked, loaded, asked, answers, reading=reading(loaded))
    assert "Out: would add" in table(app, "Why")[0]["Why"][1] and len(table(app, "Nearest")) == 2
    app = drawn(redundancy, loaded, asked, answers)
    assert "NNN: fewer than two documents" in [c.value for c in app.caption]
    alone = asked_of(loaded, k=1)
    app = drawn(redundancy, loaded, alone, answered(loaded, alone, NAMES[:3]))
    assert "nothing to compare" in app.info[0].value and not app.dataframe


def test_a_pool_is_part_of_the_reason(loaded):
    asked = asked_of(loaded, k=3, depth=5)
    answers = answered(loaded, asked, NAMES[:3])
    *_, last = answered(loaded, asked_of(loaded, k=30), NAMES[:1])[NAMES[0]].ranking.index[0].tolist()
    opened = Opened(loaded.space.corpus.digest, "words", last)
    (said,) = table(drawn(ranked, loaded, asked, answers, reading=opened), "Why")
    assert set(said["Why"]) == {"Out: #30 by relevance, and only the first 5 were looked at."}


def click():
    import streamlit as st

    from dashboard.explore.answers import clicked

    key, event, count = st.session_state["event"]
    st.session_state["found"] = clicked(key, event, count)


def test_a_click_is_a_change_of_place():
    app = AppTest.from_function(click)

    def found(key, place, count=9):
        cells = [] if place is None else [(place, "Document")]
        app.session_state["event"] = (key, SimpleNamespace(selection=SimpleNamespace(cells=cells)), count)
        app.run()
        assert not app.exception
        return app.session_state["found"]

    assert found("a", None) is None
    assert [found("a", 2), found("a", 2), found("a", 3)] == [2, None, 3]
    assert found("a", None) is None, "a second click on the same cell closes nothing"
    assert [found("a", 3), found("b", 1), found("a", None)] == [3, 1, 3], "marked still, and clicked after another"
    assert found("a", 8, count=5) is None, "the set has become shorter"


def test_redundancy_shows_figures_pairs_and_the_nearest_above(loaded):
    asked = asked_of(loaded)
    answers = answered(loaded, asked, ["top_k", "mmr"])
    app = drawn(redundancy, loaded, asked, answers)
    near = table(app, "Nearest already chosen")
    for (name, answer), shown in zip(answers.items(), near, strict=True):
        found = views.redundancy(loaded.space, answer.ranking)
        pairs = found.similarity[np.triu_indices(6, 1)]
        expected = f"mean {pairs.mean():.3f}, highest {pairs.max():.3f}, {(pairs >= 0.9).sum()} of 15 pairs"
        assert any(c.value.startswith(f"{answer.title}: {expected}") for c in app.caption), name
        assert shown["Similarity"].isna().tolist() == [True] + [False] * 5
    rows = views.redundancy(loaded.space, answers["top_k"].ranking).closest
    assert {loaded.space.corpus.texts[row] for row in rows} <= {t.value for t in app.text}


def test_a_clicked_cell_opens_both_documents(loaded):
    asked = asked_of(loaded)
    answers = answered(loaded, asked, ["top_k", "nnn"])
    rows = views.redundancy(loaded.space, answers["nnn"].ranking).rows
    clicked = Picked(f"{rows[2]}:{rows[0]}", clicks=1)
    app = drawn(redundancy, loaded, asked, answers, **{"redundancy.map.picked": clicked})
    assert {loaded.space.corpus.texts[row] for row in (rows[2], rows[0])} <= {t.value for t in app.text}
    (made,) = table(app, "B")
    assert (made["A"][1], made["B"][1]) == (3, 1)
    value = float(loaded.space.vectors[rows[2]].double() @ loaded.space.vectors[rows[0]].double())
    assert f"similarity of A and B: {value:.4f}" in [c.value for c in app.caption]
    for bad in ("1:999", "x:y", "3", "1:2:3", ""):
        app = drawn(redundancy, loaded, asked, answers, **{"redundancy.map.picked": Picked(bad, clicks=1)})
        closest = max((views.redundancy(loaded.space, a.ranking) for a in answers.values()), key=lambda r: r.most)
        assert {loaded.space.corpus.texts[row] for row in closest.closest} <= {t.value for t in app.text}


@pytest.mark.parametrize("dark", [False, True])
def test_the_heat_map_clips_its_colours_and_not_its_numbers(dark):
    loaded = corpus(negative=True)
    asked = asked_of(loaded, k=8)
    found = views.redundancy(loaded.space, answered(loaded, asked, ["max_sum"])["max_sum"].ranking)
    assert found.similarity.min() < -0.1
    figure = redundancy_figure([("max_sum", "<b>$x$", found)] * 2, dark)
    cells, points, *_ = figure.data
    assert [cells.z[i][i] for i in range(8)] == [None] * 8
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, 1)
    assert len(points.customdata) == len(points.hovertext) == 8 * 7
    pairs = {f"{found.rows[i]}:{found.rows[j]}": found.similarity[i, j] for i in range(8) for j in range(8) if i != j}
    for ident, said, x, y in zip(points.customdata, points.hovertext, points.x, points.y, strict=True):
        assert said.endswith(f"similarity {pairs[ident]:.3f}") and cells.z[y - 1][x - 1] == pairs[ident]
        assert "<img" not in said and "$" not in said
    assert all("<b>" not in a.text and "$" not in a.text for a in figure.layout.annotations)
    assert figure.layout.yaxis2.scaleanchor == "x2" and figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]


def test_the_heat_map_of_many_names_every_fifth_rank():
    loaded = corpus(60)
    found = views.redundancy(loaded.space, answered(loaded, asked_of(loaded, k=50), ["top_k"])["top_k"].ranking)
    figure = redundancy_figure([("top_k", "Top-k", found)], False)
    assert list(figure.layout.xaxis.tickvals) == [1, *range(5, 51, 5)] and len(found.rows) > EVERY_RANK
