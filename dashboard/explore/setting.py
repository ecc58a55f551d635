"""The decoders that Explore shows, for other screens: what they are set to, and how to set them."""

from __future__ import annotations

import streamlit as st

from dashboard.controls import put, stage_of
from engine.decoder import Decoder
from engine.stages import Selector, methods

PREFIX = "explore"
"""Before the keys of the parameters' widgets."""
DECODERS, POOL_KEY, K_KEY, VIEW = "decoders", "pool", "k", "view"
SCREEN = "screens/explore.py"
FIRST_VIEW = "Ranked diff"
"""What is shown of the sets before a person chooses."""


def chosen() -> list[str]:
    """The names of the decoders chosen, in the registry's order; before a person chose, the first two."""
    names = list(methods("selector"))
    picked = st.session_state.get(DECODERS, names[:2])
    return [name for name in names if name in picked]


def stages() -> dict[str, Selector]:
    """The chosen decoders as they are set."""
    known = methods("selector")
    return {name: stage_of(known[name], PREFIX) for name in chosen()}


def apply(decoder: Decoder, k: int | None = None) -> None:
    """Set Explore to a decoder, beside those chosen already, and to k.

    Called from an on_click: a widget that is drawn cannot be set.
    """
    put(decoder.select, PREFIX)
    name = decoder.select.spec.name
    st.session_state[DECODERS] = list(dict.fromkeys([*chosen(), name]))
    st.session_state[POOL_KEY] = decoder.depth
    if k is not None:
        st.session_state[K_KEY] = k


def show() -> None:
    """Go to Explore."""
    st.switch_page(SCREEN)
