"""The Theory page: proofs and measurements of search, one view at a time, and only that one is computed."""

from collections.abc import Callable

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory import (
    ann,
    best_sets,
    decodable_sets,
    fista_steps,
    margins,
    projection_bound,
    rerank_depth,
    segments,
)
from dashboard.widgets.choices import choose
from dashboard.widgets.failure import show_failure
from engine.errors import FrontierError
from engine.stages import methods
from engine.views.theory import weighing

Views = dict[str, Callable[[Loaded, Question | None], None]]
PROOFS: Views = {
    f"What {methods('selector')[weighing()].title} can return": decodable_sets.show,
    "Best sets": best_sets.show,
    "Margins": margins.show,
    "Dimensions": projection_bound.show,
    "Segments": segments.show,
}
SEARCH: Views = {"Rerank depth": rerank_depth.show, "ANN": ann.show, "Exact vs 50 steps": fista_steps.show}
GROUPS = {"Proofs": PROOFS, "Search": SEARCH}


def show(loaded: Loaded, question: Question | None) -> None:
    """The main area of Theory."""
    _view(loaded, question)


@st.fragment
def _view(loaded: Loaded, question: Question | None) -> None:
    with st.container(horizontal=True, gap="medium"):
        views = GROUPS[choose("Group", GROUPS, "theory.group")]
        chosen = choose("View", views, "theory.view")
    try:
        views[chosen](loaded, question)
    except FrontierError as error:
        show_failure("This cannot be computed here.", error)
