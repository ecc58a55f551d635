"""A sweep: its frontier, a curve for each method with bands, and differences to the baseline by group of queries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import (
    apply_layout,
    dodge,
    error_bars,
    escape,
    group_axis,
    guide,
    legend_below,
    new_figure,
    outline,
    time_axis,
)
from dashboard.charts.palette import DASHES, INK, style_of, translucent
from engine.evaluation.frontier import TIME
from engine.evaluation.paired import chain_of, declared_by
from engine.stages import methods

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.curve import Curve
    from engine.evaluation.frontier import Frontier, FrontierPoint
    from engine.evaluation.stratification import Stratum

MOST_PIECES = 800
"""An exact curve is drawn by so many of its pieces: more are no finer on a screen."""
MOST_BANDS = 2
"""A method of more curves has no bands: they would hide each other."""
PALE = 0.35
LABEL_DISTANCE = (0.08, 0.05)
"""Distance, as shares of the points' range across and up, from which on two labels do not cover each other."""


def frontier_figure(
    frontier: Frontier,
    titles: tuple[str, str],
    dark: bool,
    *,
    current: Collection[str] = (),
    opened: str | None = None,
    banded: Collection[str] | None = None,
    one_entry: bool = False,
    exact: Collection[Curve] = (),
) -> Figure:
    """y (recall by default) against x (ILAD): a curve for each method in the order of its parameter, bands, the front.

    Points that no other dominates are filled and outlined, the others pale; the baseline's level is dotted. A point's
    id is its decoder's label. titles: of x and y; current: labels of points that are ringed, with their parameter's
    value; opened: label of the point whose sets are shown; banded: methods that have bands, None for all; one_entry:
    one legend entry for all curves of a method; exact: curves at every value of a parameter, drawn in place of lines
    between points.
    """
    figure, ink = new_figure(), INK.colour(dark)
    baseline = next(iter(methods()))
    chains, totals = _chains(frontier), Counter(_kind(curve[0]) for curve in frontier.curves.values())
    drawn: Counter[tuple[str, Any]] = Counter()
    for label, curve in frontier.curves.items():
        method, chain = kind = _kind(curve[0])
        # The same method behind other scorers: its colour, another dash and an open symbol.
        position, style = chains.index(chain), style_of(method)
        name, group = (_name(curve[0], totals[kind]), f"{method} {position}") if one_entry else (label, label)
        line = {"color": style.colour(dark), "width": 2, "dash": DASHES[(position + drawn[kind]) % len(DASHES)]}
        _add_curve(
            figure,
            curve,
            titles,
            line,
            f"{style.symbol}-open" if position else style.symbol,
            ink,
            {"name": escape(name, 48), "legendgroup": group, "showlegend": not (one_entry and drawn[kind])},
            totals[kind] <= MOST_BANDS and (banded is None or method in banded),
            _exact(frontier, curve[0], exact) if not position else None,
            (frontier.x, frontier.y),
        )
        drawn[kind] += 1
        if method == baseline and not position and len(curve) == 1:
            figure.add_hline(y=curve[0].y, line=guide(ink))
    figure.add_scatter(
        x=[p.x for p in frontier.front],
        y=[p.y for p in frontier.front],
        mode="lines",
        line=guide(ink, "dash") | {"shape": "vh" if frontier.direction > 0 else "hv"},
        name="not dominated",
        hoverinfo="skip",
    )
    _add_rings(figure, [p for p in frontier.points if p.point.label in current], "set in Explore", 17, ink)
    _add_rings(figure, [p for p in frontier.points if p.point.label == opened], "shown beside", 23, ink)
    _add_labels(figure, frontier, current, dark)
    timed = frontier.x == TIME
    figure.update_xaxes(time_axis(f"← {titles[0]}") if timed else {"title": f"{titles[0]}@{frontier.k} →"})
    figure.update_yaxes(title=f"{titles[1]}@{frontier.k} ↑")
    return apply_layout(figure, **legend_below(-0.2), height=560)


