"""The map: all documents grey, the sets that decoders retrieved on top, with the query and what is relevant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.palette import GREY, LAYOUT, PALETTE, escaped, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GL_FROM = 2000
"""From so many points on a browser draws them by WebGL."""
SMALLEST, GROWTH = 9, 4
"""Sizes of symbols: later decoders have larger ones, all open, so that a document of several sets shows them all."""
MARGIN = 0.04
HEIGHT = 520


@dataclass(frozen=True)
class Marks:
    """Documents that stand out: xy (m, 2), their rows of the corpus, what the mouse shows of each."""

    xy: np.ndarray
    rows: Sequence[int]
    hover: Sequence[str]


def map_backdrop(xy: np.ndarray, rows: Sequence[int], hover: Sequence[str], dark: bool) -> Figure:
    """Every mapped document, grey. xy: (m, 2); rows: their rows of the corpus."""
    from plotly.graph_objects import Figure

    figure = Figure()
    draw = figure.add_scattergl if len(xy) >= GL_FROM else figure.add_scatter
    draw(
        x=np.asarray(xy[:, 0], dtype=np.float32),
        y=np.asarray(xy[:, 1], dtype=np.float32),
        mode="markers",
        marker={"size": 4 if len(xy) >= GL_FROM else 5, "color": GREY[dark], "opacity": 0.75},
        customdata=np.asarray(rows, dtype=np.int32),
        hovertext=[escaped(text, 80) for text in hover],
        hoverinfo="text",
        showlegend=False,
    )
    return figure


def map_figure(
    sets: Sequence[tuple[str, str, Marks]],
    xy: np.ndarray,
    query: np.ndarray | None,
    relevant: Marks | None,
    near: tuple[np.ndarray, Marks] | None,
    dark: bool,
) -> dict[str, Any]:
    """What stands out on the map, as plain values: it follows a slider, and a Figure takes 30 ms to make.

    sets: (selector, name for people, documents) of each decoder; xy: all of the backdrop, for the axes; query:
    (2,) where it lies; relevant: as judged; near: a document's place and the documents nearest to it in the embedding
    space, to which lines are drawn.
    """
    ink = PALETTE[0].colour(dark)
    traces = [] if near is None else [_lines(*near, ink)]
    if relevant is not None and len(relevant.rows):
        traces.append(_markers(relevant, "relevant", {"symbol": "circle", "size": 6, "color": ink}))
    for at, (name, title, own) in enumerate(sets):
        style = style_of(name)
        look = {"symbol": f"{style.symbol}-open", "size": SMALLEST + GROWTH * at, "color": style.colour(dark)}
        traces.append(_markers(own, title, look | {"line": {"width": 2}}))
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
                "showlegend": False,
            }
        )
    layout = LAYOUT | {
        "height": HEIGHT,
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "margin": {"l": 0, "r": 0, "t": 40, "b": 0},
        "xaxis": {"visible": False, "range": range_of(xy[:, 0])},
        "yaxis": {"visible": False, "range": range_of(xy[:, 1])},
    }
    return {"data": traces, "layout": layout}


def range_of(values: np.ndarray) -> list[float]:
    low, high = float(values.min()), float(values.max())
    room = MARGIN * (high - low) or 1.0
    return [low - room, high + room]


def _lines(at: np.ndarray, others: Marks, ink: str) -> dict[str, Any]:
    """From a document to its nearest."""
    return {
        "type": "scatter",
        "x": [c for other in others.xy.tolist() for c in (float(at[0]), other[0], None)],
        "y": [c for other in others.xy.tolist() for c in (float(at[1]), other[1], None)],
        "mode": "lines",
        "line": {"color": ink, "width": 1, "dash": "dot"},
        "hoverinfo": "skip",
        "name": "nearest",
    }


def _markers(marks: Marks, name: str, look: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "x": marks.xy[:, 0].tolist(),
        "y": marks.xy[:, 1].tolist(),
        "mode": "markers",
        "marker": look,
        "name": name,
        "customdata": list(marks.rows),
        "hovertext": [escaped(text, 80) for text in marks.hover],
        "hoverinfo": "text+name",
        "unselected": {"marker": {"opacity": 1}},  # a lasso fades the corpus, not what stands out
    }
