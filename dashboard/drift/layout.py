"""Two tables beside each other, below each other where the screen is narrow."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard.explore.answers import NARROW


def pair(key: str) -> list[Any]:
    """Two columns; key: of the container, for its style."""
    st.html(
        f"<style>@media (max-width: {NARROW}px) {{.st-key-{key} .stColumn {{min-width: calc(100% - 1rem)}}}}</style>"
    )
    with st.container(key=key):
        return st.columns(2, gap="medium")
