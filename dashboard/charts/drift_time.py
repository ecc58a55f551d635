"""Drift over time: a measure, what decoders reach, and regret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.charts.palette import DASHES, PALETTE, escaped, plain, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.drift import Line, RegretLines

LINE, ALARM = PALETTE[1], PALETTE[4]
HEIGHT, QUALITY_HEIGHT = 165, 330
MARGIN = {"l": 10, "r": 10, "t": 26, "b": 10}
BELOW = {"showlegend": True, "legend": {"orientation": "h", "y": -0.3, "x": 0}}


def measure_figure(
    steps: Sequence[int], values: Sequence[float | None], alarms: Sequence[bool], counted: str, dark: bool
) -> Figure:
    """One measure at every step, those with an alarm in another colour and symbol. counted: what a step counts."""
    from plotly.graph_objects import Figure

    figure = Figure()
    figure.add_scatter(
        x=list(steps),
        y=list(values),
        mode="lines+markers",
        line={"color": LINE.colour(dark), "width": 2},
        marker={
            "symbol": [ALARM.symbol if alarm else LINE.symbol for alarm in alarms],
            "size": [10 if alarm else 5 for alarm in alarms],
            "color": [(ALARM if alarm else LINE).colour(dark) for alarm in alarms],
        },
        customdata=[str(step) for step in steps],
        hovertext=[f"{counted}: {step:,}" for step in steps],
        hovertemplate="%{hovertext}<br>%{y:.4f}<extra></extra>",
    )
    # What begins at 0 is read from there; of the others the change is what counts.
    figure.update_yaxes(rangemode="tozero" if values and values[0] == 0 else "normal", nticks=4, exponentformat="none")
    figure.update_xaxes(nticks=6)
    return plain(figure).update_layout(height=HEIGHT, margin=MARGIN)


def quality_figure(
    groups: Mapping[str, Sequence[Line]], named: Mapping[str, tuple[str, str]], counted: str, dark: bool
) -> Figure:
    """What every decoder reached over time, a column a group of queries, on one scale.

    groups: heading → lines; named: a decoder's label → its selector and what people call it.
    """
    from plotly.subplots import make_subplots

    columns = max(1, len(groups))
    figure = make_subplots(
        rows=1,
        cols=columns,
        shared_yaxes=True,
        subplot_titles=[escaped(heading, 60) for heading in groups],
        horizontal_spacing=0.06 / columns,
    )
    figure.update_annotations(font_size=13)
    for column, lines in enumerate(groups.values(), 1):
        for line in lines:
            selector, title = named[line.label]
            style = style_of(selector)
            figure.add_scatter(
                x=list(line.steps),
                y=list(line.values),
                mode="lines+markers",
                name=escaped(title),
                legendgroup=line.label,
                showlegend=column == 1,
                line={"color": style.colour(dark), "width": 2},
                marker={"symbol": style.symbol, "size": 7},
                customdata=[str(step) for step in line.steps],
                hovertext=[f"{escaped(title)}<br>{counted}: {step:,}" for step in line.steps],
                hovertemplate="%{hovertext}<br>%{y:.4f}<extra></extra>",
                row=1,
                col=column,
            )
        figure.update_xaxes(title=counted, nticks=6, row=1, col=column)
    return plain(figure).update_layout(BELOW, height=QUALITY_HEIGHT, margin=MARGIN | {"t": 44})


def regret_figure(found: RegretLines, dark: bool) -> Figure:
    """Regret added up over the rounds, and what theory promises of it."""
    from plotly.graph_objects import Figure

    figure = Figure()
    for at, (name, values) in enumerate(found.lines.items()):
        figure.add_scatter(
            x=list(found.steps),
            y=list(values),
            mode="lines",
            name=name,
            line={"color": PALETTE[(0, 1, 4)[at % 3]].colour(dark), "width": 2, "dash": DASHES[at % len(DASHES)]},
            hovertemplate="%{y:.1f} nats after %{x:,} rounds<extra>" + name + "</extra>",
        )
    figure.update_xaxes(title="rounds")
    figure.update_yaxes(title="regret, nats", rangemode="tozero")
    return plain(figure).update_layout(BELOW, height=QUALITY_HEIGHT + 60)
