"""Buttons that take a step, and that download a file."""

from collections.abc import Callable
from typing import Any

import streamlit as st


def step_button(label: str, key: str, step: Callable[..., Any], *args: Any, **how: Any) -> None:
    """Draw a button that calls `step` with `args` before the page is drawn again; how: options of `st.button`."""
    st.button(label, key=key, on_click=step, args=args, **how)


def download_button(label: str, data: Any, file: str, mime: str, key: str, **how: Any) -> None:
    """Draw a button that downloads a file and draws nothing anew; data: its content, or what makes that."""
    st.download_button(label, data, file, mime, key=key, on_click="ignore", **how)
