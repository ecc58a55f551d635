"""Drift over time: one measure, the quality of decoders, and regret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.charts.figure import apply_layout, escape, legend_below, new_figure
from dashboard.charts.palette import DASHES, PALETTE, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.views.drift import Line, RegretLines

LINE, ALARM = PALETTE[1], PALETTE[4]
REGRET = PALETTE[0], PALETTE[1], PALETTE[4]
HEIGHT, QUALITY_HEIGHT = 165, 330
MARGIN = {"l": 10, "r": 10, "t": 26, "b": 10}
VALUE = "%{hovertext}<br>%{y:.4f}<extra></extra>"
LEGEND = legend_below(-0.3)


def measure_figure(
    steps: Sequence[int], values: Sequence[float | None], alarms: Sequence[bool], counted: str, dark: bool
) -> Figure:
    """One measure at every step, alarms in another colour and symbol. counted: what a step counts."""
    figure = new_figure()
    styles = [ALARM if alarm else LINE for alarm in alarms]
    figure.add_scatter(
        x=list(steps),
        y=list(values),
        mode="lines+markers",
        line={"color": LINE.colour(dark), "width": 2},
        marker={
            "symbol": [style.symbol for style in styles],
            "size": [10 if alarm else 5 for alarm in alarms],
            "color": [style.colour(dark) for style in styles],
        },
        customdata=[str(step) for step in steps],
        hovertext=[f"{counted}: {step:,}" for step in steps],
        hovertemplate=VALUE,
    )
    # A measure that begins at 0 is read from there; of the others the change is what counts.
    figure.update_yaxes(rangemode="tozero" if values and values[0] == 0 else "normal", nticks=4, exponentformat="none")
    figure.update_xaxes(nticks=6)
    return apply_layout(figure, height=HEIGHT, margin=MARGIN)


def quality_figure(
    groups: Mapping[str, Sequence[Line]], named: Mapping[str, tuple[str, str]], counted: str, dark: bool
) -> Figure:
    """The quality of every decoder over time, a column for each group of queries, on one scale.

    groups: heading → lines; named: a decoder's label → (selector, title); counted: what a step counts.
    """
    from plotly.subplots import make_subplots

    columns = max(1, len(groups))
    figure = make_subplots(
        rows=1,
        cols=columns,
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
        style, dash = REGRET[position % len(REGRET)], DASHES[position % len(DASHES)]
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
