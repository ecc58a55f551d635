"""A wall of squares: what the browser gets, and what a click reports."""

import pytest

from support.pages import draw_page


def page():
    import streamlit as st

    from dashboard.components.squares import Square, draw_squares

    groups = {"first": [Square("N1", "✓", "green", "N1, holds: a claim")], "second": [Square("V1", "✕", "red", "V1")]}
    draw_squares(groups, "V1", "wall", lambda value: st.session_state.__setitem__("reported", value), label="Claims")


@pytest.mark.parametrize(("clicked", "reported"), [("N1", "N1"), ("V1", "V1"), ("of an older wall", None), ([], None)])
def test_a_click_reports_a_square_of_this_wall_alone(clicked, reported, monkeypatch):
    import streamlit as st

    calls, reports = [], []

    def component(name, **parts):
        def draw(key, data, on_clicked_change):
            calls.append(data)
            st.session_state[key] = {"clicked": clicked}
            on_clicked_change()
            reports.append(st.session_state.get("reported"))

        return draw

    monkeypatch.setattr(st.components.v2, "component", component)
    app = draw_page(page)
    assert not app.exception
    assert reports == [reported]
    (data,) = calls
    assert data["chosen"] == "V1" and [group["title"] for group in data["groups"]] == ["first", "second"]
    assert data["groups"][0]["squares"][0] == {
        "value": "N1", "sign": "✓", "colour": "green", "title": "N1, holds: a claim", "outlined": False,
        "is_round": False
    }  # fmt: skip
