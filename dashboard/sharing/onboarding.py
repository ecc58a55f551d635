"""The tour: four stops on the demo in a small strip, until a person closes it."""

import json
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.services import corpora
from dashboard.session import address
from dashboard.session.link import SCREENS
from dashboard.session.restore import was_link_opened
from engine.data import cache
from engine.errors import FrontierError
from engine.paths import home

FILE, NAME = "settings.json", "first_steps_seen"
CLOSED, STOP, GO = "tour.closed", "tour.stop", "tour.go"
"""Session keys: whether it is closed, the stop's number, and the screen to open for it."""
STYLE = """<style>
.st-key-tour {position: fixed; z-index: 99; bottom: 1rem; left: 50%; transform: translateX(-50%); width: max-content;
  max-width: calc(100vw - 2rem); padding: .5rem 1rem; border: 1px solid var(--st-primary-color, #4F46E5);
  border-radius: .75rem; background: light-dark(#fff, #1a1a18); box-shadow: 0 4px 16px rgb(0 0 0 / 18%)}
@media (min-width: 1200px) {
  .st-key-tour {inset: .25rem 1rem auto auto; transform: none; z-index: 999991; padding-block: 0}}
@media (prefers-reduced-motion: no-preference) {.st-key-tour {animation: tour .2s ease-out}}
@keyframes tour {from {opacity: 0; translate: 0 .5rem}}
</style>"""
"""Above the page and no part of it: nothing moves when the tour begins or ends. Beside the navigation where there is
room, as nothing else lies there."""


@dataclass(frozen=True)
class TourStop:
    """A stop of the tour."""

    act: str  # what to do
    why: str  # what that shows
    screen: str = ""  # where, "" for the page that is open


STOPS = (
    TourStop("Pick a query", "Test queries know which documents are relevant."),
    TourStop("Drag λ", "The results and their figures follow while you drag."),
    TourStop("See it over all queries", "Trade-off measures every decoder at every setting.", "tradeoff"),
    TourStop("Take it with you", "Code has the setting; Card is the verdict in one picture."),
)


def show() -> None:
    """Draw the tour on a demo, unless this session closed it, somebody did for good, or a link opened the page."""
    if CLOSED not in st.session_state:
        st.session_state[CLOSED] = bool(_settings().get(NAME))
    if st.session_state[CLOSED] or was_link_opened() or address.get_source().path not in corpora.DEMOS:
        return
    st.html(STYLE)
    _strip()


@st.fragment
def _strip() -> None:
    if st.session_state[CLOSED]:
        return
    if screen := st.session_state.pop(GO, ""):
        st.switch_page(f"{SCREENS.name}/{screen}.py")
    number = st.session_state.get(STOP, 0)
    stop, last = STOPS[number], number + 1 == len(STOPS)
    with st.container(key="tour", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{number + 1} of {len(STOPS)} · {stop.act}.** {stop.why}", width="content")
        if not last:
            st.button(
                "Next",
                key="tour.next",
                type="primary",
                on_click=st.session_state.update,
                args=({STOP: number + 1, GO: STOPS[number + 1].screen},),
            )
        done = "Done" if last else "Close"
        st.button(done, key="tour.close", type="tertiary", on_click=_close)
        st.button("Don't show again", key="tour.never", type="tertiary", on_click=_never)


def _close() -> None:
    st.session_state[CLOSED] = True


def _never() -> None:
    _close()
    try:
        cache.write(home() / FILE, json.dumps(_settings() | {NAME: True}).encode())
    except FrontierError as error:
        st.toast(f"Closed for this session only. {error}", icon=":material/error:")


def _settings() -> dict[str, Any]:
    """The stored settings; none where there is no such file or it is damaged."""
    try:
        settings = json.loads((home() / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}
