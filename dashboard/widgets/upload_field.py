"""The field that takes files from a browser, or in its place why this server takes none."""

from typing import Any

import streamlit as st

from dashboard.services import roots


def upload_field(label: str, **how: Any) -> Any:
    """Draw the field; returns what was sent, None or [] for nothing. how: of `st.file_uploader`."""
    if roots.rules().uploads:
        return st.file_uploader(label, **how)
    st.info(roots.UPLOADS_OFF, icon=":material/block:")
    return None
