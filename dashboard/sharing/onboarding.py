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

SETTINGS_FILE, SEEN_FIELD = "settings.json", "first_steps_seen"
CLOSED_KEY, STOP_KEY, SCREEN_KEY = "tour.closed", "tour.stop", "tour.go"
"""Session keys: True if it is closed, the stop's number, and the page to open for it."""
TOUR_CSS = """<style>
.st-key-tour {position: fixed; z-index: 99; bottom: 1rem; left: 50%; transform: translateX(-50%); width: max-content;
  max-width: calc(100vw - 2rem); padding: .5rem 1rem; border: 1px solid var(--st-primary-color, #4F46E5);
  border-radius: .75rem; background: light-dark(#fff, #1a1a18); box-shadow: 0 4px 16px rgb(0 0 0 / 18%)}
@media (min-width: 1200px) {
  .st-key-tour {inset: .25rem 1rem auto auto; transform: none; z-index: 999991; padding-block: 0}}
@media (prefers-reduced-motion: no-preference) {.st-key-tour {animation: tour .2s ease-out}}
@keyframes tour {from {opacity: 0; translate: 0 .5rem}}
</style>"""
"""An overlay: nothing moves when the tour begins or ends. On a wide screen it is beside the navigation."""


@dataclass(frozen=True)
class TourStop:
    """Stop of the tour for newcomers: a hint what to do next."""

    act: str  # what to do
    why: str  # what that shows
    screen: str = ""  # page, "" for the open one


TOUR_STOPS = (
    TourStop("Pick a query", "For labelled queries the right answers are known."),
    TourStop("Drag λ", "The results and their figures follow while you drag."),
    TourStop("See it over all queries", "Trade-off measures every decoder at every setting.", "tradeoff"),
    TourStop("Take it with you", "Code has the setting; Card is the verdict in one picture."),
)


def draw_tour() -> None:
    """Draw the tour for newcomers on a demo corpus, unless it was closed or a link opened the page."""
    # The file is read once per session.
    if CLOSED_KEY not in st.session_state:
        st.session_state[CLOSED_KEY] = bool(_read_settings().get(SEEN_FIELD))
    if st.session_state[CLOSED_KEY] or was_link_opened() or address.get_source().path not in corpora.DEMOS:
        return
    st.html(TOUR_CSS)
    _draw_strip()


@st.fragment
def _draw_strip() -> None:
    """Draw the current stop of the tour as a small strip: what to do, and buttons to go on or close it.

    Closing is for this browser session, or for good.
    """
    if st.session_state[CLOSED_KEY]:
        return
    # The page is switched in the run after the click, as a callback cannot.
    if screen := st.session_state.pop(SCREEN_KEY, ""):
        st.switch_page(f"{SCREENS.name}/{screen}.py")
    number = st.session_state.get(STOP_KEY, 0)
    stop, is_last = TOUR_STOPS[number], number + 1 == len(TOUR_STOPS)
    with st.container(key="tour", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{number + 1} of {len(TOUR_STOPS)} · {stop.act}.** {stop.why}", width="content")
        if not is_last:
            st.button(
                "Next",
                key="tour.next",
                type="primary",
                # The click stores the next stop, and the page to open for it.
                on_click=st.session_state.update,
                args=({STOP_KEY: number + 1, SCREEN_KEY: TOUR_STOPS[number + 1].screen},),
            )
        close_label = "Done" if is_last else "Close"
        st.button(close_label, key="tour.close", type="tertiary", on_click=_close_tour)
        st.button("Don't show again", key="tour.never", type="tertiary", on_click=_close_for_good)


def _close_tour() -> None:
    """Close the tour for this browser session; for a callback."""
    st.session_state[CLOSED_KEY] = True


def _close_for_good() -> None:
    """Close the tour for this machine, by noting it in the settings file; for a callback."""
    _close_tour()
    try:
        cache.write(home() / SETTINGS_FILE, json.dumps(_read_settings() | {SEEN_FIELD: True}).encode())
    except FrontierError as error:
        st.toast(f"Closed for this session only. {error}", icon=":material/error:")


def _read_settings() -> dict[str, Any]:
    """Read the stored settings; {} if the file is missing or damaged."""
    try:
        settings = json.loads((home() / SETTINGS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}
