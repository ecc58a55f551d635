"""Data: choose a corpus and embed it, look at it through several encoders, look after what is kept on disk."""

import streamlit as st

from dashboard.data import choice, encoders, storage

VIEWS = {"Corpus": choice.show, "Encoders": encoders.show, "Cache": storage.show}

st.title("Data")
view = st.segmented_control(
    "View",
    list(VIEWS),
    default=next(iter(VIEWS)),
    required=True,
    key="data.view",
    persist_state="session",
    label_visibility="collapsed",
)
VIEWS[view or next(iter(VIEWS))]()
