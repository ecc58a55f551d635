"""Frontier as small multiples: a panel per method with its own points, the largest gain at the budget first."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dashboard.charts.figure import apply_layout, escape, new_grid, read_column
from dashboard.charts.frontier import (
    INK_SHARE,
    FrontierChart,
    add_budget,
    add_choices,
    build_controls,
    build_envelope,
    build_line_facts,
    build_line_look,
    build_lines,
    build_mark,
    build_point_look,
    format_titles,
    list_budgets,
)
from dashboard.charts.frontier_layout import Place
from dashboard.charts.palette import GROUNDS, method_style, mix_with_ink
from dashboard.charts.verdict_data import find_method, format_certainty
from engine.evaluation.frontier import TIME_AXIS
from engine.stages import methods
from engine.wording import signed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.decision import Option
    from engine.evaluation.frontier import FrontierPoint

PANELS_PER_ROW = 3
"""Side by side."""
PANEL_PX, ROW_GAP_PX = 212, 54
"""Height of a row of panels in pixels, and the part of it between two rows: numbers of the one, title of the other."""
MAX_X_TICKS, MAX_Y_TICKS, POINT_PX, BEST_PX = 4, 4, 7, 12
"""Numbers on the axes of a panel, and the sizes of its points and of its best setting in pixels."""
HOVER = "%{hovertext}<br>%{x:.3f}, %{y:.1f}<extra></extra>"
CHOSEN_SHAPE, BEST_NAME, Y_TITLE = "chosen", "best setting", "y title"
"""Names of the frame around the panel of the chosen decoder, of the marks of what panels' titles speak of, and of the
title above all panels (panels.js moves it)."""
TOP_PX, Y_TITLE_SHIFT_PX = 52, 24
"""Height above the panels in pixels, for their titles and that of the vertical axis, and the place of the latter."""


def plot_panels(chart: FrontierChart) -> Figure:
    """Plot the frontier's chart as small panels, one per method, each with the best of all decoders as a thin line.

    The panels stand in the order of the table of best settings: the sure choice, what else is sure, the rest, each by
    falling gain. The baseline, a single point, has no panel.
    """
    points, by_method, curves_by_method = chart.frontier.points, defaultdict(list), defaultdict(list)
    for point in points:
        by_method[point.point.method].append(point)
    if chart.base is not None and len(by_method) > 1 and by_method[chart.base.point.method] == [chart.base]:
        del by_method[chart.base.point.method]
    best_options = find_best_options(chart)
    order = {name: by_method[name] for name in [*best_options, *by_method] if name in by_method}
    for curve in chart.frontier.curves.values():
        curves_by_method[curve[0].point.method].append(curve)
    # Of four the last one would stand alone in its row.
    n_columns = 2 if len(order) == 4 else PANELS_PER_ROW
    # Floor division of the negative number rounds up.
    n_rows = -(-len(order) // n_columns)
    chosen = find_chosen(chart)
    titles = [format_panel_title(name, best_options.get(name), is_chosen=name == chosen) for name in order]
    gap = ROW_GAP_PX / (PANEL_PX * n_rows)
    grid = {"shared_xaxes": "all", "shared_yaxes": "all", "horizontal_spacing": 0.02, "vertical_spacing": gap}
    figure = new_grid(n_rows, n_columns, subplot_titles=titles, **grid)
    envelope = build_envelope(chart)
    # The two recommended settings have rings.
    choices = () if chart.decision is None else (chart.decision.sure, chart.decision.bet)
    ringed = read_column(filter(None, choices), "label")
    for position, (name, members) in enumerate(order.items()):
        subplot = {"row": position // n_columns + 1, "col": position % n_columns + 1}
        if envelope is not None:
            figure.add_scatter(**envelope, **subplot)
        _add_panel(figure, chart, members, curves_by_method[name], subplot)
        if name in best_options and best_options[name].label not in ringed:
            figure.add_scatter(**_build_best_mark(chart, best_options[name]), **subplot)
    # Plotly counts axes from the first panel on: x, x2, x3.
    axes = {name: "" if number == 0 else str(number + 1) for number, name in enumerate(order)}
    add_budget(figure, chart, axes.values())
    add_choices(figure, chart, axes)
    # All panels have the window of the main chart, so that they can be compared.
    figure.update_xaxes(
        range=list(chart.view.x), nticks=MAX_X_TICKS, type="log" if chart.frontier.x == TIME_AXIS else "linear"
    )
    figure.update_yaxes(range=list(chart.view.y), ticksuffix="%" if chart.relative else "", nticks=MAX_Y_TICKS)
    figure.update_annotations(font={"size": 13, "color": chart.ink})
    _colour_titles(figure, chart, axes)
    revision = f"panels {chart.frontier.x} {chart.frontier.y} {chart.whole}"
    _title_axes(figure, chart, len(order), n_columns)
    meta = {"panels": list(order)} | build_controls(chart)
    if "level" in meta and chart.estimates is not None:
        meta["titles"] = _build_dragged_titles(chart, list(order))
    margin = {"l": 10, "r": 10, "t": TOP_PX, "b": 10}
    height = TOP_PX + 40 + PANEL_PX * n_rows - ROW_GAP_PX
    return apply_layout(figure, height=height, margin=margin, uirevision=revision, meta=meta)


def _add_panel(
    figure: Figure,
    chart: FrontierChart,
    members: Sequence[FrontierPoint],
    curves: Sequence[Sequence[FrontierPoint]],
    subplot: Mapping[str, int],
) -> None:
    """Add the lines and points of a method to its panel.

    members: its points; curves: its points by curve, along which one parameter changes; subplot: row and column
    """
    name = members[0].point.method
    style, labels = method_style(name), read_column(members, "point.label")
    colour = style.colour(chart.dark)
    for line in build_lines(chart, curves):
        line_look, line_facts = build_line_look(chart, line, colour), build_line_facts(chart, name, line)
        figure.add_scatter(
            x=line.x, y=line.y, mode="lines", line=line_look, hoverinfo="skip", meta=line_facts, **subplot
        )
    look, facts = build_point_look(chart, name, labels)
    figure.add_scatter(
        **chart.xy(members),
        mode="markers",
        marker={"symbol": style.symbol, "size": POINT_PX, "color": colour} | look,
        customdata=labels,
        meta=facts,
        hovertext=[escape(point.name, 90) for point in members],
        hovertemplate=HOVER,
        **subplot,
    )


def _build_best_mark(chart: FrontierChart, option: Option) -> dict[str, Any]:
    """Build the trace of the setting that a panel's title speaks of: never pale, as it may be all that a panel has."""
    style = method_style(find_method(option))
    outline = {"width": 1.5, "color": GROUNDS[chart.dark]}
    look = {"symbol": style.symbol, "size": BEST_PX, "color": style.colour(chart.dark), "line": outline}
    x, y = _locate_best(chart, option)
    texts = {"name": BEST_NAME, "hovertext": [escape(option.name, 90)], "hovertemplate": HOVER}
    return {"x": [x], "y": [y], "mode": "markers", "marker": look, "customdata": [option.label]} | texts


