"""Steps taken from a button: confirmed first where that is needed, their errors shown."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.widgets.basics import show_failure
from engine.errors import FrontierError

WRONG, CONFIRM, STALE = "drift.wrong", "drift.confirm", "drift.stale"
"""Session keys: why the last step was not taken, what is to be confirmed, and that the page is to be drawn anew."""


def show_error(title: str = "This was not done.") -> None:
    """Say why the last step was not taken."""
    if message := st.session_state.pop(WRONG, None):
        show_failure(title, message)


def act(step: Callable[[], Any]) -> None:
    """Take a step from a callback; its error is shown by `show_error`."""
    try:
        step()
    except FrontierError as error:
        st.session_state[WRONG] = str(error)
    st.session_state[STALE] = True


def rerun_if_stale() -> None:
    """Draw the whole page anew after a step; at the beginning of a fragment."""
    if st.session_state.pop(STALE, False):
        st.rerun()


def ask(name: str, label: str, question: str, disabled: bool, step: Callable[[], Any], why: str | None = None) -> None:
    """Draw a button that asks `question` before it takes the step; name: of its key; why: its help."""
    if st.session_state.get(CONFIRM) != name:
        st.button(label, key=f"drift.{name}", disabled=disabled, help=why, on_click=_confirm, args=(name,))
        return
    st.text(question)
    st.button("Yes", key=f"drift.{name}.yes", type="primary", on_click=_confirm, args=(None, step))
    st.button("No", key=f"drift.{name}.no", on_click=_confirm, args=(None,))


def _confirm(name: str | None, step: Callable[[], Any] | None = None) -> None:
    st.session_state[CONFIRM] = name
    if step is not None:
        act(step)
