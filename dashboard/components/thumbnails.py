"""A wall of small heat maps, one for each matrix: any number in one component, all of them clickable."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import streamlit as st

COMPONENT_NAME = "frontier_thumbnails"
MODULE_FILE = Path(__file__)
EMPTY_CELL = 255
"""Byte of a cell that stays empty."""


def draw_wall(
    matrices: np.ndarray,
    titles: Sequence[str],
    notes: Sequence[str],
    key: str,
    on_click: Callable[[int], None],
    *,
    label: str,
) -> None:
    """Draw square matrices of numbers from 0 to 1 as small pictures, (n, k, k); cells of NaN stay empty.

    titles: at the mouse and for screen readers; notes: below; on_click: called with a matrix's position before the page
    is drawn again; label: of all, for screen readers.
    """
    from plotly.colors import sample_colorscale, unlabel_rgb

    # A cell is one byte: 0 to 254 is its place in a table of as many colours, three bytes each; EMPTY_CELL is no value.
    shades = sample_colorscale("Cividis", np.linspace(0, 1, EMPTY_CELL).tolist())
    colours = np.array([unlabel_rgb(shade) for shade in shades]).round().astype(np.uint8)
    scaled = np.nan_to_num(matrices).clip(0, 1) * (EMPTY_CELL - 1)
    values = np.where(np.isnan(matrices), EMPTY_CELL, scaled).astype(np.uint8)
    data = {
        "values": base64.b64encode(values.tobytes()).decode(),
        "colours": base64.b64encode(colours.tobytes()).decode(),
        "size": values.shape[1],
        "titles": list(titles),
        "notes": list(notes),
        "label": label,
    }
    data["version"] = hashlib.sha256(repr(data).encode()).hexdigest()[:16]

    def report_click() -> None:
        """Call back with the position of the matrix that the browser reports as clicked."""
        position = st.session_state[key].get("clicked")
        # A browser may still show the previous wall, which can have more matrices.
        if isinstance(position, int) and 0 <= position < len(titles):
            on_click(position)

    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    component = st.components.v2.component(
        COMPONENT_NAME,
        html='<div class="frontier-wall" role="group"></div>',
        css=MODULE_FILE.with_suffix(".css").read_text(encoding="utf-8"),
        js=MODULE_FILE.with_suffix(".js").read_text(encoding="utf-8"),
    )
    component(key=key, data=data, on_clicked_change=report_click)
