"""The parts of Explore without a browser: the ranked diff, the reading panel, the redundancy of a set."""

from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import engine
from dashboard.charts.redundancy import EVERY_RANK, redundancy_figure
from dashboard.components.live_plot import Picked
from dashboard.explore import ranked_diff, redundancy
from dashboard.explore.document_panel import OpenDocument
from dashboard.session.answers import Answer
from engine import views
from support.explore_parts import NAMES, corpus, drawn, question_of, reading
from support.pages import tables


def answers_of(loaded, asked, names, **params):
    query = engine.Embeddings(asked.vector.unsqueeze(0), ("q",))
    answers, base = {}, None
    for name in names:
        stage = engine.make(name, **params.get(name, {}))
        decoder = engine.Decoder(select=stage, depth=asked.depth)
        ranking = engine.decode(decoder, loaded.space, query, k=asked.k)
        base = base or ranking
        figures = views.card(loaded.space, "q", ranking, base, asked.qrels, asked.k)
        answers[name] = Answer(name, decoder, ranking, figures, 0.001)
    return answers


@pytest.fixture(scope="module")
def loaded():
    return corpus()


@pytest.fixture
def asked(loaded):
    return question_of(loaded)


def test_side_by_side_sets_show_ranks_changes_and_missed_documents(loaded, asked):
    answers = answers_of(loaded, asked, NAMES[:3])
    app = drawn(ranked_diff, loaded, asked, answers)
    sets = tables(app, "Nearest")
    assert len(sets) == 3 and ["Change" in s for s in sets] == [False, True, True]
    for name, shown in zip(answers, sets, strict=True):
        rows = answers[name].ranking.rows()
        expected = [loaded.space.corpus.titles[r] or loaded.space.corpus.texts[r] for r in rows]
        assert list(shown["Document"])[: len(rows)] == expected
        assert list(shown["#"].dropna()) == list(range(1, len(rows) + 1))
    missed = [t.value for t in app.text if t.value.startswith("Relevant, not returned")]
    assert missed and all("gone (not in the corpus)" in line for line in missed)


def test_decoders_beside_the_baseline_are_picked_and_dropped_when_gone(loaded, asked):
    app = drawn(ranked_diff, loaded, asked, answers_of(loaded, asked, NAMES[:6]), reading=reading(loaded))
    assert len(tables(app, "Nearest")) == 3 and app.multiselect[0].value == NAMES[1:3]
    app.multiselect[0].set_value([NAMES[5], NAMES[2]]).run()
    assert not app.exception and len(tables(app, "Nearest")) == 3
    assert list(tables(app, "Why")[0]["Decoder"]) == [engine.methods()[n].title for n in (NAMES[0], NAMES[2], NAMES[5])]
    app.session_state["given"] = (ranked_diff, loaded, asked, answers_of(loaded, asked, NAMES[:5]), NAMES[0])
    app.run()
    assert not app.exception and app.multiselect[0].value == [NAMES[2]] and len(tables(app, "Nearest")) == 2
    app.multiselect[0].set_value([]).run()
    assert not app.exception and len(tables(app, "Nearest")) == 1


def test_one_table_holds_the_union_of_all_sets(loaded, asked):
    answers = answers_of(loaded, asked, NAMES)
    app = drawn(ranked_diff, loaded, asked, answers, **{"ranked.layout": ranked_diff.ONE}, reading=reading(loaded))
    (merged,) = tables(app, "Sets")
    union = {row for a in answers.values() for row in a.ranking.rows()}
    assert len(merged) == len(union) and {"✓", "Relevance"} <= set(merged.columns)
    assert sum(c.split(" ", 1)[-1] in {a.title for a in answers.values()} for c in merged.columns) == len(NAMES)
    assert list(tables(app, "Why")[0]["Decoder"]) == [a.title for a in answers.values()]
    missed = [t.value for t in app.text if t.value.startswith("Relevant, in no set")]
    assert len(missed) == 1 and "gone" in missed[0]


