"""The feedback log: events, newest first, each with undo/redo; reset; export and import; snapshots."""

import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from dashboard.drift import movers
from dashboard.drift.history import DRIFT_MEMO, DriftHistory, cached_or_job
from dashboard.drift.user_feedback import find_split
from dashboard.services import feedback
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.widgets import confirm
from dashboard.widgets.basics import download_button, show_failure, step_button, upload_field
from dashboard.widgets.tables import draw_columns, number_column, pair, text_column
from engine import feedback as orag
from engine.errors import DataError
from engine.feedback.session import state_at
from engine.feedback.vote_log import replace_log
from engine.progress import counted
from engine.values import Notice
from engine.views.drift import Between, Entry, compare_states, conclusions
from engine.views.drift import feedback as entries_of
from engine.wording import visible

MAX_LISTED_EVENTS, MAX_LOG_ROWS, MAX_NAME_CHARACTERS = 200, 12, 60
UNDO, REDO = ":material/undo:", ":material/redo:"
STATUS_TEXTS = {"counts": "", "undone": "undone", "replaced": "replaced by a newer vote"}
REPLACE_HELP = "Makes these the votes on this corpus. Each can be taken back."
START_POINT, NOW_POINT = "the start", "now"
SNAPSHOT_NAME_KEY = "drift.snapshot.name"
COMPARE_PASSES = 20
"""Passes of a comparison over all documents, for neighbours and answers, about."""


def draw_log(history: DriftHistory) -> None:
    """Draw the list of votes with what can be done to it: undo and import (people's votes), download."""
    entries = entries_of(history.session, MAX_LISTED_EVENTS) if history.session is not None else ()
    if not entries:
        st.info("This simulation moves more than the shown document, so it has no votes to list.")
        return
    # Only people's votes can be undone or replaced; a simulation's are a record of what happened.
    if history.is_live:
        _draw_steps(history, entries)
    _draw_events(history, entries)
    total = len(history.feedback.history)
    if total > len(entries):
        st.caption(f"Newest {len(entries):,} of {total:,}. The log file has all.")
    _draw_downloads(history)
    if history.is_live:
        _draw_import(history)


def _draw_steps(history: DriftHistory, entries: Sequence[Entry]) -> None:
    """Draw the buttons that undo the last vote (one's own before another's) and that reset all votes.

    entries: the votes, newest first
    """
    loaded = history.loaded
    person = feedback.get_person()
    last_entry = find_last(entries, person)

    def undo(entry: Entry) -> None:
        """Undo one vote in the log; for a callback."""
        confirm.take_step(lambda: feedback.open_or_create_log(loaded).undo(entry.id))

    has_votes = any(entry.status != "undone" for entry in entries)
    with st.container(horizontal=True, vertical_alignment="center"):
        options: dict[str, Any] = {"disabled": last_entry is None, "help": "Removes this vote completely."}
        step_button("Undo the last", "drift.undo", undo, last_entry, icon=UNDO, **options)
        question = "Undo all votes? Each can be brought back below."
        confirm.ask("reset", "Reset", question, not has_votes, lambda: feedback.open_or_create_log(loaded).reset())
        if last_entry is not None:
            owner = "Your last vote" if last_entry.person == person else "Last vote, by somebody else"
            st.text(f"{owner}: {last_entry.said}, {last_entry.document[:MAX_NAME_CHARACTERS]}")
        preset = history.feedback.preset
        st.text(f"Preset {preset.name}: η = {preset.rate:g}, cap {preset.cap}, ρ = {preset.trust}")
    confirm.show_error()


def find_last(entries: Sequence[Entry], person: str) -> Entry | None:
    """Return the newest vote of a person that counts, else the newest of anybody; None without any.

    entries: newest first; an undone or replaced vote does not count
    """
    effective = [entry for entry in entries if entry.status == "counts"]
    return next((entry for entry in effective if entry.person == person), next(iter(effective), None))


