"""The choice of a corpus: a demo, an upload or a path, its problems, its columns and its encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import streamlit as st

from dashboard.data import loading
from dashboard.services import corpora, roots, uploads
from dashboard.services.source import STORE_PREFIX, Source
from dashboard.widgets.basics import show_failure, upload_field
from dashboard.widgets.choices import choose, select
from dashboard.widgets.common import as_label, draw_notices
from dashboard.widgets.tables import draw_table
from engine.data.stores.config import EXAMPLE, collections, config_path
from engine.data.tables import CSV_SEPARATORS, TABLE_SUFFIXES, Preview, guess_separator, preview_table
from engine.errors import FrontierError, RepeatedIdError
from engine.progress import counted

DEMO_WAY, UPLOAD_WAY, PATH_WAY, ENGINE_WAY = "Demo", "Upload", "Path", "Vector engine"
NO_COLUMN = "(none)"
LAST_UPLOAD_KEY = "data.uploaded"
"""Session key of the last upload: the browser's list of files is empty again after a visit to another page."""
SEPARATOR_NAMES = {",": "comma ,", ";": "semicolon ;", "\t": "tab", "|": "bar |"}
PREVIEW_ROWS = 20
MAX_OFFERED_VALUES = 100
"""A column of more values is not offered as a filter."""
REPEATED = {"refuse": "Refuse", "first": "Keep the first", "number": "Number the others"}
DATA_CSS = """<style>
[data-testid=stColumn]:has(.st-key-data-current) {position: sticky; top: 4rem; align-self: flex-start}
</style>"""
"""The loading corpus stays in view beside a long form."""


def draw() -> None:
    """Draw the Data page: the choice of a corpus at the left, the loading and open ones at the right."""
    st.html(DATA_CSS)
    left_column, right_column = st.columns([2, 1], gap="large")
    with left_column:
        try:
            source = _draw_source()
        except (FrontierError, OSError, RuntimeError, ValueError) as error:
            show_failure("This cannot be read.", error)
            source = None
        if source is not None and st.button(
            "Open" if source.store else "Load and embed", type="primary", key="data.load"
        ):
            loading.begin_loading(source)
    with right_column, st.container(key="data-current"):
        loading.draw_loading()
        loaded = loading.draw_current()
        if loaded is not None and loaded.reach is None and loading.LOADING_KEY not in st.session_state:
            loading.draw_report(loaded.dataset)


def _draw_source() -> Source | None:
    """Draw the choice of a corpus: a demo, an upload, a path or a database; return it, None until then.

    Raises FrontierError if this server may not read it, and OSError, RuntimeError or ValueError for impossible paths.
    """
    origin = choose("Corpus", [DEMO_WAY, UPLOAD_WAY, PATH_WAY, ENGINE_WAY], "data.way", show_label=True)
    if origin == ENGINE_WAY:
        return _draw_stores()
    if origin == DEMO_WAY:
        names, captions = list(corpora.DEMOS), list(corpora.DEMOS.values())
        name = st.radio("Built in", names, captions=captions, key="data.demo", persist_state="session")
        return _draw_encoder(Source(name))
    if origin == UPLOAD_WAY:
        files = upload_field(
            "Files",
            accept_multiple_files=True,
            help="One .csv, .tsv, .jsonl, .parquet, .npy or .npz file. Or a BEIR folder: corpus.jsonl, queries.jsonl, "
            "the judgements as .tsv. Or vectors, and their ids line by line in a .txt.",
        )
        if files:
            path = st.session_state[LAST_UPLOAD_KEY] = uploads.save_uploads(files)
        elif not roots.get_rules().uploads:
            return None
        elif (uploaded := st.session_state.get(LAST_UPLOAD_KEY)) is not None and uploaded.exists():
            path = uploaded
            st.text(f"Uploaded before: {path.name}")
        else:
            text = "A table with a text column is enough. With judgements, Recall is measured."
            st.info(text, icon=":material/upload:")
            return None
    elif not roots.accepts_typed_paths():
        st.info(roots.PATHS_OFF, icon=":material/block:")
        return None
    else:
        typed_path = st.text_input(
            "File or folder on this machine",
            key="data.path",
            persist_state="session",
            placeholder="a BEIR folder, or a .csv .tsv .jsonl .parquet .npy .npz file",
        ).strip()
        if not typed_path:
            st.info("A BEIR folder holds corpus.jsonl and, if you have them, queries.jsonl and qrels/*.tsv.")
            return None
        path = roots.check_corpus(typed_path)
        if not path.exists():
            st.error("There is no such file or folder.", icon=":material/error:")
            return None
    return _draw_table_source(path)


