"""Where a corpus comes from: a demo, an upload or a path, what is odd about it, its columns and its encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.data import loading
from dashboard.services import corpora, roots, uploads
from dashboard.services.source import STORE, Source
from dashboard.widgets.basics import show_failure, upload_field
from dashboard.widgets.choices import choose, select
from dashboard.widgets.common import as_label, notices
from dashboard.widgets.tables import draw_table
from engine.data.stores.config import EXAMPLE, collections, config_path
from engine.data.tables import CSV_SEPARATORS, TABLE_SUFFIXES, Preview, guess_separator, preview_table
from engine.errors import FrontierError, RepeatedIdError
from engine.progress import counted

DEMO, UPLOAD, PATH, ENGINE = "Demo", "Upload", "Path", "Vector engine"
NO_COLUMN = "(none)"
UPLOADED = "data.uploaded"
"""What was uploaded last: the browser's list of files is empty again after a look at another page."""
MARKS = {",": "comma ,", ";": "semicolon ;", "\t": "tab", "|": "bar |"}
PREVIEW_ROWS = 20
MAX_OFFERED_VALUES = 100
"""A column of more values is no way to choose documents."""
WAYS = {"refuse": "Refuse", "first": "Keep the first", "number": "Number the others"}
STYLE = """<style>
[data-testid=stColumn]:has(.st-key-data-current) {position: sticky; top: 4rem; align-self: flex-start}
</style>"""
"""What loads stays in view beside a long form."""


def show() -> None:
    """The choice of a corpus in one column; what is loading, in use and on disk in the other."""
    st.html(STYLE)
    left, right = st.columns([2, 1], gap="large")
    with left:
        try:
            source = _choose()
        except (FrontierError, OSError, RuntimeError, ValueError) as error:
            show_failure("This cannot be read.", error)
            source = None
        if source is not None and st.button(
            "Open" if source.store else "Load and embed", type="primary", key="data.load"
        ):
            loading.begin(source)
    with right, st.container(key="data-current"):
        loading.show_loading()
        loaded = loading.in_use()
        if loaded is not None and loaded.reach is None and loading.LOADING not in st.session_state:
            loading.report(loaded.dataset)


def _choose() -> Source | None:
    way = choose("Corpus", [DEMO, UPLOAD, PATH, ENGINE], "data.way", named=True)
    if way == ENGINE:
        return _stored()
    if way == DEMO:
        name = st.radio(
            "Built in",
            list(corpora.DEMOS),
            captions=list(corpora.DEMOS.values()),
            key="data.demo",
            persist_state="session",
        )
        return _embedding(Source(name))
    if way == UPLOAD:
        files = upload_field(
            "Files",
            accept_multiple_files=True,
            help="One .csv, .tsv, .jsonl, .parquet, .npy or .npz file. Or a BEIR folder: corpus.jsonl, queries.jsonl, "
            "the judgements as .tsv. Or vectors, and their ids line by line in a .txt.",
        )
        if files:
            path = st.session_state[UPLOADED] = uploads.keep(files)
        elif not roots.rules().uploads:
            return None
        elif (uploaded := st.session_state.get(UPLOADED)) is not None and uploaded.exists():
            path = uploaded
            st.text(f"Uploaded before: {path.name}")
        else:
            st.info(
                "A table with a text column is enough. With judgements, Recall is measured.", icon=":material/upload:"
            )
            return None
    elif not roots.typed_paths():
        st.info(roots.PATHS_OFF, icon=":material/block:")
        return None
    else:
        typed = st.text_input(
            "File or folder on this machine",
            key="data.path",
            persist_state="session",
            placeholder="a BEIR folder, or a .csv .tsv .jsonl .parquet .npy .npz file",
        ).strip()
        if not typed:
            st.info("A BEIR folder holds corpus.jsonl and, if you have them, queries.jsonl and qrels/*.tsv.")
            return None
        path = roots.check_corpus(typed)
        if not path.exists():
            st.error("There is no such file or folder.", icon=":material/error:")
            return None
    return _mapped(path)


def _stored() -> Source | None:
    """A collection of a vector engine, by the name that the file of stores gives it."""
    names = collections()
    if names:
        name = st.selectbox("Collection", names, key="data.store", persist_state="session")
        st.caption("Documents stay where they are. Explore asks for what its answers need and says what is proven.")
        return Source(f"{STORE}{name}")
    if roots.rules().shared:
        st.info("No vector engine is known to this server.")
        return None
    st.info(f"No vector engine is known here yet: write {config_path().name} into {config_path().parent}, for example")
    st.code(EXAMPLE, language="toml")
    st.caption("`frontier store load pg/papers --corpus my-corpus/` then fills the collection.")
    return None


