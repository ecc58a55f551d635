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


def draw_svg(svg: str, size: tuple[int, int], key: str, *, file: str, label: str) -> None:
    """Draw an SVG as a picture, with buttons that copy and download it.

    size: of the PNG, in pixels; file: name of the downloads; label: for screen readers
    """
    # The browser draws it as an image, in which no script runs and nothing is fetched.
    data = {"svg": svg, "width": size[0], "height": size[1], "file": file, "label": label}
    _draw_component("picture", PICTURE, ("picture.css", "buttons.css"), key, data)


def draw_copy_button(label: str, text: str, key: str) -> None:
    """Draw a button that copies a text; the browser says beside it that it has copied."""
    _draw_component("copy_button", COPY_BUTTON, ("buttons.css",), key, {"label": label, "text": text})


def _draw_component(name: str, html: str, style_files: tuple[str, ...], key: str, data: dict[str, Any]) -> None:
    """Draw a small component of the browser from its HTML, its style files and its script, called `name`.

    key: of the component in the session; data: for the script
    """
    styles = "".join((FOLDER / style_file).read_text(encoding="utf-8") for style_file in style_files)
    script = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    st.components.v2.component(f"frontier_{name}", html=html, css=styles, js=script)(key=key, data=data)
