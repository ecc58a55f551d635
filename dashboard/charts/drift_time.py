"""Drift over time: measures, the quality of decoders, and regret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import (
    BASE_LAYOUT,
    apply_layout,
    build_tooltip,
    escape,
    guide,
    legend_below,
    new_figure,
    new_grid,
)
from dashboard.charts.palette import DASHES, INK, method_style, series_style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.drift import Line, RegretLines, Sparkline

MEASURE_STYLE, ALARM_STYLE = series_style(0), series_style(4)
MUTED_COLOURS = ("#6B6864", "#A3A09B")
"""Colour of a change within the noise, on a light and a dark page."""
SPARKLINES_PER_ROW = 2
SPARKLINE_PX, QUALITY_PX = 145, 330
AXIS_TOLERANCE = 1e-9
"""Share of a tick's step by which rounding may put it beyond the end of its axis."""
DRIFT_MARGIN = {"l": 10, "r": 10, "t": 26, "b": 10}
VALUE_TOOLTIP = "%{hovertext}<br>%{y:.4f}<extra></extra>"
DRIFT_LEGEND = legend_below(-0.3)
STEP_TITLES = {"round": "Rounds of feedback", "record": "Votes in the log"}
"""Titles of an axis of steps, by the unit of a step."""


def plot_sparklines(lines: Sequence[Sparkline], steps: Sequence[int], index: int, step_name: str, dark: bool) -> Figure:
    """Plot drift measures over steps as small charts; the arguments are those of `build_sparklines`."""
    from plotly.graph_objects import Figure

    return Figure(build_sparklines(lines, steps, index, step_name, dark))


