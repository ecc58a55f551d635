"""The parts of Explore without a browser: lists, one table, the reading drawer, the redundancy of a set."""

from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.charts.palette import method_style
from dashboard.charts.redundancy import MAX_TICKED_RANKS, plot_redundancy
from dashboard.components.live_plot import Picked
from dashboard.explore.document_panel import OpenDocument
from dashboard.explore.results import FORM_KEY, LISTS, TABLE
from dashboard.session.decoders import TOUCHED_KEY
from dashboard.session.duplicates import threshold_key
from dashboard.session.view_names import REDUNDANCY, RESULTS
from engine.views import decision
from engine.views import redundancy as redundancy_views
from engine.views import sets as set_views
from engine.wording import decimal
from support.explore_parts import NAMES, answers_of, corpus, draw_view, question_of, read_reasons, reading
from support.pages import baseline, component, figures, press, sets, tables, tiles


@pytest.fixture(scope="module")
def loaded():
    return corpus()


@pytest.fixture
def asked(loaded):
    return question_of(loaded)


def test_the_lists_hold_each_decoders_set_and_name_what_all_miss(loaded, asked):
    answers = answers_of(loaded, asked, NAMES)
    app = draw_view(RESULTS, loaded, asked, answers)
    for shown, answer in zip(sets(app), answers.values(), strict=True):
        titles, texts = loaded.space.corpus.titles, loaded.space.corpus.texts
        assert shown == [titles[row] or texts[row] for row in answer.ranking.rows()]
    assert baseline(app) == sets(app)[0] and [t["baseline"] for t in tiles(app).values()] == [
        n == NAMES[0] for n in NAMES
    ]
    relevant = component(app, "explore.lists")["relevant"]
    retrieved = {loaded.space.corpus.ids[row] for answer in answers.values() for row in answer.ranking.rows()}
    absent = [ident for ident in ("id0", "id9", "id20", "gone") if ident not in retrieved]
    # The browser names those that no set has, also while a slider is dragged.
    rows = {row for answer in answers.values() for row in answer.ranking.rows()}
    missed = [name for row, name in relevant if row not in rows]
    assert "gone (not in the corpus)" in missed and len(missed) == len(absent) < len(relevant)


def test_tiles_are_told_whose_setting_was_last_brought(loaded, asked):
    answers = answers_of(loaded, asked, NAMES)
    assert component(draw_view(RESULTS, loaded, asked, answers), "explore.tiles")["touched"] is None
    app = draw_view(RESULTS, loaded, asked, answers, **{TOUCHED_KEY: "nnn"})
    assert component(app, "explore.tiles")["touched"] == "nnn"


def test_figures_of_the_tiles_are_those_of_the_answers(loaded, asked):
    answers = answers_of(loaded, asked, NAMES, nnn={"l1": 0.6})
    app = draw_view(RESULTS, loaded, asked, answers)
    base = answers[NAMES[0]].ranking
    cards = [set_views.card(loaded.space, "q", a.ranking, base, asked.qrels, asked.k) for a in answers.values()]
    assert figures(app, "Recall@6") == [card.recall for card in cards]
    for shown, card in zip(figures(app, "ILAD@6"), cards, strict=True):
        assert shown == pytest.approx(card.ilad, abs=2e-5)
    for tile, answer in zip(tiles(app).values(), answers.values(), strict=True):
        rows, own = redundancy_views.redundancy(loaded.space, answer.ranking).rows, tile["set"]
        assert own.rows() == list(rows)
        expected = loaded.space.vectors[list(rows)].double() @ asked.vector.double()
        relevance = [tile["now"]["relevance"][i] for i in own.ids()]
        assert relevance == pytest.approx(expected.tolist(), abs=2e-6)


def test_one_table_holds_the_union_of_all_sets(loaded, asked):
    answers = answers_of(loaded, asked, NAMES)
    app = draw_view(RESULTS, loaded, asked, answers, reading=reading(loaded), **{FORM_KEY: TABLE})
    (merged,) = tables(app, "Found by")
    union = {row for a in answers.values() for row in a.ranking.rows()}
    assert len(merged) == len(union) and not sets(app)
    # On a phone the first columns alone are visible: the document's and those of ranks.
    assert merged.columns[0] == "Document" and list(merged.columns[-3:]) == ["✓", "Found by", "Relevance"]
    assert sum(c.split(" ", 1)[-1] in {a.title for a in answers.values()} for c in merged.columns) == len(NAMES)
    assert len(read_reasons(app)) == len(answers)
    missed = [t.value for t in app.text if t.value.startswith("Missed by all")]
    assert len(missed) == 1 and "gone" in missed[0]


