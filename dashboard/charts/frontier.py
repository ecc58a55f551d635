"""A sweep's frontier: what is best within a budget, the curves of the decoders, the staircase that none goes beyond."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import apply_layout, error_bars, escape, guide, legend_below, new_figure, time_axis
from dashboard.charts.frontier_layout import Place, Window, hull, place_labels, window
from dashboard.charts.palette import DASHES, INK, style_of, translucent
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS, compute_floor, select_best_per_method
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import describe_guarantee, scorer_chain
from engine.stages import methods
from engine.wording import decimal, percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.curve import Curve
    from engine.evaluation.frontier import Frontier, FrontierPoint
    from engine.evaluation.statistics import Comparison

MOST_PIECES = 800
"""An exact curve is drawn by so many of its pieces: more are no finer on a screen."""
MOST_CURVES = 2
"""A method of more curves is drawn as the outline of all, and the best of them."""
PALE, FADED, TINT = 0.25, 0.15, 0.04
"""Opacity of points that another dominates, of what lies below the budget, of the area under the staircase."""
GROUNDS = ("#FFFFFF", "#0E1117")
"""Streamlit's page, light and dark, where the browser does not put in its own."""
NEAR = 16
"""Pixels within which two symbols are one."""
AXES = {"ilad": "Diversity (ILAD@{k})"}
BUDGET, VEIL = "budget", "veil"
"""Names of the shapes that the browser moves while the budget is dragged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FrontierChart:
    """What is drawn of a frontier, and how.

    Upwards y is a share of the baseline's in percent, where that is above 0; else as it is.
    """

    frontier: Frontier
    dark: bool
    share: float | None = None  # of the baseline's y that is to be kept, None for no budget
    whole: bool = False  # all points, not only what one would use
    current: Collection[str] = ()  # labels of points that are ringed
    opened: str | None = None  # label of the point that has error bars
    callouts: Mapping[str, str] | None = None  # label → what is said at its point
    exact: Collection[Curve] = ()  # curves at every value of a parameter, in place of lines between points
    rows: Mapping[str, Mapping[str, Comparison]] | None = None  # metric → label → against the baseline, for the hover
    scrub: tuple[Curve, float] | None = None  # the curve that a dot runs along, and where on it
    legend: bool = False

    @cached_property
    def base(self) -> FrontierPoint | None:
        """The baseline's point: the first selector behind the first scorer."""
        first, chain = next(iter(methods())), _first_chain()
        return next((p for p in self.frontier.points if _kind(p) == (first, chain)), None)

    @cached_property
    def unit(self) -> float:
        """Of the axis upwards, times y."""
        return 100 / self.base.y if self.base is not None and self.base.y > 0 else 1.0

    @property
    def relative(self) -> bool:
        """Whether the axis upwards is in percent."""
        return self.base is not None and self.base.y > 0

    @property
    def floor(self) -> float | None:
        """The budget on the axis upwards, None for none."""
        if self.share is None or self.base is None:
            return None
        return 100 * self.share if self.relative else compute_floor(self.base, self.share)

    def place(self, p: FrontierPoint) -> Place:
        """Where a point lies; an axis of powers of ten counts in powers."""
        return math.log10(p.x) if self.frontier.x == TIME_AXIS else p.x, p.y * self.unit

    def xy(self, points: Sequence[FrontierPoint]) -> dict[str, list[float]]:
        """Trace values of points."""
        return {"x": [p.x for p in points], "y": [p.y * self.unit for p in points]}

    @cached_property
    def view(self) -> Window:
        """The window at first."""
        places = [self.place(p) for p in self.frontier.points]
        named = [self.place(p) for p in self.others]
        return window(places, self.place(self.base) if self.base else places[0], self.floor, self.whole, named)

    @property
    def others(self) -> list[FrontierPoint]:
        """The points of other systems."""
        known = methods()
        return [p for p in self.frontier.points if p.point.method not in known]

    @cached_property
    def best(self) -> Mapping[str, FrontierPoint]:
        """The best point of each method within the budget, by its label."""
        if self.base is None:
            return {p.point.label: p for p in self.frontier.front}
        share = KEPT_SHARE.default if self.share is None else self.share
        return {p.point.label: p for p in select_best_per_method(self.frontier, self.base.point.label, share)}

    def colour(self, p: FrontierPoint) -> str:
        return style_of(p.point.method).colour(self.dark)

    @property
    def ink(self) -> str:
        """The colour of text."""
        return INK.colour(self.dark)


