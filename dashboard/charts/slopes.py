"""Slopegraph of a tuning: each decoder's kept share where it was chosen, and on the queries that confirm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.charts.figure import apply_layout, escape, guide, new_figure
from dashboard.charts.palette import INK, method_style
from engine.wording import percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SLOPES_PX, LABEL_GAP = 420, 0.05
"""Height of the chart, and the least distance of two names as a share of the axis."""
NAME_X, LEADER_SHAPE = 1.16, "leader"
"""Position at which names begin, with dev at 0 and test at 1; and the name of the lines that lead there."""
FADED_OPACITY = 0.55


@dataclass(frozen=True, kw_only=True)
class DecoderSlope:
    """One decoder at its best setting: what it keeps of the baseline's metric on two splits."""

    name: str
    method: str  # its selector, which gives the colour
    on_dev: float  # share of the baseline's mean
    on_test: float
    is_chosen: bool


def plot_slopes(
    slopes: Sequence[DecoderSlope], splits: tuple[str, str], keep: float, metric: str, baseline: str, is_dark: bool
) -> Figure:
    """Plot a line for each decoder, from the share that it keeps on dev to the share it keeps on test.

    It is the share of the baseline's metric. The line of the chosen decoder is thick. splits: names of dev and test;
    keep: the share that is to be kept; metric, baseline: their titles
    """
    figure, ink = new_figure(), INK.colour(is_dark)
    for slope in slopes:
        style, shares = method_style(slope.method), (slope.on_dev, slope.on_test)
        opacity = 1.0 if slope.is_chosen else FADED_OPACITY
        figure.add_scatter(
            x=[0, 1],
            y=[100 * share for share in shares],
            mode="lines+markers",
            line={"color": style.colour(is_dark), "width": 4.5 if slope.is_chosen else 1.5},
            marker={"symbol": style.symbol, "size": 11 if slope.is_chosen else 8},
            opacity=opacity,
            name=escape(slope.name, 60),
            hovertemplate=f"{escape(slope.name, 60)}: %{{y:.1f}}%<extra></extra>",
            showlegend=False,
        )
    heights = [100 * share for slope in slopes for share in (slope.on_dev, slope.on_test)] + [100 * keep]
    low, high = min(heights), max(heights)
    margin = 0.06 * ((high - low) or 1.0)
    axis_range = (low - margin, high + margin)
    # Heights of the names, in the order of `slopes`.
    names = spread_names([100 * slope.on_test for slope in slopes], axis_range)
    for slope, name_height in zip(slopes, names, strict=True):
        label = f"{method_style(slope.method).sign} {escape(slope.name, 34)}: {percent(slope.on_test, 1)}"
        # A name that was moved apart stands beside another point than its own: a thin line leads to it.
        ends = {"x0": 1.03, "y0": 100 * slope.on_test, "x1": NAME_X - 0.02, "y1": name_height}
        line = {"color": method_style(slope.method).colour(is_dark), "width": 1}
        figure.add_shape(type="line", name=LEADER_SHAPE, line=line, **ends)
        text = f"<b>{label}</b>" if slope.is_chosen else label
        font = {"color": ink, "size": 13}
        figure.add_annotation(x=NAME_X, y=name_height, text=text, showarrow=False, xanchor="left", font=font)
    figure.add_hline(y=100 * keep, line=guide(ink, "dash"))
    ticks = [f"{escape(name)}<br>{role}" for name, role in zip(splits, ("chosen here", "kept back"), strict=True)]
    # Dev is at 0 and test at 1; the rest of the axis has room for the names.
    figure.update_xaxes(tickvals=[0, 1], ticktext=ticks, range=[-0.08, 2.05], showgrid=False, zeroline=False)
    figure.update_yaxes(title=f"{metric}, % of {escape(baseline)}'s", ticksuffix="%", range=list(axis_range))
    return apply_layout(figure, height=SLOPES_PX)


def spread_names(heights: Sequence[float], axis_range: tuple[float, float]) -> list[float]:
    """Return heights for names beside points, moved apart so that no two overlap, in the given order."""
    gap, (low, high) = LABEL_GAP * (axis_range[1] - axis_range[0]), axis_range
    order = sorted(range(len(heights)), key=heights.__getitem__)
    placed, lowest = list(heights), low
    for index in order:
        placed[index] = max(heights[index], lowest)
        lowest = placed[index] + gap
    # Names that were pushed over the upper end move down again, from the top.
    highest = high
    for index in reversed(order):
        placed[index] = min(placed[index], highest)
        highest = placed[index] - gap
    return placed
