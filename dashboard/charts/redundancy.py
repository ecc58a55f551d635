"""Similarity within retrieved sets, a heat map for each set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import TOOLTIP, apply_layout, escape
from dashboard.charts.palette import INK, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.redundancy import Redundancy

HEIGHTS = {1: 470, 2: 430, 3: 320}
"""By the number of sets: their cells are square, so more of them are lower."""
GAP = 0.05
EVERY_RANK = 12
"""Documents up to which every rank is on the axis; of more, every fifth."""


def redundancy_figure(sets: Sequence[tuple[str, str, Redundancy]], dark: bool) -> Figure:
    """The similarities in each set, (selector, title, its Redundancy), ranks on the axes, nothing on the diagonal.

    A point's id is "row:row", the two documents' positions in the corpus. Colours go from 0 to 1, values below and
    above are shown at the mouse as they are.
    """
    from plotly.graph_objects import Figure

    bar = {"thickness": 10, "xpad": 4, "tickvals": [0, 0.25, 0.5, 0.75, 1]}
    colours = {"colorscale": "Cividis", "cmin": 0, "cmax": 1, "colorbar": bar}
    layout: dict[str, Any] = {"hoverdistance": 40, "annotations": [], "coloraxis": colours}
    traces: list[dict[str, Any]] = []
    width = (1 - GAP * (len(sets) - 1)) / max(1, len(sets))
    for position, (name, title, redundancy) in enumerate(sets):
        axis, left = str(position + 1) if position else "", position * (width + GAP)
        traces += _cells(redundancy, {"xaxis": f"x{axis}", "yaxis": f"y{axis}"})
        layout[f"xaxis{axis}"], layout[f"yaxis{axis}"] = _axes(len(redundancy.rows), axis, left, width)
        layout["annotations"].append(_title(name, title, left + width / 2, dark))
    # Plotly checks one figure from plain values several times faster than the same made step by step.
    return apply_layout(
        Figure(data=traces, layout=layout),
        height=HEIGHTS.get(len(sets), min(HEIGHTS.values())),
        margin={"l": 28, "r": 10, "t": 32, "b": 24},
    )


def _cells(redundancy: Redundancy, axes: dict[str, str]) -> list[dict[str, Any]]:
    size, similarity = len(redundancy.rows), redundancy.similarity
    i, j = np.nonzero(~np.eye(size, dtype=bool))
    values = similarity.astype(object)
    np.fill_diagonal(values, None)
    ranks, gap = np.arange(1, size + 1), int(size <= EVERY_RANK)
    titles = [title or ident for title, ident in zip(redundancy.titles, redundancy.ids, strict=True)]
    names = [f"#{rank} {escape(title, 32)}" for rank, title in enumerate(titles, 1)]
    pairs = list(zip(i.tolist(), j.tolist(), similarity[i, j].tolist(), strict=True))
    # A heat map's cells cannot be clicked everywhere; unseen points on them can.
    cells = {"type": "heatmap", "x": ranks, "y": ranks, "z": values.tolist(), "coloraxis": "coloraxis"}
    points = {
        "type": "scatter",
        "x": ranks[j],
        "y": ranks[i],
        "mode": "markers",
        "marker": {"symbol": "square", "size": 14, "opacity": 0},
        "customdata": [f"{redundancy.rows[a]}:{redundancy.rows[b]}" for a, b, _ in pairs],
        "hovertext": [f"{names[a]}<br>{names[b]}<br>similarity {value:.3f}" for a, b, value in pairs],
        "hovertemplate": TOOLTIP,
    }
    return [axes | cells | {"xgap": gap, "ygap": gap, "hoverinfo": "skip"}, axes | points]


def _axes(size: int, axis: str, left: float, width: float) -> tuple[dict[str, Any], dict[str, Any]]:
    common = {
        "tickvals": [r for r in range(1, size + 1) if size <= EVERY_RANK or r == 1 or r % 5 == 0],
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "fixedrange": True,
        "constrain": "domain",
    }
    x = common | {"range": [0.5, size + 0.5], "domain": [left, left + width], "anchor": f"y{axis}"}
    y = common | {"range": [size + 0.5, 0.5], "anchor": f"x{axis}", "scaleanchor": f"x{axis}", "constraintoward": "top"}
    return x, y


def _title(name: str, title: str, x: float, dark: bool) -> dict[str, Any]:
    style, font = style_of(name), {"color": INK.colour(dark), "size": 14}
    text = f'<span style="color: {style.colour(dark)}">{style.sign}</span> {escape(title)}'
    place = {"x": x, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "bottom", "yshift": 4}
    return place | {"text": text, "showarrow": False, "font": font}