def frontier_figure(chart: FrontierChart) -> Figure:
    """y (by default Recall, in percent of the baseline's) against x (diversity).

    Points that no other dominates are filled, outlined and joined by the staircase, the others pale; below the budget
    all fades. A point's id is its decoder's label.
    """
    figure, frontier = new_figure(), chart.frontier
    _add_staircase(figure, chart)
    by_kind = defaultdict(list)
    for curve in frontier.curves.values():
        by_kind[_kind(curve[0])].append(curve)
    chains = list(dict.fromkeys([_first_chain(), *(chain for _, chain in by_kind)]))
    for (_, chain), curves in by_kind.items():
        _add_method(figure, chart, curves, chains.index(chain))
    rings = [p for p in frontier.points if p.point.label in chart.current]
    _add_rings(figure, chart, rings, "current setting", 17)
    _add_opened(figure, chart)
    _add_rings(figure, chart, [p for p in frontier.points if p.point.label in (chart.callouts or {})], "knee", 21)
    _add_budget(figure, chart)
    _add_labels(figure, chart)
    across, up = (AXES.get(axis, f"{title_of(axis)}@{{k}}").format(k=frontier.k) for axis in (frontier.x, frontier.y))
    view = {"range": list(chart.view.x)}
    figure.update_xaxes(
        time_axis("← milliseconds a query") | view if frontier.x == TIME_AXIS else view | {"title": f"{across} →"}
    )
    if chart.relative and chart.base is not None:
        figure.update_yaxes(
            title=f"{title_of(frontier.y)}@{frontier.k}, % of {escape(chart.base.name)} ↑", ticksuffix="%"
        )
    else:
        figure.update_yaxes(title=f"{up} ↑")
    figure.update_yaxes(range=list(chart.view.y))
    legend = legend_below(-0.2) if chart.legend else {}
    revision = f"{frontier.x} {frontier.y} {chart.whole}"
    return apply_layout(figure, **legend, height=540, uirevision=revision, meta=_controls(chart))


def _controls(chart: FrontierChart) -> dict[str, Any]:
    """What is dragged on the chart, for the browser (plot_controls.js)."""
    controls: dict[str, Any] = {"labels": True}
    if chart.floor is not None and chart.relative and chart.base is not None:
        low, high = (round(100 * end) for end in KEPT_SHARE.comfortable_range)
        label = f"keep ≥ {{}} of {chart.base.name}'s {title_of(chart.frontier.y)}"
        controls["level"] = {"value": round(chart.floor), "low": low, "high": high, "step": 1, "label": label}
    if chart.scrub is not None:
        controls["curve"] = _dot(chart, *chart.scrub)
    return controls


def _dot(chart: FrontierChart, curve: Curve, value: float) -> dict[str, Any]:
    """Where the dot of an exact curve is at each place of its slider, and what is said there."""
    spec, (across, up) = methods()[curve.method], (chart.frontier.x, chart.frontier.y)
    means = [curve.at(place) for place in curve.band_positions.tolist()]
    unit = "%" if chart.relative else ""
    return {
        "name": f"{spec.title} {curve.symbol}",
        "colour": style_of(curve.method).colour(chart.dark),
        "values": [round(place, 9) for place in curve.band_positions.tolist()],
        "at": int(np.abs(curve.band_positions - value).argmin()),
        "x": [round(mean[across], 6) for mean in means],
        "y": [round(mean[up] * chart.unit, 4) for mean in means],
        "texts": [
            f"{curve.symbol} {place:.2f} · {title_of(up)} {decimal(mean[up] * chart.unit, 1 if unit else 3)}{unit} · "
            f"{title_of(across)} {decimal(mean[across])}"
            for place, mean in zip(curve.band_positions.tolist(), means, strict=True)
        ],
    }


