"""Where a corpus comes from: a demo, an upload or a path, its columns and its encoder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard import state
from dashboard.data import loading, uploads
from dashboard.state import Source
from engine.errors import FrontierError
from engine.values import showable

DEMO, UPLOAD, PATH = "Demo", "Upload", "Path"
NO_COLUMN = "(none)"
PREVIEW_ROWS = 20


def show() -> None:
    """The choice of a corpus in one column; what is loading, in use and on disk in the other."""
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
        loading.on_its_way()
        loaded = loading.in_use()
        if loaded is not None:
            loading.report(loaded.dataset)


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
        loading.begin(source)
