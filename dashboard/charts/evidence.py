"""The effects that a verdict rests on, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.charts.figure import TOOLTIP, apply_layout, error_bars, escape, group_axis, new_figure
from dashboard.charts.palette import GREY, INK
from engine.wording import decimal

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evidence.rules import Effect

ROW_HEIGHT, MARGIN, MOST = 34, 60, 40
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
    labels = [f"{escape(effect.name, 60)}  <b>{decimal(effect.value)}</b>" for effect in effects]
    figure.update_yaxes(group_axis(labels) | {"range": [len(effects) - 0.4, -0.6]}, showgrid=False, zeroline=False)
    height = ROW_HEIGHT * len(effects) + MARGIN
    return apply_layout(figure, height=height, margin={"l": 10, "r": 14, "t": 10, "b": 10}, showlegend=False)
