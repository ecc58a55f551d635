"""The feedback log: events, newest first, each with undo/redo; reset; export and import; named snapshots."""

import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from dashboard.drift import movers
from dashboard.drift.history import MEMORY, DriftHistory, worked_out
from dashboard.drift.user_feedback import split_of
from dashboard.services import feedback
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.widgets import confirm
from dashboard.widgets.basics import download_button, show_failure, step_button, upload_field
from dashboard.widgets.tables import draw_columns, number_column, pair, text_column
from engine import feedback as orag
from engine.errors import DataError
from engine.feedback.session import state_at
from engine.feedback.storage import replace_log
from engine.progress import counted
from engine.values import Notice
from engine.views.drift import Between, Entry, between, conclusions
from engine.views.drift import feedback as entries_of
from engine.wording import visible

LISTED, MOST_ROWS, MOST_SHOWN = 200, 12, 60
UNDO, REDO = ":material/undo:", ":material/redo:"
DONE = {"counts": "", "undone": "undone", "replaced": "replaced by a newer vote"}
WHY = "Makes these votes this corpus's feedback. Each vote can be taken back."
START, NOW = "the start", "now"
NAME = "drift.snapshot.name"
EFFORT = 20
"""About how often a comparison goes over all documents, for neighbours and answers in both."""


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
    _downloads(history)
    if history.live:
        _take_in(history)


def _steps(history: DriftHistory, entries: Sequence[Entry]) -> None:
    """Undo of the last one, this person's own before another's, and reset."""
    loaded = history.loaded
    me = feedback.get_person()
    last = last_of(entries, me)

    def undo(entry: Entry) -> None:
        confirm.take_step(lambda: feedback.open_or_create_log(loaded).undo(entry.id))

    counting = any(entry.status != "undone" for entry in entries)
    with st.container(horizontal=True, vertical_alignment="center"):
        how: dict[str, Any] = {"disabled": last is None, "help": "Removes this vote completely."}
        step_button("Undo the last", "drift.undo", undo, last, icon=UNDO, **how)
        question = "Undo all votes? Each can be brought back below."
        confirm.ask("reset", "Reset", question, not counting, lambda: feedback.open_or_create_log(loaded).reset())
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
    draw_columns(columns, key=key, max_rows=MOST_ROWS, placeholder="")


def _turn(key: str, loaded: Loaded, entries: Sequence[Entry]) -> None:
    click = st.session_state[key]
    if click is None or click.row >= len(entries):
        return
    entry = entries[click.row]

    def turn() -> None:
        log = feedback.open_or_create_log(loaded)
        (log.redo if entry.status == "undone" else log.undo)(entry.id)

    confirm.take_step(turn)


def _downloads(history: DriftHistory) -> None:
    """Draw the downloads: the log, and the documents as they are now."""
    session, name = history.feedback, "feedback" if history.live else "simulated-feedback"
    with st.container(horizontal=True, vertical_alignment="center"):
        for label, file, mime in (
            ("Log (.jsonl)", f"{name}.jsonl", "application/jsonl"),
            ("Embeddings (.npy)", "adapted.npy", "application/octet-stream"),
            ("Embeddings (.parquet)", "adapted.parquet", "application/vnd.apache.parquet"),
        ):
            make, icon = partial(_written, session, file), ":material/download:"
            download_button(label, make, file, mime, f"drift.file.{file}", icon=icon)
        st.caption(".npy: rows in the corpus's order. .parquet: names each document.")


