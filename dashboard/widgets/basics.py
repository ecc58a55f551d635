"""Small pieces of all pages: buttons, the field that takes files, an error with its reason."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.services import roots
from engine.wording import visible


def step_button(label: str, key: str, step: Callable[..., Any], *args: Any, **how: Any) -> None:
    """Draw a button that calls `step` with `args` before the page is drawn again; how: options of `st.button`."""
    st.button(label, key=key, on_click=step, args=args, **how)


def download_button(label: str, data: Any, file: str, mime: str, key: str, **how: Any) -> None:
    """Draw a button that downloads a file and draws nothing anew; data: its content, or what makes that."""
    st.download_button(label, data, file, mime, key=key, on_click="ignore", **how)


def upload_field(label: str, **how: Any) -> Any:
    """Draw the field; returns what was sent, None or [] for nothing. how: of `st.file_uploader`.

    Where this server takes no files it says why in place of the field.
    """
    if roots.rules().uploads:
        return st.file_uploader(label, **how)
    st.info(roots.UPLOADS_OFF, icon=":material/block:")
    return None


def show_failure(title: str, reason: object) -> None:
    """Draw what could not be done, and the reason as plain text: it quotes what strangers wrote."""
    st.error(title, icon=":material/error:")
    st.text(visible(str(reason)))