def _add_staircase(figure: Figure, chart: FrontierChart) -> None:
    """The frontier as a staircase, with the area under it."""
    front, forward = chart.frontier.front, chart.frontier.direction > 0
    x, y = [p.x for p in front], [p.y * chart.unit for p in front]
    low = min(p.y for p in chart.frontier.points) * chart.unit
    figure.add_scatter(
        # From the left edge of what is measured, and at its end down to the ground.
        x=[min(p.x for p in chart.frontier.points), *x, x[-1]]
        if forward
        else [x[0], *x, max(p.x for p in chart.frontier.points)],
        y=[y[0], *y, low] if forward else [low, *y, y[-1]],
        mode="lines",
        line={"color": chart.ink, "width": 2, "shape": "vh" if forward else "hv"},
        fill="tozeroy",
        fillcolor=translucent(chart.ink, TINT),
        name="Pareto frontier",
        hoverinfo="skip",
    )


def _add_method(figure: Figure, chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]], position: int) -> None:
    """The curves of a method behind one scorer; position: of the scorer, whose later ones have open symbols."""
    first, points = curves[0][0], [p for curve in curves for p in curve]
    colour, style = chart.colour(first), style_of(first.point.method)
    chosen = any(p.point.label == chart.opened for p in points)
    named: dict[str, Any] = {"name": escape(method_name(first), 48), "legendgroup": f"{first.point.method} {position}"}
    line = {"color": translucent(colour, 0.9 if chosen else 0.45), "width": 2, "dash": DASHES[position % len(DASHES)]}
    if len(curves) > MOST_CURVES:
        corners = hull(chart.place(p) for p in points)
        timed = chart.frontier.x == TIME_AXIS
        figure.add_scatter(
            x=[10**x if timed else x for x, _ in corners],
            y=[y for _, y in corners],
            mode="none",
            fill="toself",
            fillcolor=translucent(colour, 0.1),
            hoverinfo="skip",
            showlegend=False,
            **named,
        )
    for x, up in lines_of(chart, curves):
        figure.add_scatter(x=x, y=up, mode="lines", line=line, hoverinfo="skip", showlegend=False, **named)
    figure.add_scatter(
        **chart.xy(points),
        mode="markers",
        marker={
            "symbol": f"{style.symbol}-open" if position else style.symbol,
            # Growing with the parameter: thin to thick.
            "size": [s for c in curves for s in ([10.0] if len(c) < 2 else np.linspace(6, 11, len(c)).tolist())],
            "color": [translucent(colour, PALE) if p.dominated else colour for p in points],
            "line": {"width": [0 if p.dominated else 1.5 for p in points], "color": chart.ink},
        },
        customdata=[p.point.label for p in points],
        hovertext=[_card(chart, p) for p in points],
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
        **named,
    )
    if chart.legend:  # an entry of its own: it looks like its trace's first point, which may be a pale one
        entry = {"symbol": f"{style.symbol}-open" if position else style.symbol, "size": 10, "color": colour}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=entry, hoverinfo="skip", **named)


