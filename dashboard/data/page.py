"""The choice of a corpus: a demo, an upload or a path, its problems, its columns and its encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.data import loading
from dashboard.data.first_documents import describe_columns, draw_first_documents
from dashboard.services import corpora, roots, uploads
from dashboard.services.memo import get_or_compute
from dashboard.services.source import COSINE, PRODUCT, STORE_PREFIX, Loaded, Source
from dashboard.session import address, decoders
from dashboard.widgets import duplicates, next_steps, suggestions
from dashboard.widgets.basics import show_failure, upload_field
from dashboard.widgets.choices import choose, select
from dashboard.widgets.common import as_label, draw_notices
from dashboard.widgets.next_steps import ADDING_KEY, PATH_WAY, UPLOAD_WAY, WAY_KEY
from dashboard.widgets.tables import draw_table
from engine.data.files import is_present, list_table_paths
from engine.data.judgement_files import is_judgement_name, list_files
from engine.data.own_vectors import find_document_vectors, find_vectors_file
from engine.data.stores.config import EXAMPLE, collections, config_path
from engine.data.table_kinds import find_corpus_table
from engine.data.tables import (
    CSV_SEPARATORS,
    TABLE_SUFFIXES,
    Preview,
    find_table_suffix,
    guess_separator,
    has_shards,
    preview_table,
)
from engine.errors import ConflictingGradesError, FrontierError, RepeatedIdError
from engine.progress import counted, rough_duration
from engine.values import Dataset

DEMO_WAY, ENGINE_WAY = "Demo", "Vector engine"
NO_COLUMN = "(none)"
HEADER_NAMES = {"auto": "Guess", "first": "Names the columns", "none": "Is data"}
SIMILARITIES = {PRODUCT: "Inner product", COSINE: "Cosine"}
LAST_UPLOAD_KEY = "data.uploaded"
"""Session key of the last upload: the browser's list of files is empty again after a visit to another page."""
SEPARATOR_NAMES = {",": "comma ,", ";": "semicolon ;", "\t": "tab", "|": "bar |"}
PREVIEW_ROWS = 20
ESTIMATES_TABLE, MAX_ESTIMATES = "data.estimates", 8
"""Session table of the estimated seconds of embedding a source, and how many it holds."""
MAX_SHOWN_SEARCHES, N_SHOWN_GROUPS = 3, 3
MAX_OFFERED_VALUES = 100
"""A column of more values is not offered as a filter."""
REPEATED = {"refuse": "Refuse", "first": "Keep the first", "number": "Number the others"}
CONFLICTING = {"refuse": "Refuse", "max": "Take the highest", "last": "Take the last"}
POLICIES: dict[str, tuple[type[FrontierError], str, dict[str, str]]] = {
    "repeated": (RepeatedIdError, "Some ids occur more than once.", REPEATED),
    "conflicting_grades": (ConflictingGradesError, "Some judgements contradict each other.", CONFLICTING),
}
"""Field of a Source → the error that its policies resolve, the error's title, and the policies with their labels."""
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
        estimate_slot = st.empty()
        if source is not None:
            _draw_load_button(source)
        preview_slot = st.container()
    with right_column, st.container(key="data-current"):
        loading.draw_loading()
        loaded = loading.draw_current()
        # A corpus in a vector engine was not read, and one that is loading has a report of its own.
        if loaded is not None and loaded.reach is None and loading.LOADING_KEY not in st.session_state:
            loading.draw_report(loaded.dataset, loaded)
            _draw_beginnings(loaded, has_primary=source is None or _is_open(source))
            # Beside the first rows of a file that is about to be loaded, those of another corpus would confuse.
            if source is None or source.path in corpora.DEMOS or source.store:
                with preview_slot:
                    draw_first_documents(loaded)
    # Last, as it encodes a few texts: nothing else waits for it.
    if source is not None and not source.store and source.path not in corpora.DEMOS:
        _draw_estimate(source, estimate_slot)


def _draw_load_button(source: Source) -> None:
    """Draw the button that loads the chosen corpus; of one that is open already, that its files can be read again."""
    # Each state takes the place of the one before: a button of its own would leave that standing until the run ends.
    with st.container(horizontal=True, gap="small"):
        if loading.is_loading(source):
            st.button("Opening" if source.store else "Loading", disabled=True, key="data.load")
            return
        if not _is_open(source):
            # A callback, so that the run that follows knows what is loading: its report has the notices then.
            title = "Open" if source.store else "Load and embed"
            st.button(title, type="primary", key="data.load", on_click=_begin_loading, args=(source,))
            return
        st.button("Opened" if source.store else "Loaded", disabled=True, key="data.load", icon=":material/check:")
        # Demos do not change below a server.
        why = "Loads the corpus anew, as its documents may have changed."
        if source.path not in corpora.DEMOS:
            st.button("Read again", key="data.reload", help=why, on_click=_begin_loading, args=(source,))


