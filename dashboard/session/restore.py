"""Links and snapshots read, and applied to the session."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.services import roots
from dashboard.services.source import Loaded
from dashboard.session import address, decoders, query, tradeoff
from dashboard.session.address import LINK, VERSION_KEY
from dashboard.session.decoders import RERANK, RETRIEVE, first_scorer, offered
from dashboard.session.link import PAGE, QUESTIONS, SCHEMA, SCREENS, State, current
from dashboard.session.parameters import in_order
from dashboard.session.view_names import VIEW_NAMES
from engine.decoder import POOL, SET_SIZE, Decoder
from engine.errors import FrontierError, ParamError
from engine.params import UNSET, Param, drop_ineffective, form_of
from engine.progress import shorten
from engine.stages import Scorer, SelectorSpec, Spec, methods, spec_of
from engine.wording import visible

LONGEST_REMARK = 400
OPENED, REMARKS, UNSEEN = "link.opened", "link.remarks", "link.unseen"
"""Session keys: the state of the link opened last, what of it could not be applied, and the settings of a page that it
has not drawn yet."""


@dataclass(frozen=True)
class Reading:
    """A state read from an address; remarks: what could not be taken, with the fix, as plain text."""

    state: State
    remarks: tuple[str, ...] = ()


def read(params: Mapping[str, str]) -> Reading:
    """The state that an address means; what it says wrongly is remarked and left at its default."""
    unread, remarks = dict(params), []

    def take(name: str, param: Param, owner: str = "") -> Any:
        text = unread.pop(name, None)
        if text is None:
            return param.default
        try:
            return param.parse(text)
        except FrontierError as error:
            remarks.append(f"{owner}{error}: {param.text(param.default)} is taken")
            return param.default

    version = take(VERSION_KEY, SCHEMA)
    if version > SCHEMA.default:
        remarks.append(
            f"the link is of version {version}, written by a newer Frontier than this one, which reads "
            f"{SCHEMA.default}: what it does not know is left out; update Frontier to see all of it"
        )
    source = address.source_of(unread)
    for name in ("corpus", *address.COLUMNS, address.METADATA, address.WHERE, *address.FIELDS):
        unread.pop(name, None)
    shown = State(
        source=source,
        **{name: _hex(unread.pop(name, ""), name, remarks) for name in ("digest", "vectors")},
        **_question(unread, remarks),
        split=unread.pop("split", None),
        k=take("k", SET_SIZE),
        pool=take("pool", POOL),
        decoders=tuple(_decoder(spec, unread, take, remarks) for spec in _chosen(unread, remarks)),
        tradeoff=_tradeoff(unread, take, remarks),
        view=unread.pop("view", ""),
        page=_page(unread.pop(PAGE, ""), remarks),
    )
    remarks += [f"the link has {name!r}, which this version does not know: it is left out" for name in unread]
    return Reading(shown, tuple(_short(remark) for remark in remarks))


def fits(shown: State, loaded: Loaded) -> bool:
    """Return True if the state names no corpus, or one whose name or fingerprint matches."""
    if shown.source is None or (shown.digest and loaded.space.corpus.digest.startswith(shown.digest)):
        return True
    return Path(shown.source.path).name == Path(loaded.source.path).name


def mismatch(shown: State, loaded: Loaded) -> str | None:
    """The difference between the corpus and the one a state was made on; None without one."""
    pairs = ((shown.vectors, loaded.space.embeddings.digest), (shown.digest, loaded.space.corpus.digest))
    differs = [not now.startswith(then) for then, now in pairs]
    if not any(differs):
        return None
    difference = "other documents" if differs[1] else "other vectors of the same documents"
    then, now = pairs[differs.index(True)]  # the vectors' first: theirs is the fingerprint that the header shows
    origin = "" if shown.source is None else f"{shown.source.path} (encoder {shown.source.encoder}), "
    return _short(
        f"it was made on {difference}: {origin}fingerprint {then[:8]}; here is {loaded.source.path} "
        f"(encoder {loaded.source.encoder}), fingerprint {now[:8]}. Its settings are applied; the sets can differ"
    )


def apply(shown: State, loaded: Loaded) -> list[str]:
    """Set the controls to a state, before they are drawn; returns what could not be set, with the fix."""
    problems = [query.select(loaded, shown.way, shown.split, shown.question)] if shown.way else []
    st.session_state[decoders.K_KEY] = shown.k
    st.session_state[decoders.POOL_KEY] = shown.pool
    for decoder in shown.decoders:
        decoders.put_decoder(decoder)
    st.session_state[decoders.DECODERS] = [decoder.select.spec.name for decoder in shown.decoders]
    st.session_state.pop(decoders.VIEW, None)
    tradeoff.put(shown.tradeoff)
    st.session_state[UNSEEN] = dict(shown.tradeoff)
    if shown.view in VIEW_NAMES:
        st.session_state[decoders.VIEW] = shown.view
    elif shown.view:
        names = ", ".join(VIEW_NAMES)
        problems.append(f"no view is called {shown.view!r}; there are {names}: {VIEW_NAMES[0]} is shown")
    return list(filter(None, problems))


def reopen(params: dict[str, str]) -> None:
    """Apply a saved state from the next run on, its corpus first."""
    st.session_state[LINK] = params
    requested = address.source_of(params)
    if requested is not None and (source := address.available(requested)):
        address.use(source)


def check(key: str, is_there: Callable[[Any], bool], instead: str) -> None:
    """Give up what a link set where the page does not have it, and say so, before its control is drawn.

    instead: what is taken, in words.
    """
    value = st.session_state.get(UNSEEN, {}).pop(key, None)
    if value is None or value != st.session_state.get(key) or is_there(value):
        return
    del st.session_state[key]
    said = st.session_state.get(REMARKS) or []
    st.session_state[REMARKS] = [*said, f"{key}: there is no {visible(str(value))!r} here; {instead}"]
    st.rerun()


def was_sent() -> bool:
    """Whether this session opened a link or a saved state."""
    return OPENED in st.session_state or LINK in st.session_state


def arrive(loaded: Loaded) -> None:
    """Before any control is drawn, apply a link that waits for this corpus; say what it waits for, or what failed."""
    params = st.session_state.get(LINK)
    if params is not None:
        reading = read(params)
        requested = reading.state.source
        if requested is not None and requested.trained and requested != loaded.source == requested.plain:
            # The corpus is loaded; loading its trained embeddings finds them or says that they are missing.
            address.use(requested)
            st.rerun()
        if fits(reading.state, loaded):
            del st.session_state[LINK]
            said = [mismatch(reading.state, loaded), *reading.remarks, *apply(reading.state, loaded)]
            st.session_state[REMARKS] = list(filter(None, said))
            st.session_state[OPENED] = opened = current(loaded)
            if reading.state.page not in ("", opened.page):
                st.switch_page(f"{SCREENS.name}/{reading.state.page}.py")
        else:
            _waiting(reading.state)
    _remarks()


def _waiting(shown: State) -> None:
    with st.container(gap="small"):
        st.info("This link is about a corpus that is not loaded here.", icon=":material/link:")
        fingerprint = shown.vectors or shown.digest
        if shown.source is not None:
            named = f", fingerprint {fingerprint[:8]}" if fingerprint else ""
            st.text(f"It needs this one{named}, encoder {shown.source.encoder}:")
            st.code(shown.source.path, language=None)
        refusal = None if shown.source is None or shown.source.store else roots.refusal_of(shown.source.path)
        st.text(f"{refusal or 'Load it on the Data page, from wherever it lies'}.")
        st.text("The rest of the link is applied when it is there.")
        with st.container(horizontal=True):
            if st.button("Open Data", key="link.data", type="primary"):
                st.switch_page(f"{SCREENS.name}/data.py")
            st.button("Forget the link", key="link.forget", on_click=st.session_state.pop, args=(LINK, None))


def _remarks() -> None:
    remarks = st.session_state.get(REMARKS)
    if not remarks:
        return
    with st.container(gap="small"):
        st.warning("Not all of the link could be taken as it is.", icon=":material/link_off:")
        # Plain text: it quotes what strangers wrote.
        for remark in remarks:
            st.text(f"• {remark}.")
        st.button("OK", key="link.ok", on_click=st.session_state.pop, args=(REMARKS, None))


def _decoder(spec: SelectorSpec, unread: dict[str, str], take: Callable[..., Any], remarks: list[str]) -> Decoder:
    select = _stage(spec, spec.name, take)
    retrieve, rerank = (_scorer(unread, spec, role, take, remarks) for role in (RETRIEVE, RERANK))
    return Decoder(select, retrieve or first_scorer(), rerank)


def _stage(spec: Spec, prefix: str, take: Callable[..., Any]) -> Any:
    values: dict[str, Any] = {}
    for param in in_order(spec.params):
        form = form_of(param, drop_ineffective(spec.params, values))[1]
        values[param.name] = take(f"{prefix}.{param.name}", form, f"{spec.title}: ")
    return spec.cls(**values)


def _scorer(
    unread: dict[str, str], spec: Spec, role: str, take: Callable[..., Any], remarks: list[str]
) -> Scorer | None:
    """The scorer that a decoder has for a role, None where the address names none that there is."""
    prefix, known = f"{spec.name}.{role}", offered(role)
    name = unread.pop(prefix, None)
    if name is None:
        return None
    if name not in known:
        names = ", ".join(known)
        remarks.append(f"{spec.title}: no scorer that can {role} is called {name!r}; there are {names}: it is left out")
        # Whatever it says of that scorer goes with it.
        for other in [n for n in unread if n.startswith(f"{prefix}.")]:
            del unread[other]
        return None
    scorer: Scorer = _stage(known[name], prefix, take)
    return scorer


def _chosen(unread: dict[str, str], remarks: list[str]) -> list[SelectorSpec]:
    known, text = methods("selector"), unread.pop("decoders", None)
    if text is None:
        return list(known.values())[:2]
    names = _names(text, known, remarks)
    return [spec for name, spec in known.items() if name in names]


def _names(text: str, known: Mapping[str, Spec], remarks: list[str]) -> list[str]:
    """The names in a list of those that are known, in their order."""
    names = set()
    for name in text.split(",") if text != UNSET else ():
        try:
            names.add(found := spec_of(name, next(iter(known.values())).kind).name)
        except ParamError as error:
            remarks.append(f"{error}: it is left out")
        else:
            remarks += [] if found in known else [f"{name!r} is none of {', '.join(known)}: it is left out"]
    return [name for name in known if name in names]


def _tradeoff(unread: dict[str, str], take: Callable[..., Any], remarks: list[str]) -> dict[str, Any]:
    """The settings of Trade-off that an address has."""
    lists = {key: known for key, known in tradeoff.several().items() if key in unread}
    found: dict[str, Any] = {key: _names(unread.pop(key), known, remarks) for key, known in lists.items()}
    values = {key: take(key, param) for key, param in tradeoff.PARAMS.items() if key in unread}
    return found | {key: value for key, value in values.items() if value != tradeoff.PARAMS[key].default}


def _question(unread: dict[str, str], remarks: list[str]) -> dict[str, str]:
    """The fields of a State that say what is asked."""
    questions = [{"way": way, "question": unread.pop(name)} for way, name in QUESTIONS.items() if name in unread]
    if len(questions) > 1:
        remarks.append(f"the link asks in {len(questions)} ways at once: the first is taken")
    return questions[0] if questions else {}


def _page(name: str, remarks: list[str]) -> str:
    if name in (known := ["", *sorted(p.stem for p in SCREENS.glob("[!_]*.py"))]):
        return name
    remarks.append(f"no page is called {name!r}; there are {', '.join(known[1:])}: this one stays")
    return ""


def _hex(text: str, name: str, remarks: list[str]) -> str:
    if re.fullmatch(r"[0-9a-f]{0,64}", text):
        return text
    remarks.append(f"{name} must be hexadecimal digits; got {text!r}: it is not compared")
    return ""


def _short(text: str) -> str:
    return shorten(visible(text), LONGEST_REMARK)
