"""The frontier of a sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from dashboard.charts.palette import DASHES, PALETTE, escaped, faint, plain, style_of
from engine.evaluation.pairing import chain_of, declared_by
from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.frontier import Frontier, FrontierPoint

BANDED = 2
"""A method of more curves has no bands: they would hide each other."""
PALE = 0.35
APART = (0.08, 0.05)
"""So far apart, as shares of what the points span across and up, two values do not cover each other."""


def frontier_figure(
    frontier: Frontier,
    titles: tuple[str, str],
    dark: bool,
    *,
    current: Collection[str] = (),
    opened: str | None = None,
    banded: Collection[str] | None = None,
    one_entry: bool = False,
) -> Figure:
    """Recall (or what else is y) against ILAD (x): a curve a method in the order of its parameter, bands, the front.

    Points that no other dominates are filled and outlined, the others pale; the baseline's level is dotted. A point's
    id is its decoder's label. current: labels of points that are ringed, with their parameter's value; opened: label of
    the point whose sets are shown; banded: methods that have bands, None for all; one_entry: in the legend, for all
    curves of a method.
    """
    from plotly.graph_objects import Figure

    ink, figure = PALETTE[0].colour(dark), Figure()
    first = next(iter(methods()))
    kinds = {label: _kind(curve[0]) for label, curve in frontier.curves.items()}
    chains, lines, drawn = _chains(frontier), Counter(kinds.values()), Counter()
    for label, curve in frontier.curves.items():
        method = curve[0].point.method
        kind = kinds[label]
        # The same method behind other scorers: its colour, another dash and an open symbol.
        chain = chains.index(kind[1])
        style, dash = style_of(method), DASHES[(chain + drawn[kind]) % len(DASHES)]
        symbol = f"{style.symbol}-open" if chain else style.symbol
        colour, group = style.colour(dark), f"{method} {chain}" if one_entry else label
        named = {"name": escaped(_name(curve[0], lines[kind]) if one_entry else label, 48), "legendgroup": group}
        if not (one_entry and drawn[kind]):
            # Of its own: an entry looks like its trace's first point, which may be a pale one.
            look = {"symbol": symbol, "size": 10, "color": colour}
            line = {"color": colour, "width": 2, "dash": DASHES[chain % len(DASHES)] if one_entry else dash}
            mode = "lines+markers" if len(curve) > 1 else "markers"
            figure.add_scatter(x=[None], y=[None], mode=mode, line=line, marker=look, hoverinfo="skip", **named)
        named["showlegend"] = False
        drawn[kind] += 1
        bands = lines[kind] <= BANDED and (banded is None or method in banded)
        if len(curve) > 1 and curve[0].x_low is not None and bands:
            figure.add_scatter(
                x=[*(p.x for p in curve), *(p.x for p in reversed(curve))],
                y=[*(p.y_high for p in curve), *(p.y_low for p in reversed(curve))],
                mode="none",
                fill="toself",
                fillcolor=faint(colour, 0.12),
                hoverinfo="skip",
                **named,
            )
        figure.add_scatter(
            x=[p.x for p in curve],
            y=[p.y for p in curve],
            mode="lines+markers" if len(curve) > 1 else "markers",
            line={"color": colour, "width": 2, "dash": dash},
            marker={
                "symbol": symbol,
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
        if method == first and not chain and len(curve) == 1:
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
    _values(figure, frontier, current, dark)
    figure.update_xaxes(title=f"{titles[0]}@{frontier.k} →")
    figure.update_yaxes(title=f"{titles[1]}@{frontier.k} ↑")
    return plain(figure).update_layout(showlegend=True, legend={"orientation": "h", "y": -0.2, "x": 0}, height=560)


def _kind(point: FrontierPoint) -> tuple[str, Any]:
    """A method behind its scorers."""
    return point.point.method, chain_of(point.point.decoder)


def _chains(frontier: Frontier) -> list[Any]:
    """The scorers that there are, those of the baseline first: the first scorer as it is by default."""
    first = next(iter(methods("scorer").values())).cls()
    return list(
        dict.fromkeys([(frozenset(first.as_json().items()), frozenset()), *(_kind(p)[1] for p in frontier.points)])
    )


def _name(point: FrontierPoint, curves: int) -> str:
    known, decoder = methods(), point.point.decoder
    first = next(iter(methods("scorer")))
    names = [s["name"] for s in (decoder.get("retrieve"), decoder.get("rerank")) if s]
    named = [*([] if names in ([first], []) else names), point.point.method]
    title = " → ".join(known[name].title if name in known else name for name in named)
    return f"{title}, {curves} curves" if curves > 1 else title


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


def _values(figure: Figure, frontier: Frontier, current: Collection[str], dark: bool) -> None:
    """The swept parameter's value at what is current, and at both ends of the first curve of each method.

    A value that would cover another is left to the mouse.
    """
    points = frontier.points
    spans = [(max(v) - min(v)) or 1.0 for v in ([p.x for p in points], [p.y for p in points])]
    curves = [curve for curve in frontier.curves.values() if len(curve) > 1]
    firsts = {curve[0].point.method: curve for curve in reversed(curves)}
    marked = [p for curve in curves for p in curve if p.point.label in current]
    placed: list[FrontierPoint] = []
    font, ground = {"color": PALETTE[0].colour(dark), "size": 12}, faint(PALETTE[0].colour(not dark), 0.6)
    for p in [*marked, *(p for curve in firsts.values() for p in (curve[0], curve[-1]))]:
        apart = (max(abs(p.x - q.x) / spans[0] / APART[0], abs(p.y - q.y) / spans[1] / APART[1]) for q in placed)
        if p.parameter and all(distance >= 1 for distance in apart):
            placed.append(p)
            place = {"x": p.x, "y": p.y, "yshift": 19 if p.point.label in current else 14, "showarrow": False}
            figure.add_annotation(**place, text=escaped(_value(p)), font=font, bgcolor=ground, borderpad=1)


def _value(p: FrontierPoint) -> str:
    declared: Any = declared_by(p.point.method).get(p.parameter)
    return f"{declared.symbol if declared else p.parameter} {'–' if p.value is None else f'{p.value:g}'}"
