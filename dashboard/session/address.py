"""The corpus in the address bar: read from the query parameters, and written back."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import streamlit as st

from dashboard.services import corpora
from dashboard.services.source import Source

SOURCE_FIELDS = ("qrels", "separator", "repeated", "encoder", "dtype", "trained")
COLUMN_PARAMS = ("id_column", "text_column", "title_column")
METADATA_PARAM, WHERE_PARAM = "metadata", "where"
"""Parameters of an address: fields of a Source, columns of its table, columns to keep, values to select."""
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
    if source.where:
        extra[WHERE_PARAM] = ",".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in source.where)
    return {"corpus": source.path, **columns, **extra, **fields}


def parse_source(params: Mapping[str, str]) -> Source | None:
    """Return the corpus that a page's address names, loaded or not; None if it names none."""
    if not params.get("corpus"):
        return None
    id_column, text_column, title_column = map(params.get, COLUMN_PARAMS)
    fields: dict[str, Any] = {name: params[name] for name in SOURCE_FIELDS if name in params}
    # A table needs a text column; id and title alone mean nothing.
    columns = (id_column, text_column, title_column) if text_column is not None else None
    metadata = tuple(map(unquote, params[METADATA_PARAM].split(","))) if METADATA_PARAM in params else ()
    where = []
    for pair in filter(None, params.get(WHERE_PARAM, "").split(",")):
        column, _, value = pair.partition("=")
        where.append((unquote(column), unquote(value)))
    return Source(params["corpus"], columns=columns, metadata=metadata, where=tuple(where), **fields)


def find_source(requested: Source) -> Source | None:
    """Return the corpus that a link may open here: a demo, a start corpus, or a loaded one; else None.

    A link must not make the server read a path that nobody has loaded. Trained embeddings are kept, existing or not:
    loading reports it. If the path is loaded in other ways only (by another encoder, say), the result is one of those
    that reveal nothing that another session typed.
    """
    loads = [(s, job) for s, job in corpora.list_loads() if s.path == requested.path]
    starts = [s for s in corpora.list_start_sources() if s.path == requested.path]
    demos = [Source(requested.path)] if requested.path in corpora.DEMOS else []
    # Any corpus that this server has loaded on request may be requested again.
    if requested.without_training in (s.without_training for s in (*demos, *starts, *(s for s, _ in loads))):
        return requested
    visible = [*demos, *starts, *(s for s, job in loads if corpora.may_see_load(s, job, requested.path))]
    return visible[-1] if visible else None


def get_source() -> Source:
    """Return the corpus that this session has open, and name it in the browser's address for a reload.

    The first call of a session opens the corpus that the address names. If that is a link to a complete state, with
    query and settings, the rest of it waits in the session until the corpus is loaded.
    """
    if "source" not in st.session_state:
        requested = parse_source(st.query_params)
        first_source = (requested and find_source(requested)) or corpora.get_start_source()
        st.session_state["source"] = st.session_state[ADDRESS_KEY] = first_source
        # The link is applied later, once its corpus is loaded.
        if VERSION_KEY in st.query_params:
            st.session_state[LINK_KEY] = st.query_params.to_dict()
    session_source: Source = st.session_state["source"]
    # The address is stale after a switch, or if the browser has lost its parameters, as by a change of page.
    if st.session_state.get(ADDRESS_KEY) != session_source or (
        session_source != corpora.get_start_source() and "corpus" not in st.query_params
    ):
        reset_address()
    return session_source


def reset_address() -> None:
    """Set the browser's address to name the open corpus and nothing else; not even that for the first."""
    source = st.session_state[ADDRESS_KEY] = st.session_state["source"]
    params = {} if source == corpora.get_start_source() else format_source(source)
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)


def switch_source(source: Source) -> None:
    """Open another corpus in this session, from the next run on."""
    st.session_state["source"] = source
