"""The button of a verdict card, and its dialog."""

import json

from support import pages


def page():
    import streamlit as st

    from dashboard.tradeoff.verdict import draw_card_button
    from engine.views.verdict_card import CardCurve, VerdictCard

    def make():
        st.session_state["made"] = st.session_state.get("made", 0) + 1
        curve = CardCurve(method="top_k", label="Top-k", x=(0.4,), y=(0.6,))
        words = {"sentence": "<b>No difference</b>", "titles": ("ILAD@10", "Recall@10"), "corpus": "c"}
        return VerdictCard(curves=(curve,), queries=3, fingerprint="f", **words)

    draw_card_button(make, "card")


def test_a_click_opens_the_card_and_only_that_makes_it():
    app = pages.draw_page(page)
    assert "made" not in app.session_state
    pages.press(app, "card")
    assert app.session_state["made"] == 1
    component = next(one for one in app._tree if one.type == "bidi_component")
    data = json.loads(component.proto.json)
    assert data["svg"].startswith("<svg") and (data["width"], data["height"]) == (1200, 630)
    assert "&lt;b&gt;No difference" in data["svg"] and data["label"] == "<b>No difference</b>"
