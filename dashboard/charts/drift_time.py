"""Drift over time: measures, the quality of decoders, and regret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import apply_layout, build_tooltip, escape, guide, legend_below, new_figure, new_grid
from dashboard.charts.palette import DASHES, INK, method_style, series_style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.drift import Line, RegretLines, Sparkline

MEASURE_STYLE, ALARM_STYLE = series_style(0), series_style(4)
MUTED_COLOURS = ("#6B6864", "#A3A09B")
"""Colour of a change within the noise, on a light and a dark page."""
SPARKLINES_PER_ROW = 2
SPARKLINE_PX, QUALITY_PX = 145, 330
DRIFT_MARGIN = {"l": 10, "r": 10, "t": 26, "b": 10}
VALUE_TOOLTIP = "%{hovertext}<br>%{y:.4f}<extra></extra>"
DRIFT_LEGEND = legend_below(-0.3)


def plot_sparklines(lines: Sequence[Sparkline], steps: Sequence[int], index: int, step_name: str, dark: bool) -> Figure:
    """Plot drift measures over steps as small charts, each with its value and change at step `index`.

    A line is one measure; where it reaches its alarm level, its points are large and orange. step_name: the
    unit of a step, such as a round.
    """
    # Floor division of the negative number rounds up.
    n_rows, step_texts = -(-len(lines) // SPARKLINES_PER_ROW), [f"{step_name} {step:,}" for step in steps]
    figure = new_grid(n_rows, SPARKLINES_PER_ROW, horizontal_spacing=0.09, vertical_spacing=0.3 / n_rows)
    colour, alarmed, ink_colour = MEASURE_STYLE.colour(dark), ALARM_STYLE.colour(dark), INK.colour(dark)
    for position, line in enumerate(lines):
        subplot: dict[str, Any] = {"row": position // SPARKLINES_PER_ROW + 1, "col": position % SPARKLINES_PER_ROW + 1}
        is_alarm = [line.alarm is not None and value is not None and value >= line.alarm for value in line.values]
        sizes, colours = np.where(is_alarm, 9, 4).tolist(), np.where(is_alarm, alarmed, colour).tolist()
        figure.add_scatter(
            x=list(steps),
            y=list(line.values),
            mode="lines+markers",
            line={"color": colour, "width": 2},
            marker={"size": sizes, "color": colours},
            **build_tooltip(step_texts, VALUE_TOOLTIP),
            **subplot,
        )
        # Values without exploration exist in simulations only.
        if line.unexplored:
            figure.add_scatter(
                x=list(steps),
                y=list(line.unexplored),
                mode="lines",
                line={"color": colour, "width": 1.5, "dash": "dot"},
                **build_tooltip(list(map("without exploring, ".__add__, step_texts)), VALUE_TOOLTIP),
                **subplot,
            )
        if line.alarm is not None:
            figure.add_hline(y=line.alarm, line=guide(alarmed, "dash"), **subplot)
        figure.add_vline(x=steps[index], line=guide(ink_colour), **subplot)
        value, change_text, is_noise = line.value_and_change(index)
        change_text = f"<span style='color:{MUTED_COLOURS[dark]}'>{change_text}</span>" if is_noise else change_text
        # Plotly calls the axes of the first panel x and y, those of later ones x2, y2 and so on.
        axis_number = str(position + 1) if position else ""
        figure.add_annotation(
            text=f"{line.measure.title}<br><span style='font-size:14px'><b>{value}</b>, {change_text}</span>",
            hovertext=line.measure.meaning,
            align="left",
            showarrow=False,
            font={"size": 12},
            **{"x": 0, "xref": f"x{axis_number} domain", "xanchor": "left"},
            **{"y": 1, "yref": f"y{axis_number} domain", "yanchor": "bottom"},
        )
        # Padding keeps the first and last marker inside the panel.
        padding = 0.03 * (line.high - line.low)
        figure.update_yaxes(range=[line.low - padding, line.high + padding], nticks=3, **subplot)
        # Only the lowest panel of each column has numbers on its axis of steps.
        figure.update_xaxes(showticklabels=position + SPARKLINES_PER_ROW >= len(lines), **subplot)
    figure.update_xaxes(nticks=3, zeroline=False, showgrid=False)
    figure.update_yaxes(zeroline=False, tickfont={"size": 12})
    return apply_layout(figure, height=SPARKLINE_PX * n_rows + 20, margin=DRIFT_MARGIN | {"t": 40})


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
        figure.update_xaxes(title=step_name, nticks=6, row=1, col=column)
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
    figure.update_xaxes(title="rounds")
    figure.update_yaxes(title="regret, nats", rangemode="tozero")
    return apply_layout(figure, **DRIFT_LEGEND, height=QUALITY_PX + 60)
