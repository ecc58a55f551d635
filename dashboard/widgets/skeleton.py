"""Grey boxes in place of what is still being computed, as high as it will be."""

import html
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

T = TypeVar("T")
DRAWN_KEY, OPENED_KEY = "skeleton.drawn", "skeleton.opened"
"""Session keys: the pages that have been drawn once, which come at once from then on; those that had a corpus."""
# Nothing moves for those who asked for that, and boxes that are gone in a moment never appear.
SKELETON_CSS = """<style>
.frontier-skeleton {display: grid; gap: 1rem}
.frontier-skeleton p {margin: 0; opacity: .78; animation: frontier-appear 1ms .2s backwards}
.frontier-skeleton div {display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: 1.25rem}
.frontier-skeleton i {border-radius: .375rem; background: color-mix(in srgb, currentColor 9%, transparent);
  animation: frontier-appear 1ms .2s backwards}
@media (prefers-reduced-motion: no-preference) {
  .frontier-skeleton i {animation: frontier-appear 1ms .2s backwards, frontier-breathe 1.6s ease-in-out .2s infinite}}
@keyframes frontier-appear {from {opacity: 0}}
@keyframes frontier-breathe {50% {opacity: .45}}
@media (max-width: 640px) {.frontier-skeleton i:not(:first-child) {display: none}}
"""
Rows = Sequence[tuple[int, int]]
"""For each row of boxes their number and their height in pixels."""
EXPLORE_ROWS: Rows = ((1, 30), (3, 120), (1, 40), (2, 330))
"""Explore's headline, tiles, bar of views, and lists."""
TRADEOFF_ROWS: Rows = ((1, 60), (1, 40), (2, 450))
"""Trade-off's verdict, its buttons, and the chart beside the choices."""
THEORY_ROWS: Rows = ((2, 40), (1, 44), (2, 420))
"""Theory's choices of a view, its caption, and two columns."""


def open_ghost(key: str, drawing: str, height_px: int) -> DeltaGenerator:
    """Return a container over the pale outline of a chart that is not there yet, for what brings it.

    key: of the container; drawing: address of the outline; height_px: that of what will stand here
    """
    inner = f".st-key-{key}-card"
    st.html(
        f"""<style>.st-key-{key} {{min-height: {height_px}px; justify-content: center; align-items: center;
  background: url("{drawing}") center / 100% 100% no-repeat}}
{inner} {{width: fit-content !important; margin-inline: auto;
  max-width: min(34rem, 92%); padding: 1.25rem 1.5rem; border-radius: .75rem;
  background: var(--st-background-color, Canvas); box-shadow: 0 0 1.5rem 1rem var(--st-background-color, Canvas)}}
{inner} [data-testid=stText] {{white-space: normal}}</style>"""
    )
    with st.container(key=key):
        return st.container(key=f"{key}-card")


def format_skeleton(rows: Rows, css: str = "", text: str = "") -> str:
    """Return the HTML of rows of grey boxes; css: rules that hold while they are there; text: above them."""
    boxes = "".join(f"<div>{n_boxes * f'<i style=height:{height}px></i>'}</div>" for n_boxes, height in rows)
    line = f"<p>{html.escape(text)}</p>" if text else ""
    return f'{SKELETON_CSS}{css}</style><div class="frontier-skeleton" aria-hidden="true">{line}{boxes}</div>'


def draw_boxes(rows: Rows) -> None:
    """Draw grey boxes, here and now."""
    st.html(format_skeleton(rows))


def draw_until(
    compute: Callable[[], T],
    rows: Rows,
    draw: Callable[[T], object] = lambda _: None,
    *,
    text: str = "",
    is_known: bool = False,
) -> None:
    """Compute a value and draw it; until then draw grey boxes, which replace what stood there before.

    draw: draws the value; text: says what is being computed; is_known: True if it takes no time to compute, so that
    nothing needs to stand in for it
    """
    slot = st.empty()
    # Boxes that came and went at once would make what is there blink.
    if is_known:
        value = compute()
    else:
        slot.html(format_skeleton(rows, text=text))
        try:
            value = compute()
        finally:
            slot.empty()
    with slot.container():
        draw(value)


def draw_opening(slot: DeltaGenerator, page_name: str, rows: Rows, text: str) -> None:
    """Draw grey boxes in a page's place until the session has had a corpus there, which `end_opening` says.

    text: says what is going on
    """
    if page_name not in st.session_state.get(OPENED_KEY, ()):
        slot.html(format_skeleton(rows, text=text))


def end_opening(page_name: str) -> None:
    """Note that a page has a corpus: from now on its parts have boxes of their own."""
    st.session_state.setdefault(OPENED_KEY, set()).add(page_name)


def draw_first(container: str, rows: Rows, until: str, text: str = "") -> Any:
    """Draw grey boxes in the session's first run of a page; return their place, to be emptied at the page's end.

    container: key of the container that they stand for; until: selector of the part of it that takes long, before
    which the rest is hidden; text: says what is being computed. Later runs draw none: a page that is there must not
    blink.
    """
    slot, drawn_pages = st.empty(), st.session_state.setdefault(DRAWN_KEY, set())
    if container not in drawn_pages:
        drawn_pages.add(container)
        hidden = f".stMain:has({until}) .frontier-skeleton, .stMain:not(:has({until})) .st-key-{container}"
        slot.html(format_skeleton(rows, f"{hidden} {{display: none}}", text))
    return slot
