"""The setting that is open, and the budget."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from dashboard.session.tradeoff import OPEN_POINT_KEY, SCRUBBED_KEY, SHARE_KEY
from engine.decoder import Decoder
from engine.evaluation.frontier import KEPT_SHARE, FrontierPoint
from engine.evaluation.runs import RankedRun

ANEW, LEAVE = "tradeoff.anew", "tradeoff.leave"
"""Whether the whole page is to be drawn anew; whether to go on to Explore then."""
MEMORY = "tradeoff.memory"
"""Where a session keeps what the page computed last."""
Ends = tuple[float | None, float | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Opened:
    """The setting whose sets are shown: a point, a place on a curve between points, or a run of another system."""

    system: Decoder | RankedRun
    name: str
    point: FrontierPoint | None  # None between points
    x: float
    y: float
    x_ends: Ends  # of the means' 95 % intervals
    y_ends: Ends

    @property
    def decoder(self) -> Decoder | None:
        """The decoder, None of a run."""
        return self.system if isinstance(self.system, Decoder) else None

    @property
    def look(self) -> tuple[str, str]:
        """The name by which charts know how it looks, and its title."""
        spec = self.system.select.spec if isinstance(self.system, Decoder) else None
        return (spec.name, spec.title) if spec is not None else (self.system.label, self.name)


def open_point(label: str | None) -> None:
    """Show the sets of a point beside the chart."""
    if label is not None:
        st.session_state[OPEN_POINT_KEY] = label
        st.session_state.pop(SCRUBBED_KEY, None)


def opened(labels: Sequence[str], *first: str | None) -> str:
    """The point whose sets are shown: the one chosen, else the first of `first` that is there, else any."""
    wanted = (st.session_state.get(OPEN_POINT_KEY), *first)
    return next((label for label in wanted if label is not None and label in labels), labels[0])


def budget() -> float:
    """The share of the baseline's value that is to be kept."""
    share: float = st.session_state.get(SHARE_KEY, KEPT_SHARE.default)
    return share