def _mapped(path: Path) -> Source | None:
    """The source with its columns, after a look at the first rows."""
    if path.is_dir():
        return _folder(path)
    if path.suffix.lower() not in TABLE_SUFFIXES:
        return _embedding(Source(str(path)))
    separator, guess, file = None, "", corpora.inspect(Source(str(path))).file
    if path.suffix.lower() == ".csv":
        guess = guess_separator(file)
        key = f"data.separator.{path}"
        separator = select("Separator", CSV_SEPARATORS, key, default=guess, format_func=MARKS.__getitem__)
    head = preview_table(file, PREVIEW_ROWS, separator)
    _preview(head)
    names = list(dict.fromkeys(head.columns))
    optional = [NO_COLUMN, *names]
    guesses = {
        "text": ("Text column", names, head.guessed_columns.text),
        "id": ("Id column", optional, head.guessed_columns.id or NO_COLUMN),
        "title": ("Title column", optional, head.guessed_columns.title or NO_COLUMN),
    }
    chosen = {}
    for place, (name, (label, options, column)) in zip(st.columns(3), guesses.items(), strict=True):
        why = "Without one, rows are numbered from 0" if name == "id" else None
        column = select(label, options, f"data.columns.{path}.{name}", default=column, place=place, help=why)
        chosen[name] = None if column == NO_COLUMN else column
    columns = chosen["id"], chosen["text"] or "", chosen["title"]
    source = Source(
        str(path),
        columns=columns,
        metadata=_kept(path, [name for name in names if name not in columns]),
        separator=separator if separator and separator != guess else "",
    )
    return _embedding(_checked(source))


def _folder(path: Path) -> Source | None:
    """A folder in BEIR layout, after a look at its first documents."""
    folders = sorted(p.name for p in path.iterdir() if p.is_dir() and p.name.startswith("qrels"))
    qrels = folders[0] if folders else "qrels"
    if len(folders) > 1:
        qrels = select("Judgements", folders, f"data.qrels.{path}")
    table, source = path / "corpus.jsonl", Source(str(path), qrels=qrels)
    if not table.exists():
        return _embedding(source)
    head = preview_table(table, PREVIEW_ROWS)
    _preview(head)
    fixed = ("_id", "text", "title", *(["metadata"] if head.nested_keys else []))
    kept = _kept(path, [name for name in dict.fromkeys((*head.columns, *head.nested_keys)) if name not in fixed])
    return _embedding(_checked(replace(source, metadata=kept)))


def _checked(source: Source) -> Source | None:
    """The source, with what is done about repeated ids, below what is odd about it; None where it cannot be read."""
    inspection = corpora.inspect(source)
    if inspection.large:
        st.caption("Ids, copies and empty texts of a corpus as large as this are checked while it loads.")
        return replace(source, repeated=_way(source, list(WAYS)) or "refuse")
    found = inspection.dataset(source)
    if isinstance(found, RepeatedIdError):
        before = st.container()
        way = _way(source, [way for way in WAYS if way != "refuse"])
        if way is None:
            with before:
                show_failure("Some ids occur more than once.", found)
            return None
        source = replace(source, repeated=way)
        found = inspection.dataset(source)
    if not isinstance(found, FrontierError) and (chosen := _where(source, found.corpus.metadata)):
        source = replace(source, where=chosen)
        found = inspection.dataset(source)
    if isinstance(found, FrontierError):
        show_failure("This cannot be read.", found)
        return None
    st.text(counted(len(found.corpus), "document"))
    notices(found)
    return source


def _where(source: Source, columns: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Draw, for kept columns of few values, the choice of those that documents must have; none leaves it open."""
    chosen = []
    for column, values in columns.items():
        options = sorted(set(values))
        if 1 < len(options) <= MAX_OFFERED_VALUES:
            key = f"data.where.{source.path}.{column}"
            only = st.multiselect(f"Only with {as_label(column)}", options, key=key, persist_state="session")
            chosen += [(column, value) for value in only]
    return tuple(chosen)


def _way(source: Source, ways: list[str]) -> str | None:
    """Draw the choice of what is done about repeated ids; None before it is made."""
    key = f"data.repeated.{source.path}"
    return st.segmented_control("Repeated ids", ways, format_func=WAYS.__getitem__, key=key, persist_state="session")


def _kept(path: Path, names: list[str]) -> tuple[str, ...]:
    """The columns to keep, of those that a table has beside its documents."""
    if not names:
        return ()
    why = "Kept beside the documents and not embedded: for colours of the map, and for groups of queries on Trade-off."
    key = f"data.columns.{path}.metadata"
    return tuple(st.multiselect("Columns to keep", names, key=key, persist_state="session", help=why))


def _preview(head: Preview) -> None:
    st.caption("First rows" + (f" of {head.total_rows:,}" if head.total_rows else ""))
    frame = pd.DataFrame(head.first_rows, columns=list(dict.fromkeys(head.columns)))
    draw_table(frame, height=36 * min(6, len(frame) + 1) + 2)


def _embedding(source: Source | None) -> Source | None:
    """The source, if there is one, with the encoder to use."""
    if source is None:
        return None
    with st.expander("Encoder", expanded=False):
        encoder = loading.encoder_name("data.encoder", "bundled: all-MiniLM-L6-v2, 384 dimensions.")
        why = "auto: bfloat16 where the hardware is fast at it and 32 test texts keep a cosine of 0.999"
        dtype: str = select("Precision", loading.PRECISIONS, "data.dtype", help=why)
    return replace(source, encoder=encoder, dtype=dtype)