def _is_open(source: Source) -> bool:
    """Return True if a source is what this session has open, at whatever level of relevance."""
    open_source = address.get_source()
    job = corpora.find_loading_job(open_source)
    return job is not None and job.result is not None and open_source.without_level == source.without_level


def _begin_loading(source: Source) -> None:
    """Start to load the chosen corpus; queries and judgements are not waited for any more."""
    st.session_state.pop(ADDING_KEY, None)
    loading.begin_loading(source)


def _draw_estimate(source: Source, slot: DeltaGenerator) -> None:
    """Draw how long embedding a corpus will take, in a place above the button that starts it."""
    with slot.container(), st.spinner("Estimating the time to embed"):
        try:
            key = source.without_level, corpora.find_loading_job(source) is None
            seconds = get_or_compute(ESTIMATES_TABLE, key, partial(corpora.estimate_embedding, source), MAX_ESTIMATES)
        # What is wrong with the encoder or the files is told when the corpus is loaded.
        except (FrontierError, OSError, RuntimeError, ValueError):
            seconds = None
    if seconds:
        slot.caption(f"Embedding takes about {rough_duration(seconds)} on this machine.")
    else:
        slot.empty()


def _draw_beginnings(loaded: Loaded, has_primary: bool) -> None:
    """Draw, below the report of the open corpus, what to do next, searches to begin with, and near-duplicates.

    has_primary: the next step may stand out, as there is no other corpus to load
    """
    next_steps.draw_next_steps(loaded, "data", has_primary)
    if not len(loaded.dataset.queries) and suggestions.draw_suggestions(loaded, "data", MAX_SHOWN_SEARCHES):
        st.switch_page(decoders.EXPLORE_SCREEN)
    duplicates.draw_duplicates(loaded, N_SHOWN_GROUPS)


def _draw_source() -> Source | None:
    """Draw the choice of a corpus: a demo, an upload, a path or a database; return it, None until then.

    Raises FrontierError if this server may not read it, and OSError, RuntimeError or ValueError for impossible paths.
    """
    source_kind = choose("Load from", [DEMO_WAY, UPLOAD_WAY, PATH_WAY, ENGINE_WAY], WAY_KEY, show_label=True)
    if source_kind == ENGINE_WAY:
        return _draw_stores()
    if source_kind == DEMO_WAY:
        names, captions = list(corpora.DEMOS), list(corpora.DEMOS.values())
        name = st.radio("Built in", names, captions=captions, key="data.demo", persist_state="session")
        return _draw_encoder(Source(name))
    if source_kind in (UPLOAD_WAY, PATH_WAY):
        next_steps.draw_adding()
    if source_kind == UPLOAD_WAY:
        files = upload_field(
            "Files",
            accept_multiple_files=True,
            help="One .csv, .tsv, .json, .jsonl, .parquet, .xlsx, .npy or .npz file. Or tables of documents, queries "
            "and judgements, as papers.csv, queries.csv and qrels.tsv. Or a BEIR folder: corpus.jsonl, "
            "queries.jsonl, the judgements, vectors.npy and query_vectors.npy. Or a table and the vectors of its rows. "
            "Or vectors, and their ids line by line in a .txt.",
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
            placeholder="a BEIR folder, or a .csv .tsv .json .jsonl .parquet .xlsx .npy .npz file",
        ).strip()
        if not typed_path:
            st.info("A BEIR folder holds corpus.jsonl and, if you have them, queries.jsonl and judgements in qrels/.")
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
    st.code(EXAMPLE, language="toml", wrap_lines=True)
    st.caption("`frontier store load pg/papers --corpus my-corpus/` then fills the collection.")
    return None


