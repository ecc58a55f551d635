"""The open setting, and the budget."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from dashboard.session.tradeoff import OPEN_POINT_KEY, SCRUBBED_KEY, SHARE_KEY
from engine.decoder import Decoder
from engine.evaluation.frontier import KEPT_SHARE, Frontier, FrontierPoint
from engine.evaluation.runs import RankedRun

REDRAW_KEY, LEAVE_KEY = "tradeoff.anew", "tradeoff.leave"
"""Session keys: draw the full page again; then go to Explore."""
MEMORY_KEY = "tradeoff.memory"
"""Name of the session's cache of the page's results."""
Ends = tuple[float | None, float | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenSetting:
    """Setting whose documents are displayed: a point, a position between points, or another system's run."""

    system: Decoder | RankedRun
    name: str  # as the page writes it
    point: FrontierPoint | None  # None between points
    x: float  # mean of the metric on the horizontal axis
    y: float  # mean of the metric on the vertical axis
    x_ends: Ends  # of the means' 95 % intervals
    y_ends: Ends

    @property
    def decoder(self) -> Decoder | None:
        """Decoder of the open setting; None if the setting is a run of another system."""
        return self.system if isinstance(self.system, Decoder) else None

    @property
    def style_name(self) -> tuple[str, str]:
        """Name under which charts find its colour and symbol, and its title."""
        spec = self.system.select.spec if isinstance(self.system, Decoder) else None
        return (spec.name, spec.title) if spec is not None else (self.system.label, self.name)


def open_point(label: str | None) -> None:
    """Open a setting beside the chart by its label, in place of a dragged position; None changes nothing."""
    if label is not None:
        st.session_state[OPEN_POINT_KEY] = label
        # A point replaces the dragged position.
        st.session_state.pop(SCRUBBED_KEY, None)


def find_open_label(labels: Sequence[str], *defaults: str | None) -> str:
    """Return the label of the open setting: the clicked one, else the first available default, else any.

    labels: of all settings
    """
    candidates = (st.session_state.get(OPEN_POINT_KEY), *defaults)
    return next((label for label in candidates if label is not None and label in labels), labels[0])


def find_point(curves: Frontier, label: str | None) -> FrontierPoint | None:
    """Return a decoder's point on the chart by its label; None if it has none."""
    return next((point for point in curves.points if point.point.label == label), None)


def get_budget() -> float:
    """Return the share of the baseline's value that has to be kept."""
    share: float = st.session_state.get(SHARE_KEY, KEPT_SHARE.default)
    return share
