"""The Check-up view: its headline and wall, and what a click on a square and a released slider set."""

import json

import numpy as np
import pytest
import streamlit as st

from dashboard.explore import checkup
from dashboard.services.source import Source
from dashboard.session.duplicates import threshold_key
from dashboard.session.view_names import CHECK_UP
from support import pages


def page():
    from dashboard import frame
    from dashboard.explore import checkup

    loaded, question = frame.draw_header()
    if loaded is not None and question is not None:
        checkup.draw_check_up(loaded, question)


def shown(**session):
    return pages.draw_page(page, **session)


def data_of(app):
    """What the wall is drawn from."""
    block = next(one for one in app.main if one.type == "bidi_component")
    return json.loads(block.proto.json)


def test_every_query_of_the_split_has_a_square_the_most_redundant_first():
    loaded = pages.load()
    app = shown(source=pages.DEMO)
    queries = loaded.dataset.judged("dev")
    data = data_of(app)
    counts = data["base"]["pairs"]
    assert len(data["titles"]) == len(counts) == len(queries) and data["size"] == 10
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
    assert f"of {len(queries)} queries the top 10 holds near-duplicates" in data["headline"]
    assert f"({counts[0]} pairs)" in data["headline"] and not data["shown"]
    assert data["current"] == data["titles"].index(queries.texts[0])
    assert len(data["judged"]) == len(data["base"]["off"]) == len(queries) and min(data["judged"]) > 0
    assert max(data["base"]["off"]) <= 10 and sum(data["base"]["found"]) > 0


def test_the_threshold_that_is_set_counts_on_the_wall_and_in_its_headline():
    threshold = threshold_key(pages.load())
    default = data_of(shown(source=pages.DEMO))
    lower = data_of(shown(source=pages.DEMO, **{threshold: 0.8}))
    assert "near-duplicates (cosine ≥ 0.9)" in default["headline"]
    assert "near-duplicates (cosine ≥ 0.8)" in lower["headline"] and "cosine ≥ 0.8" in lower["legend"]
    assert sum(lower["base"]["pairs"]) > sum(default["base"]["pairs"])
    # The sets along the slider are counted by it too, so that they come from another address.
    assert not set(lower["decoders"][0]["urls"]) & set(default["decoders"][0]["urls"])


def test_a_released_slider_packs_no_set_of_the_baseline_again(monkeypatch):
    packed, pack_costs = [], checkup.pack_costs
    monkeypatch.setattr(checkup, "pack_costs", lambda *args: packed.append(1) or pack_costs(*args))
    app = shown(source=pages.DEMO)
    first = data_of(app)["base"]
    app.session_state["explore.mmr.relevance_weight"] = 0.3
    assert data_of(pages.run(app))["base"] == first and len(packed) == 1
    app.slider(key="k").set_value(4)
    assert data_of(pages.run(app))["base"] != first and len(packed) == 2


@pytest.mark.parametrize(
    ("chosen", "offered"),
    [(["top_k", "dpp", "mmr"], ["mmr", "dpp"]), (["vrsd", "nnn"], ["nnn"]), (["top_k"], ["mmr"]), ([], ["mmr"])],
)
def test_chosen_decoders_with_a_slider_are_offered_else_the_first_one(chosen, offered):
    data = data_of(shown(source=pages.DEMO, decoders=chosen))
    assert [decoder["key"] for decoder in data["decoders"]] == offered and data["decoder"] == offered[0]
    for decoder in data["decoders"]:
        assert decoder["stops"][0] <= decoder["value"] <= decoder["stops"][-1]
        assert decoder["urls"] == list(dict.fromkeys(decoder["urls"])) != []


def replace_wall(monkeypatch, message):
    """Draw two buttons in place of the wall: one releases the slider with a message, one clicks the fourth square."""

    def wall(content, sliders, state, key, on_click, on_release):
        st.session_state["drawn"] = {"title": content.titles[3], "state": state, "urls": sliders[0]["urls"]}
        st.button("Release", key="release", on_click=on_release, args=(message,))
        st.button("Square 3", key="square", on_click=on_click, args=(3,))

    monkeypatch.setattr(checkup, "draw_wall", wall)


def test_a_click_asks_the_query_and_opens_the_first_view(monkeypatch):
    replace_wall(monkeypatch, {})
    app = shown(source=pages.DEMO, view="Map")
    assert app.session_state["view"] == "Map"
    title = pages.press(app, "square").session_state["drawn"]["title"]
    queries, (key,) = pages.load().dataset.judged("dev"), [k for k in app.session_state if k.startswith("query.")]
    assert title == queries.texts[app.session_state[key]] and app.session_state[key] > 0
    assert app.session_state["view"] == "Results"


@pytest.mark.parametrize("chosen", [["top_k"], ["top_k", "mmr"]])
def test_a_release_sets_the_decoder_that_a_click_then_compares(chosen, monkeypatch):
    replace_wall(monkeypatch, {"decoder": "mmr", "value": 0.37, "shown": True, "serial": 1})
    app = pages.screen("explore", view=CHECK_UP, decoders=chosen)
    assert not any(one.type == "bidi_component" for one in app.main), "no tiles of the current query"
    first = app.session_state["drawn"]
    assert first["state"]["address"] is None
    app = pages.press(app, "release")
    then = app.session_state["drawn"]
    assert then["state"]["decoder"] == "mmr" and then["state"]["shown"]
    address = then["state"]["address"]
    assert "mmr.relevance_weight=0.37" in address if "mmr" in chosen else address is None, "the browser writes it"
    assert then["urls"] == first["urls"], "the sets along the slider do not depend on where it stands"
    app = pages.press(app, "square")
    assert app.session_state["decoders"] == ["top_k", "mmr"] and app.query_params["mmr.relevance_weight"] == "0.37"


@pytest.mark.parametrize("message", [{}, {"decoder": "vrsd", "value": 1}, {"decoder": "mmr", "value": "all"}])
def test_a_release_that_no_browser_sends_sets_nothing(message, monkeypatch):
    replace_wall(monkeypatch, message)
    app = pages.press(shown(source=pages.DEMO), "release")
    assert "explore.mmr.relevance_weight" not in app.session_state


def test_a_corpus_without_queries_asks_its_documents(tmp_path):
    vectors = np.eye(6, dtype=np.float32)[[0, 0, 1, 2, 3, 4]] + 1e-3
    file = tmp_path / "own.npy"
    np.save(file, vectors)
    pages.load(Source(str(file)))
    data = data_of(shown(source=Source(str(file)), k=2))
    assert "documents asked as queries" in data["headline"] and "(1 pair)" in data["headline"]
    assert len(data["titles"]) == 6


@pytest.mark.parametrize("k", [1, 400])
def test_any_k_has_a_check_up(k):
    assert len(pages.load().space) > 400
    assert data_of(shown(source=pages.DEMO, k=k))["size"] == {1: 2, 400: checkup.MAX_CHECKED_K}[k]
