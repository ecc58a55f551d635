"""The cosine of near-duplicates that a person has set for a corpus, on every page of the browser session."""

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session import query


def get_threshold(loaded: Loaded) -> float | None:
    """Return the threshold that this session has set for a corpus, None for the corpus's own."""
    key = threshold_key(loaded)
    threshold: float | None = st.session_state.get(key)
    # The field has a number from the beginning on, which is then the corpus's own.
    return None if threshold == st.session_state.get(f"{key}.default") else threshold


def store_default(loaded: Loaded, threshold: float) -> None:
    """Remember the corpus's own threshold, with which the field begins."""
    st.session_state[f"{threshold_key(loaded)}.default"] = threshold


def threshold_key(loaded: Loaded) -> str:
    """Return the session key of a corpus's threshold."""
    return f"duplicates.threshold.{query.corpus_key(loaded)}"
