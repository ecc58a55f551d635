"""A difference by kind of query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.charts.palette import PALETTE, escaped, plain, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.strata import Stratum

SPREAD = 0.6
"""The share of a group's width that its points take."""


def strata_figure(
    rows: Sequence[Stratum], methods: Mapping[str, str], across: str, up: str, baseline: str, dark: bool
) -> Figure:
    """Each decoder's difference to the baseline in each group of queries, with its interval.

    methods: label of a decoder → its method; across, up: what the axes show.
    """
    from plotly.graph_objects import Figure

    groups, labels = list(dict.fromkeys(r.group for r in rows)), list(dict.fromkeys(r.label for r in rows))
    counts = {r.group: r.queries for r in rows}
    figure, ink = Figure(), PALETTE[0].colour(dark)
    for at, label in enumerate(labels):
        own = [r for r in rows if r.label == label]
        style = style_of(methods[label])
        aside = SPREAD * ((at + 0.5) / len(labels) - 0.5)
        figure.add_scatter(
            x=[groups.index(r.group) + aside for r in own],
            y=[r.mean for r in own],
            mode="markers",
            name=escaped(own[0].name, 48),
            marker={"symbol": style.symbol, "size": 9, "color": style.colour(dark)},
            error_y={
                "symmetric": False,
                "array": [0 if r.high is None else r.high - r.mean for r in own],
                "arrayminus": [0 if r.low is None else r.mean - r.low for r in own],
                "color": style.colour(dark),
                "thickness": 1.5,
                "width": 0,
            },
            hovertext=[f"{escaped(r.name, 90)}<br>{r.group}: {r.queries:,} queries" for r in own],
            hovertemplate="%{hovertext}<br>%{y:+.4f}<extra></extra>",
        )
    figure.add_hline(y=0, line={"color": ink, "width": 1, "dash": "dot"})
    said = [f"{escaped(group)}<br>{counts[group]:,} queries" for group in groups]
    figure.update_xaxes(
        title=escaped(across, 80), tickvals=list(range(len(groups))), ticktext=said, range=[-0.5, len(groups) - 0.5]
    )
    figure.update_yaxes(title=f"{escaped(up)}, difference to {escaped(baseline)}")
    return plain(figure).update_layout(showlegend=True, legend={"orientation": "h", "y": -0.3, "x": 0})
