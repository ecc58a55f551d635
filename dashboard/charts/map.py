"""The map of a corpus: its documents over contours of their density, and drift as arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import LAYOUT, escape, guide, new_figure, strokes
from dashboard.charts.palette import GREY, INK, MUTED, SEQUENCE, series_style, style_of, translucent
from engine.maps.density import Density
from engine.views.colouring import ABSENT_GROUP, Groups, Numbers

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

WEBGL_FROM = 2000
"""Points from which on a browser draws them by WebGL."""
SMALLEST, GROWTH = 9, 4
"""Sizes of symbols without the overlay: later decoders have larger ones, all open, so that a document of several sets
shows them all."""
MARGIN, ROOM = 0.04, 0.12
"""Room around all documents, and around the sets, as shares of their extent."""
CLOSEST = 0.08
"""The share of the corpus' extent that is shown at least."""
HEIGHT = 520
TOP, BOTTOM = 34, 30
"""Pixels above the plot for its legend, and below it for that of the colours."""
LEVELS = 8


@dataclass(frozen=True)
class Marks:
    """Documents that stand out."""

    xy: np.ndarray  # (m, 2) their places
    rows: Sequence[str]  # their rows of the corpus, as ids of points
    hover: Sequence[str]  # what the mouse shows of each


def map_backdrop(
    xy: np.ndarray,
    rows: Sequence[int],
    hover: Sequence[str],
    dark: bool,
    density: Density,
    colours: Groups | Numbers | None = None,
) -> Figure:
    """Every mapped document over contours of their density. xy: (m, 2); rows: their rows of the corpus.

    colours: of the documents, grey without; what has no value is grey too.
    """
    figure, many = new_figure(), len(xy) >= WEBGL_FROM
    ids, texts = np.asarray(rows, dtype=np.int32), np.array([escape(text, 80) for text in hover], dtype=object)

    def draw(chosen: np.ndarray, name: str | None = None, **marker: Any) -> None:
        (figure.add_scattergl if many else figure.add_scatter)(
            x=np.asarray(xy[chosen, 0], dtype=np.float32),
            y=np.asarray(xy[chosen, 1], dtype=np.float32),
            mode="markers",
            marker={"size": 4 if many else 5, "opacity": 0.75, "color": GREY[dark]} | marker,
            customdata=ids[chosen],
            hovertext=texts[chosen].tolist(),
            hoverinfo="text",
            name=escape(name or "", 24),
            showlegend=bool(name),
        )

    match colours:
        case None:
            draw(np.ones(len(xy), dtype=bool))
        case Numbers(values):
            there = np.isfinite(values)
            scale: dict[str, Any] = {"colorscale": [[0, SEQUENCE[dark][0]], [1, SEQUENCE[dark][1]]], "showscale": True}
            bar = {"thickness": 8, "len": 0.5, "outlinewidth": 0}
            if not there.all():
                draw(~there, ABSENT_GROUP)
            draw(there, color=values[there], colorbar=bar, **scale)
        case Groups(names, of):
            if (of < 0).any():
                draw(of < 0, ABSENT_GROUP)
            for group, name in enumerate(names):
                draw(of == group, name, color=MUTED[group % len(MUTED)][dark])
    figure.add_contour(**_contours(density, dark))
    return figure


def _contours(density: Density, dark: bool) -> dict[str, Any]:
    """Trace values of the contours, which plotly draws below all points."""
    ink = INK.colour(dark)
    return {
        "x": density.x.astype(np.float32),
        "y": density.y.astype(np.float32),
        "z": np.sqrt(density.height).astype(np.float32),  # else only the densest place has contours
        "contours": {"start": 1 / LEVELS, "end": 1 - 1 / LEVELS, "size": 1 / LEVELS, "coloring": "fill"},
        "colorscale": [[0, translucent(ink, 0)], [1, translucent(ink, 0.08)]],
        "line": {"color": translucent(ink, 0.1), "width": 0.5, "smoothing": 1},
        "showscale": False,
        "hoverinfo": "skip",
    }


