"""The Theory page: proofs and measurements of search, one view at a time; only that one is computed."""

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session import view_names
from dashboard.session.query import Question
from dashboard.theory import dimensions, search, sets, solver_steps
from dashboard.widgets.basics import reserve_place, show_failure
from dashboard.widgets.choices import choose
from dashboard.widgets.source_limit import describe_source_limit
from engine.errors import FrontierError

THEORY_VIEWS = {
    "Proofs": (sets.DECODABLE, sets.BEST, dimensions.MARGINS, dimensions.PROJECTIONS, dimensions.SEGMENTS),
    view_names.SEARCH_GROUP: (search.DEPTH, search.APPROXIMATE, solver_steps.STEPS),
}
GROUPS = {group: {view.title: view.draw_or_explain for view in views} for group, views in THEORY_VIEWS.items()}


@st.fragment
def draw_theory(loaded: Loaded, question: Question | None) -> None:
    """Draw the Theory page: the chosen statement of a paper, measured on this corpus."""
    with st.container(horizontal=True, gap="medium"):
        views = GROUPS[choose("Group", GROUPS, view_names.THEORY_GROUP_KEY)]
        view_title = choose("View", views, view_names.THEORY_VIEW_KEY)
    if limit_texts := describe_source_limit(list(loaded.space.corpus.metadata)):
        st.caption(f"Decoders are taken here without the limit of {limit_texts[0]}.")
    # In a place of its own: the old view's parts would stand there until the new one has been computed.
    with reserve_place([title for group in GROUPS.values() for title in group], view_title, gap="small"):
        try:
            views[view_title](loaded, question)
        except FrontierError as error:
            show_failure("This cannot be computed here.", error)
