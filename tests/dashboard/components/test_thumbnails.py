"""The wall of thumbnails: what the browser gets, and what a click reports."""

import pytest

from dashboard.components import thumbnails
from dashboard.components.thumbnails import WallContent, draw_wall


@pytest.mark.parametrize(
    ("clicked", "reported"), [(0, [0]), (1, [1]), (2, []), (-1, []), ("of an older wall", []), (None, [])]
)
def test_a_click_reports_a_square_of_this_wall_alone(clicked, reported, monkeypatch):
    drawn, clicks, releases = [], [], []
    monkeypatch.setattr(thumbnails.vendor, "draw_view", lambda *given: drawn.append(given))
    content = WallContent(
        version="1", titles=["<b>one</b>", "two"], size=2, base={"cells": ""}, n_relevant=[1, 0], base_title="Top-k",
        headline="All", current=1, caption="Wall", legend="Squares", random_ilad=None,
    )  # fmt: skip
    draw_wall(content, [{"key": "mmr"}], {"decoder": "mmr", "shown": True}, "wall", clicks.append, releases.append)
    ((name, key, data, callbacks),) = drawn
    assert (name, key) == ("check_up", "wall") and data["titles"] == ["<b>one</b>", "two"] and data["shown"]
    assert data["current"] == 1, "the square of the open query"
    callbacks["clicked"](clicked)
    callbacks["released"]({"value": 1})
    assert clicks == reported and releases == [{"value": 1}]
