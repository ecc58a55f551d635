"""Explore: one query, several decoders, what each returns and what that costs."""

import streamlit as st

from dashboard.widgets import skeleton

# In a place of their own the previous query's answers go at once: they would stand faded below an invitation to type.
header, answers, invitation = st.container(), st.empty(), st.empty()
# Before all else: on a new machine the imports and the corpus take seconds.
skeleton.draw_opening(answers, "explore", skeleton.EXPLORE_ROWS, "Opening the corpus")


def cover() -> None:
    """Draw grey boxes in place of the previous query's answers."""
    answers.html(skeleton.format_skeleton(skeleton.EXPLORE_ROWS))


with header:
    from dashboard import frame
    from dashboard.services import corpora
    from dashboard.session import address

    loaded, question = frame.draw_header(needs_documents=False, on_wait=cover)
if loaded is None and not corpora.is_loading(address.get_source()):
    answers.empty()
if loaded is not None:
    skeleton.end_opening("explore")
    if question is None:
        answers.empty()
    with (invitation if question is None else answers).container(gap="xsmall"):
        if question is None:
            from dashboard.explore import first_view

            first_view.draw_first_view(loaded)
        else:
            # The boxes first: the imports take a second.
            slot = skeleton.draw_first("explore", skeleton.EXPLORE_ROWS, ".st-key-explore-tiles")
            from dashboard.explore import first_view, page

            first_view.draw_beginnings(loaded)
            page.draw_explore(loaded, question)
            slot.empty()
    from dashboard.sharing import onboarding

    onboarding.draw_tour()  # last: a browser anchors the dot only at what comes before it
