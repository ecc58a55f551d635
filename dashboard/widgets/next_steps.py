"""Next steps with a loaded corpus, as buttons that go there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from dashboard.services import passage_queries
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.judging import set_request

TRADEOFF_SCREEN, TUNE_SCREEN = "screens/tradeoff.py", "screens/tune.py"


@dataclass(frozen=True)
class NextStep:
    """Something to do with a corpus, on another page."""

    label: str
    why: str  # tooltip
    screen: str
    prepare: Callable[[], None] | None = None  # called on the click, before the page changes


def draw_next_steps(loaded: Loaded, page_name: str) -> None:
    """Draw what can be done next with this corpus, as buttons; page_name: "explore" or "data", where they stand."""
    steps = _list_steps(loaded)
    if page_name != "explore":
        why = "The map of the documents, and what each decoder returns for a search."
        steps.insert(0, NextStep("Explore", why, decoders.EXPLORE_SCREEN))
    with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
        st.text("Next", width="content")
        for step in steps:
            key = f"next.{page_name}.{step.label}"
            # A callback cannot change the page: what a step prepares is set in it, the change comes in the run after.
            if st.button(step.label, key=key, help=step.why, on_click=step.prepare):
                st.switch_page(step.screen)


def _list_steps(loaded: Loaded) -> list[NextStep]:
    """Return what can be done with a corpus beside searching it; with judgements, measuring and tuning."""
    if loaded.dataset.qrels:
        return [
            NextStep("Measure every decoder", "Trade-off: what diversity costs in relevance.", TRADEOFF_SCREEN),
            NextStep("Choose a setting", "Tune: chosen on some queries, confirmed on others.", TUNE_SCREEN),
        ]
    steps = []
    # Without judgements, a corpus can be measured by its own passages, or people can judge what is returned.
    if passage_queries.can_make(loaded):
        why = "Trade-off, with passages as queries: right is the document that contains them."
        steps.append(NextStep("Measure without judgements", why, TRADEOFF_SCREEN))
    if loaded.has_query_vectors:
        why = "Some 25 graded searches are enough to choose a setting."
        steps.append(NextStep("Judge searches", why, decoders.DATA_SCREEN, partial(set_request, None)))
    return steps
