"""Links and snapshots: read, and applied to the session."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.services import feedback, roots
from dashboard.services.source import Loaded
from dashboard.session import address, decoders, query, tradeoff
from dashboard.session.address import LINK_KEY, VERSION_KEY
from dashboard.session.decoders import RERANK, RETRIEVE, build_decoder, first_scorer, list_scorers
from dashboard.session.link import PAGE_PARAM, QUESTION_PARAMS, SCHEMA, SCREENS, VOTES, State, get_state
from dashboard.session.parameters import find_costly_limit, order_params
from dashboard.session.view_names import VIEW_NAMES
from engine.decoder import PER_SOURCE, POOL, SET_SIZE, Decoder
from engine.errors import FrontierError, ParamError
from engine.params import UNSET, Param, drop_ineffective, form_of
from engine.progress import counted, shorten
from engine.stages import Scorer, SelectorSpec, Spec, methods, spec_of
from engine.wording import visible

TakeParam = Callable[..., Any]
"""Removes a parameter from an address and parses it; remarks what is invalid."""
MAX_REMARK_LENGTH = 400
OPENED_KEY, REMARKS_KEY, UNSEEN_KEY = "link.opened", "link.remarks", "link.unseen"
"""Session keys: state of the last opened link, its parts that failed, its settings of pages not drawn yet."""


@dataclass(frozen=True)
class Reading:
    """State read from an address; remarks: what was ignored, with the fix, as plain text."""

    state: State
    remarks: tuple[str, ...] = ()


def parse_link(params: Mapping[str, str]) -> Reading:
    """Read what a link restores from its parameters; an invalid part gets a remark and its default."""
    unread, remarks = dict(params), []

    def take(name: str, param: Param, owner: str = "") -> Any:
        """Read one parameter from the address and mark it as read; if invalid, remark it, return the default.

        param: its domain and default; owner: text before the remark, such as the decoder that has the parameter
        """
        text = unread.pop(name, None)
        if text is None:
            return param.default
        try:
            value: Any = param.parse(text)
        except FrontierError as error:
            remarks.append(f"{owner}{error}: {param.text(param.default)} is taken")
            return param.default
        # Whoever opens a link has not asked for hours of work, which would hold the places of other visitors' pages.
        limit = find_costly_limit(param)
        if limit is None or value <= limit:
            return value
        remarks.append(f"{owner}{param.name} of a link is at most {limit:,}; got {value:,}: {limit:,} is taken")
        return limit

    version = take(VERSION_KEY, SCHEMA)
    if version > SCHEMA.default:
        remarks.append(
            f"the link is of version {version}, written by a newer Frontier than this one, which reads "
            f"{SCHEMA.default}: what it does not know is left out; update Frontier to see all of it"
        )
    source = address.parse_source(unread)
    # Whatever remains unread at the end is remarked, so every known name is consumed here.
    for name, param in address.CHECKED_FIELDS.items():
        take(name, param)  # read with the corpus, and remarked here if invalid
    for name in ("corpus", *address.COLUMN_PARAMS, address.METADATA_PARAM, address.WHERE_PARAM, *address.SOURCE_FIELDS):
        unread.pop(name, None)
    pool = take("pool", POOL)
    state = State(
        source=source,
        digest=_check_hex(unread.pop("digest", ""), "digest", remarks),
        vectors=_check_hex(unread.pop("vectors", ""), "vectors", remarks),
        votes=take("votes", VOTES),
        moved=_check_hex(unread.pop("moved", ""), "moved", remarks),
        **_parse_question(unread, remarks),
        split=unread.pop("split", None),
        k=take("k", SET_SIZE),
        pool=pool,
        per_source=take("per_source", PER_SOURCE),
        source_column=unread.pop("source_column", None),
        own_documents=take("own_documents", decoders.OWN_DOCUMENTS),
        decoders=tuple(_parse_decoder(spec, pool, unread, take, remarks) for spec in _parse_selectors(unread, remarks)),
        tradeoff=_parse_tradeoff(unread, take, remarks),
        view=unread.pop("view", ""),
        page=_parse_page(unread.pop(PAGE_PARAM, ""), remarks),
    )
    remarks += [f"the link has {name!r}, which this version does not know: it is left out" for name in unread]
    return Reading(state, tuple(map(_shorten_remark, remarks)))


def fits_corpus(state: State, loaded: Loaded) -> bool:
    """Return True if a link's state is about this corpus, by name or by fingerprint, or about none."""
    if state.source is None or (state.digest and loaded.space.corpus.digest.startswith(state.digest)):
        return True
    return Path(state.source.path).name == Path(loaded.source.path).name


