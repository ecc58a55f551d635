"""The state of a session as a value and as URL parameters, and the address that follows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st
from streamlit import config

from dashboard.services import feedback
from dashboard.services.source import Loaded, Source
from dashboard.session import address, decoders, query, tradeoff
from dashboard.session.address import LINK_KEY, VERSION_KEY
from dashboard.session.query import LABELLED, SIMILAR, TYPED
from dashboard.session.view_names import VIEW_NAMES
from engine.decoder import PER_SOURCE, POOL, SET_SIZE, Decoder
from engine.errors import FrontierError, ParamError
from engine.params import UNSET, Whole, drop_ineffective, form_of, values_of
from engine.stages import Stage

SCHEMA = Whole(1, VERSION_KEY, 1, name=VERSION_KEY, help="How a link is to be read.")
VOTES = Whole(0, "votes", 0, name="votes", help="Votes of the sender, which a link does not carry.")
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
RELEASED_KEY = "explore.released"
"""Session key: True in the run after a slider was released, in which the browser writes the address itself."""


@dataclass(frozen=True, kw_only=True)
class State:
    """Content of a link: corpus, query, decoders and settings of pages, as a browser session shows them."""

    source: Source | None = None  # the corpus, None for the one that is open
    digest: str = ""  # the beginning of the corpus's digest, "" if unknown
    vectors: str = ""  # the beginning of the embeddings' digest, "" if unknown
    votes: int = 0  # pieces of feedback that had moved the documents; a link carries none of them
    moved: str = ""  # the beginning of the digest of the vectors that they moved, "" without votes
    way: str = ""  # how the corpus is asked, "" if unknown
    split: str | None = None  # of the labelled query
    question: str = ""  # a labelled query's id, a typed query or a document's id
    k: int = SET_SIZE.default  # size of the set
    pool: int | None = POOL.default  # size of the pool
    per_source: int | None = PER_SOURCE.default  # the most documents of one source, None for any number
    source_column: str | None = None  # the column that names the sources
    own_documents: str = decoders.SAME_TEXT  # which document counts as the query itself
    decoders: tuple[Decoder, ...] = ()  # in the registry's order, their depth that of the pool, without limits
    view: str = ""  # of Explore, "" for its first
    page: str = ""  # the screen's name, "" for the one that is open
    tradeoff: Mapping[str, Any] = field(default_factory=dict)  # key → setting, of those not at their default


def get_state(loaded: Loaded) -> State:
    """Return what this browser session shows, for a link to it: corpus, query, decoders and settings."""
    mode, split, question = query.get_selection(loaded)
    session = st.session_state
    return State(
        source=loaded.source,
        digest=loaded.origin.space.corpus.digest[:DIGEST_PREFIX_LENGTH],
        vectors=loaded.origin.space.embeddings.digest[:DIGEST_PREFIX_LENGTH],
        **_describe_votes(loaded),
        way=mode,
        split=split,
        question=question,
        k=session.get(decoders.K_KEY, SET_SIZE.default),
        pool=session.get(decoders.POOL_KEY, POOL.default),
        per_source=decoders.get_source_limit()[0],
        source_column=decoders.get_source_limit()[1],
        own_documents=session.get(decoders.OWN_DOCUMENTS_KEY, decoders.SAME_TEXT),
        decoders=tuple(map(_drop_limits, decoders.get_decoders().values())),
        view=session.get(decoders.VIEW_KEY) or "",
        page=_open_page(),
        tradeoff=tradeoff.list_changed(),
    )


def _describe_votes(loaded: Loaded) -> dict[str, Any]:
    """Return how many votes have moved this session's documents, and the digest of where to, as fields of a State."""
    if loaded.embedded is None:
        return {}
    try:
        n_votes = feedback.count_events(loaded)
    except FrontierError:
        return {}  # the header says why
    return {"votes": n_votes, "moved": loaded.space.embeddings.digest[:DIGEST_PREFIX_LENGTH]}


def _drop_limits(decoder: Decoder) -> Decoder:
    """Return a decoder without its limits, which a link has once for all decoders."""
    return replace(decoder, per_source=None, source=None, without_self=None)


def format_state(state: State) -> dict[str, str]:
    """Return what a browser session shows as an address's parameters, in an order that people can read."""
    params = {VERSION_KEY: SCHEMA.text(SCHEMA.default)}
    if state.source is not None:
        params |= address.format_source(state.source)
    params |= {name: value for name, value in (("digest", state.digest), ("vectors", state.vectors)) if value}
    if state.votes:
        params |= {"votes": VOTES.text(state.votes), "moved": state.moved}
    if state.split is not None:
        params["split"] = state.split
    # The way is where the query comes from: typed, labelled, or the text of a document.
    if state.way:
        params[QUESTION_PARAMS[state.way]] = state.question
    params |= {"k": SET_SIZE.text(state.k), "pool": POOL.text(state.pool)}
    if state.per_source is not None and state.source_column is not None:
        params |= {"per_source": PER_SOURCE.text(state.per_source), "source_column": state.source_column}
    if state.own_documents != decoders.SAME_TEXT:
        params["own_documents"] = decoders.OWN_DOCUMENTS.text(state.own_documents)
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
    """Return the address of a link from its parameters, which say what a browser session shows.

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
    """Return what this browser session shows as URL parameters, for a link that restores it."""
    return format_state(get_state(loaded))


def update_address(loaded: Loaded) -> None:
    """Set the browser's address to what this browser session shows, so that a reload comes back to it.

    The address stays as it is while a link in it still waits for its corpus, and while nothing was changed.
    """
    params = _address_params(loaded)
    if params is not None and st.query_params.to_dict() != params:
        st.query_params.from_dict(params)


def preview_address(loaded: Loaded) -> str | None:
    """Return the query string that names what this browser session shows; None if the address should stay.

    A script in the browser writes it to the address bar without adding an entry to the history.
    """
    params = _address_params(loaded)
    return None if params is None else urlencode(params)


def _address_params(loaded: Loaded) -> dict[str, str] | None:
    """Return the address's parameters for what this browser session shows; None if it should not change.

    If the address would be so long that other programs cut it, it is set here to name the corpus alone; the result is
    then None too.
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

    A parameter may be set in another unit if another parameter says so, such as λ₁ as a number of documents: the text
    then has that unit.
    """
    values = values_of(stage)
    # A parameter without effect beside the others' values decides no unit, so its value is dropped first.
    effective, formatted = drop_ineffective(stage.spec.params, values), {}
    for param in stage.spec.params:
        _, declaration = form_of(param, effective)
        value: Any = values[param.name]
        try:
            checked: Any = declaration.check(value)
            text = declaration.text(checked)
        except ParamError:  # legal for the method, and not what people set in this domain
            text = param.text(value)
        formatted[f"{prefix}.{param.name}"] = text
    return formatted


def _open_page() -> str:
    """Return the name of the page that is being drawn, from the address of the browser."""
    base_path = (config.get_option("server.baseUrlPath") or "").strip("/")
    page_name = urlsplit(st.context.url or "").path.removeprefix(f"/{base_path}").rstrip("/").rpartition("/")[2]
    return page_name if page_name and (SCREENS / f"{page_name}.py").is_file() else HOME_PAGE
