"""Pieces of several pages: the wait for a corpus, its chip, headings, sizes, notices."""

import re
from html import escape
from typing import Any

import streamlit as st

from dashboard.services import corpora, jobs
from dashboard.services.source import Loaded, Source
from dashboard.session import address
from dashboard.widgets.job_panel import show_end, watch
from engine.progress import counted
from engine.wording import visible


def wait_for(source: Source) -> Loaded | None:
    """The loaded corpus; until it is there, its progress (and a way to stop) in its place."""
    job = corpora.loading(source)
    running = job.running and not jobs.is_left(job)  # asked before the result, which may come between the two
    if job.result is not None:
        loaded: Loaded = job.result
        return loaded
    st.title("Frontier")
    st.text("See what diversity costs in relevance — on your own corpus.")
    if running:
        caption = "Embeddings are cached. The next start takes seconds."
        watch(job, "corpus.cancel", title=f"Loading {source.name}", caption=caption, to_end=True)
        return None
    show_end(job, "This corpus cannot be loaded.", "Stopped. Progress is saved.")
    again, other = st.columns([1, 5])
    again.button("Retry" if job.error else "Resume", on_click=corpora.forget, args=(source, job))
    if source.trained:
        other.button("Use the encoder's own", on_click=address.use, args=(source.plain,))
    elif source != (first := corpora.source_at_start()):
        other.button("Back to the first corpus", on_click=address.use, args=(first,))
    return None


def as_label(text: str) -> str:
    """A stranger's text as a label that shows it: Streamlit reads labels as Markdown, with icons between colons."""
    return re.sub(r"([\\`*_\[\]<>$~&#|])", r"\\\1", visible(text)).replace(":", ":\u200b")


def method_heading(name: str, title: str) -> None:
    """The symbol of a method, or of another system, and its title, as charts have them."""
    from dashboard.charts.palette import style_of  # imports torch, which a page that still waits must not

    style = style_of(name)
    st.html(
        f'<span style="color: light-dark({style.light}, {style.dark}); font-size: 1.2rem">{style.sign}</span> '
        f"<strong>{escape(title)}</strong>"
    )


def corpus_chip(loaded: Loaded, learned: int | None = None) -> None:
    """Name, size, dimension, device and fingerprint of the corpus in use; learned: from how much feedback."""
    space = loaded.origin.space
    encoder = space.encoder
    where = space.device.type if loaded.reach is None else f"in {loaded.reach.ref.kind}"
    with st.container(border=True):
        st.text(space.corpus.name)
        st.caption(
            f"{loaded.size:,} documents · {space.embeddings.dimension} dimensions · {where}  \n"
            f"{'own vectors' if encoder is None else encoder.dtype} · fingerprint `{space.embeddings.digest[:8]}`"
        )
        if loaded.origin.training:
            st.text(f"trained: {loaded.origin.training}")
        if learned is not None:
            now = loaded.space.embeddings.digest[:8]
            st.caption(f"learned from {counted(learned, 'piece')} of feedback  \nΘ_t `{now}`")


def size(count: float) -> str:
    """Bytes as 12 kB, 3.4 MB or 1.2 GB."""
    if count < 1e6:
        return f"{count:.0f} B" if count < 1000 else f"{count / 1000:.0f} kB"
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def notices(dataset: Any) -> None:
    """The reader's notices; ids are shown as they are, never as markup."""
    for notice in dataset.notices:
        st.text(f"⚠ {notice}")