def map_figure(near: tuple[np.ndarray, Marks] | None, shown: np.ndarray, legend: bool, dark: bool) -> dict[str, Any]:
    """The map without its sets, as plain values: it follows a slider, and a Figure takes 30 ms to make.

    near: a document's place and the documents nearest to it in the embedding space, to which lines are drawn; shown:
    (2, 2) the lower left and upper right corner; legend: whether the backdrop's colours have one.
    """
    traces = [] if near is None else [_neighbour_lines(*near, INK.colour(dark))]
    below = {"showlegend": legend, "legend": {"orientation": "h", "y": 0, "yanchor": "top", "x": 0}}
    layout = _layout(shown, TOP, BOTTOM if legend else 0) | below
    layout["yaxis"] |= {"scaleanchor": "x"}  # areas and distances are the map's own
    return {"data": traces, "layout": layout}


def set_traces(
    sets: Sequence[tuple[str, str, Marks]], query: np.ndarray | None, relevant: Marks | None, dark: bool
) -> list[dict[str, Any]]:
    """The sets on the map, for where no overlay can draw them.

    sets: (selector, title, documents) of each decoder; query: (2,) its place; relevant: as judged.
    """
    ink = INK.colour(dark)
    traces = []
    if relevant is not None and len(relevant.rows):
        traces.append(_markers(relevant, "relevant", {"symbol": "circle", "size": 6, "color": ink}))
    for position, (name, title, documents) in enumerate(sets):
        style = style_of(name)
        look = {"symbol": f"{style.symbol}-open", "size": SMALLEST + GROWTH * position, "color": style.colour(dark)}
        traces.append(_markers(documents, title, look | {"line": {"width": 2}}))
    if query is not None:
        traces.append(_query_marker(query, ink) | {"showlegend": False})
    return traces


def whole(xy: np.ndarray) -> np.ndarray:
    """(2, 2) the corners of a map that shows all of its points."""
    return _with_room(xy.min(0), xy.max(0), MARGIN)


def around(xy: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """(2, 2) the corners of a map that shows some places; xy: all points of the map."""
    low, high = marked.min(0), marked.max(0)
    missing = np.maximum(CLOSEST * np.ptp(xy, axis=0) - (high - low), 0) / 2
    return _with_room(low - missing, high + missing, ROOM)


def _with_room(low: np.ndarray, high: np.ndarray, share: float) -> np.ndarray:
    room = share * (high - low)
    room[room == 0] = 1.0
    return np.stack([low - room, high + room]).astype(float)


def _layout(shown: np.ndarray, top: int, bottom: int = 0) -> dict[str, Any]:
    """shown: (2, 2) the corners; top, bottom: pixels above and below the plot."""
    return LAYOUT | {
        "height": HEIGHT,
        "margin": {"l": 0, "r": 0, "t": top, "b": bottom},
        "xaxis": {"visible": False, "range": shown[:, 0].tolist()},
        "yaxis": {"visible": False, "range": shown[:, 1].tolist()},
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
    series: int = 0,
    name: str = "from the start to here",
) -> dict[str, Any]:
    """Arrows over the map, as plain values.

    series: which colour they have; name: what they are.

    arrows: columns row, x0, y0, x1, y1; hover: what the mouse shows of each; xy: all points of the map, for the axes;
    query: (2,) the place of the header's query.
    """
    rows, texts = [str(row) for row in arrows["row"]], [escape(text, 90) for text in hover]
    colour = series_style(series).colour(dark)
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
        "name": escape(name),
        "unselected": {"marker": {"opacity": 1}},
    }
    traces = [line] if rows else []
    if query is not None:
        traces.append(_query_marker(query, INK.colour(dark)))
    return {"data": traces, "layout": _layout(whole(xy), top=8)}