def test_ticks_are_absent_without_judgements(loaded):
    asked = question_of(loaded, judged=False)
    answers = answers_of(loaded, asked, NAMES[:2])
    for layout in (ranked_diff.SIDE, ranked_diff.ONE):
        app = drawn(ranked_diff, loaded, asked, answers, **{"ranked.layout": layout})
        assert not tables(app, "✓") and not [c for c in app.caption if "judged" in c.value]


def test_panel_shows_the_open_document_and_the_reasons(loaded, asked):
    answers = answers_of(loaded, asked, ["top_k", "nnn", "mmr"])
    nothing = "Click a row to read the document"
    app = drawn(ranked_diff, loaded, asked, answers)
    assert any(c.value.startswith(nothing) for c in app.caption) and not tables(app, "Why")
    digest = loaded.space.corpus.digest
    for row in (17, 4):
        app = drawn(ranked_diff, loaded, asked, answers, reading=OpenDocument(digest, "words", row))
        assert any(loaded.space.corpus.texts[row] == t.value for t in app.text)
        (reasons,) = tables(app, "Why")
        for place, answer in enumerate(answers.values()):
            expected = views.why(loaded.space, asked.vector, answer.ranking, row, answer.stage)
            assert reasons["Why"][place] == views.reasons(expected)
            assert (reasons["Rank"].isna()[place], reasons["Score"].isna()[place]) == (expected.rank is None,) * 2
        assert reasons["Would add"].notna().tolist() == [False, True, False]
    for other in (OpenDocument("another corpus", "words", 17), OpenDocument(digest, "another question", 17)):
        app = drawn(ranked_diff, loaded, asked, answers, reading=other)
        assert any(c.value.startswith(nothing) for c in app.caption) and not tables(app, "Why")


def test_empty_sets_are_reported(loaded, asked):
    answers = answers_of(loaded, asked, ["top_k", "nnn"], nnn={"l1": 50.0})
    app = drawn(ranked_diff, loaded, asked, answers, reading=reading(loaded))
    assert "Out: would add" in tables(app, "Why")[0]["Why"][1] and len(tables(app, "Nearest")) == 2
    app = drawn(redundancy, loaded, asked, answers)
    assert "NNN: fewer than two documents" in [c.value for c in app.caption]
    alone = question_of(loaded, k=1)
    app = drawn(redundancy, loaded, alone, answers_of(loaded, alone, NAMES[:3]))
    assert "nothing to compare" in app.info[0].value and not app.dataframe


def test_reason_names_the_pool(loaded):
    asked = question_of(loaded, k=3, depth=5)
    answers = answers_of(loaded, asked, NAMES[:3])
    *_, last = answers_of(loaded, question_of(loaded, k=30), NAMES[:1])[NAMES[0]].ranking.index[0].tolist()
    document = OpenDocument(loaded.space.corpus.digest, "words", last)
    (reasons,) = tables(drawn(ranked_diff, loaded, asked, answers, reading=document), "Why")
    assert set(reasons["Why"]) == {"Out: relevance rank 30, beyond the pool of 5."}


def click():
    import streamlit as st

    from dashboard.widgets.tables import clicked

    key, event, count = st.session_state["event"]
    st.session_state["row"] = clicked(key, event, count)


def test_click_is_a_change_of_place():
    app = AppTest.from_function(click)

    def row_clicked(key, place, count=9):
        cells = [] if place is None else [(place, "Document")]
        app.session_state["event"] = (key, SimpleNamespace(selection=SimpleNamespace(cells=cells)), count)
        app.run()
        assert not app.exception
        return app.session_state["row"]

    assert row_clicked("a", None) is None
    assert [row_clicked("a", 2), row_clicked("a", 2), row_clicked("a", 3)] == [2, None, 3]
    assert row_clicked("a", None) is None, "a second click on the same cell closes nothing"
    assert [row_clicked("a", 3), row_clicked("b", 1), row_clicked("a", None)] == [3, 1, 3], (
        "marked still, and clicked after another"
    )
    assert row_clicked("a", 8, count=5) is None, "the set has become shorter"


