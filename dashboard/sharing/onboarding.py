"""The tour: four stops on the demo, each a dot at its control, until a person closes it."""

import json
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.services import corpora
from dashboard.session import address
from dashboard.session.restore import was_link_opened
from engine.data import cache
from engine.errors import FrontierError
from engine.paths import home

SETTINGS_FILE, SEEN_FIELD = "settings.json", "first_steps_seen"
CLOSED_KEY, STOP_KEY = "tour.closed", "tour.stop"
"""Session keys: True if it is closed, and the stop's number."""
TOUR_CSS = """<style>
ANCHOR {anchor-name: --tour}
.st-key-tour {position: fixed; z-index: 999991; bottom: .75rem; right: .75rem; width: max-content}
@supports (position-anchor: --tour) {
  .st-key-tour {position-anchor: --tour; inset: auto; PLACE; translate: -.75rem -.75rem;
    position-visibility: anchors-visible}}
.st-key-tour [data-testid=stPopover] button {width: 1.5rem; min-width: 0; min-height: 1.5rem; padding: 0; border: 0;
  background: none; overflow: hidden; position: relative}
.st-key-tour [data-testid=stPopover] button > * {position: absolute; opacity: 0; pointer-events: none}
.st-key-tour [data-testid=stPopover] button::before {content: ""; width: .75rem; height: .75rem; border-radius: 50%;
  background: var(--st-primary-color, #4F46E5); box-shadow: 0 0 0 2px light-dark(#fff, #0e1117)}
.st-key-tour [data-testid=stPopover] button:is(:hover, :focus-visible)::before {width: 1rem; height: 1rem}
@media (prefers-reduced-motion: no-preference) {
  .st-key-tour [data-testid=stPopover] button::before {animation: tour 1.2s ease-out 3}}
@keyframes tour {from {box-shadow: 0 0 0 0 var(--st-primary-color, #4F46E5)} to {box-shadow: 0 0 0 .75rem transparent}}
</style>"""
"""A dot at the control of the stop, over nothing else; where a browser cannot anchor it, in the corner."""


@dataclass(frozen=True)
class TourStop:
    """Stop of the tour for newcomers: a hint what to do next."""

    act: str  # what to do
    why: str  # what that shows
    control: str  # selector of what it is about
    position: str = "left: anchor(left); top: anchor(top)"  # of the dot's middle at the control, in CSS


SLIDER_PLACE = "left: anchor(41%); top: calc(anchor(bottom) - 1.75rem)"
"""Beginning of the second tile's slider, in a component that draws the tiles out of CSS's reach."""
TOUR_STOPS = (
    TourStop("Pick a query", "For labelled queries the right answers are known.", ".st-key-header-kind"),
    TourStop("Drag λ", "The results and their figures follow while you drag.", ".st-key-explore-tiles", SLIDER_PLACE),
    TourStop("See it over all queries", "Trade-off measures every decoder at every setting.", "[href$=tradeoff]"),
    TourStop("Take it with you", "Code has the setting; Card is the verdict in one picture.", ".st-key-header-share"),
)


def draw_tour() -> None:
    """Draw the tour for newcomers on a demo corpus, unless it was closed or a link opened the page."""
    # The file is read once per session.
    if CLOSED_KEY not in st.session_state:
        st.session_state[CLOSED_KEY] = bool(_read_settings().get(SEEN_FIELD))
    if st.session_state[CLOSED_KEY] or was_link_opened() or address.get_source().path not in corpora.DEMOS:
        return
    _draw_dot()


@st.fragment
def _draw_dot() -> None:
    """Draw the current stop of the tour as a dot; opened, it says what to do and has buttons to go on or close it.

    Closing is for this browser session, or for good.
    """
    if st.session_state[CLOSED_KEY]:
        return
    number = st.session_state.get(STOP_KEY, 0)
    stop, is_last = TOUR_STOPS[number], number + 1 == len(TOUR_STOPS)
    st.html(TOUR_CSS.replace("ANCHOR", stop.control).replace("PLACE", stop.position))
    # One label for all stops: Streamlit closes a popover whose label changes.
    with st.container(key="tour"), st.popover("Tour", key="tour.dot"):
        st.markdown(f"**{number + 1} of {len(TOUR_STOPS)} · {stop.act}.** {stop.why}", width="content")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if not is_last:
                st.button(
                    "Next",
                    key="tour.next",
                    type="primary",
                    on_click=st.session_state.update,
                    args=({STOP_KEY: number + 1},),
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