def _draw_events(history: DriftHistory, entries: Sequence[Entry]) -> None:
    """Draw the table of votes; people's votes have a button on each row that undoes or redoes it.

    entries: the votes, newest first; simulated votes have no button
    """
    key = "drift.log"
    times = [None if entry.time is None else datetime.fromtimestamp(entry.time) for entry in entries]
    columns: dict[str, tuple[list[Any], Any]] = {
        "Round": ([entry.round for entry in entries], number_column(width=52)),
        "When": (times, st.column_config.DatetimeColumn(width=130, format="YYYY-MM-DD HH:mm:ss")),
        "Vote": ([entry.said for entry in entries], text_column(140)),
        "Status": ([STATUS_TEXTS[entry.status] for entry in entries], text_column(160)),
        "Document": ([entry.document for entry in entries], text_column(170)),
        "Query": ([entry.query[:300] for entry in entries], text_column(270)),
        "Probability": (
            [entry.propensity for entry in entries],
            number_column("%.3f", 84, "Of being shown, where it was drawn"),
        ),
    }
    # Columns without any value are left out: simulations have no times.
    for name in ("When", "Status", "Probability"):
        if all(value in (None, "") for value in columns[name][0]):
            del columns[name]
    if history.is_live:
        button = st.column_config.ButtonColumn(
            "",
            width=40,
            help="Takes this vote back, or brings it back.",
            type="tertiary",
            key=f"{key}.turn",
            on_click=partial(_toggle_event, f"{key}.turn", history.loaded, tuple(entries)),
        )
        columns = {"Take back": ([REDO if entry.status == "undone" else UNDO for entry in entries], button), **columns}
    draw_columns(columns, key=key, max_rows=MAX_LOG_ROWS, placeholder="")


def _toggle_event(key: str, loaded: Loaded, entries: Sequence[Entry]) -> None:
    """Undo the vote of the clicked row, or redo it if it was undone; for a callback.

    key: of the button column, where Streamlit stores the click
    """
    click = st.session_state[key]
    # The log may have changed between drawing and click.
    if click is None or click.row >= len(entries):
        return
    entry = entries[click.row]

    def turn() -> None:
        """Undo or redo the vote in the log."""
        log = feedback.open_or_create_log(loaded)
        toggle = log.redo if entry.status == "undone" else log.undo
        toggle(entry.id)

    confirm.take_step(turn)


def _draw_downloads(history: DriftHistory) -> None:
    """Draw the buttons that download the log of votes and the document vectors that they have moved."""
    session, name = history.feedback, "feedback" if history.is_live else "simulated-feedback"
    with st.container(horizontal=True, vertical_alignment="center"):
        for label, file_name, mime in (
            ("Log (.jsonl)", f"{name}.jsonl", "application/jsonl"),
            ("Embeddings (.npy)", "adapted.npy", "application/octet-stream"),
            ("Embeddings (.parquet)", "adapted.parquet", "application/vnd.apache.parquet"),
        ):
            write, icon = partial(_write_file, session, file_name), ":material/download:"
            download_button(label, write, file_name, mime, f"drift.file.{file_name}", icon=icon)
        st.caption(".npy: rows in the corpus's order. .parquet: names each document.")


def _write_file(session: orag.Session, name: str) -> bytes:
    """Return the bytes of a download: the log of votes for a .jsonl name, else the moved vectors.

    The engine writes files only, so a temporary one is read back.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        # `save` writes the log of votes, `export` the document vectors.
        write_file = orag.save if path.suffix == ".jsonl" else orag.export
        write_file(session, path)
        return path.read_bytes()


def _draw_import(history: DriftHistory) -> None:
    """Draw the upload of a log of votes, and the button that replaces this corpus's votes by the log's.

    A backup of the corpus's votes is written first.
    """
    with st.expander("Import a log"):
        upload = upload_field("Log (.jsonl)", type=["jsonl"], key="drift.import")
        if upload is None:
            return
        raw = upload.getvalue()
        try:
            read_upload = partial(_read_log, raw, history.loaded)
            session, notices = get_or_compute(DRIFT_MEMO, ("import", upload.file_id), read_upload)
        except DataError as error:
            show_failure("This log cannot be used here.", error)
            return
        for notice in notices:
            st.text(visible(f"⚠ {notice}"))
        st.text(f"{counted(len(session.history), 'vote')}, preset {session.preset.name}.")
        draw_replace(history.loaded, session, "import")


def _read_log(raw: bytes, loaded: Loaded) -> tuple[orag.Session, tuple[Notice, ...]]:
    """Read an uploaded log; return its feedback on this corpus, and notices of what does not fit.

    Raises DataError if the log is damaged or moves a document to infinity.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imported.jsonl"
        path.write_bytes(raw)
        session, notices = orag.load(path, loaded.space)
    _check_finite(session)
    return session, notices


def _check_finite(session: orag.Session) -> None:
    """Raise DataError if feedback has moved a document so far that its numbers are infinite or undefined."""
    # An overflow to infinity is what the check looks for.
    with np.errstate(over="ignore"):
        rows = np.flatnonzero(~np.isfinite(session.vectors).all(axis=1))
    if len(rows):
        first = session.space.corpus.ids[rows[0]]
        raise DataError(
            f"its votes move {counted(len(rows), 'document')} to numbers that are not finite (first: {first!r}); undo "
            "those votes, or learn with a cap or a trust region"
        )


