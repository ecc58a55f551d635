"""An error with its reason."""

import streamlit as st


def show_failure(title: str, reason: object) -> None:
    """Draw what could not be done, and the reason as plain text: it quotes what strangers wrote."""
    from engine.values import replace_surrogates  # imports torch, which a page that still waits must not

    st.error(title, icon=":material/error:")
    st.text(replace_surrogates(str(reason)))
