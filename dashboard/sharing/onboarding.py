"""The first steps in one line, until a person closes it."""

import json
from typing import Any

import streamlit as st

from dashboard.session.restore import was_sent
from engine.data import cache
from engine.errors import FrontierError
from engine.paths import home

FILE, NAME = "settings.json", "first_steps_seen"
CLOSED = "hint.closed"
STEPS = (
    "**1** Ask or pick a query",
    "**2** Move λ",
    "**3** Open Trade-off",
)


def show() -> None:
    """Draw the first steps, unless this session closed them, somebody did for good, or a link opened the page."""
    if CLOSED not in st.session_state:
        st.session_state[CLOSED] = bool(_settings().get(NAME))
    if st.session_state[CLOSED] or was_sent():
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="hint"):
        st.markdown("  →  ".join(STEPS), width="stretch")
        st.button("Don't show again", key="hint.never", type="tertiary", on_click=_never)
        st.button("Close", key="hint.close", type="tertiary", on_click=_close)


def _close() -> None:
    st.session_state[CLOSED] = True


def _never() -> None:
    _close()
    try:
        cache.write(home() / FILE, json.dumps(_settings() | {NAME: True}).encode())
    except FrontierError as error:
        st.toast(f"Closed for this session only. {error}", icon=":material/error:")


def _settings() -> dict[str, Any]:
    """The stored settings; none where there is no such file or it is damaged."""
    try:
        settings = json.loads((home() / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}
