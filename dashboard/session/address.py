"""The corpus in the address bar: read from the query parameters, and written back."""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import streamlit as st

from dashboard.services import corpora
from dashboard.services.source import COPIES, KEEP_ALL, NEAR, Source
from engine.errors import ParamError
from engine.params import Choice, Param, Real, Whole
from engine.values import JUDGEMENT_KINDS

SOURCE_FIELDS = (
    *("qrels", "conflicting_grades", "judgements", "separator", "repeated", "encoder", "dtype", "trained"),
    *("header", "vectors_column", "query_vectors", "similarity"),
)
COLUMN_PARAMS = ("id_column", "text_column", "title_column")
METADATA_PARAM, WHERE_PARAM = "metadata", "where"
"""Parameters of an address: fields of a Source, columns of its table, columns to keep, values to select."""
RELEVANT_HELP = "The grade from which a document counts as relevant."
RELEVANT = Whole(Source("").relevant, "relevant", 1, name="relevant", help=RELEVANT_HELP)
"""Field of a Source that is a number."""
DUPLICATES = Choice(
    default=KEEP_ALL,
    options=(KEEP_ALL, COPIES, NEAR),
    symbol="drop_duplicates",
    name="drop_duplicates",
    help="The documents that are left out because others are like them.",
)
DUPLICATE_COSINE = Real(
    default=None,
    low=0,
    high=1,
    symbol="duplicate_threshold",
    name="duplicate_threshold",
    unset="that of the corpus",
    help="The cosine from which on two documents are near-duplicates.",
)
CHECKED_FIELDS: dict[str, Param] = {param.name: param for param in (RELEVANT, DUPLICATES, DUPLICATE_COSINE)}
"""Fields of a Source with a domain, by name."""
VERSION_KEY = "v"
"""Parameter that marks a link to a complete state."""
ADDRESS_KEY, LINK_KEY = "address", "link"
"""Session keys: the corpus that the address names, and a link that is not applied yet."""


def format_source(source: Source) -> dict[str, str]:
    """Return a corpus as parameters of a page's address, without the fields at their default."""
    # Defaults are left out, so that an address stays short and survives new fields.
    # Names and values of columns are quoted, as they may hold the commas that separate them.
    default = Source(source.path)
    fields = {name: getattr(source, name) for name in SOURCE_FIELDS if getattr(source, name) != getattr(default, name)}
    columns = {key: value for key, value in zip(COLUMN_PARAMS, source.columns or (), strict=False) if value is not None}
    extra = {METADATA_PARAM: ",".join(map(quote, source.metadata))} if source.metadata else {}
    for name, param in CHECKED_FIELDS.items():
        if getattr(source, name) != param.default:
            extra[name] = param.text(getattr(source, name))
    if source.where:
        extra[WHERE_PARAM] = ",".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in source.where)
    return {"corpus": source.path, **columns, **extra, **fields}


def parse_source(params: Mapping[str, str]) -> Source | None:
    """Return the corpus that a page's address names, loaded or not; None if it names none.

    An invalid level of relevance, kind of judgements, or choice of duplicates is the default one.
    """
    if not params.get("corpus"):
        return None
    id_column, text_column, title_column = map(params.get, COLUMN_PARAMS)
    fields: dict[str, Any] = {name: params[name] for name in SOURCE_FIELDS if name in params}
    # A table needs a text column, or one of vectors; id and title alone mean nothing.
    has_columns = text_column is not None or ("vectors_column" in params and id_column is not None)
    columns = (id_column, text_column, title_column) if has_columns else None
    metadata = tuple(map(unquote, params[METADATA_PARAM].split(","))) if METADATA_PARAM in params else ()
    for name, param in CHECKED_FIELDS.items():
        fields[name] = param.default
        with contextlib.suppress(ParamError):
            fields[name] = param.parse(params.get(name, param.text(param.default)))
    if fields.get("judgements") not in JUDGEMENT_KINDS:
        fields.pop("judgements", None)
    # A threshold of nothing must not make another corpus of the same documents.
    if fields[DUPLICATES.name] != NEAR:
        fields[DUPLICATE_COSINE.name] = DUPLICATE_COSINE.default
    where = []
    for pair in filter(None, params.get(WHERE_PARAM, "").split(",")):
        column, _, value = pair.partition("=")
        where.append((unquote(column), unquote(value)))
    options: dict[str, Any] = {"metadata": metadata, "where": tuple(where), **fields}
    return Source(params["corpus"], columns=columns, **options)


def find_source(requested: Source) -> Source | None:
    """Return the corpus that a link may open here: a demo, a start corpus, or a loaded one; else None.

    A link must not make the server read a path that nobody has loaded. Trained embeddings are kept, existing or not:
    loading reports it. If the path is loaded in other ways only (by another encoder, say), the result is one of those
    that reveal nothing that another session typed.
    """
    # All sources below have the requested path. Public ones may be opened by everybody.
    loads = [(source, job) for source, job in corpora.list_loads() if source.path == requested.path]
    public_sources = [Source(requested.path)] if requested.path in corpora.DEMOS else []
    public_sources += [source for source in corpora.list_start_sources() if source.path == requested.path]
    # Any corpus that this server has loaded on request may be requested again, however its judgements count.
    known_sources = [*public_sources, *(source for source, _ in loads)]
    # So may what leaving out some of its documents makes of it.
    if _identify_files(requested) in map(_identify_files, known_sources):
        return requested
    visible_loads = [source for source, job in loads if corpora.may_see_load(source, job, requested.path)]
    visible = [*public_sources, *visible_loads]
    # Loads come last, and of these the one used last.
    return replace(visible[-1], **get_judged_as(requested)) if visible else None


def get_judged_as(source: Source) -> dict[str, Any]:
    """Return the fields of a source that say how its judgements count: from which grade on, and of which kind."""
    return {"relevant": source.relevant, "judgements": source.judgements}


def _identify_files(source: Source) -> Source:
    """Return a source without what is chosen of it once it is loaded: level, training, documents left out."""
    return source.without_level.without_training.with_all_documents


def get_source() -> Source:
    """Return the corpus open in this browser session, and name it in the browser's address for a reload.

    The first call of a session opens the corpus that the address names. If that is a link to a complete state, with
    query and settings, the rest of it waits in the session until the corpus is loaded.
    """
    if "source" not in st.session_state:
        requested = parse_source(st.query_params)
        # Without a corpus in the address, or with one that cannot be opened, the server's first corpus is opened.
        first_source = (requested and find_source(requested)) or corpora.get_start_source()
        st.session_state["source"] = st.session_state[ADDRESS_KEY] = first_source
        # The link is applied later, once its corpus is loaded.
        if VERSION_KEY in st.query_params:
            st.session_state[LINK_KEY] = st.query_params.to_dict()
    session_source: Source = st.session_state["source"]
    has_switched = st.session_state.get(ADDRESS_KEY) != session_source
    # A change of page drops the browser's parameters; the start corpus needs none.
    if has_switched or (session_source != corpora.get_start_source() and "corpus" not in st.query_params):
        reset_address()
    return session_source


def reset_address() -> None:
    """Set the browser's address to name the open corpus alone; the server's first corpus needs no name."""
    source = st.session_state[ADDRESS_KEY] = st.session_state["source"]
    params = {} if source == corpora.get_start_source() else format_source(source)
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)


def switch_source(source: Source) -> None:
    """Open another corpus in this browser session, from the next run on."""
    st.session_state["source"] = source
