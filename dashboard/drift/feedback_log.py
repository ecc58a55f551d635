"""Feedback log view: events, newest first, each with undo/redo; reset for all."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

import streamlit as st

from dashboard.drift import import_export
from dashboard.drift.history import DriftHistory
from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.widgets import confirm
from dashboard.widgets.buttons import step_button
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.views.drift import Entry
from engine.views.drift import feedback as entries_of

LISTED, MOST_ROWS, MOST_SHOWN = 200, 12, 60
UNDO, REDO = ":material/undo:", ":material/redo:"
DONE = {"counts": "", "undone": "undone", "replaced": "replaced by a newer vote"}


def show(history: DriftHistory) -> None:
    """The log, and what can be done to it."""
    entries = entries_of(history.session, LISTED) if history.session is not None else ()
    if not entries:
        st.info("This simulation moves more than the shown document, so it has no votes to list.")
        return
    if history.live:
        _steps(history, entries)
    _table(history, entries)
    total = len(history.feedback.history)
    if total > len(entries):
        st.caption(f"Newest {len(entries):,} of {total:,}. The log file has all.")
    import_export.downloads(history)
    if history.live:
        import_export.take_in(history)


def _steps(history: DriftHistory, entries: Sequence[Entry]) -> None:
    """Undo of the last one, this person's own before another's, and reset."""
    loaded = history.loaded
    me = feedback.person()
    last = last_of(entries, me)
    counting = any(entry.status != "undone" for entry in entries)
    with st.container(horizontal=True, vertical_alignment="center"):
        how: dict[str, Any] = {"disabled": last is None, "help": "Removes this vote completely."}
        step_button("Undo the last", "drift.undo", _undo, loaded, last, icon=UNDO, **how)
        question = "Undo all votes? Each can be brought back below."
        confirm.ask("reset", "Reset", question, not counting, lambda: feedback.log_of(loaded).reset())
        if last is not None:
            whose = "Your last vote" if last.person == me else "Last vote, by somebody else"
            st.text(f"{whose}: {last.said}, {last.document[:MOST_SHOWN]}")
        why = history.feedback.preset
        st.text(f"Preset {why.name}: η = {why.rate:g}, cap {why.cap}, ρ = {why.trust}")
    confirm.show_error()


def last_of(entries: Sequence[Entry], person: str) -> Entry | None:
    """The newest entry of a person that counts, else anybody's; entries: newest first."""
    counting = [entry for entry in entries if entry.status == "counts"]
    return next((entry for entry in counting if entry.person == person), next(iter(counting), None))


def _undo(loaded: Loaded, entry: Entry | None) -> None:
    if entry is not None:
        confirm.act(lambda: feedback.log_of(loaded).undo(entry.id))


def _table(history: DriftHistory, entries: Sequence[Entry]) -> None:
    key = "drift.log"
    times = [None if entry.time is None else datetime.fromtimestamp(entry.time) for entry in entries]
    columns: dict[str, tuple[list[Any], Any]] = {
        "Round": ([entry.round for entry in entries], number_column(width=52)),
        "When": (times, st.column_config.DatetimeColumn(width=130, format="YYYY-MM-DD HH:mm:ss")),
        "Vote": ([entry.said for entry in entries], text_column(140)),
        "Status": ([DONE[entry.status] for entry in entries], text_column(160)),
        "Document": ([entry.document for entry in entries], text_column(170)),
        "Query": ([entry.query[:300] for entry in entries], text_column(270)),
        "Probability": (
            [entry.propensity for entry in entries],
            number_column("%.3f", 84, "Of being shown, where it was drawn"),
        ),
    }
    for name in ("When", "Status", "Probability"):
        if all(value in (None, "") for value in columns[name][0]):
            del columns[name]
    if history.live:
        button = st.column_config.ButtonColumn(
            "",
            width=40,
            help="Takes this vote back, or brings it back.",
            type="tertiary",
            key=f"{key}.turn",
            on_click=partial(_turn, f"{key}.turn", history.loaded, tuple(entries)),
        )
        columns = {"Take back": ([REDO if entry.status == "undone" else UNDO for entry in entries], button), **columns}
    draw_columns(columns, key=key, most=MOST_ROWS, placeholder="")


def _turn(key: str, loaded: Loaded, entries: Sequence[Entry]) -> None:
    click = st.session_state[key]
    if click is None or click.row >= len(entries):
        return
    entry = entries[click.row]

    def turn() -> None:
        log = feedback.log_of(loaded)
        (log.redo if entry.status == "undone" else log.undo)(entry.id)

    confirm.act(turn)