def lines_of(chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]]) -> list[tuple[list[float], list[float]]]:
    """x and y of the lines of a method: of all its curves, of many the one with the best point; exact where known."""
    if len(curves) > MOST_CURVES:
        curves = [curve for curve in curves if any(p.point.label in chart.best for p in curve)][:1] or curves[:1]
    lines = []
    for curve in curves:
        exact = curve_of(curve[0], chart.frontier, chart.exact)
        if exact is not None:
            pieces = np.unique(np.linspace(0, len(exact) - 1, MOST_PIECES).astype(int))
            x, y = (exact.means[axis][pieces].tolist() for axis in (chart.frontier.x, chart.frontier.y))
        elif len(curve) > 1:
            x, y = [p.x for p in curve], [p.y for p in curve]
        else:
            continue
        lines.append((x, [value * chart.unit for value in y]))
    return lines


def curve_of(point: FrontierPoint, frontier: Frontier, exact: Collection[Curve]) -> Curve | None:
    """The exact curve on which a point lies; they are behind the first scorer."""
    own = point.point.decoder["select"]
    if scorer_chain(point.point.decoder) != _first_chain() or point.point.decoder["depth"] is not None:
        return None
    for curve in exact:
        others = {name: value for name, value in own.items() if name != curve.parameter}
        if others == curve.selector and frontier.k == curve.k and {frontier.x, frontier.y} <= set(curve.means):
            return curve
    return None


def _kind(point: FrontierPoint) -> tuple[str, Any]:
    """A point's method and the scorers before it."""
    return point.point.method, scorer_chain(point.point.decoder)


def _first_chain() -> Any:
    """The first scorer at its defaults, and no reranker."""
    scorer = next(iter(methods("scorer").values())).cls()
    return frozenset(scorer.as_json().items()), frozenset[Any]()


def method_name(point: FrontierPoint) -> str:
    """A method behind its scorers."""
    specs, decoder = methods(), point.point.decoder
    scorers = [stage["name"] for stage in (decoder.get("retrieve"), decoder.get("rerank")) if stage]
    names = [point.point.method] if scorers == [next(iter(methods("scorer")))] else [*scorers, point.point.method]
    titles = " → ".join(specs[name].title if name in specs else name for name in names)
    return ", ".join(filter(None, [titles, describe_guarantee(decoder["select"])]))


def _card(chart: FrontierChart, p: FrontierPoint) -> str:
    """What is read under the mouse."""
    frontier = chart.frontier
    lines = [f"<b>{style_of(p.point.method).sign} {escape(p.name, 90)}</b>"]
    if chart.base is not None and chart.relative:
        part = f" · {percent(p.y / chart.base.y)} of {escape(chart.base.name)}"
    else:
        part = ""
    lines.append(f"{title_of(frontier.y)}@{frontier.k} {decimal(p.y)}{_interval(p.y_low, p.y_high)}{part}")
    if frontier.x == TIME_AXIS:
        lines.append(f"{p.x:.2g} ms a query")
    else:
        lines.append(f"{title_of(frontier.x)}@{frontier.k} {decimal(p.x)}{_interval(p.x_low, p.x_high)}")
    for metric in frontier.metrics:
        row = (chart.rows or {}).get(metric, {}).get(p.point.label)
        if row is not None and row.queries > 1:
            win, tie, loss = row.wins
            lines.append(f"{title_of(metric)}: {win:,} won · {tie:,} tied · {loss:,} lost")
    return "<br>".join(lines)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" ({decimal(low)}–{decimal(high)})"


def _add_rings(figure: Figure, chart: FrontierChart, points: Sequence[FrontierPoint], name: str, size: int) -> None:
    if points:
        figure.add_scatter(
            **chart.xy(points),
            mode="markers",
            marker={"symbol": "circle-open", "size": size, "color": chart.ink, "line": {"width": 1.5}},
            name=name,
            hoverinfo="skip",
        )


