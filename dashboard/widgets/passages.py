"""Passages as labelled queries on a page: the job that chooses them, and an explanation."""

from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from dashboard.services import passage_queries
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets.basics import show_failure
from dashboard.widgets.job_panel import JobPanel
from engine.data.cloze import LONGEST, PASSAGES_SPLIT, SHORTEST
from engine.errors import FrontierError
from engine.progress import counted

PASSAGES_PURPOSE = "passages"
NO_PASSAGES = "No passages can be had of this corpus."


def draw_toggle(loaded: Loaded, key: str, container: Any = None) -> bool:
    """Draw the switch that uses passages of the corpus as labelled queries; return its value.

    A passage's right answer is the document that contains it. False, and nothing is drawn, if the corpus has judgements
    or no encoder.
    """
    if not passage_queries.can_make(loaded):
        return False
    with container or st.sidebar:
        hint = "As labelled queries: parts of the corpus's own texts; right is the document that contains them."
        return st.toggle(passage_queries.PASSAGES_TITLE, key=key, persist_state="session", help=hint)


def replace_by_passages(loaded: Loaded) -> Loaded | None:
    """Return the corpus with passages of its texts as labelled queries; None until a job has chosen them.

    No document is added. If no document has enough words, draw that and return None.
    """
    try:
        task = passage_queries.find_task(loaded)
    except FrontierError as error:
        show_failure(NO_PASSAGES, error)
        return None
    # A long corpus is searched by a job, which the page offers or shows.
    if task is None:
        task = JobPanel(
            purpose=PASSAGES_PURPOSE,
            key=loaded.space.corpus.digest,
            title="Choosing passages",
            work=partial(passage_queries.make_task, loaded),
            start_label="Choose passages",
            resume_label="Choose passages",
            failed_text=NO_PASSAGES,
        ).draw_until_result()
    return None if task is None else passage_queries.swap_queries(loaded, task)


def label_question(loaded: Loaded, question: Question) -> Question:
    """Return the query with its id and judgements if it has the words of a passage; else return it unchanged.

    loaded: the corpus with passages as labelled queries
    """
    dataset = loaded.dataset
    for query_id, text in zip(dataset.queries.ids, dataset.queries.texts, strict=True):
        # Fields for one line drop the line breaks that a passage may have.
        if text.split() == question.text.split():
            return replace(question, id=query_id, qrels=dataset.qrels[PASSAGES_SPLIT])
    return question


def draw_explanation(loaded: Loaded) -> None:
    """Draw an explanation of passages as labelled queries, and of what the metrics mean for them."""
    queries, qrels = loaded.dataset.queries, loaded.dataset.qrels[PASSAGES_SPLIT]
    # A passage that occurs in several documents has several right answers.
    n_several = sum(len(qrels.relevant(query_id)) > 1 for query_id in queries.ids)
    have_text = "has" if n_several == 1 else "have"
    note = f" {counted(n_several, 'passage')} {have_text} several right documents." if n_several else ""
    st.caption(
        f"The labelled queries are {counted(len(queries), 'passage')} of {SHORTEST.default} to {LONGEST.default} "
        f"words, one out of a document each; right is every document that contains the passage word for word.{note} "
        "People's questions are harder, and where one document is right, diversity has little to gain.",
        help="Recall is the share of these documents in the set, MRR how far up the first one stands: how well a text "
        "is found again by a part of it. No document is added; `frontier passages` writes the task with near copies in "
        "the way.",
    )
