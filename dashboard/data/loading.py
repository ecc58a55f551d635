"""A corpus on its way, what was read of it, and the one in use with its other encoders."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state
from dashboard.jobs import Job
from dashboard.parts import POLL, corpus_chip, notices, show_progress
from dashboard.state import Loaded, Source

LOADING, BESIDE = "data.loading", "data.beside"


def begin(source: Source, beside: bool = False) -> None:
    """Load a corpus; beside: leave the one in use in use."""
    job = state.known(source)
    if job is not None and not job.running and not beside:
        state.forget(source, job)  # files change; what is embedded comes from the cache
    elif job is not None and job.error:
        state.forget(source, job)
    state.loading(source)
    st.session_state[LOADING], st.session_state[BESIDE] = source, beside


def on_its_way() -> None:
    """What this session loads, and what others do."""
    coming = st.session_state.get(LOADING)
    if coming is not None:
        _watch(coming)
    for other, job in state.others_loading(coming):
        st.text(f"Also loading: {other.path}, {job.progress.done:,} of {job.progress.total:,}")
        if st.button("Watch", key=f"data.watch.{hash(other)}"):
            st.session_state[LOADING], st.session_state[BESIDE] = other, False
            st.rerun()


@st.fragment(run_every=POLL)
def _watch(source: Source) -> None:
    """The corpus that is on its way: what was read, how far the embedding is, how it ended."""
    job = state.known(source)
    if job is None:  # it ended, and others needed its place
        st.session_state.pop(LOADING, None)
        st.rerun()
    if job.result is not None:
        _arrived(source, job.result)
        st.rerun()
    beside = st.session_state.get(BESIDE)
    with st.container(border=True):
        st.text(f"Loading {source.path}" + (f" with {source.encoder}" if source.encoder != "bundled" else ""))
        if job.running:
            show_progress(job)
            if st.button("Cancel", key="data.cancel", help="Stops it for every window that waits for this corpus."):
                job.cancel()
        elif job.cancelled:
            st.info("Stopped. What was embedded is kept: loading again goes on from there.", icon=":material/pause:")
        else:
            st.error(f"This {'encoder' if beside else 'corpus'} cannot be loaded.", icon=":material/error:")
            st.text(job.error or "")
        if not job.running:
            st.button("Close", key="data.close", on_click=_close, args=(source, job))
        if job.partial is not None and not beside:
            report(job.partial)


def _close(source: Source, job: Job) -> None:
    st.session_state.pop(LOADING, None)
    state.forget(source, job)


def _arrived(source: Source, loaded: Loaded) -> None:
    st.session_state.pop(LOADING, None)
    if not st.session_state.get(BESIDE):
        state.use(source)
        st.toast("Ready: Explore now searches this corpus.", icon=":material/check:")
    elif len(state.variants(loaded)) > 1:
        st.toast("Ready, beside the one in use.", icon=":material/check:")
    else:
        st.toast("This is the encoder in use: the same weights in the same arithmetic.", icon=":material/info:")


def report(dataset: Any) -> None:
    """Counts and what the reader remarked."""
    rows = [("documents", f"{len(dataset.corpus):,}"), ("queries", f"{len(dataset.queries):,}")]
    rows += [
        (f"judgements, {split}", f"{qrels.count:,} for {len(qrels):,} queries")
        for split, qrels in dataset.qrels.items()
    ]
    st.dataframe(pd.DataFrame(rows, columns=["what", "count"]), hide_index=True)
    if dataset.notices:
        notices(dataset)
    else:
        judged = ", every judgement names a document and a query" if dataset.qrels else ""
        st.caption(f"Nothing to remark: ids unique, no empty texts{judged}.")


def in_use() -> Loaded | None:
    """The corpus that the session looks at, and its other encoders a click away; None while it is loading."""
    st.subheader("In use")
    source = state.source()
    job = state.loading(source)
    if job.result is not None:
        corpus_chip(job.result)
        encoders(job.result)
        return job.result
    if st.session_state.get(LOADING) != source:  # else it is shown already
        _coming(source, job)
    return None


@st.fragment(run_every=POLL)
def _coming(source: Source, job: Job) -> None:
    if not job.running and job.result is not None:
        st.rerun()
    st.text(f"Loading {source.path}")
    if job.running:
        show_progress(job)
    else:
        st.caption("It did not come to its end: load it again, or choose another corpus.")
        st.text(job.error or "Stopped.")


def encoders(loaded: Loaded) -> None:
    """Which encoders the corpus is loaded with, and a button to use another."""
    every = state.variants(loaded)
    names = state.variant_names(every)
    if loaded.source.trained and not any(one.source == loaded.source.plain for one in every):
        st.button("Use the encoder's own", key="data.plain", on_click=state.use, args=(loaded.source.plain,))
    if len(every) < 2:
        st.text(names[0])
        return
    st.caption(f"Loaded with {len(every)} encoders:")
    for name, one in zip(names, every, strict=True):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.text(f"{name} · {one.space.embeddings.dimension:,} dimensions", width="stretch")
            current = one is loaded
            st.button(
                "In use" if current else "Use",
                key=f"data.use.{state.seen_by(one)}",
                disabled=current,
                on_click=state.use,
                args=(one.source,),
                help=None if current else "Explore and the other pages then search with this encoder.",
            )
