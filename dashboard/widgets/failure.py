"""An error with its reason."""

import streamlit as st

from engine.wording import visible


def show_failure(title: str, reason: object) -> None:
    """Draw what could not be done, and the reason as plain text: it quotes what strangers wrote."""
    st.error(title, icon=":material/error:")
    st.text(visible(str(reason)))
