"""The Theory page: one view at a time, and only that one is computed."""

from collections.abc import Callable

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory import ann, decodable_sets, fista_steps, margins, projection_bound, rerank_depth, segments
from dashboard.widgets.choices import choose
from dashboard.widgets.failure import show_failure
from engine.errors import FrontierError

VIEWS: dict[str, Callable[[Loaded, Question | None], None]] = {
    "Which sets can be decoded": decodable_sets.show,
    "Margins": margins.show,
    "Dimension": projection_bound.show,
    "Segments": segments.show,
    "Exact against steps": fista_steps.show,
    "Depth": rerank_depth.show,
    "Approximate search": ann.show,
}


def show(loaded: Loaded, question: Question | None) -> None:
    """The main area of Theory."""
    st.title("Theory")
    _view(loaded, question)


@st.fragment
def _view(loaded: Loaded, question: Question | None) -> None:
    chosen = choose("View", VIEWS, "theory.view")
    try:
        VIEWS[chosen](loaded, question)
    except FrontierError as error:
        show_failure("This cannot be computed here.", error)
