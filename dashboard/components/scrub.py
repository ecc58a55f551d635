"""The scrubbing views: tiles with sliders, and ranked lists that follow while something is dragged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from dashboard.components import vendor

COMMITTED, STEPPED, OPENED, VOTED = "committed", "stepped", "opened", "voted"
"""What the views report: settings that were let go, a step to another query, a document, a vote."""


def tiles(key: str, data: dict[str, Any], committed: Callable[[Any], None], stepped: Callable[[int], None]) -> None:
    """Draw a tile a decoder.

    committed: takes what sliders were set to
    stepped: takes 1 or −1, to the next query or the one before, and 0 for the check-up of all of them
    """
    _draw("tiles", key, data, {COMMITTED: committed, STEPPED: stepped})


def lists(key: str, data: dict[str, Any], opened: Callable[[Any], None], voted: Callable[[Any], None]) -> None:
    """Draw the ranked lists of the tiles' decoders. opened, voted: take what was clicked."""
    _draw("lists", key, data, {OPENED: opened, VOTED: voted})


def along(key: str, data: dict[str, Any], opened: Callable[[Any], None]) -> None:
    """Draw one ranked list, which follows the dot of a chart along its curve. opened: takes the document clicked."""
    _draw("along", key, data, {OPENED: opened})


def _draw(name: str, key: str, data: dict[str, Any], heard: dict[str, Callable[[Any], None]]) -> None:
    def tell(event: str) -> Callable[[], None]:
        def told() -> None:
            value = st.session_state[key].get(event)
            if value is not None:
                heard[event](value)

        return told

    vendor.view(name, key, data, {event: tell(event) for event in heard})
