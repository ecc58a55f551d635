"""Basic widgets of all pages: buttons, the upload field, an error with its reason."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.services import roots
from engine.errors import FrontierError
from engine.wording import visible


def step_button(label: str, key: str, step: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Draw a button; a click calls `step` with `args` before the page is drawn again."""
    st.button(label, key=key, on_click=step, args=args, **options)


def download_button(label: str, data: Any, file_name: str, mime: str, key: str, **options: Any) -> None:
    """Draw a button that downloads a file without rerunning the page; data: content, or its function."""
    st.download_button(label, data, file_name, mime, key=key, on_click="ignore", **options)


def upload_field(label: str, **options: Any) -> Any:
    """Draw the upload field; return what was uploaded. options: of `st.file_uploader`.

    If this server accepts no files, draw the reason in its place.
    """
    # A server that others can reach may have uploads switched off.
    if roots.get_rules().uploads:
        return st.file_uploader(label, **options)
    st.info(roots.UPLOADS_OFF, icon=":material/block:")
    return None


def show_failure(title: str, reason: object) -> None:
    """Draw an error with its reason, as plain text, as that may quote what strangers wrote."""
    st.error(title, icon=":material/error:")
    st.text(visible(reason.finding if isinstance(reason, FrontierError) else str(reason)))
