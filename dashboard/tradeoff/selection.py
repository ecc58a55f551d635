"""The setting that is open, and the budget."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from dashboard.session.tradeoff import OPEN, SCRUBBED, SHARE_KEY
from engine.decoder import Decoder
from engine.evaluation.frontier import SHARE, FrontierPoint

ANEW, LEAVE = "tradeoff.anew", "tradeoff.leave"
"""Whether the whole page is to be drawn anew; whether to go on to Explore then."""
MEMORY = "tradeoff.memory"
"""Where a session keeps what the page computed last."""
Ends = tuple[float | None, float | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened:
    """The setting whose sets are shown: a point, or a place on a curve between points."""

    decoder: Decoder
    name: str
    point: FrontierPoint | None  # None between points
    x: float
    y: float
    x_ends: Ends  # of the means' 95 % intervals
    y_ends: Ends


def open_point(label: str | None) -> None:
    """Show the sets of a point beside the chart."""
    if label is not None:
        st.session_state[OPEN] = label
        st.session_state.pop(SCRUBBED, None)


def opened(labels: Sequence[str], *first: str | None) -> str:
    """The point whose sets are shown: the one chosen, else the first of `first` that is there, else any."""
    wanted = (st.session_state.get(OPEN), *first)
    return next((label for label in wanted if label is not None and label in labels), labels[0])


def budget() -> float:
    """The share of the baseline's value that is to be kept."""
    share: float = st.session_state.get(SHARE_KEY, SHARE.default)
    return share
