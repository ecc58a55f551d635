"""The app's entry: page settings, style and navigation."""

from pathlib import Path

import streamlit as st

SCREENS = Path(__file__).parent / "screens"

st.set_page_config(page_title="Frontier", page_icon="📈", layout="wide")
# Streamlit leaves six rem above the first line and five beside: at 1440 × 900 that pushes a page's main part below the
# fold. The header row stays one line high, its query as wide as there is room.
st.html(
    "<style>"
    ".stMainBlockContainer {padding: 3.75rem 2rem 2rem}"
    ".stMainBlockContainer > [data-testid=stVerticalBlock] {gap: .375rem}"
    "@media (max-width: 640px) {.stMainBlockContainer {padding: 3.75rem 1rem 2rem}}"
    "</style>"
)
st.navigation(
    [
        st.Page(SCREENS / "explore.py", title="Explore", icon=":material/compare_arrows:", default=True),
        st.Page(SCREENS / "tradeoff.py", title="Trade-off", icon=":material/show_chart:"),
        st.Page(SCREENS / "tune.py", title="Tune", icon=":material/tune:"),
        st.Page(SCREENS / "drift.py", title="Drift", icon=":material/moving:"),
        st.Page(SCREENS / "theory.py", title="Theory", icon=":material/function:"),
        st.Page(SCREENS / "data.py", title="Data", icon=":material/database:"),
    ],
    position="top",
).run()
