"""The dialog that is open: it stays while its page is drawn anew, until the reader closes it or leaves the page."""

from collections.abc import Callable
from typing import Any

import streamlit as st

OPEN_DIALOG_KEY, PAGE_KEY = "dialog.open", "dialog.page"
"""Session keys: the name of the dialog that is open, and of the page that was drawn last."""


def draw_dialog(name: str, title: str, draw: Callable[..., None], *args: Any, width: Any = "medium") -> None:
    """Draw a dialog whose content `draw` draws with `args`, and keep in mind that it is open.

    A page that is drawn anew by itself, as when it has measured, closes a dialog that it does not draw again.
    """
    st.session_state[OPEN_DIALOG_KEY] = name
    st.dialog(title, width=width, on_dismiss=forget_dialog)(draw)(*args)


def find_open_dialog() -> str | None:
    """Return the name of the dialog that the reader has not closed, None without one."""
    return st.session_state.get(OPEN_DIALOG_KEY)


def forget_dialog() -> None:
    """Have the next run draw no dialog."""
    st.session_state.pop(OPEN_DIALOG_KEY, None)


def forget_dialog_of_another_page(page: str) -> None:
    """Forget the dialog that is open if it was opened on another page than the one of this name."""
    if st.session_state.get(PAGE_KEY, page) != page:
        forget_dialog()
    st.session_state[PAGE_KEY] = page
