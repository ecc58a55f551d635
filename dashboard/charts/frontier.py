"""The frontier of a sweep."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dashboard.charts.palette import DASHES, PALETTE, escaped, faint, plain, style_of
from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.frontier import Frontier

BANDED = 2
"""A method of more curves has no bands: they would hide each other."""


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
                fillcolor=faint(colour, 0.12),
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
    return plain(figure).update_layout(showlegend=True, legend={"orientation": "h", "y": -0.2, "x": 0}, height=560)


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
