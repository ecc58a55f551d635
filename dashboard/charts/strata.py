"""Differences to the baseline by group of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.charts.figure import apply_layout, dodge, error_bars, escape, group_axis, guide, legend_below, new_figure
from dashboard.charts.palette import INK, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.stratification import Stratum


def strata_figure(
    rows: Sequence[Stratum], methods: Mapping[str, str], across: str, up: str, baseline: str, dark: bool
) -> Figure:
    """Each decoder's difference to the baseline in each group of queries, with its interval.

    methods: label of a decoder → its method; across, up: titles of the axes.
    """
    counts, labels = {r.group: r.queries for r in rows}, list(dict.fromkeys(r.label for r in rows))
    groups, figure = list(counts), new_figure()
    for position, label in enumerate(labels):
        strata = [r for r in rows if r.label == label]
        means, style = [r.mean for r in strata], style_of(methods[label])
        colour, offset = style.colour(dark), dodge(position, len(labels))
        figure.add_scatter(
            x=[groups.index(r.group) + offset for r in strata],
            y=means,
            mode="markers",
            name=escape(strata[0].name, 48),
            marker={"symbol": style.symbol, "size": 9, "color": colour},
            error_y=error_bars(means, [r.low for r in strata], [r.high for r in strata])
            | {"color": colour, "thickness": 1.5},
            hovertext=[f"{escape(r.name, 90)}<br>{r.group}: {r.queries:,} queries" for r in strata],
            hovertemplate="%{hovertext}<br>%{y:+.4f}<extra></extra>",
        )
    figure.add_hline(y=0, line=guide(INK.colour(dark)))
    texts = [f"{escape(group)}<br>{count:,} queries" for group, count in counts.items()]
    figure.update_xaxes(title=escape(across, 80), **group_axis(texts))
    figure.update_yaxes(title=f"{escape(up)}, difference to {escape(baseline)}")
    return apply_layout(figure, **legend_below(-0.3))
