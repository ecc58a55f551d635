"""The notice that queries are documents of the corpus, which their own answers leave out."""

import streamlit as st

from dashboard.services.source import Loaded
from engine.space import describe_own_documents
from engine.values import Queries


def draw_own_documents(loaded: Loaded, queries: Queries) -> None:
    """Draw how many of the queries to be measured are documents, with the same id and text; nothing if none is."""
    if (sentence := describe_own_documents(loaded.reach or loaded.space, queries)) is not None:
        st.caption(f"{sentence}.")
