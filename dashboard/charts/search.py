"""Search: quality over the rerank depth, and quality against time of approximate search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.charts.figure import (
    TOOLTIP,
    apply_layout,
    band_outline,
    build_tooltip,
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


def plot_rerank_depth(study: DepthComparison, quality_title: str, is_dark: bool) -> Figure:
    """Plot a metric with its interval over the number of documents reranked; dotted without reranking."""
    figure, curve_style = new_figure(), series_style(0)
    rows, hover_texts = [result for result in study.rows if result.depth is not None], []
    depths, means = read_column(rows, "depth"), read_column(rows, "mean")
    for result in rows:
        time_text = "" if result.milliseconds is None else f"<br>{result.milliseconds:.2f} ms per query"
        interval = "" if result.low is None else f"<br>95% CI {result.low:.3f}–{result.high:.3f}"
        hover_texts.append(f"depth {result.depth:,}: {result.mean:.3f}{time_text}{interval}")
    # A single query has no interval.
    if rows[0].low is not None:
        outline = band_outline(depths, read_column(rows, "low"), read_column(rows, "high"))
        colours = {"fillcolor": translucent(curve_style.colour(is_dark), 0.12), "line": {"width": 0}}
        figure.add_scatter(**outline, **colours, mode="lines", showlegend=False)
    curve_look = curve_style.curve(is_dark, 9) | {"name": "reranked"}
    figure.add_scatter(x=depths, y=means, **curve_look, **build_tooltip(hover_texts))
    for result in study.rows:
        if result.depth is None:
            time_text = "" if result.milliseconds is None else f", {result.milliseconds:.2f} ms per query"
            figure.add_scatter(
                x=[depths[0], depths[-1]],
                y=[result.mean, result.mean],
                **INK.line(is_dark, "dot"),
                name=f"without reranking{time_text}",
                hovertemplate=f"without reranking: {result.mean:.3f}<extra></extra>",
            )
    ticks = {"tickvals": depths, "ticktext": list(map("{:,}".format, depths))}
    figure.update_xaxes(type="log", title="Documents reranked", **ticks)
    figure.update_yaxes(title=escape(quality_title, 60))
    return apply_layout(figure, **SEARCH_LAYOUT)


def plot_approximate(
    rows: Sequence[AnnResult], quality: Sequence[float], title: str, index_kinds: Sequence[type[Index]], is_dark: bool
) -> Figure:
    """Plot the quality of searches against their time: a curve per approximate index, a star if exact.

    rows: measured searches; those with the same scorer and the same build of the index make one curve; quality: the
    metric of each row; title: of the quality's axis; index_kinds: all kinds of indexes; a kind's position gives its
    symbol and dash. Colours tell scorers apart.
    """
    figure, ink_colour, kind_names = new_figure(), INK.colour(is_dark), read_column(index_kinds, "kind")
    scorers = list(dict.fromkeys(read_column(rows, "scorer")))
    curves: dict[tuple[str, str], list[tuple[AnnResult, float]]] = {}
    for result, value in zip(rows, quality, strict=True):
        curves.setdefault((result.scorer, result.curve), []).append((result, value))
    # Curves of one kind need their parameters in the legend to be told apart.
    curve_counts = Counter((scorer_name, points[0][0].index["kind"]) for (scorer_name, _), points in curves.items())
    for (scorer_name, curve_name), points in curves.items():
        curve_rows, values = map(list, zip(*points, strict=True))
        # Scorer, index and exactness are the same for all searches of a curve, so the first one tells them.
        first = curve_rows[0]
        colour, name = series_style(scorers.index(scorer_name)).colour(is_dark), escape(first.title, 60)
        position = 0 if first.exact else kind_names.index(first.index["kind"])
        # Build parameters are named if a scorer has several indexes of a kind.
        has_several = curve_counts[scorer_name, first.index["kind"]] > 1
        marker_style = {"symbol": series_style(position).symbol, "size": 9}
        if first.exact:
            marker_style = {"symbol": "star", "size": 17}
            # Lines through the star, so that the approximate ones can be compared with it in time and in quality.
            figure.add_hline(y=values[0], line=guide(colour, "dash"))
            figure.add_vline(x=first.milliseconds, line=guide(colour))
        figure.add_scatter(
            x=read_column(curve_rows, "milliseconds"),
            y=values,
            mode="markers" if first.exact else "lines+markers",
            # A curve's name is its kind of index, then its build parameters after a comma.
            name=f"{name}: {escape(curve_name if has_several else curve_name.split(',')[0], 60)}",
            line={"color": colour, "width": 2, "dash": DASHES[position % len(DASHES)]},
            marker=marker_style | {"color": colour, "line": {"width": 1, "color": ink_colour}},
            hovertext=[
                f"{name}<br>{escape(result.label, 90)}<br>{result.share:.1%} of the exact answer<br>{value:.3f}, "
                f"{result.milliseconds:.3f} ms per query<br>built in {result.build:.2f} s, {result.megabytes:.1f} MB"
                for result, value in points
            ],
            hovertemplate=TOOLTIP,
        )
    figure.update_xaxes(time_axis("Milliseconds per query"))
    figure.update_yaxes(title=escape(title, 60))
    return apply_layout(figure, **SEARCH_LAYOUT)
