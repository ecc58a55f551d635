"""Explore: one query, several decoders, what each returns and what that costs."""

import streamlit as st

from dashboard import state
from dashboard.parts import corpus_chip, wait_for

chosen = state.source()
with st.sidebar:
    chip = st.container()

loaded = wait_for(chosen)
if loaded is not None:
    # After the corpus is there: these import torch, and the page has painted by then.
    from dashboard import compare, question

    with chip:
        corpus_chip(loaded)
    with st.sidebar:
        asked = question.ask(loaded)
    if asked is not None:
        compare.show(loaded, asked)
    else:
        st.info("Ask something in the sidebar: the sets that each decoder retrieves appear here, side by side.")
