"""Frontier as small multiples: a panel per method, its points in colour, all others grey."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dashboard.charts.figure import apply_layout, escape, new_grid, read_column
from dashboard.charts.frontier import (
    INK_SHARE,
    FrontierChart,
    add_budget,
    add_choices,
    build_chance_facts,
    build_controls,
    build_envelope,
    build_line_facts,
    build_line_look,
    build_lines,
    build_mark,
    fade,
    find_chance,
    find_positions,
    format_titles,
)
from dashboard.charts.palette import GREY, method_style, mix_with_ink
from engine.evaluation.frontier import TIME_AXIS
from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PANELS_PER_ROW = 3
"""Side by side."""
PANEL_PX = 196
"""Height of a row of panels in pixels."""
CHOSEN_SHAPE = "chosen"
"""Name of the frame around the panel of the chosen decoder."""


def plot_panels(chart: FrontierChart) -> Figure:
    """Plot the frontier's chart as small panels, one per method, with all other points and their envelope in grey.

    The baseline, a single point, has no panel.
    """
    points, specs, by_method, curves_by_method = chart.frontier.points, methods(), defaultdict(list), defaultdict(list)
    for point in points:
        by_method[point.point.method].append(point)
    if chart.base is not None and len(by_method) > 1 and by_method[chart.base.point.method] == [chart.base]:
        del by_method[chart.base.point.method]
    for curve in chart.frontier.curves.values():
        curves_by_method[curve[0].point.method].append(curve)
    # Of four the last one would stand alone in its row.
    n_columns = 2 if len(by_method) == 4 else PANELS_PER_ROW
    # Floor division of the negative number rounds up.
    n_rows = -(-len(by_method) // n_columns)
    titles = [f"{method_style(name).sign} {escape(specs[name].title if name in specs else name)}" for name in by_method]
    chosen = find_chosen(chart)
    titles = [f"<b>{title}</b>" if name == chosen else title for name, title in zip(by_method, titles, strict=True)]
    grid = {"shared_xaxes": "all", "shared_yaxes": "all", "horizontal_spacing": 0.02, "vertical_spacing": 0.16 / n_rows}
    figure = new_grid(n_rows, n_columns, subplot_titles=titles, **grid)
    grey_points = chart.xy(points) | {"mode": "markers", "marker": {"size": 4, "color": GREY[chart.dark]}}
    background = list(filter(None, [grey_points | {"hoverinfo": "skip"}, build_envelope(chart)]))
    for position, (name, members) in enumerate(by_method.items()):
        subplot = {"row": position // n_columns + 1, "col": position % n_columns + 1}
        style = method_style(name)
        colour = style.colour(chart.dark)
        for trace in background:
            figure.add_scatter(**trace, **subplot)
        # The curves of this method only; all points are in the background.
        for line in build_lines(chart, curves_by_method[name]):
            look, facts = build_line_look(chart, line, colour), build_line_facts(chart, name, line)
            figure.add_scatter(x=line.x, y=line.y, mode="lines", line=look, hoverinfo="skip", meta=facts, **subplot)
        labels = read_column(members, "point.label")
        positions = find_positions(chart, labels)
        opacities = [fade(find_chance(chart, point_position), chart.dark) for point_position in positions]
        figure.add_scatter(
            **chart.xy(members),
            mode="markers",
            marker={"symbol": style.symbol, "size": 9, "color": colour, "opacity": opacities},
            customdata=labels,
            meta=build_chance_facts(chart, name, positions),
            hovertext=[escape(point.name, 90) for point in members],
            hovertemplate="%{hovertext}<br>%{x:.3f}, %{y:.1f}<extra></extra>",
            **subplot,
        )
    # Plotly counts axes from the first panel on: x, x2, x3.
    axes = {name: "" if number == 0 else str(number + 1) for number, name in enumerate(by_method)}
    add_budget(figure, chart, axes.values())
    add_choices(figure, chart, axes)
    # All panels have the window of the main chart, so that they can be compared.
    figure.update_xaxes(range=list(chart.view.x), nticks=4, type="log" if chart.frontier.x == TIME_AXIS else "linear")
    figure.update_yaxes(range=list(chart.view.y), ticksuffix="%" if chart.relative else "", nticks=4)
    figure.update_annotations(font={"size": 13, "color": chart.ink})
    _colour_titles(figure, chart, axes)
    revision = f"panels {chart.frontier.x} {chart.frontier.y} {chart.whole}"
    _title_axes(figure, chart, len(by_method), n_columns)
    meta = {"panels": list(by_method)} | build_controls(chart)
    return apply_layout(figure, height=40 + PANEL_PX * n_rows, uirevision=revision, meta=meta)


def _colour_titles(figure: Figure, chart: FrontierChart, axes: Mapping[str, str]) -> None:
    """Give each panel's title its decoder's colour, and the chosen decoder's panel a frame.

    axes: method → number of the axes of its panel, in the order of the panels
    """
    # The first annotations are the panels' titles, each in the colour of its curve; names of choices follow.
    for name, title in zip(axes, figure.layout.annotations, strict=False):
        title.font.color = mix_with_ink(method_style(name).colour(chart.dark), chart.ink, INK_SHARE)
    chosen = find_chosen(chart)
    if chosen is not None and chosen in axes:
        number, frame_colour = axes[chosen], method_style(chosen).colour(chart.dark)
        place = {"xref": f"x{number} domain", "yref": f"y{number} domain", "x0": 0, "x1": 1, "y0": 0, "y1": 1}
        figure.add_shape(type="rect", name=CHOSEN_SHAPE, line={"color": frame_colour, "width": 2}, **place)


def find_chosen(chart: FrontierChart) -> str | None:
    """Return the method of the recommended setting, the sure one or else the bet; None without one."""
    option = None if chart.decision is None else chart.decision.sure or chart.decision.bet
    return None if option is None else build_mark(chart, option)["method"]


def _title_axes(figure: Figure, chart: FrontierChart, n_panels: int, n_columns: int) -> None:
    """Title the outer axes of panels, and number those at the foot of each column, wherever it ends."""
    x_title, y_title = format_titles(chart)
    title_font = {"size": 11}
    for number in range(n_panels):
        cell = {"row": number // n_columns + 1, "col": number % n_columns + 1}
        # Plotly numbers the last row alone, whose last panels may be missing.
        if number + n_columns >= n_panels:
            text = f"← {x_title}" if chart.frontier.x == TIME_AXIS else f"{x_title} →"
            figure.update_xaxes(showticklabels=True, title={"text": text, "font": title_font, "standoff": 4}, **cell)
        if number % n_columns == 0:
            figure.update_yaxes(title={"text": f"{escape(y_title, 80)} ↑", "font": title_font}, **cell)