def test_ticks_are_absent_without_judgements(loaded):
    asked = question_of(loaded, judged=False)
    answers = answers_of(loaded, asked, NAMES[:2])
    for form in (LISTS, TABLE):
        app = draw_view(RESULTS, loaded, asked, answers, reading=reading(loaded), **{FORM_KEY: form})
        assert not tables(app, "✓") and not [c for c in app.caption if "judged" in c.value]
        assert component(app, "explore.tiles")["judged"] == 0 and not any(
            t["now"]["right"] for t in tiles(app).values()
        )


def test_drawer_shows_the_open_document_and_the_reasons_until_it_is_closed(loaded, asked):
    answers = answers_of(loaded, asked, ["top_k", "nnn", "mmr"])
    app = draw_view(RESULTS, loaded, asked, answers)
    assert not read_reasons(app) and component(app, "explore.lists")["opened"] is None
    digest = loaded.space.corpus.digest
    for row in (17, 4):
        app = draw_view(RESULTS, loaded, asked, answers, reading=OpenDocument(digest, "words", row))
        assert any(loaded.space.corpus.texts[row] == t.value for t in app.text)
        assert component(app, "explore.lists")["opened"] == row
        for line, (name, answer) in zip(read_reasons(app), answers.items(), strict=True):
            expected = decision.explain_document(loaded.space, asked.vector, answer.ranking, row, answer.stage)
            rank = "" if expected.rank is None else f" #{expected.rank}"
            assert line == f"{method_style(name).sign} {answer.title}{rank}. {decision.describe_reasons(expected)}"
            if expected.rank is not None:
                assert any(f"score when picked {decimal(expected.score)}" in t.value for t in app.text)
        assert any(c.value.startswith("Relevance 0.") and f" of {len(loaded.space)}" in c.value for c in app.caption)
    assert not read_reasons(press(app, "reading.close")) and component(app, "explore.lists")["opened"] is None
    for other in (OpenDocument("another corpus", "words", 17), OpenDocument(digest, "another question", 17)):
        app = draw_view(RESULTS, loaded, asked, answers, reading=other)
        assert not read_reasons(app) and component(app, "explore.lists")["opened"] is None


def test_empty_sets_are_reported(loaded, asked):
    answers = answers_of(loaded, asked, ["top_k", "nnn"], nnn={"l1": 50.0})
    app = draw_view(RESULTS, loaded, asked, answers, reading=reading(loaded))
    assert "Out: would add" in read_reasons(app)[1] and sets(app)[1] == [] and figures(app, "ILAD@6")[1] is None
    app = draw_view(REDUNDANCY, loaded, asked, answers)
    assert "NNN: fewer than two documents" in [c.value for c in app.caption]
    alone = question_of(loaded, k=1)
    app = draw_view(REDUNDANCY, loaded, alone, answers_of(loaded, alone, NAMES[:3]))
    assert "nothing to compare" in app.info[0].value and not app.dataframe


def test_reason_names_the_pool(loaded):
    asked = question_of(loaded, k=3, depth=5)
    answers = answers_of(loaded, asked, NAMES[:3])
    *_, last = answers_of(loaded, question_of(loaded, k=30), NAMES[:1])[NAMES[0]].ranking.index[0].tolist()
    document = OpenDocument(loaded.space.corpus.digest, "words", last)
    shown = read_reasons(draw_view(RESULTS, loaded, asked, answers, reading=document))
    why = "Out: relevance rank 30, beyond the pool of 5."
    assert [line.split(". ", 1)[1] for line in shown] == [why] * 3


def click():
    import streamlit as st

    from dashboard.widgets.tables import find_click

    key, event, count = st.session_state["event"]
    st.session_state["row"] = find_click(key, event, count)


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
    app = draw_view(REDUNDANCY, loaded, asked, answers)
    near = tables(app, "Nearest already chosen")
    for (name, answer), shown in zip(answers.items(), near, strict=True):
        similar = redundancy_views.redundancy(loaded.space, answer.ranking)
        pairs = similar.similarity[np.triu_indices(6, 1)]
        figure = plot_redundancy([(name, answer.title, similar)], False)
        assert f">{(pairs >= 0.9).sum()} of 15 pairs<" in figure.layout.annotations[0].text, name
        assert any("cosine of 0.9 or more" in caption.value for caption in app.caption)
        assert shown["Cosine"].isna().tolist() == [True] + [False] * 5
    rows = redundancy_views.redundancy(loaded.space, answers["top_k"].ranking).closest
    assert {loaded.space.corpus.texts[row] for row in rows} <= {t.value for t in app.text}


