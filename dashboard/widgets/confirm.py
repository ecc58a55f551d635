"""Steps of buttons: confirmed first if needed, with their errors."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.widgets.basics import show_failure
from engine.errors import FrontierError

ERROR_KEY, CONFIRM_KEY, STALE_KEY = "drift.wrong", "drift.confirm", "drift.stale"
"""Session keys: error of the last step, the step to be confirmed, and that the page must be drawn again."""


def show_error(title: str = "This was not done.") -> None:
    """Draw the error of the last step, which `take_step` keeps, once."""
    if message := st.session_state.pop(ERROR_KEY, None):
        show_failure(title, message)


def take_step(step: Callable[[], Any]) -> None:
    """Call a function that changes something, such as a vote; keep its error for the page; for a callback."""
    try:
        step()
    except FrontierError as error:
        st.session_state[ERROR_KEY] = error.finding
    # Callbacks of a fragment rerun only the fragment, but a step may change the full page.
    st.session_state[STALE_KEY] = True


def rerun_if_stale() -> None:
    """Draw the full page again if a button has changed something; call at the beginning of a fragment.

    A fragment is a part of a page that Streamlit draws alone after a click in it.
    """
    if st.session_state.pop(STALE_KEY, False):
        st.rerun()


def ask(name: str, label: str, question: str, disabled: bool, step: Callable[[], Any], why: str | None = None) -> None:
    """Draw a button that asks a question with Yes and No before it does something.

    name: tells this button from others in the session; step: called after Yes; why: tooltip
    """
    # One question is open at a time: a click stores its name, and the next run draws it here in the button's place.
    if st.session_state.get(CONFIRM_KEY) != name:
        st.button(label, key=f"drift.{name}", disabled=disabled, help=why, on_click=_answer, args=(name,))
        return
    st.text(question)
    st.button("Yes", key=f"drift.{name}.yes", type="primary", on_click=_answer, args=(None, step))
    st.button("No", key=f"drift.{name}.no", on_click=_answer, args=(None,))


def _answer(step_name: str | None, step: Callable[[], Any] | None = None) -> None:
    """Open the question of this name, or with None close the open one; call `step` if there is one."""
    st.session_state[CONFIRM_KEY] = step_name
    if step is not None:
        take_step(step)
