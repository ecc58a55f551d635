"""Weights along λ₁, and the distance of FISTA's steps from the minimiser."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import apply_layout, escape, guide, legend_below, new_figure, read_column
from dashboard.charts.frontier import INK_SHARE
from dashboard.charts.palette import GREY, INK, method_style, mix_with_ink, series_style
from dashboard.charts.slopes import LEADER_SHAPE, spread_names
from engine.maps.clusters import title_prefix

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.studies.fista_convergence import ConvergenceRow
    from engine.views.sets import WeightLine

MAX_LABELS, MAX_NAME_LENGTH = 8, 24
"""Names beside the lines, and characters of one."""
LETTER_PX, LEADER_PX = 7, 14
"""Width of a letter of a name, and of the gap between it and the lines, with the line that leads there."""
SLATE_POSITION = 1
"""Position of the series whose colour documents have that are not relevant."""
MIN_RANK_OPACITY = 0.45
"""Opacity of the lowest ranked line, where no judgement tells the lines apart."""
AXIS_HEADROOM = 1.05
"""Height of the axis in units of the largest weight."""


def plot_weights(
    weight_lines: Sequence[WeightLine],
    l1: float,
    span: tuple[float, float],
    name: str,
    solver_weights: Sequence[tuple[float, str]],
    is_dark: bool,
) -> Figure:
    """Plot every document's weight over λ₁, a penalty that leaves few documents with a weight as it grows.

    Documents chosen at the current λ₁, l1, have strong lines: relevant ones in the selector's colour, others in slate,
    and without judgements all in the selector's colour, ever paler. span: the ends of the axis; name: of the selector;
    solver_weights: (weight, document's name) at l1 if the solver's weights are not on the lines.
    """
    figure, style, ink_colour = new_figure(), method_style(name), INK.colour(is_dark)
    hover_template = "%{hovertext}<br>λ₁ %{x:.4g}<br>w %{y:.4f}<extra></extra>"
    n_chosen = sum(weight_line.chosen is not None for weight_line in weight_lines)
    # The most important documents come first and are drawn last, on top.
    for weight_line in reversed(weight_lines):
        look: dict[str, Any] = {"mode": "lines", "line": {"color": GREY[is_dark], "width": 1}, "opacity": 0.7}
        if weight_line.chosen is not None:
            line = {"color": _find_colour(weight_line, name, is_dark), "width": 3 if weight_line.relevant else 1.5}
            look = {"mode": "lines+markers", "line": line, "opacity": _fade_by_rank(weight_line, n_chosen)}
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
    figure.add_vline(x=l1, line=guide(ink_colour, "dash"))
    # Plotly names 2 and 5 between the powers in smaller type than can be read.
    figure.update_xaxes(type="log", title="λ₁", dtick=1, range=[math.log10(span[0]), math.log10(span[1])])
    figure.update_yaxes(title="weight w", zeroline=False)
    apply_layout(figure)
    _add_labels(figure, weight_lines, span[0], name, is_dark)
    return figure


def _find_colour(weight_line: WeightLine, method: str, is_dark: bool) -> str:
    """Return the colour of a chosen document's line: the selector's, unless it is judged not to be relevant."""
    style = series_style(SLATE_POSITION) if weight_line.relevant is False else method_style(method)
    return style.colour(is_dark)


def _fade_by_rank(weight_line: WeightLine, n_chosen: int) -> float:
    """Return the opacity of a chosen document's line: by its rank where no judgement tells the lines apart."""
    if weight_line.relevant is not None or weight_line.chosen is None:
        return 1.0
    return 1 - (1 - MIN_RANK_OPACITY) * (weight_line.chosen - 1) / max(1, n_chosen - 1)


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


def _add_labels(figure: Figure, weight_lines: Sequence[WeightLine], min_l1: float, method: str, is_dark: bool) -> None:
    """Write the chosen documents' names in a gutter at the left, where their lines begin and no line runs.

    min_l1: the lowest λ₁ of the axis; method: of the selector. Names are moved apart, and a thin line leads from each
    to its own.
    """
    highest = max((max(weight_line.weight) for weight_line in weight_lines), default=0.0)
    axis_range = (0.0, AXIS_HEADROOM * highest or 1.0)
    figure.update_yaxes(range=list(axis_range))
    # Only documents with a weight at the current λ₁ have a rank, from 1; the others have None.
    labelled = sorted(filter(attrgetter("chosen"), weight_lines), key=attrgetter("chosen"))[:MAX_LABELS]
    if not labelled:
        return
    # λ₁ falls along the path, and `interp` needs it rising.
    starts = [float(np.interp(min_l1, line.l1[::-1], line.weight[::-1], right=0.0)) for line in labelled]
    names = _shorten_names([line.name for line in labelled])
    for weight_line, name, start, height in zip(labelled, names, starts, spread_names(starts, axis_range), strict=True):
        tick = " ✓" if weight_line.relevant else ""
        position = {"x": 0, "xref": "paper", "y": height, "xanchor": "right", "xshift": -LEADER_PX, "showarrow": False}
        colour, ink = _find_colour(weight_line, method, is_dark), INK.colour(is_dark)
        font = {"size": 12, "color": mix_with_ink(colour, ink, INK_SHARE)}
        text = f"<b>{name}{tick}</b>" if weight_line.relevant else name
        figure.add_annotation(**position, text=text, font=font, hovertext=_line_label(weight_line))
        pixels = {"xref": "paper", "xanchor": 0, "xsizemode": "pixel", "x0": -LEADER_PX, "x1": 0}
        line = {"color": colour, "width": 1}
        figure.add_shape(type="line", **pixels, y0=height, y1=start, line=line, name=LEADER_SHAPE)
    width = LETTER_PX * max(len(name) + 2 * bool(line.relevant) for name, line in zip(names, labelled, strict=True))
    # The gutter takes the side of the axis, whose numbers stand at the right then.
    figure.update_yaxes(side="right")
    figure.update_layout(margin={"l": width + LEADER_PX + 4})


def _shorten_names(names: Sequence[str]) -> list[str]:
    """Return names without the modules that all of them have: "ma.std" of numpy.ma.std beside numpy.mean."""
    is_dotted = len(names) > 1 and " " not in "".join(names)
    prefix_length = title_prefix(names).rfind(".") + 1 if is_dotted else 0
    return [escape(name[prefix_length:], MAX_NAME_LENGTH) for name in names]


def _line_label(weight_line: WeightLine) -> str:
    """Return a document's name, with a tick if it is relevant."""
    return escape(weight_line.name) + (" ✓" if weight_line.relevant else "")
