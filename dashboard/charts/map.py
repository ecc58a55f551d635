"""Map of a corpus: its documents over contours of their density, and drift as arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import BASE_LAYOUT, escape, guide, join_segments, new_figure
from dashboard.charts.palette import GREY, GROUP_COLOURS, INK, SCALE, method_style, series_style, translucent
from engine.maps.density import Density
from engine.views.colouring import ABSENT_GROUP, Groups, Numbers

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

MIN_WEBGL_POINTS = 2000
"""From this number of points on, the browser draws them with WebGL."""
SYMBOL_PX, STEP_PX = 9, 4
"""Symbols without the overlay are open and larger for later decoders, so that shared documents show all of them."""
MAP_PADDING, SETS_PADDING = 0.09, 0.12
"""Padding around all documents, which the contours need, and around the sets, as shares of their extent."""
MIN_EXTENT = 0.08
"""Smallest visible share of the corpus' extent."""
MAP_PX = 520
LEGEND_PX, COLOUR_LEGEND_PX = 34, 30
"""Pixels above the plot for its legend, and below it for the legend of colours."""
N_CONTOURS = 8


@dataclass(frozen=True)
class Marks:
    """Documents that stand out on the map, such as a decoder's set."""

    xy: np.ndarray  # (m, 2) their places
    rows: Sequence[str]  # their rows of the corpus, as ids of points
    hover: Sequence[str]  # hover text of each


def plot_backdrop(
    map_xy: np.ndarray,
    row_ids: Sequence[int],
    hover: Sequence[str],
    is_dark: bool,
    density: Density,
    colours: Groups | Numbers | None = None,
) -> Figure:
    """Plot every document of the map over contours of their density: the map's part that no query changes.

    map_xy: (m, 2), the positions; row_ids: the documents' rows in the corpus; hover: texts at the mouse;
    colours: the documents' groups or numbers; without them, and documents without a value, are grey.
    """
    figure, large = new_figure(), len(map_xy) >= MIN_WEBGL_POINTS
    ids, hover_texts = np.asarray(row_ids, dtype=np.int32), np.array([escape(text, 80) for text in hover], dtype=object)

    def draw_points(chosen: np.ndarray, name: str | None = None, **marker: Any) -> None:
        """Draw some of the documents (a mask) with one colour or one colour scale."""
        (figure.add_scattergl if large else figure.add_scatter)(
            x=np.asarray(map_xy[chosen, 0], dtype=np.float32),
            y=np.asarray(map_xy[chosen, 1], dtype=np.float32),
            mode="markers",
            marker={"size": 4 if large else 5, "opacity": 0.75, "color": GREY[is_dark]} | marker,
            customdata=ids[chosen],
            hovertext=hover_texts[chosen].tolist(),
            hoverinfo="text",
            name=escape(name or "", 24),
            showlegend=bool(name),
        )

    # Documents without a value are drawn first, below the coloured ones.
    match colours:
        case None:
            draw_points(np.ones(len(map_xy), dtype=bool))
        case Numbers(values):
            has_value = np.isfinite(values)
            scale: dict[str, Any] = {"colorscale": [[0, SCALE[is_dark][0]], [1, SCALE[is_dark][1]]], "showscale": True}
            bar = {"thickness": 8, "len": 0.5, "outlinewidth": 0}
            if not has_value.all():
                draw_points(~has_value, ABSENT_GROUP)
            draw_points(has_value, color=values[has_value], colorbar=bar, **scale)
        case Groups(names, of):
            # Group −1 stands for documents without a value.
            if (of < 0).any():
                draw_points(of < 0, ABSENT_GROUP)
            for group, name in enumerate(names):
                draw_points(of == group, name, color=GROUP_COLOURS[group % len(GROUP_COLOURS)][is_dark])
    figure.add_contour(**_contours(density, is_dark))
    return figure