def _draw_table_source(path: Path) -> Source | None:
    """Draw the first rows of a corpus's file and the choice of its columns; return the source to load.

    None if it cannot be loaded as chosen; folders and files of vectors have fewer choices.
    """
    # A folder of Parquet files is one table.
    if path.is_dir() and (find_corpus_table(path) is not None or not has_shards(path)):
        return _draw_folder_source(path)
    # Vectors have no columns to choose.
    if (suffix := find_table_suffix(path)) not in TABLE_SUFFIXES:
        return _draw_encoder(replace(Source(str(path)), similarity=_draw_similarity(path)))
    table_file = corpora.inspect_files(Source(str(path))).file
    separator, guess = None, ""
    if suffix == ".csv":
        guess = guess_separator(table_file)
        key = f"data.separator.{path}"
        separator = select("Separator", CSV_SEPARATORS, key, default=guess, format_func=SEPARATOR_NAMES.__getitem__)
    header = "auto"
    if suffix in (".csv", ".tsv", ".xlsx"):
        header = select("First line", list(HEADER_NAMES), f"data.header.{path}", format_func=HEADER_NAMES.__getitem__)
    preview = preview_table(table_file, PREVIEW_ROWS, separator, header=header)
    _draw_preview(preview)
    vectors_column = _draw_vectors_column(path, preview)
    column_names = list(dict.fromkeys(preview.columns))
    optional = [NO_COLUMN, *column_names]
    guesses = {
        # Documents with vectors of their own need no text.
        "text": ("Text column", optional if vectors_column else column_names, preview.guessed_columns.text),
        "id": ("Id column", optional, preview.guessed_columns.id or NO_COLUMN),
        "title": ("Title column", optional, preview.guessed_columns.title or NO_COLUMN),
    }
    chosen_columns = {}
    for container, (role, (label, options, column)) in zip(st.columns(3), guesses.items(), strict=True):
        why = "Without one, rows are numbered from 0" if role == "id" else None
        column = select(label, options, f"data.columns.{path}.{role}", default=column, container=container, help=why)
        chosen_columns[role] = None if column == NO_COLUMN else column
    columns = chosen_columns["id"], chosen_columns["text"], chosen_columns["title"]
    free_columns = [name for name in column_names if name not in (*columns, vectors_column)]
    metadata = _draw_kept_columns(path, free_columns)
    # Only a separator other than the guessed one goes to the source, so that links stay short.
    separator = separator if separator and separator != guess else ""
    source = Source(
        str(path), columns=columns, metadata=metadata, separator=separator, header=header, vectors_column=vectors_column
    )
    return _draw_encoder(_check_source(source))


def _draw_vectors_column(path: Path, preview: Preview) -> str:
    """Draw the choice of a table's column of the documents' own vectors, if it has one; return it, "" for none."""
    names = [name for name, facts in preview.facts.items() if facts.dimension]
    if not names:
        return ""

    def format_column(name: str) -> str:
        """Return a column's name with the dimension of its vectors."""
        return name if name == NO_COLUMN else f"{name}, {preview.facts[name].dimension:,} dimensions"

    why = "The documents' own vectors, in place of those of an encoder"
    key = f"data.columns.{path}.vectors"
    # Vectors of the queries are of no use without those of the documents.
    default = NO_COLUMN if find_vectors_file(path, "query_vectors") is None else names[0]
    column = select("Vectors column", [NO_COLUMN, *names], key, default=default, format_func=format_column, help=why)
    return "" if column == NO_COLUMN else column


def _draw_similarity(path: Path) -> str:
    """Draw the choice of the similarity of a corpus's own vectors; return it."""
    why = "The cosine is the inner product of vectors of length 1: both are the same for vectors of that length."
    return choose(
        "Similarity of its own vectors",
        list(SIMILARITIES),
        f"data.similarity.{path}",
        show_label=True,
        format_func=SIMILARITIES.__getitem__,
        help=why,
    )


def _draw_query_vectors(path: Path) -> str:
    """Draw the field of a file of the queries' own vectors; return its path, "" for the one beside the queries.

    Raises DataError if this server may not read it. Nothing is drawn without a file of queries.
    """
    has_queries = path.is_dir() and any(map(is_present, list_table_paths(path, "queries")))
    if not has_queries or not roots.accepts_typed_paths():
        return ""
    beside = find_vectors_file(path, "query_vectors")
    typed_path = st.text_input(
        "Vectors of the queries",
        key=f"data.query_vectors.{path}",
        persist_state="session",
        placeholder="a .npy or .npz file, or a table" if beside is None else f"{beside.name}, beside the queries",
        help="A file on this machine, by the same model as the documents' vectors. Without ids of its own, its rows "
        "stand in the order of the queries.",
    ).strip()
    return str(roots.check_corpus(typed_path)) if typed_path else ""


def _draw_folder_source(path: Path) -> Source | None:
    """Draw the first documents of a folder (corpus.jsonl, queries.jsonl, qrels/); return what to load.

    None if it cannot be loaded as chosen. Of several folders of judgements, qrels…, and files beside them, one is
    chosen.
    """
    qrels_folders = sorted(inner.name for inner in path.iterdir() if inner.is_dir() and inner.name.startswith("qrels"))
    # Without a folder of judgements, the files of judgements beside the corpus are all read.
    beside_files = [file.name for file in list_files(path) if is_judgement_name(file.name)] if qrels_folders else []
    choices = [*qrels_folders, *beside_files]
    qrels = choices[0] if choices else "qrels"
    if len(choices) > 1:
        qrels = select("Judgements", choices, f"data.qrels.{path}")
    table, source = find_corpus_table(path), Source(str(path), qrels=qrels)
    if table is None:
        return _draw_encoder(source)
    head = preview_table(table, PREVIEW_ROWS)
    _draw_preview(head)
    source = replace(source, vectors_column=_draw_vectors_column(path, head))
    # A folder's columns are guessed without a choice, so that they are named.
    columns = replace(head.guessed_columns, vectors=source.vectors_column or None)
    st.caption(as_label(describe_columns(columns)))
    # The keys of a nested "metadata" are offered as columns, in place of the whole.
    fixed = ("_id", "text", "title", source.vectors_column, *(["metadata"] if head.nested_keys else []))
    free_columns = [name for name in dict.fromkeys((*head.columns, *head.nested_keys)) if name not in fixed]
    return _draw_encoder(_check_source(replace(source, metadata=_draw_kept_columns(path, free_columns))))


