"""The button that runs long work, and beside it what runs already and how to pause that."""

import streamlit as st

from dashboard.services import jobs
from dashboard.widgets.job_panel import POLL, blocked_by


def run_button(label: str, key: str, purpose: str | None, disabled: bool = False) -> bool:
    """Draw the button; whether it was clicked just now. purpose: of the job that it starts."""
    blocked = jobs.busy(purpose) is not None
    clicked = st.button(label, type="primary", key=key, disabled=disabled or blocked)
    if blocked:
        _wait(purpose, key)
    return bool(clicked)


@st.fragment(run_every=POLL)
def _wait(purpose: str | None, key: str) -> None:
    """Say what has to end first, until it has ended; then draw the whole page anew."""
    other = jobs.busy(purpose)
    if other is None:
        st.rerun()
    done, total = other.progress.done, other.progress.total
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(f"{blocked_by(purpose)}{f' {done:,} of {total:,} done.' if done and total else ''}", width="content")
        st.button(
            "Pausing" if other.stop.is_set() else "Pause it", key=f"{key}.pause", on_click=jobs.leave, args=(other,)
        )