def _contours(density: Density, is_dark: bool) -> dict[str, Any]:
    """Return the plotly values of contours that show where on the map documents are dense."""
    ink_colour = INK.colour(is_dark)
    return {
        "x": density.x.astype(np.float32),
        "y": density.y.astype(np.float32),
        "z": np.sqrt(density.height).astype(np.float32),  # else only the densest place has contours
        "contours": {"start": 1 / N_CONTOURS, "end": 1 - 1 / N_CONTOURS, "size": 1 / N_CONTOURS, "coloring": "fill"},
        "colorscale": [[0, translucent(ink_colour, 0)], [1, translucent(ink_colour, 0.08)]],
        "line": {"color": translucent(ink_colour, 0.1), "width": 0.5, "smoothing": 1},
        "showscale": False,
        "hoverinfo": "skip",
    }


def build_map(near: tuple[np.ndarray, Marks] | None, extent: np.ndarray, legend: bool, is_dark: bool) -> dict[str, Any]:
    """Build a map's frame and the lines from a document to its neighbours; the browser adds the sets.

    They are plain values for plotly, as making a Figure takes 30 ms and the map follows a slider.

    near: a document's position and its nearest documents, to which lines are drawn; extent: (2, 2), the
    visible part's lower left and upper right corner; legend: True if the documents' colours have a legend.
    """
    traces = [] if near is None else [_neighbour_lines(*near, INK.colour(is_dark))]
    legend_layout = {"showlegend": legend, "legend": {"orientation": "h", "y": 0, "yanchor": "top", "x": 0}}
    layout = _map_layout(extent, LEGEND_PX, COLOUR_LEGEND_PX if legend else 0) | legend_layout
    layout["yaxis"] |= {"scaleanchor": "x"}  # areas and distances are the map's own
    return {"data": traces, "layout": layout}


def build_set_traces(
    sets: Sequence[tuple[str, str, Marks]], query_xy: np.ndarray | None, relevant: Marks | None, dark: bool
) -> list[dict[str, Any]]:
    """Build each decoder's documents on the map as plotly's traces, for pages without the live chart.

    sets: (selector, title, documents) of each decoder; query_xy: (2,) the query's position; relevant:
    documents judged relevant.
    """
    ink_colour = INK.colour(dark)
    traces = []
    # Relevant documents lie below the sets, whose open symbols leave them visible.
    if relevant is not None and len(relevant.rows):
        traces.append(_markers(relevant, "relevant", {"symbol": "circle", "size": 6, "color": ink_colour}))
    for position, (selector, set_title, documents) in enumerate(sets):
        style = method_style(selector)
        marker = {"symbol": f"{style.symbol}-open", "size": SYMBOL_PX + STEP_PX * position, "color": style.colour(dark)}
        traces.append(_markers(documents, set_title, marker | {"line": {"width": 2}}))
    if query_xy is not None:
        traces.append(_query_marker(query_xy, ink_colour) | {"showlegend": False})
    return traces


def full_extent(map_xy: np.ndarray) -> np.ndarray:
    """Return the lower left and upper right corner of a map that shows all points, (2, 2)."""
    return _pad_extent(map_xy.min(0), map_xy.max(0), MAP_PADDING)


def extent_around(map_xy: np.ndarray, marked: np.ndarray) -> np.ndarray:
    """Return the corners of a map zoomed to the marked positions, but not too closely, (2, 2).

    map_xy: all points of the map
    """
    low, high = marked.min(0), marked.max(0)
    # A single document would otherwise be magnified beyond any context.
    missing = np.maximum(MIN_EXTENT * np.ptp(map_xy, axis=0) - (high - low), 0) / 2
    return _pad_extent(low - missing, high + missing, SETS_PADDING)


def _pad_extent(low_corner: np.ndarray, high_corner: np.ndarray, padding_share: float) -> np.ndarray:
    """Return the corners of a rectangle, (2, 2), widened by a share of its size."""
    padding = padding_share * (high_corner - low_corner)
    # Collinear points have no extent in one direction, but the axis needs one.
    padding[padding == 0] = 1.0
    return np.stack([low_corner - padding, high_corner + padding]).astype(float)


def _map_layout(extent: np.ndarray, top_px: int, bottom_px: int = 0) -> dict[str, Any]:
    """Return the plotly layout of a map without axes.

    extent: (2, 2), the visible corners; top_px, bottom_px: pixels above and below the plot
    """
    return BASE_LAYOUT | {
        "height": MAP_PX,
        "margin": {"l": 0, "r": 0, "t": top_px, "b": bottom_px},
        "xaxis": {"visible": False, "range": extent[:, 0].tolist()},
        "yaxis": {"visible": False, "range": extent[:, 1].tolist()},
    }


