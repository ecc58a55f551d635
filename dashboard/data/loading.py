"""Corpora that load, the report of what was read, and the corpus in use with its other encoders."""

import streamlit as st

from dashboard.services import corpora, jobs
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded, Source
from dashboard.session import address
from dashboard.widgets.basics import step_button
from dashboard.widgets.common import corpus_chip, notices
from dashboard.widgets.job_panel import show_end, watch
from dashboard.widgets.tables import draw_table
from engine.progress import counted
from engine.values import Dataset

LOADING, BESIDE = "data.loading", "data.beside"
PRECISIONS = ("auto", "float32", "bfloat16")


def encoder_name(key: str, bundled: str) -> str:
    """Draw the field of an encoder's name or path; bundled: what the default is."""
    more = "Or any sentence-transformers model, by name or local path."
    typed = st.text_input("Encoder", "bundled", key=key, persist_state="session", help=f"{bundled} {more}")
    return typed.strip() or "bundled"


def begin(source: Source, beside: bool = False) -> None:
    """Load a corpus; beside: without switching to it."""
    job = corpora.known(source)
    if job is not None and not job.running and (job.error or not beside):
        corpora.forget(source, job)  # files change; what is embedded comes from the cache
    corpora.loading(source, again=True)
    st.session_state[LOADING], st.session_state[BESIDE] = source, beside


def show_loading() -> None:
    """Draw what this session loads."""
    coming = st.session_state.get(LOADING)
    if coming is not None:
        _watch(coming)
    for other, job in corpora.also_loading(coming):
        st.text(f"Also loading: {other.name}, {job.progress.done:,} of {job.progress.total:,}")
        if st.button("Watch", key=f"data.watch.{hash(other)}"):
            st.session_state[LOADING], st.session_state[BESIDE] = other, False
            st.rerun()


def _watch(source: Source) -> None:
    """Draw the corpus that loads: what was read, its progress, how it ended."""
    job = corpora.known(source)
    if job is None:  # it ended, and others needed its place
        st.session_state.pop(LOADING, None)
        return
    running, beside = job.running and not jobs.is_left(job), bool(st.session_state.get(BESIDE))
    if job.result is not None:
        st.session_state.pop(LOADING, None)
        if not st.session_state.get(BESIDE):
            address.use(source)
            st.toast("Ready. All pages use this corpus now.", icon=":material/check:")
        elif len(corpora.variants(job.result)) > 1:
            st.toast("Encoder added. Compare it, or switch to it.", icon=":material/check:")
        else:
            st.toast("This is the current encoder: same weights, same precision.", icon=":material/info:")
        st.rerun()
    title = f"Loading {source.name}" + (f" with {source.encoder}" if source.encoder != "bundled" else "")

    def draw(dataset: Dataset | None) -> None:
        if dataset is not None and not beside:
            report(dataset)

    if running:
        why = "It goes on for other windows that wait for this corpus."
        watch(job, "data.cancel", draw, title=title, to_end=True, cancel_help=why)
        return
    with st.container(border=True):
        st.text(title)
        stopped = "Stopped. Progress is saved: load it again to resume."
        show_end(job, f"This {'encoder' if beside else 'corpus'} cannot be loaded.", stopped)
        st.button("Close", key="data.close", on_click=_close, args=(source, job))
    draw(job.partial)


def _close(source: Source, job: Job) -> None:
    st.session_state.pop(LOADING, None)
    if not job.going:
        corpora.forget(source, job)


def report(dataset: Dataset) -> None:
    """Draw counts and the reader's notices."""
    counts = {"documents": f"{len(dataset.corpus):,}", "queries": f"{len(dataset.queries):,}"}
    for split, qrels in dataset.qrels.items():
        counts[f"judgements, {split}"] = f"{qrels.count:,} for {counted(len(qrels), 'query', 'queries')}"
    draw_table({"what": list(counts), "count": list(counts.values())})
    if dataset.notices:
        notices(dataset)
    else:
        judged = ", and every judgement names a known document and query" if dataset.qrels else ""
        st.caption(f"No problems found: ids are unique, no text is empty{judged}.")


def in_use() -> Loaded | None:
    """The corpus that the session looks at, and its other encoders a click away; None while it is loading."""
    st.subheader("Current corpus")
    source = address.source()
    job = corpora.loading(source)
    running = job.running and not jobs.is_left(job)
    loaded: Loaded | None = job.result
    if loaded is not None:
        corpus_chip(loaded)
        encoders(loaded)
    elif st.session_state.get(LOADING) == source:  # shown by `load`
        return None
    elif running:
        watch(job, None, title=f"Loading {source.name}", to_end=True)
    else:
        st.text(f"Loading {source.name}")
        st.caption("Loading was interrupted. Try again or choose another corpus.")
        st.text(job.error or "Stopped.")
    return loaded


def encoders(loaded: Loaded) -> None:
    """Draw the encoders that the corpus is loaded with, and buttons to switch."""
    variants = corpora.variants(loaded)
    names = corpora.variant_names(variants)
    if loaded.source.trained and all(variant.source != loaded.source.plain for variant in variants):
        st.button("Use untrained embeddings", key="data.plain", on_click=address.use, args=(loaded.source.plain,))
    if len(variants) < 2:
        st.text(names[0])
        return
    st.caption(f"Loaded with {len(variants)} encoders:")
    for name, variant in zip(names, variants, strict=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.text(f"{name} · {variant.space.embeddings.dimension:,} dimensions", width="stretch")
            current = variant is loaded
            label, key = "Current" if current else "Use", f"data.use.{corpora.encoder_key(variant)}"
            why = None if current else "All pages search with this encoder then."
            step_button(label, key, address.use, variant.source, disabled=current, help=why)
