"""The state of a session as a value and as URL parameters, and the address that follows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st
from streamlit import config

from dashboard.services.source import Loaded, Source
from dashboard.session import address, decoders, query, tradeoff
from dashboard.session.address import LINK_KEY, VERSION_KEY
from dashboard.session.query import LABELLED, SIMILAR, TYPED
from dashboard.session.view_names import VIEW_NAMES
from engine.decoder import POOL, SET_SIZE, Decoder
from engine.errors import ParamError
from engine.params import UNSET, Whole, drop_ineffective, form_of, values_of
from engine.stages import Stage

SCHEMA = Whole(1, VERSION_KEY, 1, name=VERSION_KEY, help="How a link is to be read.")
MAX_ADDRESS_LENGTH, ADDRESS_RESERVE = 8_000, 200
"""Servers and chat programs cut longer addresses; the reserve is for the host's name."""
DIGEST_PREFIX_LENGTH = 12
"""Characters of a digest that distinguish corpora."""
QUESTION_PARAMS = {LABELLED: "query", TYPED: "text", SIMILAR: "document"}
"""Way to ask → its parameter in an address."""
SCREENS = Path(__file__).parents[1] / "screens"
HOME_PAGE = "explore"
PAGE_PARAM = "page"
FIRST_STATE_KEY = "link.first"
"""Session key: the state at the start."""


@dataclass(frozen=True, kw_only=True)
class State:
    """State of a session that a link carries: corpus, query, decoders and the settings of pages."""

    source: Source | None = None  # the corpus, None for the one that is open
    digest: str = ""  # the beginning of the corpus's digest, "" if unknown
    vectors: str = ""  # the beginning of the embeddings' digest, "" if unknown
    way: str = ""  # how the corpus is asked, "" if unknown
    split: str | None = None  # of the labelled query
    question: str = ""  # a labelled query's id, a typed query or a document's id
    k: int = SET_SIZE.default  # size of the set
    pool: int | None = POOL.default  # size of the pool
    decoders: tuple[Decoder, ...] = ()  # in the registry's order, their depth not set, as the pool says it
    view: str = ""  # of Explore, "" for its first
    page: str = ""  # the screen's name, "" for the one that is open
    tradeoff: Mapping[str, Any] = field(default_factory=dict)  # key → setting, of those not at their default


def get_state(loaded: Loaded) -> State:
    """Return the state of this session that a link carries: corpus, query, decoders and settings."""
    mode, split, question = query.get_selection(loaded)
    session = st.session_state
    return State(
        source=loaded.source,
        digest=loaded.origin.space.corpus.digest[:DIGEST_PREFIX_LENGTH],
        vectors=loaded.origin.space.embeddings.digest[:DIGEST_PREFIX_LENGTH],
        way=mode,
        split=split,
        question=question,
        k=session.get(decoders.K_KEY, SET_SIZE.default),
        pool=session.get(decoders.POOL_KEY, POOL.default),
        decoders=tuple(replace(decoder, depth=None) for decoder in decoders.get_decoders().values()),
        view=session.get(decoders.VIEW_KEY) or "",
        page=_open_page(),
        tradeoff=tradeoff.list_changed(),
    )


def format_state(state: State) -> dict[str, str]:
    """Return a session's state as parameters of an address, in the order in which a person reads them."""
    params = {VERSION_KEY: SCHEMA.text(SCHEMA.default)}
    if state.source is not None:
        params |= address.format_source(state.source)
    params |= {name: value for name, value in (("digest", state.digest), ("vectors", state.vectors)) if value}
    if state.split is not None:
        params["split"] = state.split
    if state.way:
        params[QUESTION_PARAMS[state.way]] = state.question
    params |= {"k": SET_SIZE.text(state.k), "pool": POOL.text(state.pool)}
    params["decoders"] = ",".join(decoder.select.spec.name for decoder in state.decoders) or UNSET
    # Parameters are prefixed by the selector's name, and a scorer's by its role too.
    for decoder in state.decoders:
        name = decoder.select.spec.name
        params |= _format_stage(decoder.select, name)
        for role, stage in ((decoders.RETRIEVE, decoder.retrieve), (decoders.RERANK, decoder.rerank)):
            # The default retriever is left out; links without one mean it.
            if stage is not None and (role == decoders.RERANK or stage != decoders.first_scorer()):
                params |= {f"{name}.{role}": stage.spec.name, **_format_stage(stage, f"{name}.{role}")}
    for key, value in state.tradeoff.items():
        # Lists of names, such as the decoders to measure, are joined; other settings have a text of their own.
        params[key] = ",".join(value) or UNSET if key in tradeoff.list_choices() else tradeoff.SETTINGS[key].text(value)
    return params | {name: value for name, value in (("view", state.view), (PAGE_PARAM, state.page)) if value}


