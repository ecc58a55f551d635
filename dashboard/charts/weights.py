"""Weights along λ₁, and the distance of FISTA's steps from the minimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import apply_layout, escape, guide, legend_below, new_figure, read_column
from dashboard.charts.palette import GREY, GROUNDS, INK, method_style, translucent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.studies.fista_convergence import ConvergenceRow
    from engine.views.sets import WeightLine

MIN_LABEL_DISTANCE = 0.045
"""As a share of the height."""


def plot_weights(
    weight_lines: Sequence[WeightLine],
    l1: float,
    span: tuple[float, float],
    name: str,
    solver_weights: Sequence[tuple[float, str]],
    is_dark: bool,
) -> Figure:
    """Plot every document's weight over λ₁, a penalty that leaves few documents with a weight as it grows.

    Documents chosen at the current λ₁, l1, are coloured. span: the ends of the axis; name: of the selector;
    solver_weights: (weight, document's name) at l1 if the solver's weights are not on the lines.
    """
    figure, style, ink_colour = new_figure(), method_style(name), INK.colour(is_dark)
    hover_template = "%{hovertext}<br>λ₁ %{x:.4g}<br>w %{y:.4f}<extra></extra>"
    # The most important documents come first and are drawn last, on top.
    for weight_line in reversed(weight_lines):
        look: dict[str, Any] = {"mode": "lines", "line": {"color": GREY[is_dark], "width": 1}, "opacity": 0.7}
        if weight_line.chosen is not None:
            width = 3 if weight_line.relevant else 1.5
            look = {"mode": "lines+markers", "line": {"color": style.colour(is_dark), "width": width}, "opacity": 1}
        line_label = _line_label(weight_line)
        texts = {"name": line_label, "hovertext": [line_label] * len(weight_line.l1), "hovertemplate": hover_template}
        figure.add_scatter(x=weight_line.l1, y=weight_line.weight, marker={"size": 4}, **look, **texts)
    if solver_weights:
        weights, document_names = zip(*solver_weights, strict=True)
        figure.add_scatter(
            x=[l1] * len(solver_weights),
            y=weights,
            mode="markers",
            marker={"symbol": f"{style.symbol}-open", "size": 9, "color": ink_colour},
            name="as computed",
            hovertemplate="%{customdata}<br>w %{y:.4f}<extra>as computed</extra>",
            customdata=list(map(escape, document_names)),
        )
    # The names stand on the longer side of λ₁, where they are not cut off.
    anchor = "right" if l1 * l1 > span[0] * span[1] else "left"
    _add_labels(figure, weight_lines, l1, anchor, is_dark)
    figure.add_vline(x=l1, line=guide(ink_colour, "dash"))
    # Plotly names 2 and 5 between the powers in smaller type than can be read.
    figure.update_xaxes(type="log", title="λ₁", dtick=1, range=[math.log10(span[0]), math.log10(span[1])])
    figure.update_yaxes(title="weight w", rangemode="tozero")
    return apply_layout(figure)


def plot_convergence(rows: Sequence[ConvergenceRow], set_size: int, is_dark: bool) -> Figure:
    """Plot how close the iterative solver FISTA comes to the exact answer, over its number of steps T.

    rows: the exact answer first, then a row per number of steps. Below stands the KKT residual, which is 0 at the exact
    answer.
    """
    figure, ink_colour, grey = new_figure(), INK.colour(is_dark), GREY[is_dark]
    exact_row, steps = rows[0], rows[1:]
    # No hue: those of the decoders mean decoders.
    curves = [
        (f"same top {set_size} as exact", "same_set", {"color": grey, "width": 2}, "y"),
        ("KKT residual / best score", "residual", {"color": ink_colour, "width": 1.5, "dash": "dot"}, "y2"),
    ]
    if exact_row.comp is not None:
        curves.insert(0, (f"Comp@{set_size}", "comp", {"color": ink_colour, "width": 2}, "y"))
        figure.add_hline(
            y=exact_row.comp, line=guide(ink_colour, "dash"), annotation_text=f"exact {exact_row.comp:.3f}"
        )
    for title, quantity, line, axis in curves:
        y = read_column(steps, quantity)
        figure.add_scatter(x=read_column(steps, "steps"), y=y, name=title, line=line, yaxis=axis, mode="lines+markers")
    figure.update_xaxes(type="log", title="steps T", dtick=1, anchor="y2")
    above = {"range": [0, 1.02], "title": "share of queries", "domain": [0.42, 1]}
    below = {"type": "log", "dtick": 2, "exponentformat": "power", "title": "residual", "domain": [0, 0.32]}
    figure.update_layout(yaxis=above, yaxis2=below | {"anchor": "x"})
    return apply_layout(figure, **legend_below(-0.25))


def _add_labels(figure: Figure, weight_lines: Sequence[WeightLine], l1: float, anchor: str, is_dark: bool) -> None:
    """Add the documents' names on their lines at the current λ₁, six at most; names that would overlap are left out.

    anchor: the end of a name that is at λ₁, "left" or "right"
    """
    heights, ink_colour = list[float](), INK.colour(is_dark)
    font, ground = {"size": 12, "color": ink_colour}, translucent(GROUNDS[is_dark], 0.75)
    distance = MIN_LABEL_DISTANCE * max((max(weight_line.weight) for weight_line in weight_lines), default=0.0)
    # Only documents with a weight at the current λ₁ have a rank, from 1; the others have None.
    for weight_line in sorted(filter(attrgetter("chosen"), weight_lines), key=attrgetter("chosen")):
        # λ₁ falls along the path, and `interp` needs it rising.
        height = float(np.interp(l1, weight_line.l1[::-1], weight_line.weight[::-1], right=0.0))
        if len(heights) < 6 and all(abs(height - used) >= distance for used in heights):
            heights.append(height)
            position = {"x": math.log10(l1), "y": height, "yanchor": "bottom", "showarrow": False}
            position |= {"xanchor": anchor, "xshift": 6 if anchor == "left" else -6}
            figure.add_annotation(**position, text=_line_label(weight_line), font=font, bgcolor=ground)


def _line_label(weight_line: WeightLine) -> str:
    """Return a document's title or id, with a tick if it is relevant."""
    return escape(weight_line.title or weight_line.id) + (" ✓" if weight_line.relevant else "")
