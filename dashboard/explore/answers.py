"""What Explore's tabs are given, and what they share: which decoders fit side by side, and what was clicked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.stages import Selector
from engine.values import Ranking
from engine.views import Card

MOST_BESIDE = 3
"""So many decoders fit beside each other and stay readable at 1440 pixels, the baseline among them."""
NARROW = 1200
"""Pixels of a screen on which three tables with names are too narrow to be read."""
ROW_HEIGHT = 32
"""Of a table, in pixels."""


@dataclass(frozen=True)
class Answer:
    """What one decoder made of the question.

    name: of its selector; ranking: of this query alone; figures: against the baseline; seconds: it took.
    """

    name: str
    stage: Selector
    ranking: Ranking
    figures: Card
    seconds: float

    @property
    def title(self) -> str:
        """The selector's name as people write it."""
        return self.stage.spec.title


def beside(answers: Mapping[str, Answer], baseline: str, key: str) -> list[str]:
    """The baseline and those shown next to it; a person picks which where there are more than fit."""
    others = [name for name in answers if name != baseline]
    if len(others) < MOST_BESIDE:
        return [baseline, *others]
    before = st.session_state.get(key)
    # What is no longer compared cannot stay picked.
    if before is not None and not set(before) <= set(others):
        st.session_state[key] = before = [name for name in before if name in others]
    picked = st.multiselect(
        f"Beside {answers[baseline].title}",
        others,
        default=others[: MOST_BESIDE - 1] if before is None else None,
        max_selections=MOST_BESIDE - 1,
        key=key,
        persist_state="session",
        format_func=lambda name: answers[name].title,
        label_visibility="collapsed",
        placeholder=f"Beside {answers[baseline].title}",
        width=320,
    )
    return [baseline, *(name for name in others if name in picked)]


def columns(count: int, key: str) -> list[Any]:
    """So many columns for tables; on a narrow screen two of them beside each other, the third below."""
    st.html(
        f"<style>@media (max-width: {NARROW}px) {{.st-key-{key} .stColumn {{min-width: calc(50% - 1rem)}}}}</style>"
    )
    with st.container(key=key):
        return st.columns(count, gap="small")


def clicked(key: str, event: Any, count: int) -> int | None:
    """The row of a table that was clicked just now, None for none.

    key: of the table, which was drawn with selection_mode="single-cell" and returned `event`; count: of its rows.
    """
    # The grid remembers a place, not a document: only a change of place is a click.
    cells = event.selection.cells
    place = cells[0][0] if cells and cells[0][0] < count else None
    places = st.session_state.setdefault("places", {})
    before = places.get(key)
    if place == before:
        return None
    places[key] = place
    last, st.session_state["places.last"] = st.session_state.get("places.last"), key
    # A cell that was still marked when another table was clicked: the click that unmarks it means it.
    return before if place is None and last != key and before is not None and before < count else place
