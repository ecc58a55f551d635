"""Weights along λ₁, and how near a number of steps comes to the minimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.charts.palette import GREY, PALETTE, escaped, plain, style_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.convergence import Reached
    from engine.views import WeightLine

NAMED, LABELS_APART = 6, 0.045
"""So many lines carry their document's name, this share of the height apart."""


def weights_figure(
    lines: Sequence[WeightLine],
    l1: float,
    span: tuple[float, float],
    name: str,
    given: Sequence[tuple[float, str]],
    dark: bool,
) -> Figure:
    """Every document's weight along λ₁, from WeightLines: those that have one at l1 stand out, relevant ones thicker.

    span: the ends of the axis; given: weights at l1 that are not on the lines, with their documents' names.
    """
    colour, grey, ink = style_of(name).colour(dark), GREY[dark], PALETTE[0].colour(dark)
    from plotly.graph_objects import Figure

    figure = Figure()
    for line in reversed(lines):
        chosen = line.chosen is not None
        label = _name(line)
        figure.add_scatter(
            x=line.l1,
            y=line.weight,
            mode="lines+markers" if chosen else "lines",
            line={"color": colour if chosen else grey, "width": (3 if line.relevant else 1.5) if chosen else 1},
            marker={"size": 4},
            opacity=1 if chosen else 0.7,
            name=label,
            hovertext=[label] * len(line.l1),
            hovertemplate="%{hovertext}<br>λ₁ %{x:.4g}<br>w %{y:.4f}<extra></extra>",
        )
    if given:
        figure.add_scatter(
            x=[l1] * len(given),
            y=[w for w, _ in given],
            mode="markers",
            marker={"symbol": f"{style_of(name).symbol}-open", "size": 9, "color": ink},
            name="as computed",
            hovertemplate="%{customdata}<br>w %{y:.4f}<extra>as computed</extra>",
            customdata=[escaped(text) for _, text in given],
        )
    heights: list[float] = []
    apart = LABELS_APART * max((max(line.weight) for line in lines), default=0.0)
    for line in sorted((entry for entry in lines if entry.chosen is not None), key=lambda entry: entry.chosen):
        height = weight_at(line, l1)
        # A name that would cover another is left to the mouse.
        if len(heights) < NAMED and all(abs(height - other) >= apart for other in heights):
            heights.append(height)
            place = {"x": math.log10(l1), "y": height, "xanchor": "left", "xshift": 6, "showarrow": False}
            figure.add_annotation(**place, text=_name(line), font={"size": 11, "color": ink})
    figure.add_vline(x=l1, line={"color": ink, "width": 1, "dash": "dash"})
    figure.update_xaxes(type="log", title="λ₁", range=[math.log10(span[0]), math.log10(span[1])])
    figure.update_yaxes(title="weight w", rangemode="tozero")
    return plain(figure)


def convergence_figure(rows: Sequence[Reached], name: str, k: int, dark: bool) -> Figure:
    """What FISTA reached after so many steps, the minimiser first: how good (left axis), and how exact (right)."""
    colour, ink = style_of(name).colour(dark), PALETTE[0].colour(dark)
    exact, steps = rows[0], rows[1:]
    x = [row.steps for row in steps]
    from plotly.graph_objects import Figure

    figure = Figure()
    if exact.comp is not None:
        figure.add_scatter(
            x=x,
            y=[row.comp for row in steps],
            name=f"Comp@{k}",
            line={"color": colour, "width": 2},
            mode="lines+markers",
        )
        figure.add_hline(
            y=exact.comp,
            line={"color": colour, "width": 1.5, "dash": "dash"},
            annotation_text=f"exact {exact.comp:.3f}",
        )
    figure.add_scatter(
        x=x,
        y=[row.same_set for row in steps],
        name=f"same top {k} as exact",
        line={"color": ink, "width": 1.5, "dash": "dot"},
        mode="lines+markers",
    )
    figure.add_scatter(
        x=x,
        y=[row.residual for row in steps],
        name="KKT residual",
        yaxis="y2",
        line={"color": "#56B4E9" if dark else "#0072B2", "width": 1.5},
        mode="lines+markers",
    )
    figure.update_xaxes(type="log", title="steps T")
    figure.update_layout(
        yaxis={"range": [0, 1.02], "title": "share of queries"},
        yaxis2={
            "type": "log",
            "overlaying": "y",
            "side": "right",
            "title": "residual / best score",
            "showgrid": False,
            "dtick": 1,
            "exponentformat": "power",
        },
    )
    figure = plain(figure)
    return figure.update_layout(showlegend=True, legend={"orientation": "h", "y": -0.25, "x": 0})


def _name(line: WeightLine) -> str:
    return escaped(line.title or line.id) + (" ✓" if line.relevant else "")


def weight_at(line: WeightLine, l1: float) -> float:
    """The height of a WeightLine at λ₁."""
    for (upper, top), (lower, bottom) in zip(
        zip(line.l1, line.weight, strict=True), zip(line.l1[1:], line.weight[1:], strict=True), strict=False
    ):
        if lower <= l1 <= upper:
            return top if upper == lower else bottom + (top - bottom) * (l1 - lower) / (upper - lower)
    return line.weight[-1] if l1 < line.l1[-1] else 0.0
