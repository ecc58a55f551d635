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
from dashboard.session.address import LINK, VERSION_KEY
from dashboard.session.query import LABELLED, SIMILAR, TYPED
from dashboard.session.view_names import VIEW_NAMES
from engine.decoder import POOL, SET_SIZE, Decoder
from engine.errors import ParamError
from engine.params import UNSET, Whole, drop_ineffective, form_of, values_of
from engine.stages import Stage

SCHEMA = Whole(1, VERSION_KEY, 1, name=VERSION_KEY, help="How a link is to be read.")
LONGEST, ROOM = 8_000, 200
"""Servers and chat programs cut addresses that are longer."""
SHOWN = 12
"""Characters of a digest that tell corpora apart."""
QUESTIONS = {LABELLED: "query", TYPED: "text", SIMILAR: "document"}
"""What an address calls the three ways to ask."""
SCREENS = Path(__file__).parents[1] / "screens"
HOME = "explore"
PAGE = "page"
FIRST = "link.first"
"""Session key: the state at the start."""


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a session."""

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


def current(loaded: Loaded) -> State:
    """The state of the session, on any page."""
    way, split, question = query.selected(loaded)
    session = st.session_state
    return State(
        source=loaded.source,
        digest=loaded.origin.space.corpus.digest[:SHOWN],
        vectors=loaded.origin.space.embeddings.digest[:SHOWN],
        way=way,
        split=split,
        question=question,
        k=session.get(decoders.K_KEY, SET_SIZE.default),
        pool=session.get(decoders.POOL_KEY, POOL.default),
        decoders=tuple(replace(decoder, depth=None) for decoder in decoders.decoders().values()),
        view=session.get(decoders.VIEW) or "",
        page=_open_page(),
        tradeoff=tradeoff.changed(),
    )


def to_params(shown: State) -> dict[str, str]:
    """The state as the parameters of an address, in the order in which a person reads them."""
    params = {VERSION_KEY: SCHEMA.text(SCHEMA.default)}
    if shown.source is not None:
        params |= address.params_of(shown.source)
    params |= {name: value for name, value in (("digest", shown.digest), ("vectors", shown.vectors)) if value}
    if shown.split is not None:
        params["split"] = shown.split
    if shown.way:
        params[QUESTIONS[shown.way]] = shown.question
    params |= {"k": SET_SIZE.text(shown.k), "pool": POOL.text(shown.pool)}
    params["decoders"] = ",".join(decoder.select.spec.name for decoder in shown.decoders) or UNSET
    for decoder in shown.decoders:
        name = decoder.select.spec.name
        params |= _written(decoder.select, name)
        for role, stage in ((decoders.RETRIEVE, decoder.retrieve), (decoders.RERANK, decoder.rerank)):
            if stage is not None and (role == decoders.RERANK or stage != decoders.first_scorer()):
                params |= {f"{name}.{role}": stage.spec.name, **_written(stage, f"{name}.{role}")}
    for key, value in shown.tradeoff.items():
        params[key] = ",".join(value) or UNSET if key in tradeoff.several() else tradeoff.PARAMS[key].text(value)
    return params | {name: value for name, value in (("view", shown.view), (PAGE, shown.page)) if value}


def url(base: str, params: Mapping[str, str]) -> str:
    """The address that opens a state; base: that of its page. Raises ParamError where it would be cut off."""
    root = "" if urlsplit(base).path else "/"
    # The page stands in the base already.
    question = urlencode({name: value for name, value in params.items() if name != PAGE}, quote_via=quote, safe=",:")
    whole = f"{base}{root}?{question}"
    if len(whole) > LONGEST:
        raise ParamError(
            f"the link would have {len(whole):,} characters, and addresses are cut off beyond {LONGEST:,}; "
            "shorten the query, or save the view instead"
        )
    return whole


def link_params(loaded: Loaded) -> dict[str, str]:
    """The state of the session as URL parameters."""
    return to_params(current(loaded))


def follow(loaded: Loaded) -> None:
    """Have the address say what is shown, so that a reload comes back to it, once anything was changed.

    A link that still waits for its corpus stays where it is.
    """
    params = _followed(loaded)
    if params is None or st.query_params.to_dict() == params:
        return
    st.query_params.from_dict(params)


def address_after(loaded: Loaded) -> str | None:
    """The query string that `follow` would set, for a script that sets it without a new entry in the history."""
    params = _followed(loaded)
    return None if params is None else urlencode(params)


def _followed(loaded: Loaded) -> dict[str, str] | None:
    """The parameters that say what is shown; None where the address stays as it is."""
    if LINK in st.session_state:
        return None
    shown = current(loaded)
    # The page stands in the address's path, and other pages know of no view.
    shown = replace(shown, page="", view="" if shown.view == VIEW_NAMES[0] else shown.view)
    first = st.session_state.setdefault(FIRST, shown)
    if shown == first and VERSION_KEY not in st.query_params:
        return None
    params = to_params(shown)
    if len(urlencode(params, quote_via=quote)) > LONGEST - ROOM:
        # Else whoever copies the address would send what was shown before.
        address.plain_address()
        return None
    return params


def _written(stage: Stage, prefix: str) -> dict[str, str]:
    values = values_of(stage)
    known, written = drop_ineffective(stage.spec.params, values), {}
    for param in stage.spec.params:
        form: Any = form_of(param, known)[1]
        value: Any = values[param.name]
        try:
            text = form.text(form.check(value))
        except ParamError:  # legal for the method, and not what people set in this form
            text = param.text(value)
        written[f"{prefix}.{param.name}"] = text
    return written


def _open_page() -> str:
    """The name of the screen that is drawn."""
    base = (config.get_option("server.baseUrlPath") or "").strip("/")
    last = urlsplit(st.context.url or "").path.removeprefix(f"/{base}").rstrip("/").rpartition("/")[2]
    return last if last and (SCREENS / f"{last}.py").is_file() else HOME
