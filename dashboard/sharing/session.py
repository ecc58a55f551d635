"""A link or a snapshot becomes what the session shows, and the other way round."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

import streamlit as st

from dashboard import state
from dashboard.explore import question, setting
from dashboard.sharing.link import HOME, SCREENS, SHOWN, State, fits, mismatch, read, to_params, too_long
from dashboard.state import LINK, VERSION_KEY, Loaded
from engine.decoder import POOL, SET_SIZE

OPENED, REMARKS, FIRST = "link.opened", "link.remarks", "link.first"
"""Where a session keeps the state of the link opened last, what of it could not be taken, and what it began with."""


def current(loaded: Loaded) -> State:
    """What the session shows, on whatever page."""
    way, split, asked = question.standing(loaded)
    known = st.session_state
    return State(
        source=loaded.source,
        digest=loaded.space.corpus.digest[:SHOWN],
        vectors=loaded.origin.space.embeddings.digest[:SHOWN],
        way=way,
        split=split,
        asked=asked,
        k=known.get(setting.K_KEY, SET_SIZE.default),
        pool=known.get(setting.POOL_KEY, POOL.default),
        decoders=tuple(replace(decoder, depth=None) for decoder in setting.decoders().values()),
        view=known.get(setting.VIEW) or "",
        page=_here(),
    )


def apply(shown: State, loaded: Loaded) -> list[str]:
    """Set the controls to a state, before they are drawn; returns what could not be set, with the fix."""
    # It draws with what others need not load.
    from dashboard.explore.compare import VIEWS

    told = [question.pose(loaded, shown.way, shown.split, shown.asked)] if shown.way else []
    st.session_state[setting.K_KEY] = shown.k
    st.session_state[setting.POOL_KEY] = shown.pool
    for decoder in shown.decoders:
        setting.put_decoder(decoder)
    st.session_state[setting.DECODERS] = [decoder.select.spec.name for decoder in shown.decoders]
    if shown.view in VIEWS:
        st.session_state[setting.VIEW] = shown.view
    else:
        st.session_state.pop(setting.VIEW, None)
        if shown.view:
            told.append(f"no view is called {shown.view!r}; there are {', '.join(VIEWS)}: {next(iter(VIEWS))} is shown")
    return [why for why in told if why]


def reopen(params: dict[str, str]) -> None:
    """Apply a saved state from the next run on, its corpus first."""
    st.session_state[LINK] = params
    wanted = state.named(params)
    if wanted is not None and (there := state.available(wanted)):
        state.use(there)


def was_sent() -> bool:
    """Whether this session came by a link, or opened a saved state."""
    return OPENED in st.session_state or LINK in st.session_state


def arrive(loaded: Loaded) -> None:
    """Apply a link that waits for this corpus, or say which it waits for; then what of it could not be taken.

    Before any control is drawn.
    """
    params = st.session_state.get(LINK)
    if params is not None:
        reading = read(params)
        wanted = reading.state.source
        if wanted is not None and wanted.trained and wanted != loaded.source == wanted.plain:
            # The corpus is there by now: what was trained for it is found, or said to be missing, by loading it.
            state.use(wanted)
            st.rerun()
        if fits(reading.state, loaded):
            del st.session_state[LINK]
            differs = mismatch(reading.state, loaded)
            told = [*([differs] if differs else []), *reading.remarks, *apply(reading.state, loaded)]
            st.session_state[REMARKS] = told
            st.session_state[OPENED] = current(loaded)
            if reading.state.page not in ("", _here()):
                st.switch_page(f"{SCREENS.name}/{reading.state.page}.py")
        else:
            _waiting(reading.state)
    _remarks()


def follow(loaded: Loaded) -> None:
    """Have the address say what is shown, so that a reload comes back to it; not before anybody changed anything.

    A link that still waits for its corpus stays where it is.
    """
    if LINK in st.session_state:
        return
    shown = current(loaded)
    # The page stands in the address's path, and other pages know of no view.
    shown = replace(shown, page="", view="" if shown.view == setting.FIRST_VIEW else shown.view)
    first = st.session_state.setdefault(FIRST, shown)
    if shown == first and VERSION_KEY not in st.query_params:
        return
    wanted = to_params(shown)
    if too_long(wanted):
        # Whoever copies the address would send what was shown before.
        state.plain_address()
    elif st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def _waiting(shown: State) -> None:
    with st.container(gap="small"):
        st.info("This link is about a corpus that is not loaded here.", icon=":material/link:")
        print_ = shown.vectors or shown.digest
        st.text(f"It needs this one{f', fingerprint {print_[:8]}' if print_ else ''}, encoder {shown.source.encoder}:")
        st.code(shown.source.path, language=None)
        st.text("Load it on the Data page, from wherever it lies; the rest of the link is applied when it is there.")
        with st.container(horizontal=True):
            if st.button("Open Data", key="link.data", type="primary"):
                st.switch_page(f"{SCREENS.name}/data.py")
            st.button("Forget the link", key="link.forget", on_click=_forget)


def _forget() -> None:
    st.session_state.pop(LINK, None)


def _remarks() -> None:
    remarks = st.session_state.get(REMARKS)
    if not remarks:
        return
    with st.container(gap="small"):
        st.warning("Not all of the link could be taken as it is.", icon=":material/link_off:")
        # Plain text: it quotes what strangers wrote.
        for remark in remarks:
            st.text(f"• {remark}.")
        st.button("OK", key="link.ok", on_click=_seen)


def _seen() -> None:
    st.session_state.pop(REMARKS, None)


def _here() -> str:
    """The screen that is drawn."""
    last = urlsplit(st.context.url or "").path.rstrip("/").rpartition("/")[2]
    return last if last and (SCREENS / f"{last}.py").is_file() else HOME


def link_params(loaded: Loaded) -> dict[str, str]:
    """What the session shows, as an address says it."""
    return to_params(current(loaded))
