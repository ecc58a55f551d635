"""Drift of documents as arrows over the map of the corpus."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dashboard.charts.figure import escape, strokes
from dashboard.charts.map import map_layout, query_marker
from dashboard.charts.palette import INK, PALETTE

ARROW = PALETTE[4]


def arrows_figure(
    arrows: Mapping[str, Sequence[float]],
    hover: Sequence[str],
    xy: np.ndarray,
    query: np.ndarray | None,
    dark: bool,
) -> dict[str, Any]:
    """Arrows over the map, as plain values.

    arrows: columns row, x0, y0, x1, y1; hover: what the mouse shows of each; xy: all points of the map, for the axes;
    query: (2,) the place of the sidebar's query.
    """
    rows, texts = [str(row) for row in arrows["row"]], [escape(text, 90) for text in hover]
    colour = ARROW.colour(dark)
    line: dict[str, Any] = {
        "type": "scatter",
        "x": strokes(arrows["x0"], arrows["x1"]),
        "y": strokes(arrows["y0"], arrows["y1"]),
        "mode": "lines+markers",
        "line": {"color": colour, "width": 1.5},
        "marker": {
            "symbol": ["circle", "arrow", "circle"] * len(rows),
            "angleref": "previous",
            "size": [3, 9, 0] * len(rows),
            "color": colour,
            "opacity": 1,
            "line": {"width": 0},
        },
        "customdata": [row for row in rows for _ in range(3)],
        "hovertext": [text for text in texts for _ in range(3)],
        "hoverinfo": "text",
        "name": "from the start to here",
        "unselected": {"marker": {"opacity": 1}},
    }
    traces = [line] if rows else []
    if query is not None:
        traces.append(query_marker(query, INK.colour(dark)))
    return {"data": traces, "layout": map_layout(xy, top=8)}
