"""View → figure. How methods look, colour and symbol, follows the registry's order, from one list."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.convergence import Reached
    from engine.evaluation.frontier import Frontier
    from engine.evaluation.heat_map import HeatMap
    from engine.views import WeightLine

GREY = ("#C8C8C8", "#555555")
"""What is there but not meant, on a light and a dark page."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
"""The curves of one method, in order."""
BANDED = 2
"""A method of more curves has no bands: they would hide each other."""
NAMED, LABELS_APART = 6, 0.045
"""So many lines carry their document's name, this share of the height apart."""


@dataclass(frozen=True)
class Style:
    """light, dark: colours on a light and a dark page; symbol: plotly's name; sign: the symbol as a character."""

    light: str
    dark: str
    symbol: str
    sign: str

    def colour(self, dark: bool) -> str:
        return self.dark if dark else self.light


PALETTE = (
    Style("#222222", "#E6E6E6", "x", "✕"),
    Style("#0072B2", "#0072B2", "circle", "●"),
    Style("#E69F00", "#E69F00", "square", "■"),
    Style("#009E73", "#009E73", "diamond", "◆"),
    Style("#D55E00", "#D55E00", "triangle-up", "▲"),
    Style("#CC79A7", "#CC79A7", "cross", "✚"),
    Style("#56B4E9", "#56B4E9", "star", "★"),
    Style("#882255", "#F0E442", "hexagon", "⬢"),
    Style("#6A51A3", "#B39DDB", "pentagon", "⬟"),
)


def style_of(name: str) -> Style:
    """The look of a method; beyond the palette's end it starts again (with open symbols where drawn)."""
    return PALETTE[list(methods()).index(name) % len(PALETTE)]


def frontier_figure(frontier: Frontier, titles: tuple[str, str], dark: bool) -> Figure:
    """Recall (or what else is y) against ILAD (x): a curve a method in the order of its parameter, bands, the front.

    Points that no other dominates are filled, the others pale; the baseline's level is dotted.
    """
    from plotly.graph_objects import Figure

    ink, figure = PALETTE[0].colour(dark), Figure()
    first, lines = next(iter(methods())), Counter(c[0].point.method for c in frontier.curves.values())
    drawn: Counter[str] = Counter()
    for label, curve in frontier.curves.items():
        style, dash = style_of(curve[0].point.method), DASHES[drawn[curve[0].point.method] % len(DASHES)]
        drawn[curve[0].point.method] += 1
        colour = style.colour(dark)
        if len(curve) > 1 and curve[0].x_low is not None and lines[curve[0].point.method] <= BANDED:
            figure.add_scatter(
                x=[*(p.x for p in curve), *(p.x for p in reversed(curve))],
                y=[*(p.y_high for p in curve), *(p.y_low for p in reversed(curve))],
                mode="none",
                fill="toself",
                fillcolor=_faint(colour, 0.12),
                hoverinfo="skip",
                showlegend=False,
                legendgroup=label,
            )
        figure.add_scatter(
            x=[p.x for p in curve],
            y=[p.y for p in curve],
            mode="lines+markers" if len(curve) > 1 else "markers",
            name=escaped(label, 48),
            legendgroup=label,
            line={"color": colour, "width": 2, "dash": dash},
            marker={
                "symbol": [f"{style.symbol}-open" if p.dominated else style.symbol for p in curve],
                "size": 9,
                "color": colour,
                "opacity": [0.35 if p.dominated else 1 for p in curve],
            },
            customdata=[escaped(p.name, 90) for p in curve],
            hovertemplate=f"%{{customdata}}<br>{titles[0]} %{{x:.4f}}<br>{titles[1]} %{{y:.4f}}<extra></extra>",
        )
        if curve[0].point.method == first:
            figure.add_hline(y=curve[0].y, line={"color": ink, "width": 1, "dash": "dot"})
    _ends(figure, frontier, dark)
    front = frontier.front
    figure.add_scatter(
        x=[p.x for p in front],
        y=[p.y for p in front],
        mode="lines",
        line={"color": ink, "width": 1, "dash": "dash", "shape": "vh"},
        name="not dominated",
        hoverinfo="skip",
    )
    figure.update_xaxes(title=f"{titles[0]}@{frontier.k} →")
    figure.update_yaxes(title=f"{titles[1]}@{frontier.k} ↑")
    return _plain(figure).update_layout(showlegend=True, legend={"orientation": "h", "y": -0.2, "x": 0}, height=560)


def _ends(figure: Figure, frontier: Frontier, dark: bool) -> None:
    """The swept parameter's value at both ends of the first curve of each method."""
    named = set()
    for curve in frontier.curves.values():
        method = curve[0].point.method
        if len(curve) > 1 and method not in named:
            named.add(method)
            for p in (curve[0], curve[-1]):
                place = {"x": p.x, "y": p.y, "yshift": 12, "showarrow": False}
                figure.add_annotation(**place, text=f"{p.value:g}", font={"color": style_of(method).colour(dark)})


def heat_map_figure(found: HeatMap, dark: bool) -> Figure:
    """A metric over two parameters, its value in every cell."""
    from plotly.graph_objects import Figure

    rows, columns = ([f"{v:g}" for v in axis.values] for axis in (found.rows, found.columns))
    figure = Figure()
    figure.add_heatmap(
        z=found.values,
        x=columns,
        y=rows,
        colorscale="Cividis",
        texttemplate="%{z:.3f}",
        hovertemplate=f"{found.rows.symbol} %{{y}}, {found.columns.symbol} %{{x}}<br>%{{z:.4f}}<extra></extra>",
        colorbar={"title": f"{found.title}@{found.k}"},
    )
    figure.update_xaxes(title=found.columns.symbol, type="category")
    figure.update_yaxes(title=found.rows.symbol, type="category")
    return _plain(figure)


def _faint(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity})"


def escaped(text: str, most: int = 40) -> str:
    """Text as plotly shows it literally: it would make links and formulas of some characters."""
    short = text if len(text) <= most else text[: most - 1] + "…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


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
            hovertemplate=f"{label}<br>λ₁ %{{x:.4g}}<br>w %{{y:.4f}}<extra></extra>",
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
    return _plain(figure)


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
    figure = _plain(figure)
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


def _plain(figure: Figure) -> Figure:
    return figure.update_layout(
        showlegend=False, margin={"l": 10, "r": 10, "t": 24, "b": 10}, height=430, dragmode="pan", hovermode="closest"
    )
