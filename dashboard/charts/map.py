"""The map: all documents grey, the sets that decoders retrieved on top, with the query and what is relevant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dashboard.charts.palette import GREY, PALETTE, escaped, plain, style_of

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
    sets: dict[str, Marks],
    titles: dict[str, str],
    xy: np.ndarray,
    query: np.ndarray | None,
    relevant: Marks | None,
    near: tuple[np.ndarray, Marks] | None,
    dark: bool,
) -> Figure:
    """What stands out on the map.

    sets: decoder → its documents, titles: decoder → its name for people; xy: all of the backdrop, for the axes; query:
    (2,) where it lies; relevant: as judged; near: a document's place and the documents nearest to it in the embedding
    space, to which lines are drawn.
    """
    from plotly.graph_objects import Figure

    figure, ink = Figure(), PALETTE[0].colour(dark)
    if near is not None:
        at, others = near
        x = [c for other in others.xy for c in (at[0], other[0], None)]
        y = [c for other in others.xy for c in (at[1], other[1], None)]
        figure.add_scatter(
            x=x, y=y, mode="lines", line={"color": ink, "width": 1, "dash": "dot"}, hoverinfo="skip", name="nearest"
        )
    if relevant is not None and len(relevant.rows):
        _add(figure, relevant, "relevant", {"symbol": "circle", "size": 6, "color": ink})
    for at, (name, own) in enumerate(sets.items()):
        style = style_of(name)
        marker = {
            "symbol": f"{style.symbol}-open",
            "size": SMALLEST + GROWTH * at,
            "color": style.colour(dark),
            "line": {"width": 2},
        }
        _add(figure, own, titles[name], marker)
    if query is not None:
        figure.add_scatter(
            x=[query[0]],
            y=[query[1]],
            mode="markers+text",
            text=["query"],
            textposition="top center",
            marker={"symbol": "star-diamond", "size": 13, "color": ink},
            hoverinfo="skip",
            name="query",
            showlegend=False,
        )
    for update, values in ((figure.update_xaxes, xy[:, 0]), (figure.update_yaxes, xy[:, 1])):
        low, high = float(values.min()), float(values.max())
        room = MARGIN * (high - low) or 1.0
        update(visible=False, range=[low - room, high + room])
    return plain(figure).update_layout(
        height=HEIGHT,
        showlegend=True,
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        margin={"l": 0, "r": 0, "t": 40, "b": 0},
    )


def _add(figure: Figure, marks: Marks, name: str, marker: dict) -> None:
    figure.add_scatter(
        x=np.asarray(marks.xy[:, 0], dtype=float).tolist(),
        y=np.asarray(marks.xy[:, 1], dtype=float).tolist(),
        mode="markers",
        marker=marker,
        name=name,
        customdata=list(marks.rows),
        hovertext=[escaped(text, 80) for text in marks.hover],
        hoverinfo="text+name",
    )