def _check_source(source: Source) -> Source | None:
    """Read a corpus before it is loaded; draw its problems, and the choices that solve them.

    Return the source with the choices: for repeated ids, and which documents to read by the values of kept columns.
    None if it is unreadable. Large corpora are read when they are loaded only.
    """
    inspection = corpora.inspect_files(source)
    has_vectors = bool(source.vectors_column) or find_document_vectors(Path(source.path)) is not None
    if has_vectors:
        source = replace(source, query_vectors=_draw_query_vectors(Path(source.path)))
    if inspection.is_large:
        st.caption("Ids, copies and empty texts of a corpus as large as this are checked while it loads.")
        if has_vectors:
            source = replace(source, similarity=_draw_similarity(Path(source.path)))
        repeated = _draw_policy("repeated", source, list(REPEATED)) or "refuse"
        conflicting = _draw_policy("conflicting_grades", source, list(CONFLICTING)) or "refuse"
        return replace(source, repeated=repeated, conflicting_grades=conflicting)
    # In place of a data set this can be the error of reading it.
    dataset = inspection.read_dataset(source)
    # Without a policy, repeated ids and conflicting grades are errors that the visitor resolves here.
    for field_name, (error_type, title, policies) in POLICIES.items():
        if not isinstance(dataset, error_type):
            continue
        # The choice of a policy comes below the error that asks for it, but is read first.
        error_container = st.container()
        policy = _draw_policy(field_name, source, [policy for policy in policies if policy != "refuse"])
        if policy is None:
            with error_container:
                show_failure(title, dataset)
            return None
        # One of the two fields of a Source that are keys of POLICIES.
        chosen: dict[str, Any] = {field_name: policy}
        source = replace(source, **chosen)
        dataset = inspection.read_dataset(source)
    if not isinstance(dataset, FrontierError) and (where := _draw_filters(source, dataset.corpus.metadata)):
        source = replace(source, where=where)
        dataset = inspection.read_dataset(source)
    if not isinstance(dataset, FrontierError) and dataset.vectors is not None:
        source = replace(source, similarity=_draw_similarity(Path(source.path)))
        dataset = inspection.read_dataset(source)
    if isinstance(dataset, FrontierError):
        show_failure("This cannot be read.", dataset)
        return None
    st.text(_count_parts(dataset))
    if not _has_report(source):
        draw_notices(dataset)
    return source


def _has_report(source: Source) -> bool:
    """Return True if the report of the loading or open corpus, with the reader's notices, is of this source."""
    loading_source = st.session_state.get(loading.LOADING_KEY)
    if loading_source is not None and st.session_state.get(loading.BESIDE_KEY):
        return False
    reported = loading_source or address.get_source()
    is_same: bool = reported.without_encoder == source.without_encoder
    return is_same


def _count_parts(dataset: Dataset) -> str:
    """Return how many documents, queries and judgements were read, those of which there are none left out."""
    n_queries, n_judgements = len(dataset.queries), sum(qrels.count for qrels in dataset.qrels.values())
    texts = [counted(len(dataset.corpus), "document")]
    texts += [counted(n_queries, "query", "queries")] if n_queries else []
    texts += [counted(n_judgements, "judgement")] if n_judgements else []
    return " · ".join(texts)


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


def _draw_policy(field_name: str, source: Source, options: list[str]) -> str | None:
    """Draw the choice of what happens to repeated ids or conflicting grades; return it, None until it is made.

    field_name: field of a Source; options: those of its policies that are offered
    """
    labels = POLICIES[field_name][2]
    title = "Repeated ids" if field_name == "repeated" else "Conflicting grades"
    key = f"data.{field_name}.{source.path}"
    return st.segmented_control(title, options, format_func=labels.__getitem__, key=key, persist_state="session")


def _draw_kept_columns(path: Path, column_names: list[str]) -> tuple[str, ...]:
    """Draw the choice of a table's further columns to keep beside its documents; return their names.

    They colour maps and group queries, and are not embedded.
    """
    if not column_names:
        return ()
    why = (
        "Kept beside the documents and not embedded: for colours of the map, for groups of queries on Trade-off, and "
        "as sources, of each of which an answer may have a limited number of documents (beside k)."
    )
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
