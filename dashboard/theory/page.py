"""The Theory page: one view at a time, and only that one is computed."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard.explore.question import Asked
from dashboard.state import Loaded
from dashboard.theory import approximate, depth, dimension, exact, margins, segments, support
from engine.errors import FrontierError

VIEWS: dict[str, Callable[[Loaded, Asked | None], None]] = {
    "Which sets can be decoded": support.show,
    "Margins": margins.show,
    "Dimension": dimension.show,
    "Segments": segments.show,
    "Exact against steps": exact.show,
    "Depth": depth.show,
    "Approximate search": approximate.show,
}


def show(loaded: Loaded, asked: Asked | None) -> None:
    """The main area of Theory."""
    st.title("Theory")
    _view(loaded, asked)


@st.fragment
def _view(loaded: Loaded, asked: Asked | None) -> None:
    first = next(iter(VIEWS))
    chosen = st.segmented_control(
        "View",
        list(VIEWS),
        default=first,
        required=True,
        key="theory.view",
        persist_state="session",
        label_visibility="collapsed",
    )
    try:
        VIEWS[chosen or first](loaded, asked)
    except FrontierError as error:
        st.error("This cannot be computed here.", icon=":material/error:")
        st.text(str(error))
