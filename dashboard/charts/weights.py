"""Weights along λ₁, and the distance of FISTA's steps from the minimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import apply_layout, escape, guide, legend_below, new_figure, read_column
from dashboard.charts.palette import GREY, INK, PALETTE, method_style

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.studies.fista_convergence import ConvergenceRow
    from engine.views.sets import WeightLine

MIN_LABEL_DISTANCE = 0.045
"""As a share of the height."""


def plot_weights(
    lines: Sequence[WeightLine],
    l1: float,
    span: tuple[float, float],
    name: str,
    solver_weights: Sequence[tuple[float, str]],
    dark: bool,
) -> Figure:
    """Plot every document's weight along λ₁, those with a weight at l1 in colour, relevant ones thicker.

    span: the ends of the axis; name: of the selector; solver_weights: (weight, document's name) at l1 if the solver's
    weights are not on the lines.
    """
    figure, style, ink = new_figure(), method_style(name), INK.colour(dark)
    hover_template = "%{hovertext}<br>λ₁ %{x:.4g}<br>w %{y:.4f}<extra></extra>"
    # The most important documents come first and are drawn last, on top.
    for line in reversed(lines):
        look: dict[str, Any] = {"mode": "lines", "line": {"color": GREY[dark], "width": 1}, "opacity": 0.7}
        if line.chosen is not None:
            width = 3 if line.relevant else 1.5
            look = {"mode": "lines+markers", "line": {"color": style.colour(dark), "width": width}, "opacity": 1}
        label = _line_label(line)
        texts = {"name": label, "hovertext": [label] * len(line.l1), "hovertemplate": hover_template}
        figure.add_scatter(x=line.l1, y=line.weight, marker={"size": 4}, **look, **texts)
    if solver_weights:
        weights, texts = zip(*solver_weights, strict=True)
        figure.add_scatter(
            x=[l1] * len(solver_weights),
            y=weights,
            mode="markers",
            marker={"symbol": f"{style.symbol}-open", "size": 9, "color": ink},
            name="as computed",
            hovertemplate="%{customdata}<br>w %{y:.4f}<extra>as computed</extra>",
            customdata=list(map(escape, texts)),
        )
    _add_labels(figure, lines, l1, ink)
    figure.add_vline(x=l1, line=guide(ink, "dash"))
    figure.update_xaxes(type="log", title="λ₁", range=[math.log10(span[0]), math.log10(span[1])])
    figure.update_yaxes(title="weight w", rangemode="tozero")
    return apply_layout(figure)


def plot_convergence(rows: Sequence[ConvergenceRow], name: str, k: int, dark: bool) -> Figure:
    """Plot FISTA by its number of steps against the minimiser: quality (left axis), residual (right axis)."""
    figure, colour, ink = new_figure(), method_style(name).colour(dark), INK.colour(dark)
    # Two of the palette's blues differ in contrast: each page has the legible one.
    blue = PALETTE[6 if dark else 1].colour(dark)
    exact, steps = rows[0], rows[1:]
    curves = [
        (f"same top {k} as exact", "same_set", guide(ink) | {"width": 1.5}, "y"),
        ("KKT residual", "residual", {"color": blue, "width": 1.5}, "y2"),
    ]
    if exact.comp is not None:
        curves.insert(0, (f"Comp@{k}", "comp", {"color": colour, "width": 2}, "y"))
        line = guide(colour, "dash") | {"width": 1.5}
        figure.add_hline(y=exact.comp, line=line, annotation_text=f"exact {exact.comp:.3f}")
    for title, quantity, line, axis in curves:
        y = read_column(steps, quantity)
        figure.add_scatter(x=read_column(steps, "steps"), y=y, name=title, line=line, yaxis=axis, mode="lines+markers")
    figure.update_xaxes(type="log", title="steps T")
    right_axis = {"side": "right", "overlaying": "y", "showgrid": False, "title": "residual / best score"}
    log_axis = {"type": "log", "dtick": 1, "exponentformat": "power"}
    figure.update_layout(yaxis={"range": [0, 1.02], "title": "share of queries"}, yaxis2=right_axis | log_axis)
    return apply_layout(figure, **legend_below(-0.25))


def _add_labels(figure: Figure, lines: Sequence[WeightLine], l1: float, ink: str) -> None:
    """Add names at l1, by rank; names that would overlap are left to the hover."""
    heights: list[float] = []
    distance = MIN_LABEL_DISTANCE * max((max(line.weight) for line in lines), default=0.0)
    for line in sorted(filter(attrgetter("chosen"), lines), key=attrgetter("chosen")):
        # λ₁ falls along the path, and `interp` needs it rising.
        height = float(np.interp(l1, line.l1[::-1], line.weight[::-1], right=0.0))
        if len(heights) < 6 and all(abs(height - used) >= distance for used in heights):
            heights.append(height)
            position = {"x": math.log10(l1), "y": height, "xanchor": "left", "xshift": 6, "showarrow": False}
            figure.add_annotation(**position, text=_line_label(line), font={"size": 11, "color": ink})


def _line_label(line: WeightLine) -> str:
    return escape(line.title or line.id) + (" ✓" if line.relevant else "")
