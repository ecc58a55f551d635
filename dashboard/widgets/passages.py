"""Passages as labelled queries on a page: the job that chooses them, and what they mean."""

from functools import partial
from typing import Any

import streamlit as st

from dashboard.services.passage_queries import NAME, SPLIT, available, make, offered, with_passages
from dashboard.services.source import Loaded
from dashboard.widgets.basics import show_failure
from dashboard.widgets.job_panel import JobPanel
from engine.data.cloze import LONGEST, SHORTEST
from engine.errors import FrontierError

PURPOSE = "passages"
FAILED = "No passages can be had of this corpus."


def toggle(loaded: Loaded, key: str, place: Any = None) -> bool:
    """Draw whether passages stand in for labelled queries, in the sidebar or `place`; False where they cannot."""
    if not offered(loaded):
        return False
    with place or st.sidebar:
        return st.toggle(
            NAME,
            key=key,
            persist_state="session",
            help="As labelled queries: parts of the corpus's own texts; right is the document that contains them.",
        )


def judged(loaded: Loaded) -> Loaded | None:
    """The same corpus and vectors with passages as its labelled queries; None, and how far it is, until they are there.

    No document is added: what is searched is the corpus as it is. Where no document has words enough it says so.
    """
    try:
        task = available(loaded)
    except FrontierError as error:
        show_failure(FAILED, error)
        return None
    if task is None:
        task = JobPanel(
            purpose=PURPOSE,
            key=loaded.space.corpus.digest,
            title="Choosing passages",
            work=partial(make, loaded),
            start="Choose passages",
            again="Choose passages",
            failed=FAILED,
        ).result()
    return None if task is None else with_passages(loaded, task)


def explain(loaded: Loaded) -> None:
    """Explain the task and its metrics; `loaded`: as `judged` gives it."""
    queries, qrels = loaded.dataset.queries, loaded.dataset.qrels[SPLIT]
    several = sum(len(qrels.relevant(query)) > 1 for query in queries.ids)
    more = f" {several:,} stand in several documents, all of which are right." if several else ""
    st.caption(
        f"The labelled queries are {len(queries):,} passages of {SHORTEST.default} to {LONGEST.default} words, one out "
        f"of a document each; right is every document that contains the passage word for word.{more} Recall is the "
        "share of these documents in the set, MRR how far up the first one stands: how well a text is found again by a "
        "part of it. People's questions are harder, and where one document is right, diversity has little to gain. No "
        "document is added; `frontier passages` writes the task with near copies in the way."
    )
