"""A verdict as one picture to paste: the button, and the dialog with its preview and downloads."""

from collections.abc import Callable

import streamlit as st

from dashboard.charts.verdict_card import HEIGHT, WIDTH, verdict_svg
from dashboard.components.picture import picture
from engine.views.verdict_card import VerdictCard
from engine.wording import visible


def button(make: Callable[[], VerdictCard], key: str, *, file: str = "frontier-card", label: str = "Card") -> None:
    """Draw a button that opens the card in a dialog; make: called on the click only."""
    if st.button(label, key=key, icon=":material/image:", help="One picture to paste into a chat or a report"):
        st.dialog("Card", width="large")(_preview)(make(), f"{key}.picture", file)


def _preview(card: VerdictCard, key: str, file: str) -> None:
    picture(verdict_svg(card), (WIDTH, HEIGHT), key, file=file, label=visible(card.sentence))
