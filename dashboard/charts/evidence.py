"""Effects behind a verdict, each with its interval, and the curves that they summarise."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from dashboard.charts.figure import (
    apply_layout,
    build_tooltip,
    error_bars,
    escape,
    legend_below,
    new_figure,
    read_column,
)
from dashboard.charts.palette import DASHES, GROUNDS, INK, SERIES, method_style, series_style, translucent
from engine.evaluation.metrics import write_metric_titles
from engine.stages import methods
from engine.wording import decimal

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evidence.rules import Effect, EffectCurve

EFFECT_ROW_PX, EFFECTS_MARGIN_PX, MAX_EFFECTS = 44, 60, 40
CURVES_PX, MAX_LABELLED_POWERS, AXIS_PADDING = 330, 3, 0.05
"""Pixels of a figure of curves; powers of ten up to which each has several ticks; padding as a share of the axis."""
LABEL_OPACITY = 0.9
MIN_LOG_RATIO = 50
"""A ratio of positive values from which the axis is logarithmic."""
SIGN_COLOURS = {1: "#009E73", -1: "#D55E00"}
SIGN_SYMBOLS = {1: "circle", -1: "x", 0: "diamond-open", None: "circle-open"}


def plot_effects(
    effects: Sequence[Effect],
    is_dark: bool,
    find_claimed_values: Callable[[str], tuple[float, ...]] = lambda effect_name: (),
) -> Figure:
    """Plot measured effects with intervals: green if as claimed, orange if against it, else hollow.

    At most MAX_EFFECTS rows; an effect's name and value stand above its point. find_claimed_values: returns the paper's
    number for the effect of a name, or both ends of its range, drawn as diamonds on the same axis.
    """
    figure, effects, interval_ends, row_labels = new_figure(), effects[:MAX_EFFECTS], [], []
    for y_row, effect in enumerate(effects):
        # An effect without an interval has one of length 0.
        low_end, high_end = (effect.value if bound is None else bound for bound in (effect.low, effect.high))
        interval_ends += [low_end, effect.value, high_end]
        colour, effect_name = (
            SIGN_COLOURS.get(effect.sign or 0, INK.colour(is_dark)),
            escape(write_metric_titles(effect.name), 90),
        )
        interval = "" if effect.low is None else f"<br>95% CI {decimal(low_end)} to {decimal(high_end)}"
        outline = {"size": 10, "color": colour, "line": {"width": 2, "color": colour}}
        figure.add_scatter(
            x=[effect.value],
            y=[y_row],
            error_x=error_bars([effect.value], [low_end], [high_end]) | {"thickness": 2.5},
            mode="markers",
            marker={"symbol": SIGN_SYMBOLS[effect.sign]} | outline,
            **build_tooltip(f"{effect_name}: {decimal(effect.value)}{interval}"),
        )
        # The figures stand first, as a narrow screen cuts a long name off.
        figures = f"<b>{decimal(effect.value)}</b>"
        # The paper's number is part of the axis: a claim far from what was measured has to be seen as far.
        if claimed_values := find_claimed_values(effect.name):
            interval_ends += claimed_values
            _add_claimed(figure, claimed_values, y_row, is_dark)
            figures += f"  ◇ {' to '.join(map(_format_claimed, claimed_values))}"
        row_labels.append(f"{figures}  {effect_name}")
    figure.update_xaxes(zeroline=False)
    smallest, largest = min(interval_ends), max(interval_ends)
    # Ratios that span orders of magnitude are legible on a logarithmic axis only.
    if smallest > 0 and largest / smallest > MIN_LOG_RATIO:
        figure.update_xaxes(type="log", dtick=1)
    elif smallest <= 0 or largest / smallest > 2:
        # A line at 0 would stretch the axis if all values were far from it.
        zero_line = {"zeroline": True, "zerolinecolor": translucent(INK.colour(is_dark), 0.5), "zerolinewidth": 1}
        figure.update_xaxes(rangemode="tozero", **zero_line)
    # A ground of its own keeps the line at 0 and the grid out of the text; by its name the page finds it.
    look = {"name": "row label", "bgcolor": translucent(GROUNDS[is_dark], LABEL_OPACITY), "showarrow": False}
    for y_row, text in enumerate(row_labels):
        # Above its row and not beside it, so that a narrow screen has room for the interval.
        figure.add_annotation(x=0, xref="paper", y=y_row, text=text, xanchor="left", yshift=18, **look)
    figure.update_yaxes(range=[len(effects) - 0.5, -0.9], visible=False)
    height = EFFECT_ROW_PX * len(effects) + EFFECTS_MARGIN_PX
    return apply_layout(figure, height=height, margin={"l": 10, "r": 14, "t": 10, "b": 10}, showlegend=False)


def _add_claimed(figure: Figure, values: tuple[float, ...], y_row: int, is_dark: bool) -> None:
    """Add the paper's number to a row, or both ends of its range, joined by a line."""
    ink = INK.colour(is_dark)
    figure.add_scatter(
        x=list(values),
        y=[y_row] * len(values),
        mode="lines+markers",
        line={"color": ink, "width": 1, "dash": "dot"},
        marker={"symbol": "diamond-open", "size": 11, "color": ink, "line": {"width": 2, "color": ink}},
        **build_tooltip(f"In the paper: {' to '.join(map(_format_claimed, values))}"),
    )


