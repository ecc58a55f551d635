"""Explore: one query, several decoders, what each returns and what that costs."""

import streamlit as st

from dashboard import frame
from dashboard.widgets import skeleton

# In a place of their own the previous query's answers go at once: they would stand faded below an invitation to type.
header, answers, invitation = st.container(), st.empty(), st.empty()


def cover() -> None:
    """Draw grey boxes in place of the previous query's answers."""
    answers.html(skeleton.format_skeleton(skeleton.EXPLORE_ROWS))


with header:
    loaded, question = frame.draw_header(needs_documents=False, on_wait=cover)
if loaded is not None:
    with (invitation if question is None else answers).container(gap="xsmall"):
        from dashboard.explore import first_view, page

        if question is None:
            first_view.draw_first_view(loaded)
        else:
            slot = skeleton.draw_first("explore", skeleton.EXPLORE_ROWS, ".st-key-explore-tiles")
            first_view.draw_beginnings(loaded)
            page.draw_explore(loaded, question)
            slot.empty()
    from dashboard.sharing import onboarding

    onboarding.draw_tour()  # last: a browser anchors the dot only at what comes before it
