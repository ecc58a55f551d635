"""Explore: one query, several decoders, what each returns and what that costs."""

import streamlit as st

from dashboard import frame

loaded, asked = frame.begin()
if loaded is not None:
    from dashboard.sharing import hint

    hint.show()
if asked is not None:
    from dashboard.explore import compare

    compare.show(loaded, asked)
elif loaded is not None:
    st.info("Ask something in the sidebar: the sets that each decoder retrieves appear here, side by side.")
