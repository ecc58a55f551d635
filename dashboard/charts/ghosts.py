"""Pale outlines of charts that are not there yet, as SVG: what will be seen once somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from dashboard.charts.palette import GREY, translucent

SIZE = (1000, 400)
"""Width and height of a drawing in its own units; a page stretches it."""
WEIGHT_PATHS = ((20, 30, 955), (150, 170, 915), (190, 200, 850), (255, 235, 800), (270, 290, 820), (300, 320, 740))
"""Heights of each document's line at its beginning and in its middle, and where along λ₁ its weight ends."""
FALLS = (
    ((0, 60), (20, 58), (38, 80), (55, 120), (70, 170)),
    ((0, 60), (30, 66), (52, 110), (66, 150), (95, 190)),
    ((0, 60), (16, 50), (30, 96), (44, 150), (52, 190)),
)
"""Corners of the lines of panels, in hundredths of a panel's width, and in units of the drawing."""
PANEL_SHARE, PANELS_ACROSS, PANELS_DOWN = 0.57, 3, 2
"""Share of the width that panels take beside the choices, and how many there are."""


def draw_weights_ghost(is_dark: bool) -> str:
    """Draw lines that fall one after another, as documents lose their weights along λ₁."""
    width, height = SIZE
    lines = [f"M0 {height - 20}H{width}"]
    for start, middle, end in WEIGHT_PATHS:
        lines.append(f"M0 {start}C{0.3 * width:g} {start} {0.45 * width:g} {middle} {0.62 * width:g} {middle}")
        lines.append(f"M{0.62 * width:g} {middle}Q{end - 60} {middle} {end} {height - 20}")
    return _write_svg(lines, [], is_dark)


def draw_frontier_ghost(is_dark: bool) -> str:
    """Draw panels of falling lines, beside them two choices and the rows of a table."""
    width, height = SIZE
    column, row = PANEL_SHARE * width / PANELS_ACROSS, height / PANELS_DOWN
    lines, boxes = list[str](), list[tuple[float, float, float, float]]()
    for number in range(PANELS_ACROSS * PANELS_DOWN):
        left, top = column * (number % PANELS_ACROSS), row * (number // PANELS_ACROSS)
        lines.append(f"M{left:g} {top + 22:g}v{row - 44:g}h{column - 20:g}")
        corners = [f"{left + x * (column - 20) / 100:g} {top + 0.85 * y:g}" for x, y in FALLS[number % len(FALLS)]]
        lines.append(f"M{'L'.join(corners)}")
        boxes.append((left + 0.3 * column, top + 4, 0.35 * column, 10))
    left = (PANEL_SHARE + 0.03) * width
    boxes += [(left, 4, 0.24 * width, 12), (left, 26, width - left, 26), (left, 78, 0.24 * width, 12)]
    boxes += [(left, 100, width - left, 26), *((left, top, width - left, 12) for top in range(165, height - 20, 36))]
    return _write_svg(lines, boxes, is_dark)


def _write_svg(lines: Sequence[str], boxes: Sequence[tuple[float, float, float, float]], is_dark: bool) -> str:
    """Return the address of an SVG of lines, as paths, and of boxes as (left, top, width, height)."""
    colour = GREY[is_dark]
    parts = [f'<path d="{line}" vector-effect="non-scaling-stroke"/>' for line in lines]
    for left, top, width, height in boxes:
        look = f'fill="{translucent(colour, 0.5)}" stroke="none"'
        parts.append(f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="3" {look}/>')
    view = f'viewBox="0 0 {SIZE[0]} {SIZE[1]}" preserveAspectRatio="none"'
    look = f'fill="none" stroke="{colour}" stroke-width="2" stroke-opacity="0.8"'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" {view} {look}>{"".join(parts)}</svg>'
    return f"data:image/svg+xml,{quote(svg)}"
