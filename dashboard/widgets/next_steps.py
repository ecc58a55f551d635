"""Next steps with a loaded corpus, as buttons that go there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import streamlit as st

from dashboard.services import corpora, passage_queries, roots
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.judging import JUDGE_VIEW_KEY, set_request
from engine.data.files import MEMORY_PREFIX
from engine.wording import visible

WAY_KEY, UPLOAD_WAY, PATH_WAY = "data.way", "Upload", "Path"
"""Session key of how the Data page takes a corpus, and two of its ways."""
ADDING_KEY = "data.adding"
"""Session key of the name of the documents' file that a person wants to add queries and judgements to."""
TRADEOFF_SCREEN, TUNE_SCREEN = "screens/tradeoff.py", "screens/tune.py"


@dataclass(frozen=True)
class NextStep:
    """Something to do with a corpus, on another page."""

    label: str
    why: str  # tooltip
    screen: str
    prepare: Callable[[], None] | None = None  # called on the click, before the page changes


def draw_next_steps(loaded: Loaded, page_name: str, has_primary: bool = True) -> None:
    """Draw what can be done next with this corpus, as buttons, of which the usual one stands out.

    page_name: "explore" or "data", where they stand; has_primary: False beside another primary button of the page
    """
    steps = _list_steps(loaded)
    if page_name != "explore":
        why = "The map of the documents, and what each decoder returns for a search."
        steps.insert(0, NextStep("Explore", why, decoders.EXPLORE_SCREEN))
    # Files of queries and judgements come first, but few people have them.
    usual_step = next(iter(steps), None) if has_primary else None
    if _can_add_queries(loaded):
        why = "Load the documents' file together with queries.csv and qrels.tsv: then Recall is measured."
        prepare = partial(_begin_adding, loaded.source.name)
        steps.insert(0, NextStep("Add queries and judgements", why, decoders.DATA_SCREEN, prepare))
    with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
        st.text("Next", width="content")
        for step in steps:
            key = f"next.{page_name}.{step.label}"
            kind: Literal["primary", "secondary"] = "primary" if step is usual_step else "secondary"
            # A callback cannot change the page: what a step prepares is set in it, the change comes in the run after.
            if st.button(step.label, key=key, help=step.why, type=kind, on_click=step.prepare):
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


def _can_add_queries(loaded: Loaded) -> bool:
    """Return True for a corpus of files that has no queries, and neither is a demo nor was sent by a notebook."""
    path = loaded.source.path
    is_file = path not in corpora.DEMOS and not loaded.source.store and not path.startswith(MEMORY_PREFIX)
    return is_file and not len(loaded.dataset.queries) and not loaded.dataset.qrels


def _begin_adding(file_name: str) -> None:
    """Have the Data page open where files are given, and say which; for a callback."""
    st.session_state[JUDGE_VIEW_KEY] = "Corpus"
    st.session_state[WAY_KEY] = UPLOAD_WAY if roots.get_rules().uploads else PATH_WAY
    st.session_state[ADDING_KEY] = file_name


def draw_adding() -> None:
    """Draw which files queries and judgements come in, if a person wants to add them to the open corpus."""
    if (file_name := st.session_state.get(ADDING_KEY)) is not None:
        st.text(
            visible(
                f"Give {file_name} together with queries.csv (columns id, query) and qrels.tsv (columns query-id, "
                "corpus-id, score)."
            )
        )