def build_sparklines(
    lines: Sequence[Sparkline], steps: Sequence[int], index: int, step_name: str, dark: bool
) -> dict[str, Any]:
    """Build drift measures over steps as small charts, each with its value and change at step `index`.

    They are plain values for plotly: while a history is played they are built in every step, and plotly's own objects
    take a hundred times as long. A line is one measure; where it reaches its alarm level, its points are large and
    orange. step_name: the unit of a step, such as a round.
    """
    # Floor division of the negative number rounds up.
    n_rows, step_texts = -(-len(lines) // SPARKLINES_PER_ROW), list(map(f"{step_name} {{:,}}".format, steps))
    layout: dict[str, Any] = BASE_LAYOUT | {
        "height": SPARKLINE_PX * n_rows + 44,
        "margin": DRIFT_MARGIN | {"t": 40},
        "shapes": [],
        "annotations": [],
    }
    traces: list[dict[str, Any]] = []
    for position, line in enumerate(lines):
        # Plotly calls the axes of the first panel x and y, those of later ones x2, y2 and so on.
        suffix = str(position + 1) if position else ""
        row, column = divmod(position, SPARKLINES_PER_ROW)
        common = {"type": "scatter", "x": list(steps), "xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        traces += map(common.__or__, _build_lines(line, step_texts, dark))
        layout["shapes"] += _build_guides(line, steps[index], suffix, dark)
        layout["annotations"].append(_build_heading(line, index, suffix, dark))
        # Padding keeps the first and last marker inside the panel.
        padding = 0.03 * (line.high - line.low)
        ticks = _choose_ticks(line)
        layout[f"yaxis{suffix}"] = {
            "domain": _divide(n_rows - 1 - row, n_rows, 0.3 / n_rows),
            "anchor": f"x{suffix}",
            "range": [line.low - padding, line.high + padding],
            **{"tickvals": ticks, "ticktext": list(map("{:.3g}".format, ticks)), "tickfont": {"size": 12}},
            **{"zeroline": False, "automargin": True},
        }
        # Only the lowest panel of each column has numbers on its axis of steps.
        is_lowest = position + SPARKLINES_PER_ROW >= len(lines)
        layout[f"xaxis{suffix}"] = {
            "domain": _divide(column, SPARKLINES_PER_ROW, 0.09),
            "anchor": f"y{suffix}",
            **{"showticklabels": is_lowest, "nticks": 3, "zeroline": False, "showgrid": False},
        }
        if is_lowest:
            title_text = STEP_TITLES.get(step_name, step_name)
            layout[f"xaxis{suffix}"]["title"] = {"text": title_text, "font": {"size": 12}, "standoff": 4}
    return {"data": traces, "layout": layout}


def _divide(position: int, n_parts: int, gap: float) -> list[float]:
    """Return the interval of one of several equal parts of [0, 1], with gaps between them."""
    size = (1 - gap * (n_parts - 1)) / n_parts
    start = position * (size + gap)
    return [start, start + size]


def _build_lines(line: Sparkline, step_texts: list[str], dark: bool) -> list[dict[str, Any]]:
    """Build the traces of a measure: its values, and in simulations those without exploration."""
    colour, alarmed = MEASURE_STYLE.colour(dark), ALARM_STYLE.colour(dark)
    is_alarm = [line.alarm is not None and value is not None and value >= line.alarm for value in line.values]
    marker = {"size": np.where(is_alarm, 9, 4).tolist(), "color": np.where(is_alarm, alarmed, colour).tolist()}
    measured = {"mode": "lines+markers", "line": {"color": colour, "width": 2}, "marker": marker}
    traces = [measured | {"y": list(line.values)} | build_tooltip(step_texts, VALUE_TOOLTIP)]
    if line.unexplored:
        dotted = {"mode": "lines", "line": {"color": colour, "width": 1.5, "dash": "dot"}, "y": list(line.unexplored)}
        texts = list(map("without exploring, ".__add__, step_texts))
        traces.append(dotted | build_tooltip(texts, VALUE_TOOLTIP))
    return traces


def _build_guides(line: Sparkline, step: int, suffix: str, dark: bool) -> list[dict[str, Any]]:
    """Build the rule at the step that is displayed, and the line of the alarm if there is one."""
    x_axis, y_axis = f"x{suffix}", f"y{suffix}"
    rule = {"type": "line", "x0": step, "x1": step, "y0": 0, "y1": 1, "xref": x_axis, "yref": f"{y_axis} domain"}
    guides = [rule | {"line": guide(INK.colour(dark))}]
    if line.alarm is not None:
        level = {"type": "line", "x0": 0, "x1": 1, "y0": line.alarm, "y1": line.alarm}
        refs = {"xref": f"{x_axis} domain", "yref": y_axis}
        guides.append(level | refs | {"line": guide(ALARM_STYLE.colour(dark), "dash")})
    return guides


def _build_heading(line: Sparkline, index: int, suffix: str, dark: bool) -> dict[str, Any]:
    """Build the name of a measure with its value at a step, and its change since the start."""
    value, change_text, is_noise = line.value_and_change(index)
    if is_noise and change_text:
        change_text = f"<span style='color:{MUTED_COLOURS[dark]}'>{change_text}</span>"
    # Before the first measurement there is no change.
    value_text = ", ".join(filter(None, [f"<b>{value}</b>", change_text]))
    return {
        "text": f"{line.measure.title}<br><span style='font-size:14px'>{value_text}</span>",
        "hovertext": line.measure.meaning,
        "align": "left",
        "showarrow": False,
        "font": {"size": 12},
        **{"x": 0, "xref": f"x{suffix} domain", "xanchor": "left"},
        **{"y": 1, "yref": f"y{suffix} domain", "yanchor": "bottom"},
    }


def _choose_ticks(line: Sparkline) -> list[float]:
    """Return two to four values of an axis that get a number: round ones, or its lower end and the alarm."""
    if line.alarm is not None:
        return [line.low, line.alarm]
    span = line.high - line.low
    power = 10.0 ** np.floor(np.log10(span / 2))
    # From 1 on the steps that fit become coarser; the last one that still has two numbers in the range is taken.
    for factor in (5, 2.5, 2, 1):
        step = factor * power
        first = np.ceil(line.low / step - AXIS_TOLERANCE)
        n_ticks = int(np.floor(line.high / step + AXIS_TOLERANCE) - first) + 1
        if n_ticks >= 2:
            return list(map(float, (first + np.arange(n_ticks)) * step))
    return [line.low, line.high]


def plot_quality(
    groups: Mapping[str, Sequence[Line]], decoder_names: Mapping[str, tuple[str, str]], step_name: str, is_dark: bool
) -> Figure:
    """Plot a quality metric of every decoder over time, one panel for each group of queries.

    groups: heading → the decoders' lines; decoder_names: label of a line → (selector, title); step_name: the
    unit of a step.
    """
    n_columns, headings = max(1, len(groups)), [escape(heading, 60) for heading in groups]
    layout = {"subplot_titles": headings, "horizontal_spacing": 0.06 / n_columns}
    figure = new_grid(1, n_columns, shared_yaxes=True, **layout).update_annotations(font_size=13)
    for column, quality_lines in enumerate(groups.values(), 1):
        for quality_line in quality_lines:
            selector, title = decoder_names[quality_line.label]
            hover_texts = [f"{escape(title)}<br>{step_name}: {step_number:,}" for step_number in quality_line.steps]
            figure.add_scatter(
                x=list(quality_line.steps),
                y=list(quality_line.values),
                **method_style(selector).curve(is_dark, 7),
                name=escape(title),
                legendgroup=quality_line.label,
                # The panels share one legend, in which each decoder appears once.
                showlegend=column == 1,
                customdata=list(map(str, quality_line.steps)),
                **build_tooltip(hover_texts, VALUE_TOOLTIP),
                row=1,
                col=column,
            )
        # The middle panel's title stands for all: a phone has no room for three.
        axis_title = STEP_TITLES.get(step_name.removesuffix("s"), step_name)
        title = axis_title if column == 1 + n_columns // 2 else ""
        figure.update_xaxes(title=title, nticks=4, row=1, col=column)
    return apply_layout(figure, **DRIFT_LEGEND, height=QUALITY_PX, margin=DRIFT_MARGIN | {"t": 44})


def plot_regret(regret: RegretLines, is_dark: bool) -> Figure:
    """Plot cumulative regret over the rounds of feedback, with the bounds that theory gives, as lines.

    Regret tells by how many nats the learner did worse than a reference; the name of a line says which reference.
    """
    figure = new_figure()
    for position, (line_name, regret_values) in enumerate(regret.lines.items()):
        line_style, line_dash = series_style(position), DASHES[position % len(DASHES)]
        figure.add_scatter(
            x=list(regret.steps),
            y=list(regret_values),
            **line_style.line(is_dark, line_dash),
            name=line_name,
            hovertemplate="%{y:.1f} nats after %{x:,} rounds<extra>" + line_name + "</extra>",
        )
    figure.update_xaxes(title=STEP_TITLES["round"])
    figure.update_yaxes(title="Regret, in nats", rangemode="tozero")
    return apply_layout(figure, **DRIFT_LEGEND, height=QUALITY_PX + 60)