def test_redundancy_counts_by_the_threshold_that_is_set(loaded, asked):
    answers = answers_of(loaded, asked, ["top_k"])
    app = draw_view(REDUNDANCY, loaded, asked, answers, **{threshold_key(loaded): 0.7})
    assert any("cosine of 0.7 or more" in caption.value for caption in app.caption)


def test_clicked_cell_opens_both_documents(loaded, asked):
    answers = answers_of(loaded, asked, ["top_k", "nnn"])
    rows = redundancy_views.redundancy(loaded.space, answers["nnn"].ranking).rows
    clicked = Picked(f"{rows[2]}:{rows[0]}", clicks=1)
    app = draw_view(REDUNDANCY, loaded, asked, answers, **{"redundancy.map.picked": clicked})
    assert {loaded.space.corpus.texts[row] for row in (rows[2], rows[0])} <= {t.value for t in app.text}
    (ranks,) = tables(app, "B")
    assert (ranks["A"][1], ranks["B"][1]) == (3, 1)
    value = float(loaded.space.vectors[rows[2]].double() @ loaded.space.vectors[rows[0]].double())
    assert f"Cosine of A and B: {value:.2f}" in [c.value for c in app.caption]
    for bad in ("1:999", "x:y", "3", "1:2:3", ""):
        app = draw_view(REDUNDANCY, loaded, asked, answers, **{"redundancy.map.picked": Picked(bad, clicks=1)})
        closest = max(
            (redundancy_views.redundancy(loaded.space, a.ranking) for a in answers.values()), key=lambda r: r.most
        )
        assert {loaded.space.corpus.texts[row] for row in closest.closest} <= {t.value for t in app.text}


@pytest.mark.parametrize("dark", [False, True])
def test_heat_map_clips_its_colours_and_not_its_numbers(dark):
    loaded = corpus(negative=True)
    asked = question_of(loaded, k=8)
    similar = redundancy_views.redundancy(loaded.space, answers_of(loaded, asked, ["max_sum"])["max_sum"].ranking)
    assert similar.similarity.min() < -0.1
    figure = plot_redundancy([("max_sum", "<b>$x$", similar)] * 2, dark)
    cells, points, *_ = figure.data
    assert [cells.z[i][i] for i in range(8)] == [None] * 8
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, 1)
    assert len(points.customdata) == len(points.hovertext) == 8 * 7
    pairs = {
        f"{similar.rows[i]}:{similar.rows[j]}": similar.similarity[i, j] for i in range(8) for j in range(8) if i != j
    }
    for ident, text, x, y in zip(points.customdata, points.hovertext, points.x, points.y, strict=True):
        assert text.endswith(f"cosine {pairs[ident]:.3f}") and cells.z[y - 1][x - 1] == pairs[ident]
        assert "<img" not in text and "$" not in text
    assert all("<b>" not in a.text and "$" not in a.text for a in figure.layout.annotations)
    assert figure.layout.yaxis2.scaleanchor == "x2" and figure.layout.xaxis.domain[1] < figure.layout.xaxis2.domain[0]


def test_every_decoder_has_a_heat_map_and_more_than_four_stand_in_rows():
    loaded = corpus()
    asked = question_of(loaded)
    answers = answers_of(loaded, asked, ["top_k", "mmr", "dpp", "nnn", "vrsd"])
    sets = [(n, a.title, redundancy_views.redundancy(loaded.space, a.ranking)) for n, a in answers.items()]
    layout = plot_redundancy(sets, False).layout
    x_starts = [round(layout[f"xaxis{i or ''}"].domain[0], 3) for i in (0, 2, 3, 4, 5)]
    tops = [round(layout[f"yaxis{i or ''}"].domain[1], 3) for i in (0, 2, 3, 4, 5)]
    assert x_starts[0] == x_starts[4] and len(set(x_starts)) == 4 and tops[0] == tops[3] > tops[4] > 0
    assert (
        len(layout.annotations)
        == 5
        == len(tables(draw_view(REDUNDANCY, loaded, asked, answers), "Nearest already chosen"))
    )


def test_heat_map_of_many_names_every_fifth_rank():
    loaded = corpus(60)
    similar = redundancy_views.redundancy(
        loaded.space, answers_of(loaded, question_of(loaded, k=50), ["top_k"])["top_k"].ranking
    )
    figure = plot_redundancy([("top_k", "Top-k", similar)], False)
    assert list(figure.layout.xaxis.tickvals) == [1, *range(5, 51, 5)] and len(similar.rows) > MAX_TICKED_RANKS
