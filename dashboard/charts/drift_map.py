"""Where documents went: arrows from where they began, on a map that stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dashboard.charts.map import HEIGHT, range_of
from dashboard.charts.palette import LAYOUT, PALETTE, escaped

LINE = PALETTE[4]


def arrows_figure(
    arrows: Mapping[str, Sequence[float]],
    hover: Sequence[str],
    xy: np.ndarray,
    query: np.ndarray | None,
    dark: bool,
) -> dict[str, Any]:
    """Arrows over the map, as plain values.

    arrows: columns row, x0, y0, x1, y1; hover: what the mouse shows of each; xy: all of the map, for the axes; query:
    (2,) where the sidebar's query lies.
    """
    ink = PALETTE[0].colour(dark)
    x0, y0, x1, y1 = (list(arrows[name]) for name in ("x0", "y0", "x1", "y1"))
    rows, told = [str(row) for row in arrows["row"]], [escaped(text, 90) for text in hover]
    line: dict[str, Any] = {
        "type": "scatter",
        "x": [value for begin, end in zip(x0, x1, strict=True) for value in (begin, end, None)],
        "y": [value for begin, end in zip(y0, y1, strict=True) for value in (begin, end, None)],
        "mode": "lines+markers",
        "line": {"color": LINE.colour(dark), "width": 1.5},
        "marker": {
            "symbol": ["circle", "arrow", "circle"] * len(rows),
            "angleref": "previous",
            "size": [3, 9, 0] * len(rows),
            "color": LINE.colour(dark),
            "opacity": 1,
            "line": {"width": 0},
        },
        "customdata": [row for row in rows for _ in range(3)],
        "hovertext": [text for text in told for _ in range(3)],
        "hoverinfo": "text",
        "name": "from the start to here",
        "unselected": {"marker": {"opacity": 1}},
    }
    traces = [line] if rows else []
    if query is not None:
        traces.append(
            {
                "type": "scatter",
                "x": [float(query[0])],
                "y": [float(query[1])],
                "mode": "markers+text",
                "text": ["query"],
                "textposition": "top center",
                "marker": {"symbol": "star-diamond", "size": 13, "color": ink},
                "hoverinfo": "skip",
                "name": "query",
            }
        )
    layout = LAYOUT | {
        "height": HEIGHT,
        "margin": {"l": 0, "r": 0, "t": 8, "b": 0},
        "xaxis": {"visible": False, "range": range_of(xy[:, 0])},
        "yaxis": {"visible": False, "range": range_of(xy[:, 1])},
    }
    return {"data": traces, "layout": layout}
