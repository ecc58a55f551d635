"""Drift over time: measures, the quality of decoders, and regret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dashboard.charts.figure import apply_layout, escape, guide, legend_below, new_figure, new_grid
from dashboard.charts.palette import DASHES, INK, series_style, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.drift import Line, RegretLines, Sparkline

LINE, ALARM = series_style(0), series_style(4)
MUTED = ("#6B6864", "#A3A09B")
"""The colour of a change that says nothing, on a light and a dark page."""
A_ROW = 2
HEIGHT, QUALITY_HEIGHT = 145, 330
MARGIN = {"l": 10, "r": 10, "t": 26, "b": 10}
VALUE = "%{hovertext}<br>%{y:.4f}<extra></extra>"
LEGEND = legend_below(-0.3)


def sparklines_figure(lines: Sequence[Sparkline], steps: Sequence[int], place: int, counted: str, dark: bool) -> Figure:
    """Measures as small charts, each with its value and change at one step. place: of that step; counted: by a step."""
    rows, last = -(-len(lines) // A_ROW), steps[place]
    figure = new_grid(rows, A_ROW, horizontal_spacing=0.09, vertical_spacing=0.3 / rows)
    colour, alarmed, ink = LINE.colour(dark), ALARM.colour(dark), INK.colour(dark)
    for number, line in enumerate(lines):
        at: dict[str, Any] = {"row": number // A_ROW + 1, "col": number % A_ROW + 1}
        over = [line.alarm is not None and value is not None and value >= line.alarm for value in line.values]
        figure.add_scatter(
            x=list(steps),
            y=list(line.values),
            mode="lines+markers",
            line={"color": colour, "width": 2},
            marker={"size": [9 if alarm else 4 for alarm in over], "color": [alarmed if a else colour for a in over]},
            hovertext=[f"{counted} {step:,}" for step in steps],
            hovertemplate=VALUE,
            **at,
        )
        if line.unexplored:
            figure.add_scatter(
                x=list(steps),
                y=list(line.unexplored),
                mode="lines",
                line={"color": colour, "width": 1.5, "dash": "dot"},
                hovertext=[f"without exploring, {counted} {step:,}" for step in steps],
                hovertemplate=VALUE,
                **at,
            )
        if line.alarm is not None:
            figure.add_hline(y=line.alarm, line=guide(alarmed, "dash"), **at)
        figure.add_vline(x=last, line=guide(ink), **at)
        value, change, noise = line.value_and_change(place)
        change = f"<span style='color:{MUTED[dark]}'>{change}</span>" if noise else change
        axis = str(number + 1) if number else ""
        figure.add_annotation(
            text=f"{line.measure.title}<br><b>{value}</b>, {change}",
            hovertext=line.measure.meaning,
            align="left",
            showarrow=False,
            font={"size": 12},
            **{"x": 0, "xref": f"x{axis} domain", "xanchor": "left"},
            **{"y": 1, "yref": f"y{axis} domain", "yanchor": "bottom"},
        )
        room = 0.03 * (line.high - line.low)
        figure.update_yaxes(range=[line.low - room, line.high + room], nticks=3, **at)
        figure.update_xaxes(showticklabels=number + A_ROW >= len(lines), **at)
    figure.update_xaxes(nticks=3, zeroline=False, showgrid=False)
    figure.update_yaxes(zeroline=False, tickfont={"size": 11})
    return apply_layout(figure, height=HEIGHT * rows + 20, margin=MARGIN | {"t": 40})


def quality_figure(
    groups: Mapping[str, Sequence[Line]], named: Mapping[str, tuple[str, str]], counted: str, dark: bool
) -> Figure:
    """The quality of every decoder over time, a column for each group of queries, on one scale.

    groups: heading → lines; named: a decoder's label → (selector, title); counted: what a step counts.
    """
    columns = max(1, len(groups))
    figure = new_grid(
        1,
        columns,
        shared_yaxes=True,
        subplot_titles=[escape(heading, 60) for heading in groups],
        horizontal_spacing=0.06 / columns,
    )
    figure.update_annotations(font_size=13)
    for column, lines in enumerate(groups.values(), 1):
        for line in lines:
            selector, title = named[line.label]
            figure.add_scatter(
                x=list(line.steps),
                y=list(line.values),
                **style_of(selector).curve(dark, 7),
                name=escape(title),
                legendgroup=line.label,
                showlegend=column == 1,
                customdata=[str(step) for step in line.steps],
                hovertext=[f"{escape(title)}<br>{counted}: {step:,}" for step in line.steps],
                hovertemplate=VALUE,
                row=1,
                col=column,
            )
        figure.update_xaxes(title=counted, nticks=6, row=1, col=column)
    return apply_layout(figure, **LEGEND, height=QUALITY_HEIGHT, margin=MARGIN | {"t": 44})


def regret_figure(regret: RegretLines, dark: bool) -> Figure:
    """Cumulative regret over the rounds, and the bounds that theory gives it."""
    figure = new_figure()
    for position, (name, values) in enumerate(regret.lines.items()):
        style, dash = series_style(position), DASHES[position % len(DASHES)]
        figure.add_scatter(
            x=list(regret.steps),
            y=list(values),
            **style.line(dark, dash),
            name=name,
            hovertemplate="%{y:.1f} nats after %{x:,} rounds<extra>" + name + "</extra>",
        )
    figure.update_xaxes(title="rounds")
    figure.update_yaxes(title="regret, nats", rangemode="tozero")
    return apply_layout(figure, **LEGEND, height=QUALITY_HEIGHT + 60)
