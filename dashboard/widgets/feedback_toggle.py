"""The header's switch between the corpus as embedded and as feedback has moved it; log errors."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.widgets import confirm
from dashboard.widgets.common import corpus_chip
from engine.errors import FrontierError

TOLD = "live.told"
"""Where a session keeps what became of a log that could not be used."""


def corpus(loaded: Loaded, chip: Any) -> Loaded:
    """The corpus to work on; draws its chip, the switch, and in the main area why feedback cannot be used.

    chip: the container of the header for both.
    """
    shown, trouble, learned = loaded, None, None
    if loaded.reach is not None:
        with chip:
            corpus_chip(loaded)
        return loaded
    if feedback.is_on():
        try:
            shown = feedback.adapted(loaded)
            learned = feedback.count(loaded)
        except FrontierError as error:
            trouble = str(error)
    with chip:
        corpus_chip(shown, learned)
        st.toggle(
            "Live feedback",
            key=feedback.ON,
            persist_state="session",
            help="On: every page works on the documents as feedback has moved them. Off: as they were embedded. A "
            "thumb on a document switches it on.",
        )
    if trouble is not None:
        with st.container(gap="small"):
            st.error("The feedback given on this corpus cannot be used; it is shown as it was embedded.")
            st.text(trouble)
            with st.container(horizontal=True):
                st.button("Keep what still holds", key="live.carry", on_click=_mend, args=(_carry, loaded))
                st.button("Begin anew", key="live.anew", on_click=_mend, args=(_anew, loaded))
            st.caption("Neither deletes anything: the log stays in its folder, under this name or another.")
    if messages := st.session_state.get(TOLD):
        for line in messages:
            st.text(f"⚠ {line}")
        st.button("OK", key="live.ok", on_click=st.session_state.pop, args=(TOLD, None))
    return shown


def _carry(loaded: Loaded) -> list[str]:
    return [str(notice) for notice in feedback.carry(loaded)]


def _anew(loaded: Loaded) -> list[str]:
    return [f"A new log has begun; the other one is {feedback.begin_anew(loaded)}"]


def _mend(repair: Callable[[Loaded], list[str]], loaded: Loaded) -> None:
    st.session_state.pop(confirm.WRONG, None)
    try:
        st.session_state[TOLD] = repair(loaded)
    except FrontierError as error:
        st.session_state[TOLD] = [f"This did not work: {error}"]
