"""Buttons that copy: a text, or an SVG shown as a picture, which can be downloaded as PNG or SVG too."""

from pathlib import Path
from typing import Any

import streamlit as st

FOLDER = Path(__file__).parent
COPY_BUTTON = (
    '<div class="frontier-buttons"><button type="button" class="primary"></button><span role="status"></span></div>'
)
PICTURE = (
    '<div><img class="frontier-picture"><div class="frontier-buttons">'
    '<button type="button" class="primary" data-act="copy">Copy image</button>'
    '<button type="button" data-act="png">Download PNG</button><button type="button" data-act="svg">Download SVG'
    '</button><span role="status"></span></div></div>'
)


def picture(svg: str, size: tuple[int, int], key: str, *, file: str, label: str) -> None:
    """Draw it; size: of the PNG, in pixels; file: name of the downloads; label: for screen readers.

    The browser shows it as an image, in which nothing runs and nothing is fetched.
    """
    data = {"svg": svg, "width": size[0], "height": size[1], "file": file, "label": label}
    _draw("picture", PICTURE, ("picture.css", "buttons.css"), key, data)


def copy_button(label: str, text: str, key: str) -> None:
    """Draw a button that copies a text; the browser says beside it that it has copied."""
    _draw("copy_button", COPY_BUTTON, ("buttons.css",), key, {"label": label, "text": text})


def _draw(name: str, html: str, sheets: tuple[str, ...], key: str, data: dict[str, Any]) -> None:
    css = "".join((FOLDER / sheet).read_text(encoding="utf-8") for sheet in sheets)
    js = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    st.components.v2.component(f"frontier_{name}", html=html, css=css, js=js)(key=key, data=data)