def _draw_stores() -> Source | None:
    """Draw the collections of vector engines (configured databases); return the chosen one."""
    names = collections()
    if names:
        name = st.selectbox("Collection", names, key="data.store", persist_state="session")
        st.caption("Documents stay where they are. Explore asks for what its answers need and says what is proven.")
        return Source(f"{STORE_PREFIX}{name}")
    if roots.get_rules().shared:
        st.info("No vector engine is known to this server.")
        return None
    st.info(f"No vector engine is known here yet: write {config_path().name} into {config_path().parent}, for example")
    st.code(EXAMPLE, language="toml")
    st.caption("`frontier store load pg/papers --corpus my-corpus/` then fills the collection.")
    return None


def _draw_table_source(path: Path) -> Source | None:
    """Draw the first rows of a corpus's file and the choice of its columns; return the source to load.

    None if it cannot be loaded as chosen; folders and files of vectors have fewer choices.
    """
    if path.is_dir():
        return _draw_folder_source(path)
    # Vectors have no columns to choose.
    if path.suffix.lower() not in TABLE_SUFFIXES:
        return _draw_encoder(Source(str(path)))
    table_file = corpora.inspect_files(Source(str(path))).file
    separator, guess = None, ""
    if path.suffix.lower() == ".csv":
        # Only a changed separator goes to the source: links stay short.
        guess = guess_separator(table_file)
        key = f"data.separator.{path}"
        separator = select("Separator", CSV_SEPARATORS, key, default=guess, format_func=SEPARATOR_NAMES.__getitem__)
    preview = preview_table(table_file, PREVIEW_ROWS, separator)
    _draw_preview(preview)
    column_names = list(dict.fromkeys(preview.columns))
    optional = [NO_COLUMN, *column_names]
    guesses = {
        "text": ("Text column", column_names, preview.guessed_columns.text),
        "id": ("Id column", optional, preview.guessed_columns.id or NO_COLUMN),
        "title": ("Title column", optional, preview.guessed_columns.title or NO_COLUMN),
    }
    chosen_columns = {}
    for container, (role, (label, options, column)) in zip(st.columns(3), guesses.items(), strict=True):
        why = "Without one, rows are numbered from 0" if role == "id" else None
        column = select(label, options, f"data.columns.{path}.{role}", default=column, container=container, help=why)
        chosen_columns[role] = None if column == NO_COLUMN else column
    columns = chosen_columns["id"], chosen_columns["text"] or "", chosen_columns["title"]
    metadata = _draw_kept_columns(path, [name for name in column_names if name not in columns])
    separator = separator if separator and separator != guess else ""
    source = Source(str(path), columns=columns, metadata=metadata, separator=separator)
    return _draw_encoder(_check_source(source))


def _draw_folder_source(path: Path) -> Source | None:
    """Draw the first documents of a folder (corpus.jsonl, queries.jsonl, qrels/); return what to load.

    None if it cannot be loaded as chosen. Of several folders of judgements, qrels…, one is chosen.
    """
    qrels_folders = sorted(inner.name for inner in path.iterdir() if inner.is_dir() and inner.name.startswith("qrels"))
    qrels = qrels_folders[0] if qrels_folders else "qrels"
    if len(qrels_folders) > 1:
        qrels = select("Judgements", qrels_folders, f"data.qrels.{path}")
    table, source = path / "corpus.jsonl", Source(str(path), qrels=qrels)
    if not table.exists():
        return _draw_encoder(source)
    head = preview_table(table, PREVIEW_ROWS)
    _draw_preview(head)
    # The keys of a nested "metadata" are offered as columns, in place of the whole.
    fixed = ("_id", "text", "title", *(["metadata"] if head.nested_keys else []))
    free_columns = [name for name in dict.fromkeys((*head.columns, *head.nested_keys)) if name not in fixed]
    return _draw_encoder(_check_source(replace(source, metadata=_draw_kept_columns(path, free_columns))))


