"""Differences to the baseline: a bar for each query, and a row for each decoder in each group of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.charts.figure import apply_layout, error_bars, escape, guide, new_figure
from dashboard.charts.palette import GREY, INK, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.paired import QueryDifference
    from engine.evaluation.stratification import Stratum

FEW = 10
"""A group of fewer queries is grey: its mean says little."""
ROW = 30
"""Pixels of a row."""


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
    from plotly.subplots import make_subplots

    labels, ink = list(dict.fromkeys(r.label for r in rows)), INK.colour(dark)
    groups = {r.group: r.queries for r in rows}
    heads = [f"{escape(group)}<br>{count:,} queries" for group, count in groups.items()]
    figure = make_subplots(
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
