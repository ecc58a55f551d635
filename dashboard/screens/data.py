"""Data: choose and embed a corpus, compare encoders, manage the cache."""

import streamlit as st

from dashboard.data import cache_view, encoders, page
from dashboard.widgets.choices import choose

VIEWS = {"Corpus": page.show, "Encoders": encoders.show, "Cache": cache_view.show}

st.title("Data")
VIEWS[choose("View", VIEWS, "data.view")]()