def _check_source(source: Source) -> Source | None:
    """Read a corpus before it is loaded; draw its problems, and the choices that solve them.

    Return the source with the choices: for repeated ids, and which documents to read by the values of kept columns.
    None if it is unreadable. Large corpora are read when they are loaded only.
    """
    inspection = corpora.inspect_files(source)
    if inspection.is_large:
        st.caption("Ids, copies and empty texts of a corpus as large as this are checked while it loads.")
        return replace(source, repeated=_draw_repeated_choice(source, list(REPEATED)) or "refuse")
    dataset = inspection.read_dataset(source)
    # Without a policy, repeated ids are an error that the visitor resolves here.
    if isinstance(dataset, RepeatedIdError):
        # The choice of a policy comes below the error that asks for it, but is read first.
        error_container = st.container()
        policy = _draw_repeated_choice(source, [policy for policy in REPEATED if policy != "refuse"])
        if policy is None:
            with error_container:
                show_failure("Some ids occur more than once.", dataset)
            return None
        source = replace(source, repeated=policy)
        dataset = inspection.read_dataset(source)
    if not isinstance(dataset, FrontierError) and (where := _draw_filters(source, dataset.corpus.metadata)):
        source = replace(source, where=where)
        dataset = inspection.read_dataset(source)
    if isinstance(dataset, FrontierError):
        show_failure("This cannot be read.", dataset)
        return None
    st.text(counted(len(dataset.corpus), "document"))
    draw_notices(dataset)
    return source


def _draw_filters(source: Source, columns: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str], ...]:
    """Draw, for each kept column of few values, the choice of the documents to read by its values.

    Return (column, value) pairs; without any, all documents are read.
    """
    filters = []
    for column, values in columns.items():
        options = sorted(set(values))
        # A constant column cannot select, and too many values cannot be listed.
        if 1 < len(options) <= MAX_OFFERED_VALUES:
            key = f"data.where.{source.path}.{column}"
            selected = st.multiselect(f"Only with {as_label(column)}", options, key=key, persist_state="session")
            filters += [(column, value) for value in selected]
    return tuple(filters)


def _draw_repeated_choice(source: Source, options: list[str]) -> str | None:
    """Draw the choice of what happens to documents with repeated ids; return it, None until it is made.

    options: those of "refuse", "first" and "number" that are offered
    """
    key = f"data.repeated.{source.path}"
    return st.segmented_control(
        "Repeated ids", options, format_func=REPEATED.__getitem__, key=key, persist_state="session"
    )


def _draw_kept_columns(path: Path, column_names: list[str]) -> tuple[str, ...]:
    """Draw the choice of a table's further columns to keep beside its documents; return their names.

    They colour maps and group queries, and are not embedded.
    """
    if not column_names:
        return ()
    why = "Kept beside the documents and not embedded: for colours of the map, and for groups of queries on Trade-off."
    key = f"data.columns.{path}.metadata"
    return tuple(st.multiselect("Columns to keep", column_names, key=key, persist_state="session", help=why))


def _draw_preview(preview: Preview) -> None:
    """Draw the first rows of a corpus's file, six of them without scrolling."""
    st.caption("First rows" + (f" of {preview.total_rows:,}" if preview.total_rows else ""))
    # A data frame needs each name once; the height is 36 pixels a row, with the head, and two for the border.
    frame = pd.DataFrame(preview.first_rows, columns=list(dict.fromkeys(preview.columns)))
    draw_table(frame, height=36 * min(6, len(frame) + 1) + 2)


def _draw_encoder(source: Source | None) -> Source | None:
    """Draw the choice of the encoder and its number format; return the source with them, None without one."""
    if source is None:
        return None
    with st.expander("Encoder", expanded=False):
        encoder = loading.draw_encoder_field("data.encoder", "bundled: all-MiniLM-L6-v2, 384 dimensions.")
        dtype_help = "auto: bfloat16 where the hardware is fast at it and 32 test texts keep a cosine of 0.999"
        dtype: str = select("Precision", loading.PRECISIONS, "data.dtype", help=dtype_help)
    return replace(source, encoder=encoder, dtype=dtype)
