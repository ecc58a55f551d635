"""The map of a corpus: documents grey, on top retrieved sets, the query, relevant documents, and drift as arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import LAYOUT, escape, guide, new_figure, strokes
from dashboard.charts.palette import GREY, INK, series_style, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

WEBGL_FROM = 2000
"""Points from which on a browser draws them by WebGL."""
SMALLEST, GROWTH = 9, 4
"""Sizes of symbols: later decoders have larger ones, all open, so that a document of several sets shows them all."""
MARGIN = 0.04
HEIGHT = 520
ARROW = series_style(0)


@dataclass(frozen=True)
class Marks:
    """Documents that stand out."""

    xy: np.ndarray  # (m, 2) their places
    rows: Sequence[str]  # their rows of the corpus, as ids of points
    hover: Sequence[str]  # what the mouse shows of each


def map_backdrop(xy: np.ndarray, rows: Sequence[int], hover: Sequence[str], dark: bool) -> Figure:
    """Every mapped document, grey. xy: (m, 2); rows: their rows of the corpus."""
    figure, many = new_figure(), len(xy) >= WEBGL_FROM
    draw = figure.add_scattergl if many else figure.add_scatter
    draw(
        x=np.asarray(xy[:, 0], dtype=np.float32),
        y=np.asarray(xy[:, 1], dtype=np.float32),
        mode="markers",
        marker={"size": 4 if many else 5, "color": GREY[dark], "opacity": 0.75},
        customdata=np.asarray(rows, dtype=np.int32),
        hovertext=[escape(text, 80) for text in hover],
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
    """The marks on the map, as plain values: it follows a slider, and a Figure takes 30 ms to make.

    sets: (selector, title, documents) of each decoder; xy: all points of the backdrop, for the axes; query: (2,) its
    place; relevant: as judged; near: a document's place and the documents nearest to it in the embedding space, to
    which lines are drawn.
    """
    ink = INK.colour(dark)
    traces = [] if near is None else [_neighbour_lines(*near, ink)]
    if relevant is not None and len(relevant.rows):
        traces.append(_markers(relevant, "relevant", {"symbol": "circle", "size": 6, "color": ink}))
    for position, (name, title, documents) in enumerate(sets):
        style = style_of(name)
        look = {"symbol": f"{style.symbol}-open", "size": SMALLEST + GROWTH * position, "color": style.colour(dark)}
        traces.append(_markers(documents, title, look | {"line": {"width": 2}}))
    if query is not None:
        traces.append(_query_marker(query, ink) | {"showlegend": False})
    legend = {"showlegend": True, "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0}}
    return {"data": traces, "layout": _layout(xy, top=40) | legend}


def _layout(xy: np.ndarray, top: int) -> dict[str, Any]:
    """top: pixels above the plot."""
    return LAYOUT | {
        "height": HEIGHT,
        "margin": {"l": 0, "r": 0, "t": top, "b": 0},
        "xaxis": {"visible": False, "range": _range(xy[:, 0])},
        "yaxis": {"visible": False, "range": _range(xy[:, 1])},
    }


def _query_marker(query: np.ndarray, ink: str) -> dict[str, Any]:
    return {
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


def _range(values: np.ndarray) -> list[float]:
    low, high = float(values.min()), float(values.max())
    room = MARGIN * (high - low) or 1.0
    return [low - room, high + room]


def _neighbour_lines(place: np.ndarray, near: Marks, ink: str) -> dict[str, Any]:
    """Lines from a document to its nearest."""
    x, y = ([float(place[axis])] * len(near.xy) for axis in (0, 1))
    return {
        "type": "scatter",
        "x": strokes(x, near.xy[:, 0].tolist()),
        "y": strokes(y, near.xy[:, 1].tolist()),
        "mode": "lines",
        "line": guide(ink),
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
        "hovertext": [escape(text, 80) for text in marks.hover],
        "hoverinfo": "text+name",
        "unselected": {"marker": {"opacity": 1}},  # a lasso fades the corpus, not what stands out
    }


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
    heads = {"symbol": ["circle", "arrow", "circle"] * len(rows), "size": [3, 9, 0] * len(rows), "color": colour}
    line: dict[str, Any] = {
        "type": "scatter",
        "x": strokes(arrows["x0"], arrows["x1"]),
        "y": strokes(arrows["y0"], arrows["y1"]),
        "mode": "lines+markers",
        "line": {"color": colour, "width": 1.5},
        "marker": heads | {"angleref": "previous", "opacity": 1, "line": {"width": 0}},
        "customdata": [row for row in rows for _ in range(3)],
        "hovertext": [text for text in texts for _ in range(3)],
        "hoverinfo": "text",
        "name": "from the start to here",
        "unselected": {"marker": {"opacity": 1}},
    }
    traces = [line] if rows else []
    if query is not None:
        traces.append(_query_marker(query, INK.colour(dark)))
    return {"data": traces, "layout": _layout(xy, top=8)}
