"""What a session remembers of the page: results by their key, and the point that is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard import jobs

OPEN, ANEW, LEAVE = "tradeoff.open", "tradeoff.anew", "tradeoff.leave"
"""The label of the open point; whether the whole page is to be drawn anew; whether to go on to Explore then."""
REMEMBERED = 12


def remembered(key: Any, make: Callable[[], Any]) -> Any:
    """What this session has computed lately, by its key."""
    memory = st.session_state.setdefault("tradeoff.memory", {})
    if key not in memory:
        with jobs.turn():
            memory[key] = make()
        while len(memory) > REMEMBERED:
            memory.pop(next(iter(memory)))
    return memory[key]


def open_point(label: str | None) -> None:
    """Show the sets of a point beside the chart."""
    if label is not None:
        st.session_state[OPEN] = label


def opened(labels: list[str], current: list[str]) -> str:
    """The point whose sets are shown: the one chosen, else the last that Explore is set to, else the first."""
    wanted = st.session_state.get(OPEN)
    if wanted in labels:
        return wanted
    return next((label for label in reversed(labels) if label in current), labels[0])
