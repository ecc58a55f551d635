"""The corpus in the address bar: read from the query parameters, and written back."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import streamlit as st

from dashboard.services import corpora
from dashboard.services.source import Source

FIELDS = ("qrels", "separator", "repeated", "encoder", "dtype", "trained")
COLUMNS = ("id_column", "text_column", "title_column")
METADATA, WHERE = "metadata", "where"
"""Names in an address of the fields of a Source, of its table's columns, of those that are kept, of chosen values."""
VERSION_KEY = "v"
"""A parameter that only links to a whole state have."""
ADDRESS, LINK = "address", "link"
"""Session keys: the corpus that the address names, and a link that is not applied yet."""


def params_of(chosen: Source) -> dict[str, str]:
    """A corpus as parameters of an address: its path, and the fields that are not at their default."""
    plain = Source(chosen.path)
    fields = {name: getattr(chosen, name) for name in FIELDS if getattr(chosen, name) != getattr(plain, name)}
    columns = {name: column for name, column in zip(COLUMNS, chosen.columns or (), strict=False) if column is not None}
    kept = {METADATA: ",".join(quote(name) for name in chosen.metadata)} if chosen.metadata else {}
    if chosen.where:
        kept[WHERE] = ",".join(f"{quote(column, safe='')}={quote(value, safe='')}" for column, value in chosen.where)
    return {"corpus": chosen.path, **columns, **kept, **fields}


def source_of(params: Mapping[str, str]) -> Source | None:
    """The corpus that the parameters of an address name, loaded or not; None where they name none."""
    if not params.get("corpus"):
        return None
    ident, text, title = (params.get(name) for name in COLUMNS)
    fields: dict[str, Any] = {name: params[name] for name in FIELDS if name in params}
    columns = (ident, text, title) if text is not None else None
    kept = tuple(map(unquote, params[METADATA].split(","))) if METADATA in params else ()
    pairs = [pair.partition("=") for pair in params.get(WHERE, "").split(",") if pair]
    where = tuple((unquote(column), unquote(value)) for column, _, value in pairs)
    return Source(params["corpus"], columns=columns, metadata=kept, where=where, **fields)


def available(requested: Source) -> Source | None:
    """The corpus that an address may open: a demo, or one that this server is for or has been asked to load.

    With its trained embeddings, there or not: loading says which. Where it is loaded in other ways only, one of those
    that show nothing of what another session typed.
    """
    loads = [(s, job) for s, job in corpora.loads() if s.path == requested.path]
    starts = [s for s in corpora.sources_at_start() if s.path == requested.path]
    demos = [Source(requested.path)] if requested.path in corpora.DEMOS else []
    if requested.plain in (s.plain for s in (*demos, *starts, *(s for s, _ in loads))):
        return requested
    known = [*demos, *starts, *(s for s, job in loads if corpora.may_see(s, job, requested.path))]
    return known[-1] if known else None


def source() -> Source:
    """The corpus that this session looks at; the address names it, so that a reload comes back to it.

    A link in the address of a session's first run waits in the session for its corpus.
    """
    if "source" not in st.session_state:
        requested = source_of(st.query_params)
        first = (requested and available(requested)) or corpora.source_at_start()
        st.session_state["source"] = st.session_state[ADDRESS] = first
        if VERSION_KEY in st.query_params:
            st.session_state[LINK] = st.query_params.to_dict()
    chosen: Source = st.session_state["source"]
    if st.session_state.get(ADDRESS) != chosen or (
        chosen != corpora.source_at_start() and "corpus" not in st.query_params
    ):
        plain_address()
    return chosen


def plain_address() -> None:
    """Have the address name the corpus and nothing else."""
    chosen = st.session_state[ADDRESS] = st.session_state["source"]
    params = {} if chosen == corpora.source_at_start() else params_of(chosen)
    if st.query_params.to_dict() != params:
        st.query_params.from_dict(params)


def use(chosen: Source) -> None:
    """Switch to another corpus from the next run on."""
    st.session_state["source"] = chosen