def test_redundancy_shows_statistics_and_the_nearest_above(loaded, asked):
    answers = answers_of(loaded, asked, ["top_k", "mmr"])
    app = drawn(redundancy, loaded, asked, answers)
    near = tables(app, "Nearest already chosen")
    for (name, answer), shown in zip(answers.items(), near, strict=True):
        similar = views.redundancy(loaded.space, answer.ranking)
        pairs = similar.similarity[np.triu_indices(6, 1)]
        expected = f"mean {pairs.mean():.3f}, highest {pairs.max():.3f}, {(pairs >= 0.9).sum()} of 15 pairs"
        assert any(c.value.startswith(f"{answer.title}: {expected}") for c in app.caption), name
        assert shown["Similarity"].isna().tolist() == [True] + [False] * 5
    rows = views.redundancy(loaded.space, answers["top_k"].ranking).closest
    assert {loaded.space.corpus.texts[row] for row in rows} <= {t.value for t in app.text}


def test_clicked_cell_opens_both_documents(loaded, asked):
    answers = answers_of(loaded, asked, ["top_k", "nnn"])
    rows = views.redundancy(loaded.space, answers["nnn"].ranking).rows
    clicked = Picked(f"{rows[2]}:{rows[0]}", clicks=1)
    app = drawn(redundancy, loaded, asked, answers, **{"redundancy.map.picked": clicked})
    assert {loaded.space.corpus.texts[row] for row in (rows[2], rows[0])} <= {t.value for t in app.text}
    (ranks,) = tables(app, "B")
    assert (ranks["A"][1], ranks["B"][1]) == (3, 1)
    value = float(loaded.space.vectors[rows[2]].double() @ loaded.space.vectors[rows[0]].double())
    assert f"similarity of A and B: {value:.4f}" in [c.value for c in app.caption]
    for bad in ("1:999", "x:y", "3", "1:2:3", ""):
        app = drawn(redundancy, loaded, asked, answers, **{"redundancy.map.picked": Picked(bad, clicks=1)})
        closest = max((views.redundancy(loaded.space, a.ranking) for a in answers.values()), key=lambda r: r.most)
        assert {loaded.space.corpus.texts[row] for row in closest.closest} <= {t.value for t in app.text}


@pytest.mark.parametrize("dark", [False, True])
def test_heat_map_clips_its_colours_and_not_its_numbers(dark):
    loaded = corpus(negative=True)
    asked = question_of(loaded, k=8)
    similar = views.redundancy(loaded.space, answers_of(loaded, asked, ["max_sum"])["max_sum"].ranking)
    assert similar.similarity.min() < -0.1
    figure = redundancy_figure([("max_sum", "<b>$x$", similar)] * 2, dark)
    cells, points, *_ = figure.data
    assert [cells.z[i][i] for i in range(8)] == [None] * 8
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, 1)
    assert len(points.customdata) == len(points.hovertext) == 8 * 7
    pairs = {
        f"{similar.rows[i]}:{similar.rows[j]}": similar.similarity[i, j] for i in range(8) for j in range(8) if i != j
    }
    for ident, text, x, y in zip(points.customdata, points.hovertext, points.x, points.y, strict=True):
        assert text.endswith(f"similarity {pairs[ident]:.3f}") and cells.z[y - 1][x - 1] == pairs[ident]
        assert "<img" not in text and "$" not in text
    assert all("<b>" not in a.text and "$" not in a.text for a in figure.layout.annotations)
    assert figure.layout.yaxis2.scaleanchor == "x2" and figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]


def test_heat_map_of_many_names_every_fifth_rank():
    loaded = corpus(60)
    similar = views.redundancy(loaded.space, answers_of(loaded, question_of(loaded, k=50), ["top_k"])["top_k"].ranking)
    figure = redundancy_figure([("top_k", "Top-k", similar)], False)
    assert list(figure.layout.xaxis.tickvals) == [1, *range(5, 51, 5)] and len(similar.rows) > EVERY_RANK
