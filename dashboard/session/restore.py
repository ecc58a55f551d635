"""Links and snapshots applied to the session, and made of it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode, urlsplit

import streamlit as st
from streamlit import config

from dashboard.services import roots
from dashboard.services.source import Loaded
from dashboard.session import address, decoders, query, tradeoff
from dashboard.session.address import LINK, VERSION_KEY
from dashboard.session.link import HOME, SCREENS, SHOWN, State, fits, mismatch, read, to_params, too_long
from dashboard.session.view_names import VIEW_NAMES
from engine.decoder import POOL, SET_SIZE
from engine.wording import visible

OPENED, REMARKS, FIRST, UNSEEN = "link.opened", "link.remarks", "link.first", "link.unseen"
"""Session keys: the state of the link opened last, what of it could not be applied, the state at the start, and the
settings of a page that it has not drawn yet."""


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
            st.session_state[OPENED] = current(loaded)
            if reading.state.page not in ("", _open_page()):
                st.switch_page(f"{SCREENS.name}/{reading.state.page}.py")
        else:
            _waiting(reading.state)
    _remarks()


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
    if too_long(params):
        # Else whoever copies the address would send what was shown before.
        address.plain_address()
        return None
    return params


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


def _open_page() -> str:
    """The name of the screen that is drawn."""
    base = (config.get_option("server.baseUrlPath") or "").strip("/")
    last = urlsplit(st.context.url or "").path.removeprefix(f"/{base}").rstrip("/").rpartition("/")[2]
    return last if last and (SCREENS / f"{last}.py").is_file() else HOME


def link_params(loaded: Loaded) -> dict[str, str]:
    """The state of the session as URL parameters."""
    return to_params(current(loaded))
