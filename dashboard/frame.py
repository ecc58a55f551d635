"""The frame of every screen: the header row, and the wait until the corpus is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session import address
from dashboard.widgets.common import as_label, wait_for

if TYPE_CHECKING:
    from dashboard.session.query import Question


def begin(asking: bool = True, whole: bool = True) -> tuple[Loaded | None, Question | None]:
    """Draw the header; returns the corpus and the query, None for what is missing yet: the screen says so itself.

    With live feedback on it is the corpus as feedback has moved it. asking: draw the query's controls; whole: whether
    the screen needs all documents, which a corpus in a vector engine does not have here: this is said then.
    """
    header = st.container(horizontal=True, vertical_alignment="center", gap="small", key="header")
    loaded = wait_for(address.source())
    if loaded is None:
        return None, None
    # Not before the corpus is loaded: these import torch, and the page has painted by then.
    from dashboard.session import link, restore
    from dashboard.sharing import dialogs
    from dashboard.widgets import live_feedback, query_picker

    restore.arrive(loaded)
    with header:
        about = st.popover(as_label(loaded.space.corpus.name), icon=":material/database:", key="header.corpus")
    loaded = live_feedback.corpus(loaded, about)
    question = None
    with header:
        if asking:
            question = query_picker.ask(loaded)
        dialogs.menu(loaded, question)
    link.follow(loaded)
    if whole and loaded.reach is not None:
        st.info(
            f"This page needs all documents, and those of {as_label(loaded.source.name)} are in a vector engine. "
            "Explore answers from there, and so do engine.decode, engine.measure and engine.sweep in Python.",
            icon=":material/database:",
        )
        return None, None
    return loaded, question
