"""The sidebar's switch: the corpus as it was embedded, or as feedback has made it; and what is in the way of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.feedback import live, votes
from dashboard.parts import corpus_chip
from dashboard.state import Loaded
from engine.errors import FrontierError

TOLD = "live.told"
"""Where a session keeps what became of a log that could not be used."""


def corpus(loaded: Loaded, chip: Any) -> Loaded:
    """The corpus to work on; draws its chip, the switch, and in the main area why feedback cannot be used.

    chip: the container of the sidebar for both.
    """
    shown, trouble, learned = loaded, None, None
    if live.on():
        try:
            shown = live.adapted(loaded)
            learned = live.count(loaded)
        except FrontierError as error:
            trouble = str(error)
    with chip:
        corpus_chip(shown, learned)
        st.toggle(
            "Live feedback",
            key=live.ON,
            persist_state="session",
            help="On: every page works on the documents as feedback has moved them. Off: as they were embedded. A "
            "thumb on a document switches it on.",
        )
    if trouble is not None:
        _trouble(loaded, trouble)
    if told := st.session_state.get(TOLD):
        for line in told:
            st.text(f"⚠ {line}")
        st.button("OK", key="live.ok", on_click=_seen)
    return shown


def _trouble(loaded: Loaded, error: str) -> None:
    with st.container(gap="small"):
        st.error("The feedback given on this corpus cannot be used; it is shown as it was embedded.")
        st.text(error)
        with st.container(horizontal=True):
            st.button("Keep what still holds", key="live.carry", on_click=_mend, args=(loaded, _carry))
            st.button("Begin anew", key="live.anew", on_click=_mend, args=(loaded, _anew))
        st.caption("Neither deletes anything: the log stays in its folder, under this name or another.")


def _carry(loaded: Loaded) -> list[str]:
    return [str(notice) for notice in live.carry(loaded)]


def _anew(loaded: Loaded) -> list[str]:
    return [f"A new log has begun; the other one is {live.begin_anew(loaded)}"]


def _mend(loaded: Loaded, how: Callable[[Loaded], list[str]]) -> None:
    st.session_state.pop(votes.WRONG, None)
    try:
        st.session_state[TOLD] = how(loaded)
    except FrontierError as error:
        st.session_state[TOLD] = [f"This did not work: {error}"]


def _seen() -> None:
    st.session_state.pop(TOLD, None)
