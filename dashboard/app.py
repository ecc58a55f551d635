"""Navigation only."""

from pathlib import Path

import streamlit as st

SCREENS = Path(__file__).parent / "screens"

st.set_page_config(page_title="Frontier", page_icon="📈", layout="wide")
# Streamlit leaves six rem above the first line, which at 1440 × 900 pushes half a table below the fold.
st.html("<style>.stMainBlockContainer {padding-top: 3.5rem; padding-bottom: 2rem}</style>")
st.navigation(
    [
        st.Page(SCREENS / "explore.py", title="Explore", icon=":material/compare_arrows:", default=True),
        st.Page(SCREENS / "tradeoff.py", title="Trade-off", icon=":material/show_chart:"),
        st.Page(SCREENS / "data.py", title="Data", icon=":material/database:"),
    ],
    position="top",
).run()
