"""The wait for a corpus's first map: one panel with one bar, as high as the map, then a rough map below it."""

import re
import threading

import pytest
import streamlit as st

from dashboard.charts.map import MAP_PX
from dashboard.explore.map_view import WAY_KEY
from dashboard.services.jobs import SharedJobs
from dashboard.session.view_names import MAP
from dashboard.widgets import map as shared_map
from engine.errors import Cancelled
from support import pages
from support.explore_parts import answers_of, corpus, draw_view, question_of


@pytest.fixture
def gates(monkeypatch):
    """Maps of this test's own, each of which is made once its gate is open."""
    monkeypatch.setattr(shared_map, "_MAPS", SharedJobs(4))
    for name in ("WAIT_SECONDS", "QUICK_WAIT_SECONDS"):
        monkeypatch.setattr(shared_map, name, 0.05)
    make_layout, opened = shared_map.maps.layout, {"tsne": threading.Event(), "pca": threading.Event()}

    def wait_and_make(space, method, progress, stop):
        progress(1, 4, f"working on {method}")
        while not opened[method].wait(0.02):
            if stop.is_set():
                raise Cancelled("stopped")
        return make_layout(space, "pca", progress=progress, stop=stop)

    monkeypatch.setattr(shared_map.maps, "layout", wait_and_make)
    yield opened
    for gate in opened.values():
        gate.set()


@pytest.fixture
def view(gates):
    loaded = corpus()
    question = question_of(loaded)
    return draw_view(MAP, loaded, question, answers_of(loaded, question), **{WAY_KEY: "t-SNE"})


def find_job(method):
    return next(job for (*_, name), job in shared_map._MAPS.items() if name == method)


def finish(gates, method):
    gates[method].set()
    find_job(method).join(pages.PATIENCE)


def read_box_heights(app):
    """Return the heights of the grey boxes on the page, in pixels."""
    bodies = [node.proto.body for node in app.get("html") if "frontier-skeleton" in node.proto.body]
    return [int(height) for body in bodies for height in re.findall(r"height:(\d+)px", body)]


def has_map(app):
    return any("The map keeps" in caption.value for caption in app.caption)


def test_first_map_has_one_bar_and_the_maps_height_while_both_are_made(gates, view):
    assert find_job("pca").is_active and find_job("tsne").is_active
    assert len(view.get("progress")) == 1 and "working on tsne" in pages.texts(view)
    assert read_box_heights(view) == [MAP_PX - shared_map.MAP_PROGRESS_PX] and not has_map(view)


def test_boxes_as_high_as_the_map_stand_before_its_job_is_started(gates, monkeypatch):
    monkeypatch.setattr(shared_map.SharedPanel, "start_job", lambda panel: st.stop())
    loaded = corpus()
    question = question_of(loaded)
    app = draw_view(MAP, loaded, question, answers_of(loaded, question), **{WAY_KEY: "t-SNE"})
    assert read_box_heights(app) == [MAP_PX]
    assert any("Laying out the documents" in node.proto.body for node in app.get("html"))


def test_rough_map_takes_the_place_of_the_box_below_the_same_bar(gates, view):
    finish(gates, "pca")
    app = pages.run(view)
    assert has_map(app) and not read_box_heights(app) and len(app.get("progress")) == 1
    finish(gates, "tsne")
    assert has_map(pages.run(view)) and not view.get("progress")


def test_stopped_map_leaves_the_rough_one_with_the_only_bar(gates, view):
    app = pages.press(view, "map.cancel")
    assert len(app.get("progress")) == 1 and "working on pca" in pages.texts(app) and "map.on" in pages.keys(app)
    finish(gates, "pca")
    assert has_map(pages.run(app)) and "map.on" in pages.keys(app) and not app.get("progress")
