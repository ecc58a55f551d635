"""The feedback itself: what was said, newest first, with a way to take back or bring back each piece, or all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.drift import files
from dashboard.drift.story import Story
from dashboard.explore.answers import ROW_HEIGHT
from dashboard.feedback import live
from dashboard.state import Loaded
from engine.errors import FrontierError
from engine.views.drift import Entry, feedback

WRONG, CONFIRM = "drift.wrong", "drift.confirm"
"""Where a session keeps why the last step was not taken, and what it is asked to confirm."""
LISTED, MOST_ROWS, MOST_SHOWN = 200, 12, 60
UNDO, REDO = ":material/undo:", ":material/redo:"
DONE = {"counts": "", "undone": "undone", "replaced": "replaced by a newer vote"}


def show(story: Story) -> None:
    """The log, and what can be done to it."""
    entries = feedback(story.session, LISTED) if story.session is not None else ()
    if not entries:
        st.info("This simulation moves more than the document shown, so there is no log of votes to list.")
        return
    if story.live:
        _steps(story, entries)
    _table(story, entries)
    total = len(story.session.history)
    if total > len(entries):
        st.caption(f"The newest {len(entries):,} of {total:,}; all of them are in the file.")
    files.downloads(story)
    if story.live:
        files.take_in(story)


def _steps(story: Story, entries: Sequence[Entry]) -> None:
    """Undo of the last one, this person's own before another's, and reset."""
    loaded = story.loaded
    me = live.person()
    last = last_of(entries, me)
    counting = any(entry.status != "undone" for entry in entries)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Undo the last",
            icon=UNDO,
            key="drift.undo",
            disabled=last is None,
            help="As if it had never been said, to the last bit.",
            on_click=lambda: last and act(lambda: live.undo(loaded, last.id)),
        )
        ask("reset", "Reset", "Take all feedback back? Single pieces can be brought back below.", not counting,
            lambda: live.reset(loaded))  # fmt: skip
        if last is not None:
            whose = "Your last" if last.person == me else "The last, somebody else's"
            st.text(f"{whose}: {last.said}, {last.document[:MOST_SHOWN]}")
        why = story.session.preset
        st.text(f"Learns by the preset {why.name}: η = {why.rate:g}, cap {why.cap}, ρ {why.trust}.")
    wrong()


def last_of(entries: Sequence[Entry], person: str) -> Entry | None:
    """The newest entry of a person that counts, else anybody's; entries: newest first."""
    counting = [entry for entry in entries if entry.status == "counts"]
    return next((entry for entry in counting if entry.person == person), next(iter(counting), None))


def wrong() -> None:
    """Why the last step was not taken."""
    if told := st.session_state.pop(WRONG, None):
        st.error("This was not done.", icon=":material/error:")
        st.text(told)


def act(step: Callable[[], Any]) -> None:
    """Take a step from a callback; what is in the way of it is said."""
    try:
        step()
    except FrontierError as error:
        st.session_state[WRONG] = str(error)
    st.session_state["drift.stale"] = True


def follow() -> None:
    """Draw the whole page anew where feedback has changed since; at the beginning of a fragment."""
    if st.session_state.pop("drift.stale", False):
        st.rerun()


def ask(name: str, label: str, question: str, disabled: bool, step: Callable[[], Any], why: str | None = None) -> None:
    """A button that asks first; why: its help."""
    if st.session_state.get(CONFIRM) != name:
        st.button(label, key=f"drift.{name}", disabled=disabled, help=why, on_click=_confirm, args=(name,))
        return
    st.text(question)
    st.button("Yes", key=f"drift.{name}.yes", type="primary", on_click=_yes, args=(step,))
    st.button("No", key=f"drift.{name}.no", on_click=_confirm, args=(None,))


def _confirm(name: str | None) -> None:
    st.session_state[CONFIRM] = name


def _yes(step: Callable[[], Any]) -> None:
    _confirm(None)
    act(step)


def _table(story: Story, entries: Sequence[Entry]) -> None:
    key = "drift.log"
    columns: dict[str, Any] = {
        "Round": [entry.round for entry in entries],
        "When": [None if entry.time is None else datetime.fromtimestamp(entry.time) for entry in entries],
        "Said": [entry.said for entry in entries],
        "Status": [DONE[entry.status] for entry in entries],
        "Document": [entry.document for entry in entries],
        "Query": [entry.query[:300] for entry in entries],
        "Chance": [entry.propensity for entry in entries],
    }
    config: dict[str, Any] = {
        "Round": st.column_config.NumberColumn(width=52),
        "When": st.column_config.DatetimeColumn(width=130, format="YYYY-MM-DD HH:mm:ss"),
        "Said": st.column_config.TextColumn(width=140),
        "Document": st.column_config.TextColumn(width=170),
        "Query": st.column_config.TextColumn(width=270),
        "Chance": st.column_config.NumberColumn(
            format="%.3f", width=62, help="With which it was shown, where it was drawn"
        ),
        "Status": st.column_config.TextColumn(width=160),
    }
    if not any(columns["When"]):
        del columns["When"]
    if not any(columns["Status"]):
        del columns["Status"]
    if all(chance is None for chance in columns["Chance"]):
        del columns["Chance"]
    if story.live:
        columns = {"Take back": [REDO if entry.status == "undone" else UNDO for entry in entries], **columns}
        config["Take back"] = st.column_config.ButtonColumn(
            "",
            width=40,
            help="Takes this piece back, or brings it back.",
            type="tertiary",
            key=f"{key}.turn",
            on_click=partial(_turn, f"{key}.turn", story.loaded, tuple(entries)),
        )
    st.dataframe(
        pd.DataFrame(columns),
        key=key,
        hide_index=True,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(len(entries), MOST_ROWS) + 1) + 2,
        placeholder="",
        column_config=config,
    )


def _turn(key: str, loaded: Loaded, entries: Sequence[Entry]) -> None:
    click = st.session_state[key]
    if click is None or click.row >= len(entries):
        return
    entry = entries[click.row]
    act(lambda: (live.redo if entry.status == "undone" else live.undo)(loaded, entry.id))