def _format_claimed(value: float) -> str:
    """Format a number of a paper with the digits that it has there."""
    return f"{value:g}".replace("-", "−")


def plot_curves(curves: Sequence[EffectCurve], dark: bool) -> list[Figure]:
    """Plot measured curves, one figure per pair of axes; a name has the same style in all figures.

    Names of selectors have the selector's colour, all others a colour and dash by their order.
    """
    method_names = {spec.title: name for name, spec in methods().items()}
    other_names = [name for name in dict.fromkeys(read_column(curves, "name")) if name not in method_names]
    figures, by_axes = [], defaultdict(list)
    for curve in curves:
        by_axes[curve.x, curve.y, curve.log].append(curve)
    for (x_name, y_name, is_log), axis_curves in by_axes.items():
        figure, x_title, all_points = new_figure(), escape(write_metric_titles(x_name), 60), list[tuple[float, float]]()
        for curve in axis_curves:
            series_index = other_names.index(curve.name) if curve.name in other_names else 0
            # When all colours are used once, they come again with the next dash.
            dash_index, colour_index = divmod(series_index, len(SERIES))
            style = method_style(method_names[curve.name]) if curve.name in method_names else series_style(colour_index)
            curve_style, name = style.curve(dark, 7), escape(write_metric_titles(curve.name), 60)
            hover_texts = [f"{name}<br>{x_title} {x_value:,.6g}: {y_value:,.4g}" for x_value, y_value in curve.points]
            figure.add_scatter(
                x=list(map(itemgetter(0), curve.points)),
                y=list(map(itemgetter(1), curve.points)),
                **curve_style | {"line": curve_style["line"] | {"dash": DASHES[dash_index % len(DASHES)]}},
                name=name,
                **build_tooltip(hover_texts),
            )
            all_points += curve.points
        x_values, y_values = zip(*all_points, strict=True)
        figure.update_xaxes(title=x_title, **_value_axis(x_values, is_log))
        figure.update_yaxes(**_value_axis(y_values, is_log))
        figure_title = {"text": escape(write_metric_titles(y_name), 60), "x": 0, "xref": "paper", "font": {"size": 14}}
        figures.append(apply_layout(figure, height=CURVES_PX, title=figure_title, **legend_below(-0.38)))
    return figures


def _value_axis(values: Sequence[float], is_log: bool) -> dict[str, Any]:
    """Return plotly settings of an axis for these values: plotly's own if linear, ours if logarithmic.

    The logarithmic axis ends at ticks, so that a curve that hardly grows looks flat.
    """
    if not is_log:
        return {"type": "linear"}
    powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    # A short axis has ticks at 1, 2 and 5 times a power of ten, a longer one at the powers alone.
    digits = (1, 2, 5) if len(powers) <= MAX_LABELLED_POWERS else (1,)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]  # a product may be beyond the value
    low, high = max(tick for tick in ticks if tick <= min(values)), min(tick for tick in ticks if tick >= max(values))
    padding = AXIS_PADDING * (math.log10(high / low) or 1)
    return {
        "type": "log",
        "range": [math.log10(low) - padding, math.log10(high) + padding],
        "tickvals": ticks,
        "ticktext": [f"{tick:,.9f}".rstrip("0").rstrip(".") for tick in ticks],
    }
