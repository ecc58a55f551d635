"""Basic widgets of all pages: buttons, the upload field, an error with its reason."""

from collections.abc import Callable, Iterable
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

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


def reserve_place(names: Iterable[str], view_name: str, **look: Any) -> DeltaGenerator:
    """Return a container for the view of this name, beside empty places for the other views.

    Views that shared a container would leave parts behind: the browser removes the old ones when a run ends, and does
    not hear of that end if another run begins at once, as while a job draws its progress.
    """
    return {name: st.container(**look) if name == view_name else st.empty() for name in names}[view_name]


def show_failure(title: str, reason: object) -> None:
    """Draw an error with its reason, as plain text, as that may quote what strangers wrote."""
    st.error(title, icon=":material/error:")
    st.text(visible(reason.finding if isinstance(reason, FrontierError) else str(reason)))
