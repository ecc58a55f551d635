"""The frontier as small multiples: a panel for each method, its points in colour, all others grey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboard.charts.figure import apply_layout, escape, guide, new_grid
from dashboard.charts.frontier import FrontierChart, lines_of
from dashboard.charts.palette import GREY, style_of
from engine.evaluation.frontier import TIME_AXIS
from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ACROSS = 3
"""Panels side by side."""
HEIGHT = 190
"""Pixels of a row of panels."""


def panels_figure(chart: FrontierChart) -> Figure:
    """The same axes in every panel; a point's id is its decoder's label."""
    points = chart.frontier.points
    own = {
        name: [p for p in points if p.point.method == name] for name in dict.fromkeys(p.point.method for p in points)
    }
    rows = -(-len(own) // ACROSS)
    known = methods()
    titles = [f"{style_of(name).sign} {escape(known[name].title if name in known else name)}" for name in own]
    grid = {"shared_xaxes": "all", "shared_yaxes": "all", "horizontal_spacing": 0.02, "vertical_spacing": 0.12 / rows}
    figure = new_grid(rows, ACROSS, subplot_titles=titles, **grid)
    for position, (name, members) in enumerate(own.items()):
        where = {"row": position // ACROSS + 1, "col": position % ACROSS + 1}
        style = style_of(name)
        colour = style.colour(chart.dark)
        figure.add_scatter(
            **chart.xy(points),
            mode="markers",
            marker={"size": 4, "color": GREY[chart.dark]},
            hoverinfo="skip",
            **where,
        )
        for x, y in lines_of(
            chart, [curve for curve in chart.frontier.curves.values() if curve[0].point.method == name]
        ):
            figure.add_scatter(x=x, y=y, mode="lines", line={"color": colour, "width": 2}, hoverinfo="skip", **where)
        figure.add_scatter(
            **chart.xy(members),
            mode="markers",
            marker={"symbol": style.symbol, "size": 9, "color": colour},
            customdata=[p.point.label for p in members],
            hovertext=[escape(p.name, 90) for p in members],
            hovertemplate="%{hovertext}<br>%{x:.3f}, %{y:.1f}<extra></extra>",
            **where,
        )
    if chart.floor is not None:
        figure.add_hline(y=chart.floor, line=guide(chart.ink, "dash"))
    figure.update_xaxes(range=list(chart.view.x), nticks=5, type="log" if chart.frontier.x == TIME_AXIS else "linear")
    figure.update_yaxes(range=list(chart.view.y), ticksuffix="%" if chart.relative else "", nticks=5)
    figure.update_annotations(font={"size": 13, "color": chart.ink})
    return apply_layout(
        figure, height=40 + HEIGHT * rows, uirevision=f"panels {chart.frontier.x} {chart.frontier.y} {chart.whole}"
    )
