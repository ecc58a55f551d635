"""An SVG as a picture on the page, with buttons that copy it and download it as PNG or SVG."""

from pathlib import Path

import streamlit as st

NAME = "frontier_picture"
FILE = Path(__file__)
HTML = (
    '<div><img class="frontier-picture"><div class="frontier-buttons">'
    '<button type="button" class="primary" data-act="copy">Copy image</button>'
    '<button type="button" data-act="png">Download PNG</button><button type="button" data-act="svg">Download SVG'
    '</button><span role="status"></span></div></div>'
)


def picture(svg: str, size: tuple[int, int], key: str, *, file: str, label: str) -> None:
    """Draw it; size: of the PNG, in pixels; file: name of the downloads; label: for screen readers.

    The browser shows it as an image, in which nothing runs and nothing is fetched.
    """
    # Registered anew in every run: a component belongs to the server's runtime, which outlives no test.
    component = st.components.v2.component(
        NAME,
        html=HTML,
        css="".join(FILE.with_name(name).read_text(encoding="utf-8") for name in ("picture.css", "buttons.css")),
        js=FILE.with_suffix(".js").read_text(encoding="utf-8"),
    )
    width, height = size
    component(key=key, data={"svg": svg, "width": width, "height": height, "file": file, "label": label})
