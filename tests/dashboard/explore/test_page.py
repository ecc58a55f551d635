"""The tiles of Explore without a browser: what sliders are given, and what becomes of what they report."""

import gc

import pytest

import engine
from dashboard.components import vendor
from dashboard.explore.page import TILES_KEY, VIEWS
from dashboard.session import view_names
from engine.views import slider as slider_views
from engine.views.slider import has_slider
from support.packed import PackedPath
from support.pages import component, emit, load, run, screen, sets, tiles, widgets

WEIGHT = "explore.mmr.relevance_weight"


def slider(app, decoder, param):
    """A slider of a tile, as the browser gets it."""
    return next(s for s in tiles(app)[decoder]["sliders"] if s["param"] == param)


def path(told):
    """What a slider's address answers."""
    digest = told["urls"][-1].removeprefix(f"{vendor.ANSWERS}/").removesuffix(".json")
    return PackedPath(vendor._ANSWERS[digest].answer())


def released(app, values, serial=1):
    """The page after sliders were let go."""
    return emit(app, TILES_KEY, "committed", {"serial": serial, "values": values}, once=False)


def test_every_decoder_has_the_sliders_of_its_parameters():
    app = screen("explore", decoders=list(engine.methods("selector")))
    for name, spec in engine.methods("selector").items():
        shown = {s["param"]: s for s in tiles(app)[name]["sliders"]}
        assert set(shown) == {p.name for p in spec.params if has_slider(p)}
        for p in spec.params:
            if p.name in shown:
                assert (shown[p.name]["symbol"], shown[p.name]["value"]) == (p.symbol, p.default)
    marked = {(name, s["param"]) for name, tile in tiles(app).items() for s in tile["sliders"] if s["isWeight"]}
    weights = {(name, "relevance_weight") for name, tile in tiles(app).items() if tile["sliders"]}
    assert marked == {(name, param) for name, param in weights if name not in ("nnn", "threshold")}


@pytest.mark.parametrize(("view", "n_places"), [("Redundancy", 2), ("Check-up", 3)])
def test_a_view_has_places_of_its_own_and_empties_those_of_others(view, n_places):
    """The browser keeps a part that has another view's place, when the run that ends the old one is cut off."""
    app = screen("explore", view=view)
    shared = n_places - 2  # that of the tiles, on a view of all queries
    skeleton = 1  # that of the grey boxes before a first page
    invitation = 1  # that of the view before a query
    assert len(app.get("empty")) == 2 * (len(VIEWS) - 1) + shared + skeleton + invitation


def test_what_a_slider_shows_is_what_its_release_gives():
    app = screen("explore", decoders=["top_k", "mmr", "nnn"])
    for decoder, param, value in (("mmr", "relevance_weight", 0.25), ("nnn", "l1", 0.0)):
        told = slider(app, decoder, param)
        known, rows = path(told), tiles(app)[decoder]["set"].rows()
        assert known.rows_at(told["value"]) == rows
        app = released(app, {decoder: {param: value}}, serial=len(rows) + (decoder == "nnn"))
        assert tiles(app)[decoder]["set"].rows() == known.rows_at(value) != rows
        assert component(app, TILES_KEY)["touched"] == decoder, "the headline speaks of what was last moved"
        assert slider(app, decoder, param)["value"] == app.session_state[f"explore.{decoder}.{param}"] == value
        assert slider(app, decoder, param)["urls"][-1] == told["urls"][-1], "its answers are known already"
    assert app.query_params["mmr.relevance_weight"] == "0.25" == str(app.session_state[WEIGHT])
    app.session_state[WEIGHT] = 0.9
    assert slider(run(app), "mmr", "relevance_weight")["value"] == 0.9, "the session has the last word"


def test_a_slider_of_a_very_large_corpus_is_drawn_from_the_most_relevant_and_let_go_over_all(monkeypatch):
    everything = path(slider(screen("explore", decoders=["top_k", "mmr"]), "mmr", "relevance_weight"))
    vendor._ANSWERS.clear()
    monkeypatch.setattr(slider_views, "MAX_FULL_SIZE", 100)
    monkeypatch.setattr(slider_views, "POOL_SIZE", 15)
    app = screen("explore", decoders=["top_k", "mmr"])
    drawn = path(slider(app, "mmr", "relevance_weight"))
    assert drawn.data["within"] == "from the top 20" and "within" not in everything.data
    assert drawn.rows_at(1.0) == everything.rows_at(1.0) and drawn.rows_at(0.1) != everything.rows_at(0.1)
    app = released(app, {"mmr": {"relevance_weight": 0.1}})
    assert tiles(app)["mmr"]["set"].rows() == everything.rows_at(0.1)