def build_url(base: str, params: Mapping[str, str]) -> str:
    """Return the address that opens a session's state, given as parameters.

    base: the page's own address. Raises ParamError if the result is so long that programs would cut it.
    """
    root = "" if urlsplit(base).path else "/"
    # The page is part of the base already.
    query = urlencode({name: value for name, value in params.items() if name != PAGE_PARAM}, quote_via=quote, safe=",:")
    link = f"{base}{root}?{query}"
    if len(link) > MAX_ADDRESS_LENGTH:
        raise ParamError(
            f"the link would have {len(link):,} characters, and addresses are cut off beyond {MAX_ADDRESS_LENGTH:,}; "
            "shorten the query, or save the view instead"
        )
    return link


def get_link_params(loaded: Loaded) -> dict[str, str]:
    """Return the state of the session as URL parameters."""
    return format_state(get_state(loaded))


def update_address(loaded: Loaded) -> None:
    """Set the browser's address to the state of the session, so that a reload comes back to it.

    The address stays as it is while a link in it still waits for its corpus, and while nothing was changed.
    """
    params = _address_params(loaded)
    if params is not None and st.query_params.to_dict() != params:
        st.query_params.from_dict(params)


def preview_address(loaded: Loaded) -> str | None:
    """Return the address's query string for the session's state, for a script that edits the history.

    None if the address should stay.
    """
    params = _address_params(loaded)
    return None if params is None else urlencode(params)


def _address_params(loaded: Loaded) -> dict[str, str] | None:
    """Return the address's parameters for the state of the session; None if the address should stay.

    One too long for other programs is not set; it then names the corpus alone.
    """
    if LINK_KEY in st.session_state:
        return None
    state = get_state(loaded)
    # The page is part of the address's path, and other pages have no view.
    state = replace(state, page="", view="" if state.view == VIEW_NAMES[0] else state.view)
    first_state = st.session_state.setdefault(FIRST_STATE_KEY, state)
    # A session in which nothing was changed keeps its short address.
    if state == first_state and VERSION_KEY not in st.query_params:
        return None
    params = format_state(state)
    if len(urlencode(params, quote_via=quote)) > MAX_ADDRESS_LENGTH - ADDRESS_RESERVE:
        # A stale address would share an earlier state.
        address.reset_address()
        return None
    return params


def _format_stage(stage: Stage, prefix: str) -> dict[str, str]:
    """Return the parameters of a selector or scorer as text, by the names they have in an address.

    Some parameters take another form under another one's value, such as λ₁ as a number of documents.
    """
    values = values_of(stage)
    effective, formatted = drop_ineffective(stage.spec.params, values), {}
    for param in stage.spec.params:
        form: Any = form_of(param, effective)[1]  # the declaration; [0] names it
        value: Any = values[param.name]
        try:
            text = form.text(form.check(value))
        except ParamError:  # legal for the method, and not what people set in this form
            text = param.text(value)
        formatted[f"{prefix}.{param.name}"] = text
    return formatted


def _open_page() -> str:
    """Return the name of the page that is being drawn, from the address of the browser."""
    base_path = (config.get_option("server.baseUrlPath") or "").strip("/")
    page_name = urlsplit(st.context.url or "").path.removeprefix(f"/{base_path}").rstrip("/").rpartition("/")[2]
    return page_name if page_name and (SCREENS / f"{page_name}.py").is_file() else HOME_PAGE
