"""A forest plot: differences between settings and the baseline, each with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.charts.figure import TOOLTIP, apply_layout, error_bars, escape, group_axis, guide, new_figure
from dashboard.charts.palette import INK, style_of
from engine.progress import counted
from engine.wording import signed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.statistics import Comparison

ROW_HEIGHT, MARGIN = 52, 70


@dataclass(frozen=True)
class ForestRow:
    """A row of the plot."""

    label: str
    method: str  # the selector, for its look
    filled: bool  # whether its mark is full
    difference: Comparison


def forest_figure(rows: Sequence[ForestRow], least: Mapping[str, float], dark: bool) -> Figure:
    """Differences as shares of the baseline, the first row on top, with 95% intervals.

    least: metric → the least share of the baseline's that is asked for
    """
    figure, ink = new_figure(), INK.colour(dark)
    labels = []
    for place, drawn in enumerate(rows):
        row, style = drawn.difference, style_of(drawn.method)
        unit = 100 / row.baseline_mean if row.baseline_mean else 100.0
        low, high = (row.difference if end is None else end for end in (row.low, row.high))
        name = escape(drawn.label)
        labels.append(f"{name}<br><b>{signed(unit * row.difference, 1)}%</b>")
        interval = "" if row.low is None else f"<br>95% CI {signed(unit * low, 1)}% to {signed(unit * high, 1)}%"
        figure.add_scatter(
            x=[unit * row.difference],
            y=[place],
            error_x=error_bars([unit * row.difference], [unit * low], [unit * high]) | {"thickness": 2.5},
            mode="markers",
            marker={
                "symbol": style.symbol if drawn.filled else f"{style.symbol}-open",
                "size": 11,
                "color": style.colour(dark),
                "line": {"width": 2, "color": style.colour(dark)},
            },
            hovertext=f"{name}: {signed(row.difference)}{interval}<br>{counted(row.queries, 'query', 'queries')}",
            hovertemplate=TOOLTIP,
        )
    for metric, share in least.items():
        places = [i for i, drawn in enumerate(rows) if drawn.difference.metric == metric]
        if places:
            bound = 100 * (share - 1)
            ends = [min(places) - 0.45, max(places) + 0.45]
            figure.add_scatter(
                x=[bound, bound], y=ends, mode="lines", line=guide(ink, "dash") | {"width": 2}, hoverinfo="skip"
            )
            figure.add_annotation(
                x=bound, y=ends[0], text=f"asked: {signed(bound, 0)}%", showarrow=False, yshift=8, font={"size": 12}
            )
    figure.add_vline(x=0, line={"color": ink, "width": 1})
    baseline = escape(rows[0].difference.baseline)
    figure.update_xaxes(title=f"% of {baseline}", ticksuffix="%", zeroline=False)
    figure.update_yaxes(group_axis(labels) | {"range": [len(rows) - 0.4, -0.6]}, showgrid=False, zeroline=False)
    return apply_layout(figure, height=ROW_HEIGHT * len(rows) + MARGIN, margin={"l": 10, "r": 14, "t": 14, "b": 10})
