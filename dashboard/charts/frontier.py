"""The frontier of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from dashboard.charts.palette import DASHES, PALETTE, escaped, faint, plain, style_of
from engine.evaluation.pairing import declared_by
from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.frontier import Frontier, FrontierPoint

BANDED = 2
"""A method of more curves has no bands: they would hide each other."""
PALE = 0.35


def frontier_figure(
    frontier: Frontier,
    titles: tuple[str, str],
    dark: bool,
    *,
    current: Collection[str] = (),
    opened: str | None = None,
    one_entry: bool = False,
) -> Figure:
    """Recall (or what else is y) against ILAD (x): a curve a method in the order of its parameter, bands, the front.

    Points that no other dominates are filled and outlined, the others pale; the baseline's level is dotted. A point's
    id is its decoder's label. current: labels of points that are ringed, with their parameter's value; opened: label of
    the point whose sets are shown; one_entry: in the legend, for a method of many curves.
    """
    from plotly.graph_objects import Figure

    ink, figure = PALETTE[0].colour(dark), Figure()
    first, lines = next(iter(methods())), Counter(c[0].point.method for c in frontier.curves.values())
    drawn: Counter[str] = Counter()
    for label, curve in frontier.curves.items():
        method = curve[0].point.method
        style, dash = style_of(method), DASHES[drawn[method] % len(DASHES)]
        colour, many = style.colour(dark), one_entry and lines[method] > 1
        named = {
            "name": escaped(f"{_title(method)}, {lines[method]} curves" if many else label, 48),
            "legendgroup": method if many else label,
            "showlegend": not (many and drawn[method]),
        }
        if one_entry and not many:
            named["name"] = escaped(_title(method), 48)
        drawn[method] += 1
        if len(curve) > 1 and curve[0].x_low is not None and lines[method] <= BANDED:
            figure.add_scatter(
                x=[*(p.x for p in curve), *(p.x for p in reversed(curve))],
                y=[*(p.y_high for p in curve), *(p.y_low for p in reversed(curve))],
                mode="none",
                fill="toself",
                fillcolor=faint(colour, 0.12),
                hoverinfo="skip",
                **named | {"showlegend": False},
            )
        figure.add_scatter(
            x=[p.x for p in curve],
            y=[p.y for p in curve],
            mode="lines+markers" if len(curve) > 1 else "markers",
            line={"color": colour, "width": 2, "dash": dash},
            marker={
                "symbol": style.symbol,
                "size": 10,
                "color": [faint(colour, PALE) if p.dominated else colour for p in curve],
                "line": {
                    "width": [0 if p.dominated else 1.5 for p in curve],
                    "color": [faint(colour, PALE) if p.dominated else ink for p in curve],
                },
            },
            customdata=[p.point.label for p in curve],
            hovertext=[escaped(p.name, 90) for p in curve],
            hovertemplate=f"%{{hovertext}}<br>{titles[0]} %{{x:.4f}}<br>{titles[1]} %{{y:.4f}}<extra></extra>",
            **named,
        )
        if method == first and len(curve) == 1:
            figure.add_hline(y=curve[0].y, line={"color": ink, "width": 1, "dash": "dot"})
    front = frontier.front
    figure.add_scatter(
        x=[p.x for p in front],
        y=[p.y for p in front],
        mode="lines",
        line={"color": ink, "width": 1, "dash": "dash", "shape": "vh"},
        name="not dominated",
        hoverinfo="skip",
    )
    _ringed(figure, [p for p in frontier.points if p.point.label in current], "set in Explore", 17, ink)
    _ringed(figure, [p for p in frontier.points if p.point.label == opened], "shown beside", 23, ink)
    _values(figure, frontier, current, ink)
    figure.update_xaxes(title=f"{titles[0]}@{frontier.k} →")
    figure.update_yaxes(title=f"{titles[1]}@{frontier.k} ↑")
    return plain(figure).update_layout(showlegend=True, legend={"orientation": "h", "y": -0.2, "x": 0}, height=560)


def _title(method: str) -> str:
    known = methods()
    return known[method].title if method in known else method


def _ringed(figure: Figure, points: Sequence[FrontierPoint], name: str, size: int, ink: str) -> None:
    if points:
        figure.add_scatter(
            x=[p.x for p in points],
            y=[p.y for p in points],
            mode="markers",
            marker={"symbol": "circle-open", "size": size, "color": ink, "line": {"width": 1.5}},
            name=name,
            hoverinfo="skip",
        )


def _values(figure: Figure, frontier: Frontier, current: Collection[str], ink: str) -> None:
    """The swept parameter's value at both ends of the first curve of each method, and at what is current."""
    named = set()
    for curve in frontier.curves.values():
        method = curve[0].point.method
        ends = len(curve) > 1 and method not in named
        if ends:
            named.add(method)
        for at, p in enumerate(curve):
            if p.parameter and ((ends and at in (0, len(curve) - 1)) or (p.point.label in current and len(curve) > 1)):
                place = {"x": p.x, "y": p.y, "yshift": 14, "showarrow": False}
                figure.add_annotation(**place, text=escaped(_value(p)), font={"color": ink, "size": 12})


def _value(p: FrontierPoint) -> str:
    declared: Any = declared_by(p.point.method).get(p.parameter)
    return f"{declared.symbol if declared else p.parameter} {'–' if p.value is None else f'{p.value:g}'}"
