"""Frontier as small multiples: a panel per method, its points in colour, all others grey."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dashboard.charts.figure import apply_layout, escape, guide, new_grid, read_column
from dashboard.charts.frontier import FrontierChart, build_lines
from dashboard.charts.palette import GREY, method_style
from engine.evaluation.frontier import TIME_AXIS
from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PANELS_PER_ROW = 3
"""Side by side."""
PANEL_PX = 190
"""Height of a row of panels in pixels."""


def plot_panels(chart: FrontierChart) -> Figure:
    """Plot the frontier's chart as small panels, one per method, with all other points in grey."""
    points, specs, by_method, curves_by_method = chart.frontier.points, methods(), defaultdict(list), defaultdict(list)
    for point in points:
        by_method[point.point.method].append(point)
    for curve in chart.frontier.curves.values():
        curves_by_method[curve[0].point.method].append(curve)
    # Floor division of the negative number rounds up.
    n_rows = -(-len(by_method) // PANELS_PER_ROW)
    titles = [f"{method_style(name).sign} {escape(specs[name].title if name in specs else name)}" for name in by_method]
    grid = {"shared_xaxes": "all", "shared_yaxes": "all", "horizontal_spacing": 0.02, "vertical_spacing": 0.12 / n_rows}
    figure = new_grid(n_rows, PANELS_PER_ROW, subplot_titles=titles, **grid)
    for position, (name, members) in enumerate(by_method.items()):
        subplot = {"row": position // PANELS_PER_ROW + 1, "col": position % PANELS_PER_ROW + 1}
        style = method_style(name)
        colour = style.colour(chart.dark)
        grey_points = {"mode": "markers", "marker": {"size": 4, "color": GREY[chart.dark]}, "hoverinfo": "skip"}
        figure.add_scatter(**chart.xy(points), **grey_points, **subplot)
        # The curves of this method only; all points are in the background.
        for x, y in build_lines(chart, curves_by_method[name]):
            figure.add_scatter(x=x, y=y, mode="lines", line={"color": colour, "width": 2}, hoverinfo="skip", **subplot)
        figure.add_scatter(
            **chart.xy(members),
            mode="markers",
            marker={"symbol": style.symbol, "size": 9, "color": colour},
            customdata=read_column(members, "point.label"),
            hovertext=[escape(point.name, 90) for point in members],
            hovertemplate="%{hovertext}<br>%{x:.3f}, %{y:.1f}<extra></extra>",
            **subplot,
        )
    if chart.floor is not None:
        figure.add_hline(y=chart.floor, line=guide(chart.ink, "dash"))
    # All panels have the window of the main chart, so that they can be compared.
    figure.update_xaxes(range=list(chart.view.x), nticks=5, type="log" if chart.frontier.x == TIME_AXIS else "linear")
    figure.update_yaxes(range=list(chart.view.y), ticksuffix="%" if chart.relative else "", nticks=5)
    figure.update_annotations(font={"size": 13, "color": chart.ink})
    revision = f"panels {chart.frontier.x} {chart.frontier.y} {chart.whole}"
    return apply_layout(figure, height=40 + PANEL_PX * n_rows, uirevision=revision)