def test_a_released_slider_of_whole_numbers_sets_its_own_form():
    app = screen("explore", decoders=["nnn"], **{"explore.nnn.scale": "support"})
    told = slider(app, "nnn", "l1")
    assert path(told).stops == list(range(1, 51)) and path(told).data["ends"] is None
    app = released(app, {"nnn": {"l1": 4}})
    assert app.session_state["explore.nnn.l1.support"] == 4 and "explore.nnn.l1" not in widgets(app)
    assert len(sets(app)[0]) == 4


def test_what_no_slider_would_report_changes_nothing():
    app = screen("explore", decoders=["top_k", "mmr"])
    before = sets(app)
    bad = {"mmr": {"relevance_weight": 7, "window": "x", "nosuch": 1}, "nosuch": {"l1": 1}, "top_k": {}}
    app = released(app, bad)
    assert sets(app) == before and component(app, TILES_KEY)["serial"] == 1 and WEIGHT not in app.session_state


def test_answers_say_which_settings_they_are_of():
    app = screen("explore", decoders=["top_k", "mmr"])
    assert component(app, TILES_KEY)["serial"] == 0
    app = released(app, {"mmr": {"relevance_weight": 0.4}}, serial=3)
    assert component(app, TILES_KEY)["serial"] == 3
    app = released(app, {"mmr": {"relevance_weight": 0.5}}, serial=2)
    assert component(app, TILES_KEY)["serial"] == 3, "a report that was overtaken does not set the count back"


def test_j_and_k_go_to_the_next_query_and_back():
    app = screen("explore")
    first, asked = component(app, TILES_KEY)["query"], next(b for b in app.selectbox if str(b.key).startswith("query."))
    count = len(asked.options)
    # The browser says where it wants to be: several steps may come at once, and one twice.
    for number, (position, index) in enumerate(((1, 1), (0, 0), (-1, count - 1), (3, 3), (3, 3), (count, 0))):
        app = emit(app, TILES_KEY, "position", [position, number], once=False)
        assert next(b for b in app.selectbox if b.key == asked.key).index == index
        assert component(app, TILES_KEY)["position"] == index
        assert (component(app, TILES_KEY)["query"] == first) == (index == 0)
        # The sentence about all queries stands over the query that it names.
        assert bool(component(app, TILES_KEY)["headline"]) == (index == 0)


def test_a_row_is_opened_and_closed_from_its_list():
    app = screen("explore")
    row = tiles(app)["mmr"]["set"].rows()[2]
    app = emit(app, "explore.lists", "opened", {"row": row, "source": "mmr"})
    assert component(app, "explore.lists")["opened"] == row and app.session_state["reading"].source == "mmr"
    app = emit(app, "explore.lists", "opened", {"row": len(load().space), "source": "mmr"})
    assert component(app, "explore.lists")["opened"] == row, "no such row"
    assert component(emit(app, "explore.lists", "opened", {"row": None}), "explore.lists")["opened"] is None


def test_answers_keep_no_scores_alive_and_say_so():
    app = screen("explore", decoders=["mmr"], **{"explore.mmr.retrieve": "bm25"})
    told = slider(app, "mmr", "relevance_weight")
    assert path(told).rows_at(told["value"]) == tiles(app)["mmr"]["set"].rows()
    for table in ("scored", "answers", "good"):
        app.session_state[table].clear()
    gc.collect()
    with pytest.raises(engine.DataError, match="no longer in memory"):
        path(told)


def test_views_of_a_corpus_elsewhere_need_none_of_its_documents_and_one_view_is_of_all_queries():
    elsewhere = [name for name, view in VIEWS.items() if not view.needs_documents]
    assert elsewhere == [view_names.RESULTS, view_names.REDUNDANCY]
    assert [name for name, view in VIEWS.items() if not view.is_of_query] == [view_names.CHECK_UP]
