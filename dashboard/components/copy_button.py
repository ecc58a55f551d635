"""A button that copies a text to the clipboard."""

from pathlib import Path

import streamlit as st

NAME = "frontier_copy_button"
FILE = Path(__file__)
HTML = '<div class="frontier-buttons"><button type="button" class="primary"></button><span role="status"></span></div>'


def copy_button(label: str, text: str, key: str) -> None:
    """Draw it; the browser says beside it that it has copied."""
    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    component = st.components.v2.component(
        NAME,
        html=HTML,
        css=FILE.with_name("buttons.css").read_text(encoding="utf-8"),
        js=FILE.with_suffix(".js").read_text(encoding="utf-8"),
    )
    component(key=key, data={"label": label, "text": text})
