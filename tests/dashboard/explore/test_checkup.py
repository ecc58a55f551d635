"""The Check-up view: its headline and wall, and what a click on a square asks."""

import json

import numpy as np
import pytest
import streamlit as st

from dashboard.explore import checkup
from dashboard.services.source import Source
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


def headline(app):
    return next(one.proto.body for one in app.main if one.type == "html" and "duplicates" in one.proto.body)


def test_every_query_of_the_split_has_a_square_the_most_redundant_first():
    loaded = pages.load()
    app = shown(source=pages.DEMO)
    queries = loaded.dataset.judged("dev")
    data = data_of(app)
    assert len(data["titles"]) == len(data["notes"]) == len(queries) and data["size"] == 10
    counts = [int(note) for note in data["notes"]]
    assert counts == sorted(counts, reverse=True) and counts[0] > counts[-1]
    assert f"of your {len(queries)} queries the top 10 holds near-duplicates" in headline(app)
    assert f"({counts[0]} pairs)" in headline(app)


def test_a_click_asks_the_query_and_opens_the_first_view(monkeypatch):
    def wall(matrices, titles, notes, key, on_click, **_):
        st.session_state["title"] = titles[3]
        st.button("Square 3", key="square", on_click=on_click, args=(3,))

    monkeypatch.setattr(checkup, "draw_wall", wall)
    app = shown(source=pages.DEMO, view="Map")
    assert app.session_state["view"] == "Map"
    title = pages.press(app, "square").session_state["title"]
    queries, (key,) = pages.load().dataset.judged("dev"), [k for k in app.session_state if k.startswith("query.")]
    assert title.startswith(f"{queries.texts[app.session_state[key]]} · ") and app.session_state[key] > 0
    assert "view" not in app.session_state


def test_a_corpus_without_queries_asks_its_documents(tmp_path):
    vectors = np.eye(6, dtype=np.float32)[[0, 0, 1, 2, 3, 4]] + 1e-3
    file = tmp_path / "own.npy"
    np.save(file, vectors)
    pages.load(Source(str(file)))
    app = shown(source=Source(str(file)), k=2)
    assert "documents asked as queries" in headline(app) and "(1 pair)" in headline(app)
    assert len(data_of(app)["titles"]) == 6


@pytest.mark.parametrize("k", [1, 400])
def test_any_k_has_a_check_up(k):
    assert len(pages.load().space) > 400
    assert data_of(shown(source=pages.DEMO, k=k))["size"] == {1: 2, 400: checkup.MAX_CHECKED_K}[k]
