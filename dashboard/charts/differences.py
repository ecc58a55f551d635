"""Differences to the baseline: a bar for each query, a row for each decoder and group of queries, and a forest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.charts.figure import TOOLTIP, apply_layout, error_bars, escape, group_axis, guide, new_figure, new_grid
from dashboard.charts.palette import GREY, INK, style_of
from engine.progress import counted
from engine.wording import signed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.paired import QueryDifference
    from engine.evaluation.statistics import Comparison
    from engine.evaluation.stratification import Stratum

FEW = 10
"""A group of fewer queries is grey: its mean says little."""
ROW = 30
"""Pixels of a row."""
ROW_HEIGHT, MARGIN = 52, 70


def wins_figure(
    rows: Sequence[QueryDifference], cards: Mapping[str, str], method: str, metric: str, baseline: str, dark: bool
) -> Figure:
    """A bar for each query in the order given, up where the method has more than the baseline, down where less.

    cards: query → what is read under the mouse, as HTML; a bar's id is its query.
    """
    ink, colour = INK.colour(dark), style_of(method).colour(dark)
    figure = new_figure().add_bar(
        x=list(range(1, len(rows) + 1)),
        y=[row.difference for row in rows],
        marker={"color": [colour if row.difference > 0 else GREY[1 - dark] for row in rows], "line": {"width": 0}},
        customdata=[row.query for row in rows],
        hovertext=[cards.get(row.query, escape(row.query)) for row in rows],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.add_hline(y=0, line=guide(ink, "solid"))
    most = max((abs(row.difference) for row in rows), default=0.0)
    figure.update_xaxes(title="queries, from the largest win to the largest loss", showgrid=False)
    edge = 1.05 if most <= 1 else 1.05 * most
    figure.update_yaxes(title=f"{escape(metric)}, difference to {escape(baseline)}", range=[-edge, edge])
    return apply_layout(figure, height=300, bargap=0.15, uirevision=f"{method} {metric}")


def strata_figure(
    rows: Sequence[Stratum], methods: Mapping[str, str], across: str, up: str, baseline: str, dark: bool
) -> Figure:
    """Each decoder's difference to the baseline with its interval, a row each, in a panel for each group of queries.

    methods: label of a decoder → its method; across, up: what groups the queries, and the metric.
    """
    labels, ink = list(dict.fromkeys(r.label for r in rows)), INK.colour(dark)
    groups = {r.group: r.queries for r in rows}
    heads = [f"{escape(group)}<br>{count:,} queries" for group, count in groups.items()]
    figure = new_grid(
        1, len(groups), shared_yaxes=True, shared_xaxes="all", subplot_titles=heads, horizontal_spacing=0.02
    )
    names = {}
    for position, label in enumerate(labels):
        strata = [r for r in rows if r.label == label]
        style = style_of(methods[label])
        names[label] = f"{style.sign} {escape(strata[0].name, 40)}"
        for r in strata:
            colour = style.colour(dark) if r.queries >= FEW else GREY[dark]
            figure.add_scatter(
                x=[r.mean],
                y=[position],
                mode="markers",
                marker={"symbol": style.symbol, "size": 10, "color": colour},
                error_x=error_bars([r.mean], [r.low], [r.high]) | {"color": colour, "thickness": 2},
                name=escape(r.name, 48),
                hovertext=[f"{escape(r.name, 90)}<br>{escape(r.group)}: {r.queries:,} queries"],
                hovertemplate="%{hovertext}<br>%{x:+.3f}<extra></extra>",
                row=1,
                col=1 + list(groups).index(r.group),
            )
    figure.add_vline(x=0, line=guide(ink))
    figure.update_yaxes(tickvals=list(range(len(labels))), range=[len(labels) - 0.5, -0.5], showgrid=False)
    figure.update_yaxes(ticktext=list(names.values()), col=1)
    figure.update_xaxes(nticks=4)
    title = f"{escape(up)}, difference to {escape(baseline)}, by {escape(across, 80)}"
    figure.update_xaxes(title=title, title_standoff=8, col=1 + len(groups) // 2)
    figure.update_annotations(font_size=12)
    margin = {"l": 10, "r": 10, "t": 54, "b": 10}
    return apply_layout(figure, height=140 + ROW * len(labels), margin=margin)


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
            marker=style.marker(dark, 11, drawn.filled),
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