def describe_mismatch(state: State, loaded: Loaded) -> str | None:
    """Describe how the open corpus differs from the one that a link was made on; None if it does not.

    A link carries the beginning of two digests: of the documents, and of their vectors; "" for unknown fits anything.
    """
    vectors_digest, corpus_digest = loaded.space.embeddings.digest, loaded.space.corpus.digest
    has_other_vectors = not vectors_digest.startswith(state.vectors)
    has_other_documents = not corpus_digest.startswith(state.digest)
    if not (has_other_vectors or has_other_documents):
        return None
    difference = "other documents" if has_other_documents else "other vectors of the same documents"
    # The vectors' digest if that differs, as the header displays theirs.
    then, now = (state.vectors, vectors_digest) if has_other_vectors else (state.digest, corpus_digest)
    origin = "" if state.source is None else f"{state.source.path} (encoder {state.source.encoder}), "
    return _shorten_remark(
        f"it was made on {difference}: {origin}fingerprint {then[:8]}; here is {loaded.source.path} "
        f"(encoder {loaded.source.encoder}), fingerprint {now[:8]}. Its settings are applied; the sets can differ"
    )


def describe_votes(state: State, loaded: Loaded) -> str | None:
    """Describe that votes of a link's sender stayed behind; None without any, or if the same ones count here."""
    if not state.votes:
        return None
    try:
        vectors_here = feedback.adapt_corpus(loaded).space.embeddings.digest
    except FrontierError:
        vectors_here = ""  # the header says why
    if state.moved and vectors_here.startswith(state.moved):
        return None
    votes_text = f"{counted(state.votes, 'vote')} of the sender moved the documents it was made on"
    return f"{votes_text}; votes stay with the sender, so relevance and order here can differ"


def apply_state(state: State, loaded: Loaded) -> list[str]:
    """Set the widgets to what a link restores, before they are drawn; return problems, in words."""
    # `select_query` returns None if it succeeds; that is filtered out at the end.
    problems = [query.select_query(loaded, state.way, state.split, state.question)] if state.way else []
    st.session_state[decoders.K_KEY] = state.k
    query.note_link_k(state.k)
    st.session_state[decoders.POOL_KEY] = state.pool
    st.session_state[decoders.PER_SOURCE_KEY] = state.per_source
    st.session_state.pop(decoders.SOURCE_COLUMN_KEY, None)
    if state.per_source is not None:
        if state.source_column in loaded.space.corpus.metadata:
            st.session_state[decoders.SOURCE_COLUMN_KEY] = state.source_column
        else:
            st.session_state[decoders.PER_SOURCE_KEY] = None
            column = visible(str(state.source_column))
            problems.append(f"this corpus has no column {column!r} of sources: any number of one source is returned")
    st.session_state[decoders.OWN_DOCUMENTS_KEY] = state.own_documents
    for decoder in state.decoders:
        decoders.put_decoder(decoder)
    st.session_state[decoders.DECODERS_KEY] = [decoder.select.spec.name for decoder in state.decoders]
    st.session_state.pop(decoders.VIEW_KEY, None)
    tradeoff.set_settings(state.tradeoff)
    # Pages check these settings when they are first drawn, as only they know what they offer.
    st.session_state[UNSEEN_KEY] = dict(state.tradeoff)
    if state.view in VIEW_NAMES:
        st.session_state[decoders.VIEW_KEY] = state.view
    elif state.view:
        names = ", ".join(VIEW_NAMES)
        problems.append(f"no view is called {state.view!r}; there are {names}: {VIEW_NAMES[0]} is shown")
    return list(filter(None, problems))


def reopen_state(params: dict[str, str]) -> None:
    """Apply a saved state, given as a link's parameters, from the next run on; its corpus is opened first."""
    st.session_state[LINK_KEY] = params
    requested = address.parse_source(params)
    # The session's corpus is replaced only by one that this server may open.
    if requested is not None and (source := address.find_source(requested)):
        address.switch_source(source)


def check_setting(key: str, is_available: Callable[[Any], bool], instead: str) -> None:
    """Remove a setting of a link if the page does not offer it; add a remark and draw the page again.

    A page calls this for each such setting when it is drawn; only the first call after a link does anything. key: of
    the setting in the session; is_available: returns True for a value on offer; instead: the replacement in words.
    """
    value = st.session_state.get(UNSEEN_KEY, {}).pop(key, None)
    # A value that the visitor has changed since is not the link's any more.
    if value is None or value != st.session_state.get(key) or is_available(value):
        return
    # The widget then starts at its default in the next run.
    del st.session_state[key]
    remarks = st.session_state.get(REMARKS_KEY) or []
    st.session_state[REMARKS_KEY] = [*remarks, f"{key}: there is no {visible(str(value))!r} here; {instead}"]
    st.rerun()


