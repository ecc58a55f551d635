"""The point of the chart that is open."""

import streamlit as st

OPEN, ANEW, LEAVE = "tradeoff.open", "tradeoff.anew", "tradeoff.leave"
"""The label of the open point; whether the whole page is to be drawn anew; whether to go on to Explore then."""
MEMORY = "tradeoff.memory"
"""Where a session keeps what the page computed last."""


def open_point(label: str | None) -> None:
    """Show the sets of a point beside the chart."""
    if label is not None:
        st.session_state[OPEN] = label


def opened(labels: list[str], current: list[str]) -> str:
    """The point whose sets are shown: the one chosen, else the last that Explore is set to, else the first."""
    chosen: str | None = st.session_state.get(OPEN)
    if chosen is not None and chosen in labels:
        return chosen
    return next((label for label in reversed(labels) if label in current), labels[0])
