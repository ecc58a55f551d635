"""Export of the log and of the adapted documents; import of a log."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import streamlit as st

from dashboard.drift.history import MEMORY, DriftHistory
from dashboard.services import feedback
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.widgets import confirm
from dashboard.widgets.buttons import download_button
from dashboard.widgets.failure import show_failure
from dashboard.widgets.upload_field import upload_field
from engine import feedback as orag
from engine.errors import DataError
from engine.feedback.storage import replace_log
from engine.progress import counted
from engine.values import Notice
from engine.wording import visible

WHY = "Makes these votes this corpus's feedback. Each vote can be taken back."


def downloads(history: DriftHistory) -> None:
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


def take_in(history: DriftHistory) -> None:
    """Draw the import of a log in place of this corpus's own, which is backed up."""
    with st.expander("Import a log"):
        upload = upload_field("Log (.jsonl)", type=["jsonl"], key="drift.import")
        if upload is None:
            return
        raw = upload.getvalue()
        try:
            session, notices = remembered(MEMORY, ("import", upload.file_id), lambda: _read(raw, history.loaded))
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
    return replace_log(session, feedback.path(loaded))