def was_link_opened() -> bool:
    """Return True if this browser session opened a link or a saved state."""
    return OPENED_KEY in st.session_state or LINK_KEY in st.session_state


def apply_waiting_link(loaded: Loaded) -> None:
    """Apply the link that the session was opened with, once its corpus is open; else draw why it waits."""
    params = st.session_state.get(LINK_KEY)
    if params is not None:
        reading = parse_link(params)
        requested = reading.state.source
        # The corpus is open as its files have it, and the link wants trained embeddings, or some documents left out:
        # loading finds what was trained, or says that it is missing.
        if requested is not None and loaded.source == requested.without_training.with_all_documents != requested:
            address.switch_source(requested)
            st.rerun()
        if fits_corpus(reading.state, loaded):
            # The corpus may have been loaded by hand, with another level of relevance or kind of judgements.
            judged_as = {} if requested is None else address.get_judged_as(requested)
            if requested is not None and judged_as != address.get_judged_as(loaded.source):
                address.switch_source(replace(loaded.source, **judged_as))
                st.rerun()
            del st.session_state[LINK_KEY]
            state_remarks = describe_mismatch(reading.state, loaded), describe_votes(reading.state, loaded)
            remarks = [*state_remarks, *reading.remarks, *apply_state(reading.state, loaded)]
            st.session_state[REMARKS_KEY] = list(filter(None, remarks))
            st.session_state[OPENED_KEY] = opened_state = get_state(loaded)
            if reading.state.page not in ("", opened_state.page):
                st.switch_page(f"{SCREENS.name}/{reading.state.page}.py")
        else:
            _draw_waiting(reading.state)
    _draw_remarks()


def _draw_waiting(state: State) -> None:
    """Draw which corpus a link needs that is not loaded here, how to load it, and a button to forget it."""
    with st.container(gap="small"):
        st.info("This link is about a corpus that is not loaded here.", icon=":material/link:")
        fingerprint = state.vectors or state.digest
        if state.source is not None:
            fingerprint_text = f", fingerprint {fingerprint[:8]}" if fingerprint else ""
            st.text(f"It needs this one{fingerprint_text}, encoder {state.source.encoder}:")
            st.code(state.source.path, language=None)
        refusal = None if state.source is None or state.source.store else roots.explain_refusal(state.source.path)
        st.text(f"{refusal or 'Load it on the Data page, from wherever it lies'}.")
        st.text("The rest of the link is applied when it is there.")
        with st.container(horizontal=True):
            # Below it a page stands, with a primary button of its own.
            if st.button("Open Data", key="link.data"):
                st.switch_page(f"{SCREENS.name}/data.py")
            st.button("Forget the link", key="link.forget", on_click=st.session_state.pop, args=(LINK_KEY, None))


def _draw_remarks() -> None:
    """Draw what of a link could not be applied, until the visitor clicks OK."""
    remarks = st.session_state.get(REMARKS_KEY)
    if not remarks:
        return
    with st.container(gap="small"):
        st.warning("Not all of the link could be taken as it is.", icon=":material/link_off:")
        # Plain text: it quotes what strangers wrote.
        for remark in remarks:
            st.text(f"• {remark}.")
        st.button("OK", key="link.ok", on_click=st.session_state.pop, args=(REMARKS_KEY, None))


def _parse_decoder(
    spec: SelectorSpec, pool: int | None, unread: dict[str, str], take: TakeParam, remarks: list[str]
) -> Decoder:
    """Read one decoder from the address: its selector's parameters, its retriever and its reranker.

    pool: the size of the pool in the address; unread: the address's parameters that nothing has read yet; take: reads
    and removes one of them; remarks: gets what is invalid
    """
    selector = _parse_stage(spec, spec.name, take)
    retriever, reranker = (_parse_scorer(unread, spec, role, take, remarks) for role in (RETRIEVE, RERANK))
    decoder = build_decoder(selector, retriever or first_scorer(), reranker, pool)
    if decoder.retrieve != (retriever or first_scorer()) or decoder.rerank != reranker:
        remarks.append(f"{spec.title} reads the vectors alone: a scorer that it would ignore is left out")
    return decoder


def _parse_stage(spec: Spec, prefix: str, take: TakeParam) -> Any:
    """Read a selector or scorer from the address, by its parameters there; prefix: of their names.

    take: reads one parameter, and adds a remark if it is invalid
    """
    values: dict[str, Any] = {}
    # A parameter's domain may depend on others, which come before it: λ₁ is a penalty or a number of documents.
    # `declaration` has the domain given their values, without the values of parameters that have no effect.
    for param in order_params(spec.params):
        _, declaration = form_of(param, drop_ineffective(spec.params, values))
        values[param.name] = take(f"{prefix}.{param.name}", declaration, f"{spec.title}: ")
    return spec.cls(**values)


