"""A wall of squares in named groups, each a button with a sign and a colour; the chosen one is marked."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import streamlit as st

COMPONENT_NAME = "frontier_squares"
MODULE_FILE = Path(__file__)


@dataclass(frozen=True)
class Square:
    """One button of the wall."""

    value: str  # reported on a click; also printed
    sign: str  # printed above it
    colour: str  # "green", "orange", "red", "blue", "gray" or "violet", as the page's theme has it
    title: str  # for the mouse and for screen readers
    outlined: bool = False  # drawn as an outline in its colour, not filled
    is_round: bool = False  # drawn as a disc


def draw_squares(
    groups: Mapping[str, Sequence[Square]], chosen: str | None, key: str, on_click: Callable[[str], None], *, label: str
) -> None:
    """Draw groups of squares, each below its name.

    chosen: value of the marked square, None for none; on_click: called with a square's value before the page is drawn
    again; label: of all, for screen readers.
    """
    data = {
        "groups": [{"title": title, "squares": list(map(asdict, squares))} for title, squares in groups.items()],
        "chosen": chosen,
        "label": label,
    }
    data["version"] = hashlib.sha256(repr(data["groups"]).encode()).hexdigest()[:16]
    values = {square.value for squares in groups.values() for square in squares}

    def report_click() -> None:
        """Call back with the value of the square that the browser reports as clicked."""
        value = st.session_state[key].get("clicked")
        # A browser may still show the previous wall.
        if isinstance(value, str) and value in values:
            on_click(value)

    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    component = st.components.v2.component(
        COMPONENT_NAME,
        html='<div class="frontier-squares" role="group"></div>',
        css=MODULE_FILE.with_suffix(".css").read_text(encoding="utf-8"),
        js=MODULE_FILE.with_suffix(".js").read_text(encoding="utf-8"),
    )
    component(key=key, data=data, on_clicked_change=report_click)
