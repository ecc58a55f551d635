"""The Data screen: where a corpus comes from, what it holds, and what is kept on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import state
from dashboard.data import uploads
from dashboard.parts import POLL, corpus_chip, notices, show_progress, size
from dashboard.state import Source
from engine.errors import FrontierError
from engine.values import showable

DEMO, UPLOAD, PATH = "Demo", "Upload", "Path"
NO_COLUMN = "(none)"
PREVIEW_ROWS = 20


def show() -> None:
    """The choice of a corpus in one column; what is loading, in use and on disk in the other."""
    st.title("Data")
    left, right = st.columns([2, 1], gap="large")
    with left:
        try:
            source = _choose()
        except (FrontierError, OSError, RuntimeError, ValueError) as error:
            st.error("This cannot be read.", icon=":material/error:")
            st.text(showable(str(error)))
            source = None
        if source is not None:
            _load(source)
    with right:
        if coming := st.session_state.get("data.loading"):
            _watch(coming)
        for other, job in state.others_loading(coming):
            st.text(f"Also loading: {other.path}, {job.progress.done:,} of {job.progress.total:,}")
            if st.button("Watch", key=f"data.watch.{hash(other)}"):
                st.session_state["data.loading"] = other
                st.rerun()
        _in_use()
        _cache()


def _choose() -> Source | None:
    way = st.segmented_control(
        "Corpus", [DEMO, UPLOAD, PATH], default=DEMO, required=True, key="data.way", persist_state="session"
    )
    if way == DEMO:
        name = st.radio(
            "Built in", list(state.DEMOS), captions=list(state.DEMOS.values()), key="data.demo", persist_state="session"
        )
        return _embedding(Source(name))
    if way == UPLOAD:
        files = st.file_uploader(
            "Files",
            accept_multiple_files=True,
            help="One .csv, .tsv, .jsonl, .parquet, .npy or .npz file; or corpus.jsonl with queries.jsonl and the "
            "judgements' .tsv files of a BEIR folder; or vectors with their ids, one a line, in a .txt.",
        )
        if not files:
            st.info("A table with a text column is enough. Judgements make Recall possible.", icon=":material/upload:")
            return None
        path = uploads.keep(files)
    else:
        typed = st.text_input(
            "File or folder on this machine",
            key="data.path",
            persist_state="session",
            placeholder="a BEIR folder, or a .csv .tsv .jsonl .parquet .npy .npz file",
        ).strip()
        if not typed:
            st.info("A BEIR folder holds corpus.jsonl, and if you have them queries.jsonl and qrels/*.tsv.")
            return None
        path = Path(typed).expanduser()
        if not path.exists():
            st.error("There is no such file or folder.", icon=":material/error:")
            return None
    return _mapped(path)


def _mapped(path: Path) -> Source | None:
    """The source with its columns, after a look at the first rows."""
    from engine.data.tables import SUFFIXES, preview

    if path.is_dir():
        folders = sorted(p.name for p in path.iterdir() if p.is_dir() and p.name.startswith("qrels"))
        qrels = folders[0] if folders else "qrels"
        if len(folders) > 1:
            qrels = st.selectbox("Judgements", folders, key=f"data.qrels.{path}")
        table = path / "corpus.jsonl"
        if table.exists():
            _preview(preview(table, PREVIEW_ROWS))
        return _embedding(Source(str(path), qrels=qrels))
    if path.suffix.lower() not in SUFFIXES:
        return _embedding(Source(str(path)))
    head = preview(path, PREVIEW_ROWS)
    _preview(head)
    names = list(dict.fromkeys(head.columns))
    optional = [NO_COLUMN, *names]
    a, b, c = st.columns(3)
    key = f"data.columns.{path}"
    text = a.selectbox(
        "Text column", names, names.index(head.guess.text) if head.guess.text in names else 0, key=f"{key}.text"
    )
    ident = b.selectbox(
        "Id column",
        optional,
        optional.index(head.guess.id or NO_COLUMN),
        key=f"{key}.id",
        help="Without one, rows are numbered from 0.",
    )
    title = c.selectbox("Title column", optional, optional.index(head.guess.title or NO_COLUMN), key=f"{key}.title")
    chosen = (None if ident == NO_COLUMN else ident, text, None if title == NO_COLUMN else title)
    return _embedding(Source(str(path), columns=chosen))


def _preview(head) -> None:
    st.caption("First rows" + (f" of {head.total:,}" if head.total else ""))
    frame = pd.DataFrame(head.rows, columns=list(dict.fromkeys(head.columns)))
    st.dataframe(frame, hide_index=True, height=36 * min(6, len(frame) + 1) + 2)


def _embedding(source: Source) -> Source:
    """The source with the encoder to use."""
    with st.expander("Encoder", expanded=False):
        encoder = st.text_input(
            "Name or path",
            "bundled",
            key="data.encoder",
            persist_state="session",
            help="bundled is all-MiniLM-L6-v2, 384 dimensions. Any sentence-transformers model by name or local path.",
        ).strip()
        dtype = st.selectbox(
            "Arithmetic",
            ["auto", "float32", "bfloat16"],
            key="data.dtype",
            persist_state="session",
            help="auto takes bfloat16 where the hardware is fast at it and 32 probe texts stay within cosine 0.999.",
        )
    return Source(source.path, source.columns, source.qrels, encoder or "bundled", dtype)


def _load(source: Source) -> None:
    if st.button("Load and embed", type="primary", key="data.load"):
        job = state.known(source)
        if job is not None and not job.running:
            state.forget(source, job)  # files change; what is embedded comes from the cache
        state.loading(source)
        st.session_state["data.loading"] = source


@st.fragment(run_every=POLL)
def _watch(source: Source) -> None:
    """The corpus that is on its way: what was read, how far the embedding is, how it ended."""
    job = state.known(source)
    if job is None:  # it ended, and others needed its place
        st.session_state.pop("data.loading", None)
        st.rerun()
    if job.result is not None:
        state.use(source)
        st.session_state.pop("data.loading", None)
        st.toast("Ready: Explore now searches this corpus.", icon=":material/check:")
        st.rerun()
    with st.container(border=True):
        st.text(f"Loading {source.path}")
        if job.running:
            show_progress(job)
            if st.button("Cancel", key="data.cancel", help="Stops it for every window that waits for this corpus."):
                job.cancel()
        elif job.cancelled:
            st.info("Stopped. What was embedded is kept: loading again goes on from there.", icon=":material/pause:")
        else:
            st.error("This corpus cannot be loaded.", icon=":material/error:")
            st.text(job.error or "")
        if job.partial is not None:
            _report(job.partial)


def _report(dataset: Any) -> None:
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


def _in_use() -> None:
    st.subheader("In use")
    job = state.loading(state.source())
    if job.result is None:
        st.caption("Still loading; Explore shows how far it is.")
        return
    corpus_chip(job.result)
    _report(job.result.dataset)


def _cache() -> None:
    from engine.data import cache

    st.subheader("Cache")
    used = cache.usage()
    uploaded = used.sections[uploads.SECTION].bytes if uploads.SECTION in used.sections else 0
    st.caption(f"{used.files:,} files, {size(used.bytes)}" + (f", {size(uploaded)} of it uploads" if uploaded else ""))
    st.code(str(cache.home()), language=None)
    with st.popover("Clear", disabled=not used.files):
        st.text("Embeddings will be made anew when they are needed.")
        everything = st.checkbox("Uploaded files too", key="data.clear.uploads") if uploaded else False
        if st.button("Clear the cache", type="primary", key="data.clear"):
            sections = [name for name in used.sections if everything or name != uploads.SECTION]
            st.toast(f"{size(sum(cache.clear(name) for name in sections))} freed")
            st.rerun()