def _add_opened(figure: Figure, chart: FrontierChart) -> None:
    """The point whose sets are shown, with the intervals of its differences to the baseline as a cross."""
    opened = [p for p in chart.frontier.points if p.point.label == chart.opened]
    unit, look = chart.unit, {"color": chart.ink, "thickness": 1}
    across, up = ([_ends(chart, axis, p) for p in opened] for axis in (chart.frontier.x, chart.frontier.y))
    figure.add_scatter(
        **chart.xy(opened),
        mode="markers",
        marker={"symbol": "circle-open", "size": 14, "color": chart.ink, "line": {"width": 3}},
        error_x=error_bars([p.x for p in opened], *_columns(across, 1)) | look,
        error_y=error_bars([p.y * unit for p in opened], *_columns(up, unit)) | look,
        name="selected",
        hoverinfo="skip",
    )


def _ends(chart: FrontierChart, axis: str, p: FrontierPoint) -> tuple[float | None, float | None]:
    """Where the interval of a point's difference to the baseline ends, as places on an axis; None for none."""
    row, mean = (chart.rows or {}).get(axis, {}).get(p.point.label), p.x if axis == chart.frontier.x else p.y
    if row is None or row.low is None or row.high is None:
        return None, None
    return mean + row.low - row.difference, mean + row.high - row.difference


def _columns(ends: Sequence[tuple[float | None, float | None]], unit: float) -> list[list[float | None]]:
    """Lower ends and upper ends, times the axis' unit."""
    return [[None if (at := end[i]) is None else unit * at for end in ends] for i in (0, 1)]


def _add_budget(figure: Figure, chart: FrontierChart) -> None:
    """The line of what is to be kept, and the veil under it; the browser drags both."""
    floor = chart.floor
    if floor is None:
        return
    whole = {"xref": "paper", "x0": 0, "x1": 1}
    low = min([chart.view.y[0], *(p.y * chart.unit for p in chart.frontier.points)])
    look = {"fillcolor": GROUNDS[chart.dark], "opacity": 1 - FADED, "line": {"width": 0}, "layer": "above"}
    figure.add_shape(type="rect", name=VEIL, y0=low - abs(low) - 1, y1=floor, **look, **whole)
    figure.add_shape(type="line", name=BUDGET, y0=floor, y1=floor, line=guide(chart.ink, "dash"), **whole)


def _at_base(chart: FrontierChart, p: FrontierPoint) -> bool:
    """Whether a point lies on the baseline's symbol, and is not the baseline."""
    if chart.base is None or p is chart.base:
        return False
    own, other = (chart.view.pixels(chart.place(q)) for q in (p, chart.base))
    return math.dist(own, other) < NEAR


def _add_labels(figure: Figure, chart: FrontierChart) -> None:
    """Names at the points that matter, none over another."""
    points = chart.frontier.points
    callouts = chart.callouts or {}
    named = {*callouts, chart.opened, *chart.current}
    first = [*chart.others, *(p for p in points if p.point.label in named)]
    floor = -math.inf if chart.floor is None else chart.floor
    best = [p for p in chart.best.values() if p.y * chart.unit >= floor - 1e-9 and not _at_base(chart, p)]
    wanted = {p.point.label: p for p in [*first, *sorted(best, key=lambda p: -p.x)]}
    # The symbol of another system may lie under the veil.
    signs = {p.point.label: f"{style_of(p.point.method).sign} " for p in chart.others}
    texts = [
        [f"{p.name}: {callouts[label]}"] if label in callouts else [signs.get(label, "") + p.name, method_name(p)]
        for label, p in wanted.items()
    ]
    places = [chart.place(p) for p in wanted.values()]
    marks = [chart.place(p) for p in points if not p.dominated]
    for found, (x, y) in zip(place_labels(zip(texts, places, strict=True), marks, chart.view), places, strict=True):
        if found is not None:
            text, (across, up) = found
            look = {"font": {"color": chart.ink, "size": 12}, "bgcolor": translucent(GROUNDS[chart.dark], 0.75)}
            place = {"x": x, "y": y, "xshift": across, "yshift": up, "xanchor": "center", "yanchor": "middle"}
            figure.add_annotation(text=escape(text, 80), showarrow=False, name="label", **place, **look)