def _exact(frontier: Frontier, point: FrontierPoint, exact: Collection[Curve]) -> Curve | None:
    """The exact curve on which a point lies."""
    own = point.point.decoder["select"]
    for curve in exact:
        others = {name: value for name, value in own.items() if name != curve.parameter}
        if others == curve.selector and frontier.k == curve.k and {frontier.x, frontier.y} <= set(curve.means):
            return curve
    return None


def _add_exact(figure: Figure, curve: Curve, axes: tuple[str, str], line: dict[str, Any], group: str) -> None:
    """The means at every value of a parameter as one line."""
    x, y = axes
    pieces = np.unique(np.linspace(0, len(curve) - 1, MOST_PIECES).astype(int))
    figure.add_scatter(
        x=curve.means[x][pieces].tolist(),
        y=curve.means[y][pieces].tolist(),
        mode="lines",
        line=line,
        legendgroup=group,
        showlegend=False,
        hoverinfo="skip",  # the points lie on it, and are what opens a set
    )


def _kind(point: FrontierPoint) -> tuple[str, Any]:
    """A point's method and the scorers before it."""
    return point.point.method, chain_of(point.point.decoder)


def _chains(frontier: Frontier) -> list[Any]:
    """The distinct scorers, those of the baseline first: the first scorer at its defaults."""
    scorer = next(iter(methods("scorer").values())).cls()
    first = frozenset(scorer.as_json().items()), frozenset[Any]()
    return list(dict.fromkeys([first, *(_kind(point)[1] for point in frontier.points)]))


def _name(point: FrontierPoint, curves: int) -> str:
    specs, decoder = methods(), point.point.decoder
    scorers = [stage["name"] for stage in (decoder.get("retrieve"), decoder.get("rerank")) if stage]
    names = [point.point.method] if scorers == [next(iter(methods("scorer")))] else [*scorers, point.point.method]
    title = " → ".join(specs[name].title if name in specs else name for name in names)
    return f"{title}, {curves} curves" if curves > 1 else title


def _add_curve(
    figure: Figure,
    curve: Sequence[FrontierPoint],
    titles: tuple[str, str],
    line: dict[str, Any],
    symbol: str,
    ink: str,
    legend: dict[str, Any],
    banded: bool,
    exact: Curve | None,
    axes: tuple[str, str],
) -> None:
    """A curve, its band and its entry in the legend. line: how it is drawn; legend: its name and group there."""
    colour, look = line["color"], {"mode": "lines+markers" if len(curve) > 1 else "markers", "line": line}
    pale, named = translucent(colour, PALE), legend | {"showlegend": False}
    widths = [0 if p.dominated else 1.5 for p in curve]
    edge = {"width": widths, "color": [pale if p.dominated else ink for p in curve]}
    if legend["showlegend"]:
        # Of its own: an entry looks like its trace's first point, which may be a pale one.
        entry = {"symbol": symbol, "size": 10, "color": colour}
        figure.add_scatter(x=[None], y=[None], marker=entry, hoverinfo="skip", **look, **legend)
    if banded and len(curve) > 1 and curve[0].x_low is not None:
        band = outline([p.x for p in curve], [p.y_low for p in curve], [p.y_high for p in curve])
        figure.add_scatter(**band, mode="none", fillcolor=translucent(colour, 0.12), **named)
    if exact is not None:
        _add_exact(figure, exact, axes, line, legend["legendgroup"])
        look["mode"] = "markers"
    figure.add_scatter(
        x=[p.x for p in curve],
        y=[p.y for p in curve],
        marker={
            "symbol": symbol,
            "size": 10 if exact is None else 7,
            "color": [pale if p.dominated else colour for p in curve],
            "line": edge,
        },
        customdata=[p.point.label for p in curve],
        hovertext=[escape(p.name, 90) for p in curve],
        hovertemplate=f"%{{hovertext}}<br>{titles[0]} %{{x:.4f}}<br>{titles[1]} %{{y:.4f}}<extra></extra>",
        **look,
        **named,
    )


