"""A wall of small heat maps, one for each matrix: any number in one component, each can be clicked."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import streamlit as st

NAME = "frontier_thumbnails"
FILE = Path(__file__)
NOTHING = 255
"""The byte of a cell that stays empty."""


def wall(
    matrices: np.ndarray,
    titles: Sequence[str],
    notes: Sequence[str],
    key: str,
    on_click: Callable[[int], None],
    *,
    label: str,
) -> None:
    """Draw (n, k, k) numbers from 0 to 1, nothing where NaN.

    titles: at the mouse and for screen readers; notes: below; on_click: called with a matrix's position before the page
    is drawn again; label: of all, for screen readers.
    """
    from plotly.colors import sample_colorscale, unlabel_rgb

    # Those of the heat maps, three bytes each, from that of 0 to that of 1.
    shades = sample_colorscale("Cividis", np.linspace(0, 1, NOTHING).tolist())
    colours = np.array([unlabel_rgb(shade) for shade in shades]).round().astype(np.uint8)
    values = np.where(np.isnan(matrices), NOTHING, np.nan_to_num(matrices).clip(0, 1) * (NOTHING - 1)).astype(np.uint8)
    data = {
        "values": base64.b64encode(values.tobytes()).decode(),
        "colours": base64.b64encode(colours.tobytes()).decode(),
        "size": values.shape[1],
        "titles": list(titles),
        "notes": list(notes),
        "label": label,
    }
    data["version"] = hashlib.sha256(repr(data).encode()).hexdigest()[:16]

    def clicked() -> None:
        position = st.session_state[key].get("clicked")
        # A browser may still show the wall before.
        if isinstance(position, int) and 0 <= position < len(titles):
            on_click(position)

    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    component = st.components.v2.component(
        NAME,
        html='<div class="frontier-wall" role="group"></div>',
        css=FILE.with_suffix(".css").read_text(encoding="utf-8"),
        js=FILE.with_suffix(".js").read_text(encoding="utf-8"),
    )
    component(key=key, data=data, on_clicked_change=clicked)
