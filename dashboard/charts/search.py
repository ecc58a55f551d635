"""Search: quality over the rerank depth, and quality against time of approximate search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.charts.figure import (
    TOOLTIP,
    apply_layout,
    band_outline,
    escape,
    guide,
    legend_below,
    new_figure,
    read_column,
    time_axis,
)
from dashboard.charts.palette import DASHES, INK, series_style, translucent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.studies.ann import AnnResult
    from engine.evaluation.studies.ann_indexes import Index
    from engine.evaluation.studies.rerank_depth import DepthComparison

SEARCH_LAYOUT = legend_below(-0.28) | {"height": 460}


def plot_rerank_depth(study: DepthComparison, title: str, dark: bool) -> Figure:
    """Plot a metric with its 95% interval over the rerank depth; dotted without reranking."""
    figure, style = new_figure(), series_style(0)
    rows, hover_texts = [row for row in study.rows if row.depth is not None], []
    depths, means = read_column(rows, "depth"), read_column(rows, "mean")
    for row in rows:
        time = "" if row.milliseconds is None else f"<br>{row.milliseconds:.2f} ms per query"
        interval = "" if row.low is None else f"<br>95% CI {row.low:.3f}–{row.high:.3f}"
        hover_texts.append(f"depth {row.depth:,}: {row.mean:.3f}{time}{interval}")
    # A single query has no interval.
    if rows[0].low is not None:
        figure.add_scatter(
            **band_outline(depths, read_column(rows, "low"), read_column(rows, "high")),
            fillcolor=translucent(style.colour(dark), 0.12),
            line={"width": 0},
            mode="lines",
            showlegend=False,
        )
    figure.add_scatter(
        x=depths,
        y=means,
        **style.curve(dark, 9),
        name="reranked",
        hovertext=hover_texts,
        hovertemplate=TOOLTIP,
    )
    for row in study.rows:
        if row.depth is None:
            time = "" if row.milliseconds is None else f", {row.milliseconds:.2f} ms per query"
            figure.add_scatter(
                x=[depths[0], depths[-1]],
                y=[row.mean, row.mean],
                **INK.line(dark, "dot"),
                name=f"without reranking{time}",
                hovertemplate=f"without reranking: {row.mean:.3f}<extra></extra>",
            )
    ticks = {"tickvals": depths, "ticktext": list(map("{:,}".format, depths))}
    figure.update_xaxes(type="log", title="Documents reranked", **ticks)
    figure.update_yaxes(title=escape(title, 60))
    return apply_layout(figure, **SEARCH_LAYOUT)


def plot_approximate(
    rows: Sequence[AnnResult], quality: Sequence[float], title: str, index_kinds: Sequence[type[Index]], dark: bool
) -> Figure:
    """Plot quality against the time of a query: a curve per index over rising effort, exact search as a star.

    quality: of each row; index_kinds: their order gives symbols and dashes.
    """
    figure, ink, kinds = new_figure(), INK.colour(dark), read_column(index_kinds, "kind")
    scorers = list(dict.fromkeys(read_column(rows, "scorer")))
    curves: dict[tuple[str, str], list[tuple[AnnResult, float]]] = {}
    for row, value in zip(rows, quality, strict=True):
        curves.setdefault((row.scorer, row.curve), []).append((row, value))
    # Curves of one kind need their parameters in the legend to be told apart.
    curve_counts = Counter((scorer, points[0][0].index["kind"]) for (scorer, _), points in curves.items())
    for (scorer, curve), points in curves.items():
        curve_rows, values = map(list, zip(*points, strict=True))
        top = curve_rows[0]
        exact, colour, name = top.exact, series_style(scorers.index(scorer)).colour(dark), escape(top.title, 60)
        position = 0 if exact else kinds.index(top.index["kind"])
        # Build parameters are named if a scorer has several indexes of a kind.
        has_several = curve_counts[scorer, top.index["kind"]] > 1
        marker_style = {"symbol": "star", "size": 17} if exact else {"symbol": series_style(position).symbol, "size": 9}
        if exact:
            figure.add_hline(y=values[0], line=guide(colour, "dash"))
            figure.add_vline(x=top.milliseconds, line=guide(colour))
        figure.add_scatter(
            x=read_column(curve_rows, "milliseconds"),
            y=values,
            mode="markers" if exact else "lines+markers",
            name=f"{name}: {escape(curve if has_several else curve.split(',')[0], 60)}",
            line={"color": colour, "width": 2, "dash": DASHES[position % len(DASHES)]},
            marker=marker_style | {"color": colour, "line": {"width": 1, "color": ink}},
            hovertext=[
                f"{name}<br>{escape(row.label, 90)}<br>{row.share:.1%} of the exact answer<br>{value:.3f}, "
                f"{row.milliseconds:.3f} ms per query<br>built in {row.build:.2f} s, {row.megabytes:.1f} MB"
                for row, value in points
            ],
            hovertemplate=TOOLTIP,
        )
    figure.update_xaxes(time_axis("Milliseconds per query"))
    figure.update_yaxes(title=escape(title, 60))
    return apply_layout(figure, **SEARCH_LAYOUT)
