"""Similarity within retrieved sets, a heat map per set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import TOOLTIP, apply_layout, escape
from dashboard.charts.palette import INK, method_style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.redundancy import Redundancy

HEIGHTS_PX = {1: 490, 2: 450, 3: 360, 4: 350}
"""Height of a row by the number of its heat maps, the most that fit among them: cells are square."""
HEAT_MAP_GAP, TITLE_PX, COLOUR_BAR_PX = 0.05, 44, 180
MAX_TICKED_RANKS = 5
"""Up to this many documents every rank has a tick, else the first and every fifth."""
MAX_SEPARATED_RANKS = 12
"""Up to this many documents there are gaps between the cells."""


def plot_redundancy(sets: Sequence[tuple[str, str, Redundancy]], is_dark: bool) -> Figure:
    """Plot the similarities of documents within each retrieved set as heat maps side by side.

    sets: (selector, title, values) of each. A click on a cell returns "row:row", the two documents' rows in
    the corpus. Colours range from 0 to 1; the hover has values below and above.
    """
    from plotly.graph_objects import Figure

    colour_bar: dict[str, Any] = {"thickness": 10, "xpad": 4, "tickvals": [0, 0.25, 0.5, 0.75, 1]}
    # A short bar at the top: it is the scale of all heat maps, and taller than a row of them it would be beside none.
    colour_bar |= {"lenmode": "pixels", "len": COLOUR_BAR_PX, "y": 1, "yanchor": "top"}
    colours = {"colorscale": "Cividis", "cmin": 0, "cmax": 1, "colorbar": colour_bar}
    layout: dict[str, Any] = {"hoverdistance": 40, "annotations": [], "coloraxis": colours}
    traces: list[dict[str, Any]] = []
    n_columns = min(len(sets), max(HEIGHTS_PX)) or 1
    n_rows, row_px = math.ceil(len(sets) / n_columns), HEIGHTS_PX[n_columns]
    # Heat maps of a row share the width of the figure, with gaps between them; each has its title above it.
    width, title_share = (1 - HEAT_MAP_GAP * (n_columns - 1)) / n_columns, TITLE_PX / (row_px * max(1, n_rows))
    for position, (selector, title, redundancy) in enumerate(sets):
        row, column = divmod(position, n_columns)
        # Plotly calls the first axes x and y, later ones x2, y2 and so on.
        axis, left_edge = str(position + 1) if position else "", column * (width + HEAT_MAP_GAP)
        bottom, top = 1 - (row + 1) / n_rows, 1 - row / n_rows - title_share
        traces += _build_traces(redundancy, {"xaxis": f"x{axis}", "yaxis": f"y{axis}"})
        x_axis, y_axis = _build_axes(len(redundancy.rows), axis, left_edge, width)
        layout[f"xaxis{axis}"], layout[f"yaxis{axis}"] = x_axis, y_axis | {"domain": [bottom + title_share / 2, top]}
        layout["annotations"].append(_build_title(selector, title, redundancy, left_edge + width / 2, top, is_dark))
    # Plotly checks one figure from plain values several times faster than the same made step by step.
    return apply_layout(
        Figure(data=traces, layout=layout),
        height=row_px * max(1, n_rows),
        margin={"l": 28, "r": 10, "t": 10, "b": 10},
        # The browser's script divides the width anew (matrices.js).
        meta={"matrices": len(sets)},
    )


def _build_traces(redundancy: Redundancy, axes: dict[str, str]) -> list[dict[str, Any]]:
    """Build the plotly values of one heat map of similarities, with invisible points that can be clicked.

    axes: names of the two axes it is drawn on. A point's id is "row:row", the two documents' rows in the
    corpus
    """
    n_documents, similarity = len(redundancy.rows), redundancy.similarity
    # All cells but the diagonal, by row and column.
    cell_rows, cell_columns = np.nonzero(~np.eye(n_documents, dtype=bool))
    values = similarity.astype(object)
    # A document's similarity with itself would dominate the colours.
    np.fill_diagonal(values, None)
    ranks, cell_gap = np.arange(1, n_documents + 1), int(n_documents <= MAX_SEPARATED_RANKS)
    names = [f"#{rank} {escape(name, 32)}" for rank, name in enumerate(redundancy.names, 1)]
    pair_ids, hover_texts = [], []
    cell_values = similarity[cell_rows, cell_columns].tolist()
    for first, second, value in zip(cell_rows.tolist(), cell_columns.tolist(), cell_values, strict=True):
        pair_ids.append(f"{redundancy.rows[first]}:{redundancy.rows[second]}")
        hover_texts.append(f"{names[first]}<br>{names[second]}<br>cosine {value:.3f}")
    # A heat map's cells cannot be clicked everywhere; unseen points on them can.
    cells = {"type": "heatmap", "x": ranks, "y": ranks, "z": values.tolist(), "coloraxis": "coloraxis"}
    points = {
        "type": "scatter",
        "x": ranks[cell_columns],
        "y": ranks[cell_rows],
        "mode": "markers",
        "marker": {"symbol": "square", "size": 14, "opacity": 0},
        "customdata": pair_ids,
        "hovertext": hover_texts,
        "hovertemplate": TOOLTIP,
    }
    return [axes | cells | {"xgap": cell_gap, "ygap": cell_gap, "hoverinfo": "skip"}, axes | points]


def _build_axes(size: int, axis: str, start: float, width: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build the two axes of one heat map, with ranks as ticks and rank 1 at the top left.

    size: number of documents; axis: its number in plotly's names, "" for the first; start, width: shares of
    the figure
    """
    ranks = list(range(1, size + 1))
    common = {
        "tickvals": ranks if size <= MAX_TICKED_RANKS else [1, *ranks[4::5]],
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "fixedrange": True,
        "constrain": "domain",
    }
    # The vertical range is reversed, so that rank 1 is at the top; cells are square.
    x_axis = common | {"range": [0.5, size + 0.5], "domain": [start, start + width], "anchor": f"y{axis}"}
    y = common | {"range": [size + 0.5, 0.5], "anchor": f"x{axis}", "scaleanchor": f"x{axis}", "constraintoward": "top"}
    return x_axis, y


def _build_title(
    selector: str, title: str, redundancy: Redundancy, x: float, y: float, is_dark: bool
) -> dict[str, Any]:
    """Build the title above a heat map, with the decoder's symbol and figures; x, y: its centre and its lower edge."""
    style, font = method_style(selector), {"color": INK.colour(is_dark), "size": 14}
    heading = f'<span style="color: {style.colour(is_dark)}">{style.sign}</span> {escape(title)}'
    # Short, as on a phone three heat maps share the width.
    figures = f'<span style="font-size: 12px">{redundancy.close} of {redundancy.pairs:,} pairs</span>'
    anchor = {"x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "bottom", "yshift": 2}
    return anchor | {"text": f"{heading}<br>{figures}", "showarrow": False, "font": font}
