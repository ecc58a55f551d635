"""Explore: one query, several decoders, what each returns and what that costs."""

from dashboard import frame
from dashboard.widgets import skeleton

loaded, question = frame.draw_header(needs_documents=False)
if loaded is not None and question is not None:
    slot = skeleton.draw_first("explore", skeleton.EXPLORE_ROWS, ".st-key-explore-tiles")
    from dashboard.explore import first_view, page

    first_view.draw_beginnings(loaded)
    page.draw_explore(loaded, question)
    slot.empty()
elif loaded is not None:
    from dashboard.explore import first_view

    first_view.draw_first_view(loaded)
if loaded is not None:
    from dashboard.sharing import onboarding

    onboarding.draw_tour()  # last: a browser anchors the dot only at what comes before it
