"""Ways to search: quality over the rerank depth, and quality against time of approximate search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.charts.palette import DASHES, PALETTE, escaped, faint, plain

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.approximate import Searched
    from engine.evaluation.depths import ByDepth
    from engine.evaluation.indexes import Index

INK, REST = PALETTE[0], PALETTE[1:]
BELOW = {"showlegend": True, "legend": {"orientation": "h", "y": -0.28, "x": 0}, "height": 460}
TIMES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Milliseconds that the axis of times names."""


def depth_figure(found: ByDepth, title: str, dark: bool) -> Figure:
    """A metric with its 95 % interval over the rerank depth, and without reranking as a dotted line."""
    from plotly.graph_objects import Figure

    figure, ink, colour = Figure(), INK.colour(dark), REST[0].colour(dark)
    rows = [row for row in found.rows if row.depth is not None]
    depths = [row.depth for row in rows]
    if rows[0].low is not None:
        figure.add_scatter(
            x=[*depths, *reversed(depths)],
            y=[*(row.high for row in rows), *(row.low for row in reversed(rows))],
            fill="toself",
            fillcolor=faint(colour, 0.12),
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            showlegend=False,
        )
    figure.add_scatter(
        x=depths,
        y=[row.mean for row in rows],
        mode="lines+markers",
        name="reranked",
        line={"color": colour, "width": 2},
        marker={"symbol": REST[0].symbol, "size": 9},
        hovertext=[
            f"depth {row.depth:,}: {row.mean:.4f}<br>{row.milliseconds:.2f} ms a query"
            + ("" if row.low is None else f"<br>95 % interval {row.low:.4f} to {row.high:.4f}")
            for row in rows
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )
    for row in found.rows:
        if row.depth is None:
            figure.add_scatter(
                x=[depths[0], depths[-1]],
                y=[row.mean, row.mean],
                mode="lines",
                name=f"not reranked, {row.milliseconds:.2f} ms a query",
                line={"color": ink, "width": 2, "dash": "dot"},
                hovertemplate=f"not reranked: {row.mean:.4f}<extra></extra>",
            )
    figure.update_xaxes(
        type="log", title="documents reranked", tickvals=depths, ticktext=[f"{depth:,}" for depth in depths]
    )
    figure.update_yaxes(title=escaped(title, 60))
    return plain(figure).update_layout(BELOW)


def approximate_figure(
    rows: Sequence[Searched], quality: Sequence[float], title: str, kinds: Sequence[type[Index]], dark: bool
) -> Figure:
    """Quality against the time of a query: a curve an index over rising effort, the exact search as a star.

    quality: of each row; kinds: of indexes, which have their symbol and dash by their place.
    """
    from plotly.graph_objects import Figure

    figure, ink = Figure(), INK.colour(dark)
    order = {kind.kind: at for at, kind in enumerate(kinds)}
    scorers = list(dict.fromkeys(row.scorer for row in rows))
    curves: dict[tuple[str, str], list[tuple[Searched, float]]] = {}
    for row, value in zip(rows, quality, strict=True):
        curves.setdefault((row.scorer, row.curve), []).append((row, value))
    kinds_of = Counter((scorer, points[0][0].index["kind"]) for (scorer, _), points in curves.items())
    for (scorer, curve), points in curves.items():
        style = REST[scorers.index(scorer) % len(REST)]
        colour, first = style.colour(dark), points[0][0]
        title_ = escaped(first.title, 60)
        # What an index is built with is named where several of a kind must be told apart; the pointer shows it always.
        several = kinds_of[scorer, first.index["kind"]] > 1
        hover = [
            f"{title_}<br>{escaped(row.label, 90)}<br>{row.share:.1%} of the exact answer<br>{value:.4f}, "
            f"{row.milliseconds:.3f} ms a query<br>built in {row.build:.2f} s, {row.megabytes:.1f} MB"
            for row, value in points
        ]
        place = 0 if first.exact else order[first.index["kind"]]
        if first.exact:
            figure.add_hline(y=points[0][1], line={"color": colour, "width": 1, "dash": "dash"})
            figure.add_vline(x=first.milliseconds, line={"color": colour, "width": 1, "dash": "dot"})
        figure.add_scatter(
            x=[row.milliseconds for row, _ in points],
            y=[value for _, value in points],
            mode="markers" if first.exact else "lines+markers",
            name=f"{title_}: {escaped(curve if several else curve.split(',')[0], 60)}",
            line={"color": colour, "width": 2, "dash": DASHES[place % len(DASHES)]},
            marker={
                "symbol": "star" if first.exact else REST[place % len(REST)].symbol,
                "size": 17 if first.exact else 9,
                "color": colour,
                "line": {"width": 1, "color": ink},
            },
            hovertext=hover,
            hovertemplate="%{hovertext}<extra></extra>",
        )
    figure.update_xaxes(
        type="log", title="milliseconds a query", tickvals=list(TIMES), ticktext=[f"{value:g}" for value in TIMES]
    )
    figure.update_yaxes(title=escaped(title, 60))
    return plain(figure).update_layout(BELOW)