def _query_marker(query_xy: np.ndarray, ink_colour: str) -> dict[str, Any]:
    """Return the plotly values of the star at the query's position."""
    return {
        "type": "scatter",
        "x": [float(query_xy[0])],
        "y": [float(query_xy[1])],
        "mode": "markers+text",
        "text": ["query"],
        "textposition": "top center",
        "marker": {"symbol": "star-diamond", "size": 13, "color": ink_colour},
        "hoverinfo": "skip",
        "name": "query",
    }


def _neighbour_lines(position: np.ndarray, neighbours: Marks, ink_colour: str) -> dict[str, Any]:
    """Return the plotly values of lines from a document on the map to the documents nearest to it."""
    x, y = ([float(position[axis])] * len(neighbours.xy) for axis in (0, 1))
    return {
        "type": "scatter",
        "x": join_segments(x, neighbours.xy[:, 0].tolist()),
        "y": join_segments(y, neighbours.xy[:, 1].tolist()),
        "mode": "lines",
        "line": guide(ink_colour),
        "hoverinfo": "skip",
        "name": "nearest",
    }


def _markers(documents: Marks, trace_name: str, marker_style: dict[str, Any]) -> dict[str, Any]:
    """Return the plotly values of documents that stand out on the map, such as a decoder's set.

    trace_name: for the legend; marker_style: plotly's symbol, size and colour
    """
    return {
        "type": "scatter",
        "x": documents.xy[:, 0].tolist(),
        "y": documents.xy[:, 1].tolist(),
        "mode": "markers",
        "marker": marker_style,
        "name": trace_name,
        "customdata": list(documents.rows),
        "hovertext": [escape(text, 80) for text in documents.hover],
        "hoverinfo": "text+name",
        "unselected": {"marker": {"opacity": 1}},  # a lasso fades the corpus, not what stands out
    }


def build_arrows(
    arrows: Mapping[str, Sequence[float]],
    hover: Sequence[str],
    xy: np.ndarray,
    query_xy: np.ndarray | None,
    is_dark: bool,
    series_index: int = 0,
    legend_text: str = "from the start to here",
) -> dict[str, Any]:
    """Build arrows from documents' old to their new positions on a map, as plain values for plotly.

    arrows: columns row, x0, y0, x1, y1; hover: hover text of each, in lines; xy: all points of the map, for the axes;
    query_xy: (2,) position of the header's query; series_index: gives the colour.
    """
    row_ids, hover_texts = [str(row) for row in arrows["row"]], _escape_lines(hover)
    colour = series_style(series_index).colour(is_dark)
    # By point of the trace: a dot at the start, the arrow's head at the end, nothing at the gap.
    heads = {"symbol": ["circle", "arrow", "circle"] * len(row_ids), "size": [3, 9, 0] * len(row_ids), "color": colour}
    arrow_trace: dict[str, Any] = {
        "type": "scatter",
        "x": join_segments(arrows["x0"], arrows["x1"]),
        "y": join_segments(arrows["y0"], arrows["y1"]),
        "mode": "lines+markers",
        "line": {"color": colour, "width": 1.5},
        "marker": heads | {"angleref": "previous", "opacity": 1, "line": {"width": 0}},
        # An arrow is three points of the trace: its start, its end, and a gap.
        "customdata": [row for row in row_ids for _ in range(3)],
        "hovertext": [text for text in hover_texts for _ in range(3)],
        "hoverinfo": "text",
        "name": escape(legend_text),
        "unselected": {"marker": {"opacity": 1}},
    }
    traces = [arrow_trace] if row_ids else []
    if query_xy is not None:
        traces.append(_query_marker(query_xy, INK.colour(is_dark)))
    return {"data": traces, "layout": _map_layout(full_extent(xy), top_px=8)}


def _escape_lines(texts: Sequence[str]) -> list[str]:
    """Return hover texts as plotly reads them, each line of limited length."""
    return ["<br>".join(escape(line, 90) for line in text.splitlines()) for text in texts]
