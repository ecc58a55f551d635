"""Differences to the baseline: a bar per query, a row per decoder and group of queries, and a forest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.charts.figure import (
    apply_layout,
    build_tooltip,
    error_bars,
    escape,
    group_axis,
    guide,
    new_figure,
    new_grid,
    read_column,
)
from dashboard.charts.palette import GREY, INK, method_style
from engine.evaluation.paired import TIE_TOLERANCE
from engine.progress import counted
from engine.wording import signed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.paired import QueryDifference
    from engine.evaluation.statistics import Comparison
    from engine.evaluation.stratification import Stratum

MIN_GROUP_QUERIES = 10
"""Smaller groups are grey, as their means are uncertain."""
MIN_GAP_BARS, GAP_SHARE = 4.0, 0.25
"""Width of the gap for queries without a difference, in bars: the smallest, and as a share of the bars."""
STRATUM_PX = 30
"""Height for each decoder."""
ROW_PX, MARGIN_PX = 52, 70
SURE_END_NAME = "surely kept"
"""Name of the trace of a bound on one side."""


def plot_wins(
    rows: Sequence[QueryDifference], cards: Mapping[str, str], method: str, metric: str, baseline: str, is_dark: bool
) -> Figure:
    """Plot one bar per query that differs: how much a decoder's metric differs from the baseline's, in the given order.

    Bars point up and have the decoder's colour where it gains, else they are grey. Queries without a difference are a
    gap with their number. method: the decoder's selector, which gives the colour; cards: query → its hover text as
    HTML. A click on a bar returns its query's id.
    """
    ink_colour, colour = INK.colour(is_dark), method_style(method).colour(is_dark)
    changed = [row for row in rows if abs(row.difference) > TIE_TOLERANCE]
    n_same, n_better = len(rows) - len(changed), sum(row.difference > 0 for row in changed)
    # The gap lies between the better and the worse ones, in whatever order they come.
    gap = 0.0 if not n_same else max(MIN_GAP_BARS, GAP_SHARE * len(changed))
    places = [number + (gap if number > n_better else 0.0) for number in range(1, len(changed) + 1)]
    differences, query_ids = read_column(changed, "difference"), read_column(changed, "query")
    bar_colours = [colour if difference > 0 else GREY[1 - is_dark] for difference in differences]
    figure = new_figure().add_bar(
        x=places,
        y=differences,
        marker={"color": bar_colours, "line": {"width": 0}},
        customdata=query_ids,
        **build_tooltip([cards.get(query_id, escape(query_id)) for query_id in query_ids]),
    )
    figure.add_hline(y=0, line=guide(ink_colour, "solid"))
    # The axis is symmetric, so that wins and losses have one scale.
    y_limit = 1.08 * max(map(abs, differences), default=1.0)
    if n_same:
        text = {"text": f"{n_same:,} the same", "showarrow": False, "font": {"color": ink_colour, "size": 12}}
        figure.add_annotation(x=n_better + (gap + 1) / 2, y=0, yshift=10, **text)
    title = "queries, from largest win to largest loss"
    figure.update_xaxes(title=title, showgrid=False, showticklabels=False, range=[0.4, len(changed) + gap + 0.6])
    figure.update_yaxes(title=f"{escape(metric)}, difference to {escape(baseline)}", range=[-y_limit, y_limit])
    return apply_layout(figure, height=300, bargap=0.15, uirevision=f"{method} {metric}")


def plot_strata(
    rows: Sequence[Stratum], methods: Mapping[str, str], grouping: str, metric_title: str, baseline: str, dark: bool
) -> Figure:
    """Plot each decoder's mean difference to the baseline with its interval, a panel per group of queries.

    Queries are grouped by a property, such as their length. Each row is a decoder; all panels have the same rows.
    methods: label of a decoder → its selector's name, for the style; grouping: title of the property.
    """
    groups, by_label, row_names = {}, defaultdict(list), []
    for stratum in rows:
        groups[stratum.group] = f"{escape(stratum.group)}<br>{counted(stratum.queries, 'query', 'queries')}"
        by_label[stratum.label].append(stratum)
    layout = {"subplot_titles": list(groups.values()), "horizontal_spacing": 0.02}
    figure = new_grid(1, len(groups), shared_yaxes=True, shared_xaxes="all", **layout)
    for position, (label, strata) in enumerate(by_label.items()):
        decoder_style = method_style(methods[label])
        row_names.append(f"{decoder_style.sign} {escape(strata[0].name, 40)}")
        for stratum in strata:
            colour = decoder_style.colour(dark) if stratum.queries >= MIN_GROUP_QUERIES else GREY[dark]
            figure.add_scatter(
                x=[stratum.mean],
                y=[position],
                mode="markers",
                marker={"symbol": decoder_style.symbol, "size": 10, "color": colour},
                error_x=error_bars([stratum.mean], [stratum.low], [stratum.high]) | {"color": colour, "thickness": 2},
                name=escape(stratum.name, 48),
                hovertext=[
                    f"{escape(stratum.name, 90)}<br>{escape(stratum.group)}: "
                    f"{counted(stratum.queries, 'query', 'queries')}"
                ],
                hovertemplate="%{hovertext}<br>%{x:+.3f}<extra></extra>",
                row=1,
                col=1 + list(groups).index(stratum.group),
            )
    # Zero is the baseline of every panel.
    figure.add_vline(x=0, line=guide(INK.colour(dark)))
    figure.update_yaxes(tickvals=list(range(len(by_label))), range=[len(by_label) - 0.5, -0.5], showgrid=False)
    figure.update_yaxes(ticktext=row_names, col=1)
    figure.update_xaxes(nticks=4)
    axis_title = f"{escape(metric_title)}, difference to {escape(baseline)}, by {escape(grouping, 80)}"
    figure.update_xaxes(title=axis_title, title_standoff=8, col=1 + len(groups) // 2)
    figure.update_annotations(font_size=12)
    margin = {"l": 10, "r": 10, "t": 54, "b": 10}
    return apply_layout(figure, height=140 + STRATUM_PX * len(by_label), margin=margin)


@dataclass(frozen=True)
class ForestRow:
    """Row of a forest plot: a decoder's difference to the baseline in one metric, with how it is drawn."""

    label: str  # beside the row
    method: str  # the selector, for its style
    is_filled: bool  # True for a filled mark
    difference: Comparison
    sure_share: float | None = None  # of the baseline's value that it surely keeps; None for a two-sided interval