def _parse_scorer(unread: dict[str, str], spec: Spec, role: str, take: TakeParam, remarks: list[str]) -> Scorer | None:
    """Read a decoder's retriever or reranker (role) from the address; None if it names no valid one.

    unread: the address's parameters that nothing has read yet; take: reads and removes one of them; remarks: gets what
    is invalid
    """
    prefix, scorers = f"{spec.name}.{role}", list_scorers(role)
    name = unread.pop(prefix, None)
    if name is None:
        return None
    if name not in scorers:
        names = ", ".join(scorers)
        remarks.append(f"{spec.title}: no scorer that can {role} is called {name!r}; there are {names}: it is left out")
        # The parameters of an unknown scorer are dropped with it.
        for param_name in [unread_name for unread_name in unread if unread_name.startswith(f"{prefix}.")]:
            del unread[param_name]
        return None
    scorer: Scorer = _parse_stage(scorers[name], prefix, take)
    return scorer


def _parse_selectors(unread: dict[str, str], remarks: list[str]) -> list[SelectorSpec]:
    """Read the chosen selectors from the address, in the registry's order; its first two if it lacks them.

    unread: the address's parameters that nothing has read yet; remarks: gets the names that do not exist
    """
    selectors, listed = methods("selector"), unread.pop("decoders", None)
    if listed is None:
        return list(selectors.values())[:2]
    names = _parse_names(listed, selectors, remarks)
    return [spec for name, spec in selectors.items() if name in names]


def _parse_names(listed: str, specs: Mapping[str, Spec], remarks: list[str]) -> list[str]:
    """Return the names in a comma-separated list that exist, in the order of `specs`; remark the others.

    specs: what can be listed, by name; all are selectors, or all are scorers
    """
    listed_names = set()
    # UNSET is the text for an empty list.
    for name in listed.split(",") if listed != UNSET else ():
        try:
            spec_name = spec_of(name, next(iter(specs.values())).kind).name
        except ParamError as error:
            remarks.append(f"{error}: it is left out")
            continue
        listed_names.add(spec_name)
        # It may exist and yet not be possible here, such as a scorer that only reranks.
        if spec_name not in specs:
            remarks.append(f"{name!r} is none of {', '.join(specs)}: it is left out")
    return [name for name in specs if name in listed_names]


def _parse_tradeoff(unread: dict[str, str], take: TakeParam, remarks: list[str]) -> dict[str, Any]:
    """Read the Trade-off page's settings from the address: session key → value, unless at the default.

    unread: the address's parameters that nothing has read yet; take: reads and removes one of them; remarks: gets what
    is invalid
    """
    settings: dict[str, Any] = {}
    for key, specs in tradeoff.list_choices().items():
        if key in unread:
            settings[key] = _parse_names(unread.pop(key), specs, remarks)
    for key, param in tradeoff.SETTINGS.items():
        # A setting that the address lacks is at its default, as in the sender's session.
        if (value := take(key, param)) != param.default:
            settings[key] = value
    return settings


def _parse_question(unread: dict[str, str], remarks: list[str]) -> dict[str, str]:
    """Read the query from the address, as fields of a State: "way" (to ask) and "question"; {} for none."""
    questions = [{"way": way, "question": unread.pop(name)} for way, name in QUESTION_PARAMS.items() if name in unread]
    if len(questions) > 1:
        remarks.append(f"the link asks in {len(questions)} ways at once: the first is taken")
    return questions[0] if questions else {}


def _parse_page(page_name: str, remarks: list[str]) -> str:
    """Return the page's name in a link if there is such a page; else add a remark and return ""."""
    if page_name in (page_names := ["", *sorted(path.stem for path in SCREENS.glob("[!_]*.py"))]):
        return page_name
    remarks.append(f"no page is called {page_name!r}; there are {', '.join(page_names[1:])}: this one stays")
    return ""


def _check_hex(digits: str, field_name: str, remarks: list[str]) -> str:
    """Return a link's fingerprint (part of a digest) if it is hexadecimal; else add a remark, return ""."""
    if re.fullmatch(r"[0-9a-f]{0,64}", digits):
        return digits
    remarks.append(f"{field_name} must be hexadecimal digits; got {digits!r}: it is not compared")
    return ""


def _shorten_remark(remark: str) -> str:
    """Make a remark safe to draw: visible characters only, of limited length."""
    return shorten(visible(remark), MAX_REMARK_LENGTH)
