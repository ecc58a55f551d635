"""The effects that a verdict rests on, each with its interval, and the curves that they sum up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dashboard.charts.figure import TOOLTIP, apply_layout, error_bars, escape, legend_below, new_figure
from dashboard.charts.palette import DASHES, GREY, INK, SERIES, series_style, style_of
from engine.stages import methods
from engine.wording import decimal

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evidence.rules import Effect, EffectCurve

ROW_HEIGHT, MARGIN, MOST = 44, 60, 40
PANEL_HEIGHT, MOST_POWERS, PADDING = 330, 3, 0.05
"""Pixels of a figure of curves; powers of ten up to which its axis has several ticks each; share of it beyond them."""
WIDE = 50
"""A ratio of positive values from which the axis is logarithmic."""
COLOURS = {1: "#009E73", -1: "#D55E00"}
SYMBOLS = {1: "circle", -1: "x", 0: "diamond-open", None: "circle-open"}


def effects_figure(effects: Sequence[Effect], dark: bool) -> Figure:
    """The first `MOST` effects, from above: green as claimed, crossed and orange against it, hollow neither or open."""
    figure, ink, effects = new_figure(), INK.colour(dark), effects[:MOST]
    for place, effect in enumerate(effects):
        low, high = (effect.value if end is None else end for end in (effect.low, effect.high))
        colour = COLOURS.get(effect.sign or 0, ink)
        interval = "" if effect.low is None else f"<br>95% CI {decimal(low)} to {decimal(high)}"
        figure.add_scatter(
            x=[effect.value],
            y=[place],
            error_x=error_bars([effect.value], [low], [high]) | {"thickness": 2.5},
            mode="markers",
            marker={"symbol": SYMBOLS[effect.sign], "size": 10, "color": colour, "line": {"width": 2, "color": colour}},
            hovertext=f"{escape(effect.name, 90)}: {decimal(effect.value)}{interval}",
            hovertemplate=TOOLTIP,
        )
    ends = [end for e in effects for end in (e.low, e.value, e.high) if end is not None]
    if min(ends) > 0 and max(ends) / min(ends) > WIDE:
        figure.update_xaxes(type="log")
    elif min(ends) <= 0 or max(ends) / min(ends) > 2:
        figure.add_vline(x=0, line={"color": GREY[dark], "width": 1})
    figure.update_xaxes(zeroline=False)
    for place, effect in enumerate(effects):
        # Above its row and not beside it, so that a narrow screen has room for the interval.
        text = f"{escape(effect.name, 90)}  <b>{decimal(effect.value)}</b>"
        figure.add_annotation(x=0, xref="paper", y=place, text=text, showarrow=False, xanchor="left", yshift=18)
    figure.update_yaxes(range=[len(effects) - 0.5, -0.9], visible=False)
    height = ROW_HEIGHT * len(effects) + MARGIN
    return apply_layout(figure, height=height, margin={"l": 10, "r": 14, "t": 10, "b": 10}, showlegend=False)


def curve_figures(curves: Sequence[EffectCurve], dark: bool) -> list[Figure]:
    """A figure for each pair of axes; a name has its look in all of them, a method's title the method's."""
    known = {spec.title: name for name, spec in methods().items()}
    names = [name for name in dict.fromkeys(curve.name for curve in curves) if name not in known]
    figures = []
    for x, y, log in dict.fromkeys((curve.x, curve.y, curve.log) for curve in curves):
        figure, own = new_figure(), [curve for curve in curves if (curve.x, curve.y, curve.log) == (x, y, log)]
        for curve in own:
            turn, at = divmod(names.index(curve.name) if curve.name in names else 0, len(SERIES))
            style = style_of(known[curve.name]) if curve.name in known else series_style(at)
            look, name = style.curve(dark, 7), escape(curve.name, 60)
            figure.add_scatter(
                x=[a for a, _ in curve.points],
                y=[b for _, b in curve.points],
                **look | {"line": look["line"] | {"dash": DASHES[turn % len(DASHES)]}},
                name=name,
                hovertext=[f"{name}<br>{escape(x, 60)} {a:,.6g}: {b:,.4g}" for a, b in curve.points],
                hovertemplate=TOOLTIP,
            )
        places, values = zip(*(point for curve in own for point in curve.points), strict=True)
        figure.update_xaxes(title=escape(x, 60), **_axis(places, log)).update_yaxes(**_axis(values, log))
        title = {"text": escape(y, 60), "x": 0, "xref": "paper", "font": {"size": 14}}
        figures.append(apply_layout(figure, height=PANEL_HEIGHT, title=title, **legend_below(-0.38)))
    return figures


def _axis(values: Sequence[float], log: bool) -> dict[str, Any]:
    """A linear axis, or a logarithmic one from tick to tick: 1, 2 and 5 of each power of ten, of many powers 1 alone.

    So what hardly grows is seen as flat.
    """
    if not log:
        return {"type": "linear"}
    powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    digits = (1, 2, 5) if len(powers) <= MOST_POWERS else (1,)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]  # a product may be beyond the value
    low, high = max(tick for tick in ticks if tick <= min(values)), min(tick for tick in ticks if tick >= max(values))
    padding = PADDING * (math.log10(high / low) or 1)
    return {
        "type": "log",
        "range": [math.log10(low) - padding, math.log10(high) + padding],
        "tickvals": ticks,
        "ticktext": [f"{tick:,.9f}".rstrip("0").rstrip(".") for tick in ticks],
    }