def _written(session: orag.Session, name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        (orag.save if path.suffix == ".jsonl" else orag.export)(session, path)
        return path.read_bytes()


def _take_in(history: DriftHistory) -> None:
    """Draw the import of a log in place of this corpus's own, which is backed up."""
    with st.expander("Import a log"):
        upload = upload_field("Log (.jsonl)", type=["jsonl"], key="drift.import")
        if upload is None:
            return
        raw = upload.getvalue()
        try:
            session, notices = get_or_compute(MEMORY, ("import", upload.file_id), lambda: _read(raw, history.loaded))
        except DataError as error:
            show_failure("This log cannot be used here.", error)
            return
        for notice in notices:
            st.text(visible(f"⚠ {notice}"))
        st.text(f"{counted(len(session.history), 'vote')}, preset {session.preset.name}.")
        offer(history.loaded, session, "import")


def _read(raw: bytes, loaded: Loaded) -> tuple[orag.Session, tuple[Notice, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imported.jsonl"
        path.write_bytes(raw)
        session, notices = orag.load(path, loaded.space)
    _check_finite(session)
    return session, notices


def _check_finite(session: orag.Session) -> None:
    """Raise DataError where documents are not finite: nothing could be computed with them."""
    with np.errstate(over="ignore"):
        rows = np.flatnonzero(~np.isfinite(session.vectors).all(axis=1))
    if len(rows):
        first = session.space.corpus.ids[rows[0]]
        raise DataError(
            f"its feedback moves {len(rows)} documents to numbers that are not finite (first: {first!r}); undo that "
            "feedback, or learn with a cap or a trust region"
        )


def offer(loaded: Loaded, session: orag.Session, name: str, then: Callable[[], None] | None = None) -> None:
    """Draw the button that puts a session in place of the corpus's feedback; it asks first.

    name: of the button's key; then: what follows when it is done.
    """
    count = len(feedback.session(loaded).history)
    question = f"Replace this corpus's {counted(count, 'vote')}? A backup file keeps them."

    def step() -> None:
        put(loaded, session)
        if then is not None:
            then()

    if not count:
        question = "Start this corpus's feedback with these votes?"
    confirm.ask(name, "Use these embeddings", question, False, step, WHY)


def put(loaded: Loaded, session: orag.Session) -> Path | None:
    """Make a session the corpus's log, for everybody; returns the backup of the one before. Raises FrontierError."""
    _check_finite(session)
    return replace_log(session, feedback.get_log_path(loaded))


def show_snapshots(history: DriftHistory) -> None:
    """Draw the forms that take, compare and restore snapshots."""
    session = history.feedback

    def take() -> None:
        name = st.session_state[NAME].strip()
        confirm.take_step(lambda: feedback.open_or_create_log(history.loaded).snapshot(name))
        st.session_state[NAME] = ""

    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name", key=NAME, max_chars=80, placeholder="before the campaign", width=320)
        icon, unnamed = ":material/bookmark:", not name.strip()
        step_button("Take a snapshot", "drift.snapshot", take, icon=icon, disabled=unnamed)
    confirm.show_error()
    named = {visible(name): position for name, position in session.snapshots.items()}
    places = {START: 0, **named, NOW: session.position}
    names = list(places)
    if len(names) == 2:
        st.caption("A snapshot names this moment of the log (orag.snapshot). Undo and reset keep it.")
    left, right, back = st.columns([2, 2, 3], vertical_alignment="bottom")
    one = left.selectbox("Compare", names, len(names) - 2, key=f"drift.one.{len(names)}")
    other = right.selectbox("with", names, len(names) - 1, key=f"drift.other.{len(names)}")
    with back, st.container(horizontal=True, vertical_alignment="center"):
        question = "Restore the votes as they were at this snapshot? Later votes can be brought back."

        def restore() -> None:
            feedback.open_or_create_log(history.loaded).restore(places[one])

        confirm.ask("restore", "Restore the first", question, one == NOW, restore)
    _compared(history, places[one], places[other])


def _compared(history: DriftHistory, one: int, other: int) -> None:
    session = history.feedback
    key = ("between", session.digest, one, other, history.queries is not None)
    effort = EFFORT * history.space.vectors.numel()
    title = "Comparing two moments"
    ready = worked_out(key, "drift.between", title, lambda **_: _between_moments(history, one, other), effort)
    if ready is None:
        return
    difference, votes = ready
    if difference.same:
        st.text("The documents are identical at both.")
        return
    st.text("\n".join(conclusions(difference.drift)))
    came, went = len(votes.added), len(votes.removed)
    st.text(f"Votes only in the second: {came:,}; only in the first: {went:,}.")
    left, right = pair("drift-between")
    with left:
        movers.documents_table(f"drift.between.{one}.{other}", difference.movers)
    with right:
        table = f"drift.between.queries.{one}.{other}"
        movers.queries_table(history, table, lambda: difference.queries, ", from the first to the second")


def _between_moments(history: DriftHistory, one: int, other: int) -> tuple[Between, orag.Diff]:
    session = history.feedback
    first, second = (state_at(session, step) for step in (one, other))
    difference = between(
        history.space,
        first.vectors,
        second.vectors,
        history.queries,
        qrels=history.qrels if split_of(history.loaded) else None,
        temperature=session.temperature,
        ball=session.preset.ball,
    )
    return difference, orag.diff(first, second)
