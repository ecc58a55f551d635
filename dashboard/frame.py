"""Frame of every page: the header row, and the wait until the corpus is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session import address
from dashboard.widgets.common import as_label, wait_for_corpus

if TYPE_CHECKING:
    from dashboard.session.query import Question


def draw_header(
    with_query: bool = True, needs_documents: bool = True, on_wait: Callable[[], object] = lambda: None
) -> tuple[Loaded | None, Question | None]:
    """Draw the header of a page; return the open corpus and the query, None for what is missing.

    With live feedback on, it is the corpus as feedback has moved it. with_query: draw the query's controls;
    needs_documents: the page cannot work on a corpus in a vector engine (a database elsewhere): then draw a notice in
    its place and return (None, None); on_wait: called before a query is embedded, which may take seconds. Until the
    corpus is loaded, its progress is drawn.
    """
    # Its place in the page, above the wait for the corpus; it is filled last.
    header = st.container(horizontal=True, vertical_alignment="center", gap="small", key="header")
    loaded = wait_for_corpus(address.get_source())
    if loaded is None:
        return None, None
    # These import torch: after the corpus is loaded, so that the page has painted by then.
    from dashboard.data import loading
    from dashboard.session import link, restore
    from dashboard.sharing import dialogs
    from dashboard.widgets import live_feedback, query_picker

    restore.apply_waiting_link(loaded)
    with header:
        corpus_popover = st.popover(as_label(loaded.space.corpus.name), icon=":material/database:", key="header.corpus")
    loaded = live_feedback.select_corpus(loaded, corpus_popover)
    question = None
    with header:
        if with_query:
            question = query_picker.ask(loaded, on_wait)
        dialogs.draw_menu(loaded, question)
    if with_query:
        query_picker.draw_waiting_k(loaded)
    link.update_address(loaded)
    loading.draw_loading_elsewhere(loaded.space.corpus.name)
    if needs_documents and loaded.reach is not None:
        st.info(
            f"This page needs all documents, and those of {as_label(loaded.source.name)} are in a vector engine. "
            "Explore answers from there, and so do engine.decode, engine.measure and engine.sweep in Python.",
            icon=":material/database:",
        )
        return None, None
    return loaded, question