def _add_rings(figure: Figure, points: Sequence[FrontierPoint], name: str, size: int, ink: str) -> None:
    if points:
        figure.add_scatter(
            x=[p.x for p in points],
            y=[p.y for p in points],
            mode="markers",
            marker={"symbol": "circle-open", "size": size, "color": ink, "line": {"width": 1.5}},
            name=name,
            hoverinfo="skip",
        )


def _add_labels(figure: Figure, frontier: Frontier, current: Collection[str], dark: bool) -> None:
    """The swept parameter's value at current points and at the ends of a method's first curve, none over another."""
    points = frontier.points
    # An annotation's place on an axis of powers of ten is its power.
    across = {p.point.label: math.log10(p.x) if frontier.x == TIME else p.x for p in points}
    width, height = ((max(v) - min(v)) or 1.0 for v in (across.values(), [p.y for p in points]))
    curves = [curve for curve in frontier.curves.values() if len(curve) > 1]
    first_curves = {curve[0].point.method: curve for curve in reversed(curves)}
    candidates = [p for curve in curves for p in curve if p.point.label in current]
    candidates += [p for curve in first_curves.values() for p in (curve[0], curve[-1])]
    placed: list[FrontierPoint] = []
    font, ground = {"color": INK.colour(dark), "size": 12}, translucent(INK.colour(not dark), 0.6)
    for p in candidates:
        free = all(
            abs(across[p.point.label] - across[q.point.label]) >= LABEL_DISTANCE[0] * width
            or abs(p.y - q.y) >= LABEL_DISTANCE[1] * height
            for q in placed
        )
        if p.parameter and free:
            placed.append(p)
            place = {"x": across[p.point.label], "y": p.y, "yshift": 19 if p.point.label in current else 14}
            look = {"font": font, "bgcolor": ground, "borderpad": 1, "showarrow": False}
            figure.add_annotation(**place, **look, text=escape(_value(p)))


def _value(point: FrontierPoint) -> str:
    declared = declared_by(point.point.method).get(point.parameter)
    value = "–" if point.value is None else f"{point.value:g}"
    return f"{declared.symbol if declared else point.parameter} {value}"


def strata_figure(
    rows: Sequence[Stratum], methods: Mapping[str, str], across: str, up: str, baseline: str, dark: bool
) -> Figure:
    """Each decoder's difference to the baseline in each group of queries, with its interval.

    methods: label of a decoder → its method; across, up: titles of the axes.
    """
    counts, labels = {r.group: r.queries for r in rows}, list(dict.fromkeys(r.label for r in rows))
    groups, figure = list(counts), new_figure()
    for position, label in enumerate(labels):
        strata = [r for r in rows if r.label == label]
        means, style = [r.mean for r in strata], style_of(methods[label])
        colour, offset = style.colour(dark), dodge(position, len(labels))
        figure.add_scatter(
            x=[groups.index(r.group) + offset for r in strata],
            y=means,
            mode="markers",
            name=escape(strata[0].name, 48),
            marker={"symbol": style.symbol, "size": 9, "color": colour},
            error_y=error_bars(means, [r.low for r in strata], [r.high for r in strata])
            | {"color": colour, "thickness": 1.5},
            hovertext=[f"{escape(r.name, 90)}<br>{r.group}: {r.queries:,} queries" for r in strata],
            hovertemplate="%{hovertext}<br>%{y:+.4f}<extra></extra>",
        )
    figure.add_hline(y=0, line=guide(INK.colour(dark)))
    texts = [f"{escape(group)}<br>{count:,} queries" for group, count in counts.items()]
    figure.update_xaxes(title=escape(across, 80), **group_axis(texts))
    figure.update_yaxes(title=f"{escape(up)}, difference to {escape(baseline)}")
    return apply_layout(figure, **legend_below(-0.3))
