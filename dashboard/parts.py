"""Pieces that several screens show: the wait for a corpus, its chip, counts and times as people read them."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import streamlit as st

from dashboard import state
from dashboard.jobs import Job
from engine.progress import spoken

if TYPE_CHECKING:
    from engine.stages import Spec

POLL = "1s"
"""How often a running job is looked at; oftener starves it (Streamlit collects garbage after every run)."""


def wait_for(source: state.Source) -> state.Loaded | None:
    """The loaded corpus; until it is there, its progress (and a way to stop) in its place."""
    job = state.loading(source)
    if job.result is not None:
        return job.result
    st.title("Frontier")
    st.text("What relevance costs and what diversity buys, on your own corpus.")
    _waiting(source, job)
    return None


@st.fragment(run_every=POLL)
def _waiting(source: state.Source, job: Job) -> None:
    if job.result is not None:
        st.rerun()
    if not job.running and job.result is None:
        if job.cancelled:
            st.info("Stopped. What was embedded is kept: going on starts from there.", icon=":material/pause:")
        else:
            st.error("This corpus cannot be loaded.", icon=":material/error:")
            st.text(job.error or "")
        again, other = st.columns([1, 5])
        if again.button("Go on" if job.cancelled else "Try again"):
            state.forget(source, job)
            st.rerun()
        if source.trained and other.button("Use the encoder's own"):
            state.use(source.plain)
            st.rerun()
        elif source != state.source_at_start() and other.button("Back to the first corpus"):
            state.use(state.source_at_start())
            st.rerun()
        return
    st.text(f"Loading {source.path}")
    show_progress(job)
    st.caption("Embedding happens once: what is done is kept, and the next start takes seconds.")
    if st.button("Cancel", disabled=not job.running):
        job.cancel()


@st.fragment(run_every=POLL)
def watch(job: Job, key: str, caption: str = "") -> None:
    """A job of this session until it ends: how far it is, and a button that stops it, of this key."""
    if not job.running:
        st.rerun()
    show_progress(job)
    if caption:
        st.caption(caption)
    if st.button("Cancel", key=key):
        job.cancel()


def method_heading(spec: Spec, title: str | None = None) -> None:
    """A method's symbol and name, as charts have them; title: instead of its name, as where scorers precede it."""
    from dashboard.charts import style_of  # imports torch, which a page that still waits must not

    style = style_of(spec.name)
    st.html(
        f'<span style="color: light-dark({style.light}, {style.dark}); font-size: 1.2rem">{style.sign}</span> '
        f"<strong>{escape(title or spec.title)}</strong>"
    )


def show_progress(job: Job) -> None:
    """A bar with what is being done, how far it is and how long it will take."""
    at = job.progress
    share = min(1.0, at.done / at.total) if at.total else 0.0
    parts = [at.label or job.title]
    if at.done and at.total:
        parts.append(f"{at.done:,} of {at.total:,}")
    if at.seconds_left is not None and at.seconds_left >= 1:
        parts.append(f"{spoken(at.seconds_left)} left")
    st.text(" · ".join(parts))  # not the bar's own text: it holds file names, and is Markdown
    st.progress(share)


def corpus_chip(loaded: state.Loaded, learned: int | None = None) -> None:
    """Name, size, dimension, device and fingerprint of the corpus in use; learned: from how much feedback."""
    space = loaded.origin.space
    encoder, origin = space.encoder, loaded.origin
    with st.container(border=True):
        st.text(space.corpus.name)
        st.caption(
            f"{len(space):,} documents · {space.embeddings.dimension} dimensions · {space.device.type}  \n"
            f"{'own vectors' if encoder is None else encoder.dtype} · fingerprint `{space.embeddings.digest[:8]}`"
        )
        if origin.training:
            st.text(f"trained: {origin.training}")
        if learned is not None:
            pieces = f"{learned:,} {'piece' if learned == 1 else 'pieces'} of feedback"
            st.caption(f"learned from {pieces}  \nΘ_t `{loaded.space.embeddings.digest[:8]}`")


def size(count: float) -> str:
    """Bytes as 12 kB, 3.4 MB or 1.2 GB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit != "MB" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def notices(dataset: Any) -> None:
    """What the reader remarked, in full; ids are shown as they are, never as markup."""
    for notice in dataset.notices:
        st.text(f"⚠ {notice}")