def plot_forest(rows: Sequence[ForestRow], min_shares: Mapping[str, float], is_dark: bool) -> Figure:
    """Plot differences to the baseline in percent as points with 95% intervals, the first row on top.

    A row with a bound on one side has a bar down to a tick at the bound, in place of an interval. min_shares: metric →
    the share of the baseline's value that must be kept; a dashed line across the metric's rows marks it.
    """
    figure, ink_colour = new_figure(), INK.colour(is_dark)
    labels = []
    for y_row, forest_row in enumerate(rows):
        row, decoder_style = forest_row.difference, method_style(forest_row.method)
        # Factor from a difference to percent of the baseline; of a baseline of 0, 100 times the difference is plotted.
        unit = 100 / row.baseline_mean if row.baseline_mean else 100.0
        # A difference without an interval gets one of length 0.
        low, high = (row.difference if end is None else end for end in (row.low, row.high))
        row_label = escape(forest_row.label)
        labels.append(f"{row_label}<br><b>{signed(unit * row.difference, 1)}%</b>")
        interval = "" if row.low is None else f"<br>95% CI {signed(unit * low, 1)}% to {signed(unit * high, 1)}%"
        bars = error_bars([unit * row.difference], [unit * low], [unit * high]) | {"thickness": 2.5}
        if forest_row.sure_share is not None:
            sure_end = 100 * (forest_row.sure_share - 1)
            interval, bars = f"<br>surely {signed(sure_end, 1)}% or more (95%, one-sided)", {"visible": False}
            _add_sure_end(figure, y_row, unit * row.difference, sure_end, decoder_style.colour(is_dark))
        n_queries = counted(row.queries, "query", "queries")
        figure.add_scatter(
            x=[unit * row.difference],
            y=[y_row],
            error_x=bars,
            mode="markers",
            marker=decoder_style.marker(is_dark, 11, forest_row.is_filled),
            **build_tooltip(f"{row_label}: {signed(row.difference)}{interval}<br>{n_queries}"),
        )
    for metric, min_share in min_shares.items():
        row_indices = [index for index, forest_row in enumerate(rows) if forest_row.difference.metric == metric]
        if row_indices:
            # A share of the baseline is drawn as a change in percent, like the effects.
            bound = 100 * (min_share - 1)
            # Rows have whole numbers as heights; the line ends almost halfway to the neighbouring rows.
            top_end, bottom_end = min(row_indices) - 0.45, max(row_indices) + 0.45
            bound_line = {"mode": "lines", "line": guide(ink_colour, "dash") | {"width": 2}}
            figure.add_scatter(x=[bound, bound], y=[top_end, bottom_end], **bound_line, hoverinfo="skip")
            bound_label = {"text": f"asked: {signed(bound, 0)}%", "font": {"size": 12}}
            figure.add_annotation(x=bound, y=top_end, **bound_label, showarrow=False, yshift=8)
    figure.add_vline(x=0, line={"color": ink_colour, "width": 1})
    baseline = escape(rows[0].difference.baseline)
    figure.update_xaxes(title=f"% of {baseline}", ticksuffix="%", zeroline=False)
    figure.update_yaxes(group_axis(labels) | {"range": [len(rows) - 0.4, -0.6]}, showgrid=False, zeroline=False)
    return apply_layout(figure, height=ROW_PX * len(rows) + MARGIN_PX, margin={"l": 10, "r": 14, "t": 14, "b": 10})


def _add_sure_end(figure: Figure, y_row: int, x: float, sure_end: float, colour: str) -> None:
    """Add a bar from a row's point to the bound that it surely reaches, with a tick at the bound alone."""
    tick = {"symbol": ["circle", "line-ns"], "size": [0, 18], "line": {"width": 2.5, "color": colour}}
    line = {"mode": "lines+markers", "line": {"color": colour, "width": 2.5}, "marker": tick}
    figure.add_scatter(x=[x, sure_end], y=[y_row, y_row], name=SURE_END_NAME, **line, hoverinfo="skip")