def draw_replace(loaded: Loaded, session: orag.Session, name: str, on_done: Callable[[], None] | None = None) -> None:
    """Draw the button that makes a feedback session's votes this corpus's own, after a confirmation.

    session: the votes, with the vectors they lead to; name: of the button's key; on_done: called afterwards.
    """
    n_votes = len(feedback.session(loaded).history)
    question = f"Replace this corpus's {counted(n_votes, 'vote')}? A backup file keeps them."

    def replace() -> None:
        """Replace the votes, then call `on_done` if there is one."""
        replace_feedback(loaded, session)
        if on_done is not None:
            on_done()

    # Without votes nothing is replaced, and no backup is needed.
    if not n_votes:
        question = "Begin this corpus's log with these votes?"
    confirm.ask(name, "Use these embeddings", question, False, replace, REPLACE_HELP)


def replace_feedback(loaded: Loaded, session: orag.Session) -> Path | None:
    """Replace the corpus's log of votes by a feedback session's, for everybody; return the backup.

    None if there was nothing to back up. Raises FrontierError.
    """
    _check_finite(session)
    return replace_log(session, feedback.get_log_path(loaded))


def draw_snapshots(history: DriftHistory) -> None:
    """Draw the forms that name the present moment (a snapshot), compare two moments and restore one.

    A moment is a number of records of the log of votes.
    """
    session = history.feedback

    def take_snapshot() -> None:
        """Give the log's present moment the typed name; for a callback."""
        name = st.session_state[SNAPSHOT_NAME_KEY].strip()
        confirm.take_step(lambda: feedback.open_or_create_log(history.loaded).snapshot(name))
        st.session_state[SNAPSHOT_NAME_KEY] = ""

    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name", key=SNAPSHOT_NAME_KEY, max_chars=80, placeholder="before the campaign", width=320)
        icon, is_unnamed = ":material/bookmark:", not name.strip()
        step_button("Take a snapshot", "drift.snapshot", take_snapshot, icon=icon, disabled=is_unnamed)
    confirm.show_error()
    positions = {visible(name): position for name, position in session.snapshots.items()}
    moments = {START_POINT: 0, **positions, NOW_POINT: session.position}
    names = list(moments)
    if not positions:
        st.caption("A snapshot names this moment of the log (orag.snapshot). Undo and reset keep it.")
    first_column, second_column, restore_column = st.columns([2, 2, 3], vertical_alignment="bottom")
    # By default the newest snapshot, or the start, is compared with now, the last name.
    first_name = first_column.selectbox("Compare", names, len(names) - 2, key=f"drift.one.{len(names)}")
    second_name = second_column.selectbox("with", names, len(names) - 1, key=f"drift.other.{len(names)}")
    with restore_column, st.container(horizontal=True, vertical_alignment="center"):
        question = "Restore the votes as they were at this snapshot? Later votes can be brought back."

        def restore() -> None:
            """Undo and redo votes until those of the first chosen moment count."""
            feedback.open_or_create_log(history.loaded).restore(moments[first_name])

        confirm.ask("restore", "Restore the first", question, first_name == NOW_POINT, restore)
    _draw_comparison(history, moments[first_name], moments[second_name])


def _draw_comparison(history: DriftHistory, first: int, second: int) -> None:
    """Draw what changed in documents and votes between two moments of the log.

    first, second: numbers of records
    """
    key = ("between", history.key, first, second)
    effort = COMPARE_PASSES * history.space.vectors.numel()
    title = "Comparing two moments"
    result = cached_or_job(key, "drift.between", title, lambda **_: _compare_moments(history, first, second), effort)
    if result is None:
        return
    difference, votes = result
    if difference.same:
        st.text("The documents are identical at both.")
        return
    st.text("\n".join(conclusions(difference.drift)))
    n_added, n_removed = len(votes.added), len(votes.removed)
    st.text(f"Votes only in the second: {n_added:,}; only in the first: {n_removed:,}.")
    document_column, query_column = pair("drift-between")
    with document_column:
        movers.draw_documents(history.loaded.space.corpus, f"drift.between.{first}.{second}", difference.movers)
    with query_column:
        table = f"drift.between.queries.{first}.{second}"
        movers.draw_queries(history, table, lambda: difference.queries, ", from the first to the second")


def _compare_moments(history: DriftHistory, first_step: int, second_step: int) -> tuple[Between, orag.Diff]:
    """Compare the documents' vectors and the votes at two moments of the log; return both differences."""
    session = history.feedback
    first, second = (state_at(session, step) for step in (first_step, second_step))
    difference = compare_states(
        history.space,
        first.vectors,
        second.vectors,
        history.queries,
        qrels=history.qrels if find_split(history.loaded) else None,
        temperature=session.temperature,
        ball=session.preset.ball,
    )
    return difference, orag.diff(first, second)