def _locate_best(chart: FrontierChart, option: Option) -> Place:
    """Return where a setting lies on its panel's points or line, which may be means over more queries than chose it."""
    for point in chart.frontier.points:
        if point.point.label == option.label:
            return point.x, point.y * chart.unit
    axes, decoder = (chart.frontier.x, chart.frontier.y), option.decoder
    for curve in chart.exact:
        if decoder is not None and set(axes) <= set(curve.means) and curve.has(decoder):
            x, y = map(curve.at(getattr(decoder.select, curve.parameter)).__getitem__, axes)
            return x, y * chart.unit
    mark = build_mark(chart, option)
    # Marks on an axis of times have powers of ten, traces the times.
    return 10 ** mark["x"] if chart.frontier.x == TIME_AXIS else mark["x"], mark["y"]


def find_best_options(chart: FrontierChart) -> dict[str, Option]:
    """Return each method's best setting at the budget, in the order of the table of best settings.

    It is empty without a budget or without estimates of what each setting keeps.
    """
    best_options: dict[str, Option] = {}
    if chart.estimates is None or chart.share is None:
        return best_options
    for position in chart.estimates.find_best_positions(chart.share, chart.pinned):
        option = chart.estimates.build_option(position, chart.share)
        # Of a method behind several scorers the best one speaks.
        best_options.setdefault(find_method(option), option)
    return best_options


def format_panel_title(method: str, option: Option | None, *, is_chosen: bool) -> str:
    """Format the title of a method's panel: its name, the gain of its best setting, and how sure that is.

    option: the best setting, None without estimates; is_chosen: True for the recommended decoder, in bold
    """
    title = escape(_name_panel(method))
    if option is not None:
        title += f" {_format_gain(option)}"
    return f"<b>{title}</b>" if is_chosen else title


def _name_panel(method: str) -> str:
    """Return the sign and the name of a panel's method, with which its title begins."""
    specs = methods()
    return f"{method_style(method).sign} {specs[method].title if method in specs else method}"


def _format_gain(option: Option) -> str:
    """Format the gain of a method's best setting and how sure it is that it keeps the budget, "+12%, sure"."""
    certainty = format_certainty(option)
    return f"{signed(100 * option.gain, 0)}%, {certainty}"


def _build_dragged_titles(chart: FrontierChart, names: Sequence[str]) -> dict[str, Any]:
    """Build the panels' titles at every budget, so that they follow in the browser while it is dragged.

    "names" has the beginning of each panel's title; for each budget "gains" has their ends, "" for none, and "settings"
    the labels of the settings that they speak of, as numbers; names: the panels' methods
    """
    gains, settings, number_of = list[list[str]](), list[list[int | None]](), dict[str, int]()
    for share in list_budgets():
        # A setting is pinned at one budget alone.
        is_set = chart.share is not None and math.isclose(share, chart.share)
        best_options = find_best_options(replace(chart, share=share, pinned=chart.pinned if is_set else None))
        options = list(map(best_options.get, names))
        gains.append(["" if option is None else _format_gain(option) for option in options])
        numbers = list[int | None]()
        for option in options:
            numbers.append(None if option is None else number_of.setdefault(option.label, len(number_of)))
        settings.append(numbers)
    return {"names": list(map(_name_panel, names)), "gains": gains, "settings": settings}


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
    return None if option is None else find_method(option)


def _title_axes(figure: Figure, chart: FrontierChart, n_panels: int, n_columns: int) -> None:
    """Number the horizontal axis of every panel, title the last ones, and title the vertical axis above them all."""
    x_title, y_title = format_titles(chart)
    text = f"← {x_title}" if chart.frontier.x == TIME_AXIS else f"{x_title} →"
    # Plotly numbers the last row alone, far below the panels above it.
    figure.update_xaxes(showticklabels=True)
    for number in range(max(0, n_panels - n_columns), n_panels):
        cell = {"row": number // n_columns + 1, "col": number % n_columns + 1}
        figure.update_xaxes(title={"text": text, "font": {"size": 12}, "standoff": 4}, **cell)
    # Level words are read faster than upright ones, and one title is enough for axes that are all alike.
    corner = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
    look = {"showarrow": False, "yshift": Y_TITLE_SHIFT_PX, "font": {"size": 12, "color": chart.ink}}
    figure.add_annotation(text=f"{escape(y_title, 80)} ↑", name=Y_TITLE, **corner, **look)
