"""Feedback and adapted documents as files: the log out and in, the embeddings out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import streamlit as st

from dashboard.drift.story import Story, remembered
from dashboard.feedback import live
from dashboard.state import Loaded
from engine import orag
from engine.data import cache
from engine.errors import DataError
from engine.learning.orag.aside import kept_beside
from engine.learning.orag.locking import locked
from engine.values import showable

Ask = Callable[[str, str, str, bool, Callable[[], None], str | None], None]
WHY = "Makes it this corpus's feedback: Explore then shows these documents, and each piece can be taken back."


def downloads(story: Story) -> None:
    """The log, and the documents as they are now."""
    session, name = story.session, "feedback" if story.live else "simulated-feedback"
    with st.container(horizontal=True, vertical_alignment="center"):
        for label, file, mime in (
            ("Log (.jsonl)", f"{name}.jsonl", "application/jsonl"),
            ("Embeddings (.npy)", "adapted.npy", "application/octet-stream"),
            ("Embeddings (.parquet)", "adapted.parquet", "application/vnd.apache.parquet"),
        ):
            st.download_button(
                label,
                lambda file=file: _written(session, file),
                file,
                mime,
                key=f"drift.file.{file}",
                icon=":material/download:",
                on_click="ignore",
            )
        st.caption("Rows of the .npy file are in the corpus's order; .parquet names each document.")


def _written(session: orag.Session, name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        (orag.save if path.suffix == ".jsonl" else orag.export)(session, path)
        return path.read_bytes()


def take_in(story: Story) -> None:
    """A log from a file in place of this corpus's own, which is kept beside it."""
    from dashboard.drift import told

    with st.expander("Import a log"):
        given = st.file_uploader("A log, as the button above saves it", type=["jsonl"], key="drift.import")
        if given is None:
            return
        raw = given.getvalue()
        try:
            session, notices = remembered(("import", given.file_id), lambda: _read(raw, story.loaded))
        except DataError as error:
            st.error("This log cannot be used here.", icon=":material/error:")
            st.text(showable(str(error)))
            return
        for notice in notices:
            st.text(showable(f"⚠ {notice}"))
        st.text(f"Feedback in it: {len(session.history):,}. It learns by the preset {session.preset.name}.")
        replace(story.loaded, session, "import", told.ask)


def _read(raw: bytes, loaded: Loaded) -> tuple[orag.Session, tuple]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "imported.jsonl"
        path.write_bytes(raw)
        session, notices = orag.load(path, loaded.space)
    _refuse_endless(session)
    return session, notices


def _refuse_endless(session: orag.Session) -> None:
    """Raise a DataError where documents have moved beyond all numbers: nothing could be computed with them."""
    with np.errstate(over="ignore"):
        beyond = np.flatnonzero(~np.isfinite(session.vectors).all(axis=1))
    if len(beyond):
        first = session.space.corpus.ids[beyond[0]]
        raise DataError(
            f"its feedback moves {len(beyond)} documents to numbers that are not finite (first: {first!r}); undo that "
            "feedback, or learn with a cap or a trust region"
        )


def replace(loaded: Loaded, session: orag.Session, name: str, ask: Ask, then: Callable[[], None] | None = None) -> None:
    """The button that puts a session in place of the corpus's feedback; it asks first.

    ask: draws a button that asks; then: what follows when it is done.
    """
    there = len(live.session(loaded).history)
    question = f"Put it in place of the feedback that this corpus has ({there:,})? That is kept in a file beside it."

    def step() -> None:
        put(loaded, session)
        if then is not None:
            then()

    ask(name, "Use these embeddings", question if there else "Begin this corpus's feedback with it?", False, step, WHY)


def put(loaded: Loaded, session: orag.Session) -> Path | None:
    """Make a session the corpus's log, for everybody; returns where the one before is kept. Raises FrontierError."""
    _refuse_endless(session)
    path, aside = live.path(loaded), None
    with cache.explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            if path.exists():
                aside = kept_beside(path, ".aside")
            orag.save(session, path)
    return aside
