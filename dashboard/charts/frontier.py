"""Frontier of a sweep: the best points within a budget, the decoders' curves, the Pareto staircase."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import apply_layout, error_bars, escape, guide, legend_below, new_figure, time_axis
from dashboard.charts.frontier_layout import Place, Window, compute_window, convex_hull, place_labels
from dashboard.charts.palette import DASHES, INK, method_style, translucent
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

MAX_PIECES = 800
"""Pieces of an exact curve that are drawn: more are not visible on a screen."""
MAX_CURVES = 2
"""A method with more curves is drawn as their outline and the best curve."""
DOMINATED_OPACITY, FADED, AREA_OPACITY = 0.25, 0.15, 0.04
"""Opacity of dominated points, of everything below the budget, of the area under the staircase."""
GROUNDS = ("#FFFFFF", "#0E1117")
"""Colours of Streamlit's page, light and dark, unless the browser replaces them."""
OVERLAP_PX = 16
"""Distance below which two symbols overlap."""
AXIS_TITLES = {"ilad": "Diversity (ILAD@{k})"}
BUDGET_SHAPE, VEIL_SHAPE = "budget", "veil"
"""Names of the shapes that the browser moves while the budget is dragged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FrontierChart:
    """Content and options of a frontier's chart.

    The vertical axis is y in percent of the baseline's, if that is above 0, else y.
    """

    frontier: Frontier
    dark: bool
    share: float | None = None  # of the baseline's y to keep, None for no budget
    whole: bool = False  # True to show all points, not only useful ones
    current: Collection[str] = ()  # labels of ringed points
    opened: str | None = None  # label of the point that has error bars
    callouts: Mapping[str, str] | None = None  # label → text at its point
    exact: Collection[Curve] = ()  # curves at every value of a parameter, in place of lines between points
    rows: Mapping[str, Mapping[str, Comparison]] | None = None  # metric → label → comparison, for the hover
    scrub: tuple[Curve, float] | None = None  # curve of the movable dot, and its position
    legend: bool = False

    @cached_property
    def base(self) -> FrontierPoint | None:
        """Baseline's point: the first selector behind the first scorer."""
        selector_name, chain = next(iter(methods())), _first_chain()
        return next((p for p in self.frontier.points if _point_kind(p) == (selector_name, chain)), None)

    @cached_property
    def unit(self) -> float:
        """Factor from y to the vertical axis."""
        return 100 / self.base.y if self.base is not None and self.base.y > 0 else 1.0

    @property
    def relative(self) -> bool:
        """True if the vertical axis is in percent."""
        return self.base is not None and self.base.y > 0

    @property
    def floor(self) -> float | None:
        """Budget on the vertical axis, None without one."""
        if self.share is None or self.base is None:
            return None
        return 100 * self.share if self.relative else compute_floor(self.base, self.share)

    def locate(self, point: FrontierPoint) -> Place:
        """Return a point's position; a logarithmic axis counts in powers of ten."""
        return math.log10(point.x) if self.frontier.x == TIME_AXIS else point.x, point.y * self.unit

    def xy(self, points: Sequence[FrontierPoint]) -> dict[str, list[float]]:
        """Return trace values of points."""
        return {"x": [p.x for p in points], "y": [p.y * self.unit for p in points]}

    @cached_property
    def view(self) -> Window:
        """Initial window."""
        places = [self.locate(p) for p in self.frontier.points]
        fixed = [self.locate(p) for p in self.system_points]
        return compute_window(places, self.locate(self.base) if self.base else places[0], self.floor, self.whole, fixed)

    @property
    def system_points(self) -> list[FrontierPoint]:
        """Points of other systems."""
        method_names = methods()
        return [point for point in self.frontier.points if point.point.method not in method_names]

    @cached_property
    def best_points(self) -> Mapping[str, FrontierPoint]:
        """Best point of each method within the budget, by label."""
        if self.base is None:
            return {p.point.label: p for p in self.frontier.front}
        share = KEPT_SHARE.default if self.share is None else self.share
        return {p.point.label: p for p in select_best_per_method(self.frontier, self.base.point.label, share)}

    def colour(self, point: FrontierPoint) -> str:
        return method_style(point.point.method).colour(self.dark)

    @property
    def ink(self) -> str:
        """Colour of text."""
        return INK.colour(self.dark)


def plot_frontier(chart: FrontierChart) -> Figure:
    """Plot y (by default Recall, in percent of the baseline's) against x (diversity).

    Pareto-optimal points are filled, outlined and joined by the staircase, dominated ones pale; everything below the
    budget is faded. A point's id is its decoder's label.
    """
    figure, frontier = new_figure(), chart.frontier
    _add_staircase(figure, chart)
    # Curves are grouped by method and scorers: each group is one legend entry.
    by_kind = defaultdict(list)
    for curve in frontier.curves.values():
        by_kind[_point_kind(curve[0])].append(curve)
    chains = list(dict.fromkeys([_first_chain(), *(chain for _, chain in by_kind)]))
    for (_, chain), curves in by_kind.items():
        _add_method(figure, chart, curves, chains.index(chain))
    rings = [p for p in frontier.points if p.point.label in chart.current]
    _add_rings(figure, chart, rings, "current setting", 17)
    _add_opened(figure, chart)
    _add_rings(figure, chart, [p for p in frontier.points if p.point.label in (chart.callouts or {})], "knee", 21)
    _add_budget(figure, chart)
    _add_labels(figure, chart)
    x_title, y_title = (
        AXIS_TITLES.get(axis, f"{title_of(axis)}@{{k}}").format(k=frontier.k) for axis in (frontier.x, frontier.y)
    )
    x_range = {"range": list(chart.view.x)}
    figure.update_xaxes(
        time_axis("← milliseconds a query") | x_range
        if frontier.x == TIME_AXIS
        else x_range | {"title": f"{x_title} →"}
    )
    if chart.relative and chart.base is not None:
        figure.update_yaxes(
            title=f"{title_of(frontier.y)}@{frontier.k}, % of {escape(chart.base.name)} ↑", ticksuffix="%"
        )
    else:
        figure.update_yaxes(title=f"{y_title} ↑")
    figure.update_yaxes(range=list(chart.view.y))
    legend = legend_below(-0.2) if chart.legend else {}
    revision = f"{frontier.x} {frontier.y} {chart.whole}"
    return apply_layout(figure, **legend, height=540, uirevision=revision, meta=_build_controls(chart))


def _build_controls(chart: FrontierChart) -> dict[str, Any]:
    """Build the draggable controls of the chart, for the browser (plot_controls.js)."""
    controls: dict[str, Any] = {"labels": True}
    # The budget can only be dragged on an axis in percent.
    if chart.floor is not None and chart.relative and chart.base is not None:
        low, high = (round(100 * bound) for bound in KEPT_SHARE.comfortable_range)
        label = f"keep ≥ {{}} of {chart.base.name}'s {title_of(chart.frontier.y)}"
        controls["level"] = {"value": round(chart.floor), "low": low, "high": high, "step": 1, "label": label}
    if chart.scrub is not None:
        controls["curve"] = _build_dot(chart, *chart.scrub)
    return controls


def _build_dot(chart: FrontierChart, curve: Curve, value: float) -> dict[str, Any]:
    """Build the positions and texts of the dot on an exact curve, for each position of its slider."""
    spec, (across, up) = methods()[curve.method], (chart.frontier.x, chart.frontier.y)
    means = [curve.at(stop) for stop in curve.band_positions.tolist()]
    unit = "%" if chart.relative else ""
    return {
        "name": f"{spec.title} {curve.symbol}",
        "colour": method_style(curve.method).colour(chart.dark),
        "values": [round(stop, 9) for stop in curve.band_positions.tolist()],
        "at": int(np.abs(curve.band_positions - value).argmin()),
        "x": [round(mean[across], 6) for mean in means],
        "y": [round(mean[up] * chart.unit, 4) for mean in means],
        "texts": [
            f"{curve.symbol} {stop:.2f} · {title_of(up)} {decimal(mean[up] * chart.unit, 1 if unit else 3)}{unit} · "
            f"{title_of(across)} {decimal(mean[across])}"
            for stop, mean in zip(curve.band_positions.tolist(), means, strict=True)
        ],
    }


def _add_staircase(figure: Figure, chart: FrontierChart) -> None:
    """Add the frontier as a staircase, with the area under it."""
    front_points, rises = chart.frontier.front, chart.frontier.direction > 0
    x, y = [p.x for p in front_points], [p.y * chart.unit for p in front_points]
    low = min(p.y for p in chart.frontier.points) * chart.unit
    figure.add_scatter(
        # From the left edge of all points, and at the end down to the lowest.
        x=[min(p.x for p in chart.frontier.points), *x, x[-1]]
        if rises
        else [x[0], *x, max(p.x for p in chart.frontier.points)],
        y=[y[0], *y, low] if rises else [low, *y, y[-1]],
        mode="lines",
        line={"color": chart.ink, "width": 2, "shape": "vh" if rises else "hv"},
        fill="tozeroy",
        fillcolor=translucent(chart.ink, AREA_OPACITY),
        name="Pareto frontier",
        hoverinfo="skip",
    )


def _add_method(figure: Figure, chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]], position: int) -> None:
    """Add the curves of a method behind one scorer; later scorers have open symbols."""
    first, points = curves[0][0], [p for curve in curves for p in curve]
    colour, style = chart.colour(first), method_style(first.point.method)
    is_open = any(p.point.label == chart.opened for p in points)
    named: dict[str, Any] = {
        "name": escape(format_method(first), 48),
        "legendgroup": f"{first.point.method} {position}",
    }
    line = {"color": translucent(colour, 0.9 if is_open else 0.45), "width": 2, "dash": DASHES[position % len(DASHES)]}
    if len(curves) > MAX_CURVES:
        corners = convex_hull(chart.locate(p) for p in points)
        is_time = chart.frontier.x == TIME_AXIS
        figure.add_scatter(
            x=[10**x if is_time else x for x, _ in corners],
            y=[y for _, y in corners],
            mode="none",
            fill="toself",
            fillcolor=translucent(colour, 0.1),
            hoverinfo="skip",
            showlegend=False,
            **named,
        )
    for x, up in build_lines(chart, curves):
        figure.add_scatter(x=x, y=up, mode="lines", line=line, hoverinfo="skip", showlegend=False, **named)
    figure.add_scatter(
        **chart.xy(points),
        mode="markers",
        marker={
            "symbol": f"{style.symbol}-open" if position else style.symbol,
            # Symbols grow with the parameter.
            "size": [
                size
                for members in curves
                for size in ([10.0] if len(members) < 2 else np.linspace(6, 11, len(members)).tolist())
            ],
            "color": [translucent(colour, DOMINATED_OPACITY) if p.dominated else colour for p in points],
            "line": {"width": [0 if p.dominated else 1.5 for p in points], "color": chart.ink},
        },
        customdata=[p.point.label for p in points],
        hovertext=[_format_card(chart, p) for p in points],
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
        **named,
    )
    if chart.legend:  # an entry of its own: it looks like its trace's first point, which may be a pale one
        entry = {"symbol": f"{style.symbol}-open" if position else style.symbol, "size": 10, "color": colour}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=entry, hoverinfo="skip", **named)


def build_lines(
    chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]]
) -> list[tuple[list[float], list[float]]]:
    """Return x and y of a method's lines: all its curves, or of many the one with the best point."""
    if len(curves) > MAX_CURVES:
        curves = [curve for curve in curves if any(p.point.label in chart.best_points for p in curve)][:1] or curves[:1]
    lines = []
    for curve in curves:
        exact = find_curve(curve[0], chart.frontier, chart.exact)
        if exact is not None:
            # Equally spaced pieces keep the curve's shape; its ends are always included.
            pieces = np.unique(np.linspace(0, len(exact) - 1, MAX_PIECES).astype(int))
            x, y = (exact.means[axis][pieces].tolist() for axis in (chart.frontier.x, chart.frontier.y))
        elif len(curve) > 1:
            x, y = [p.x for p in curve], [p.y for p in curve]
        else:
            continue
        lines.append((x, [value * chart.unit for value in y]))
    return lines


def find_curve(point: FrontierPoint, frontier: Frontier, exact: Collection[Curve]) -> Curve | None:
    """Return the exact curve that contains a point; None behind any but the first scorer."""
    selector = point.point.decoder["select"]
    # Exact curves are computed with the default scorers and without a pool only.
    if scorer_chain(point.point.decoder) != _first_chain() or point.point.decoder["depth"] is not None:
        return None
    for curve in exact:
        other_params = {name: value for name, value in selector.items() if name != curve.parameter}
        if other_params == curve.selector and frontier.k == curve.k and {frontier.x, frontier.y} <= set(curve.means):
            return curve
    return None


def _point_kind(point: FrontierPoint) -> tuple[str, Any]:
    """Return a point's method and the scorers before it."""
    return point.point.method, scorer_chain(point.point.decoder)


def _first_chain() -> Any:
    """Return the first scorer at its defaults, and no reranker."""
    scorer = next(iter(methods("scorer").values())).cls()
    return frozenset(scorer.as_json().items()), frozenset[Any]()


def format_method(point: FrontierPoint) -> str:
    """Return a method's title behind its scorers'."""
    specs, decoder = methods(), point.point.decoder
    scorers = [stage["name"] for stage in (decoder.get("retrieve"), decoder.get("rerank")) if stage]
    names = [point.point.method] if scorers == [next(iter(methods("scorer")))] else [*scorers, point.point.method]
    titles = " → ".join(specs[name].title if name in specs else name for name in names)
    return ", ".join(filter(None, [titles, describe_guarantee(decoder["select"])]))


def _format_card(chart: FrontierChart, p: FrontierPoint) -> str:
    """Format the hover text of a point."""
    frontier = chart.frontier
    lines = [f"<b>{method_style(p.point.method).sign} {escape(p.name, 90)}</b>"]
    if chart.base is not None and chart.relative:
        part = f" · {percent(p.y / chart.base.y)} of {escape(chart.base.name)}"
    else:
        part = ""
    lines.append(f"{title_of(frontier.y)}@{frontier.k} {decimal(p.y)}{_format_interval(p.y_low, p.y_high)}{part}")
    if frontier.x == TIME_AXIS:
        lines.append(f"{p.x:.2g} ms a query")
    else:
        lines.append(f"{title_of(frontier.x)}@{frontier.k} {decimal(p.x)}{_format_interval(p.x_low, p.x_high)}")
    # Wins and losses need more than one query.
    for metric in frontier.metrics:
        row = (chart.rows or {}).get(metric, {}).get(p.point.label)
        if row is not None and row.queries > 1:
            win, tie, loss = row.wins
            lines.append(f"{title_of(metric)}: {win:,} won · {tie:,} tied · {loss:,} lost")
    return "<br>".join(lines)


def _format_interval(low: float | None, high: float | None) -> str:
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
    """Add the open point, with the intervals of its differences to the baseline as a cross."""
    opened = [p for p in chart.frontier.points if p.point.label == chart.opened]
    unit, bar_style = chart.unit, {"color": chart.ink, "thickness": 1}
    x_ends, y_ends = ([_interval_ends(chart, axis, p) for p in opened] for axis in (chart.frontier.x, chart.frontier.y))
    figure.add_scatter(
        **chart.xy(opened),
        mode="markers",
        marker={"symbol": "circle-open", "size": 14, "color": chart.ink, "line": {"width": 3}},
        error_x=error_bars([p.x for p in opened], *_split_ends(x_ends, 1)) | bar_style,
        error_y=error_bars([p.y * unit for p in opened], *_split_ends(y_ends, unit)) | bar_style,
        name="selected",
        hoverinfo="skip",
    )


def _interval_ends(chart: FrontierChart, axis: str, p: FrontierPoint) -> tuple[float | None, float | None]:
    """Return the ends of a point's interval as positions on an axis; None without one."""
    row, mean = ((chart.rows or {}).get(axis, {}).get(p.point.label), p.x if axis == chart.frontier.x else p.y)
    if row is None or row.low is None or row.high is None:
        return None, None
    return mean + row.low - row.difference, mean + row.high - row.difference


def _split_ends(ends: Sequence[tuple[float | None, float | None]], unit: float) -> list[list[float | None]]:
    """Return lower ends and upper ends, in the axis' unit."""
    return [[None if (bound := interval[side]) is None else unit * bound for interval in ends] for side in (0, 1)]


def _add_budget(figure: Figure, chart: FrontierChart) -> None:
    """Add the budget's line and the veil under it; the browser drags both."""
    floor = chart.floor
    if floor is None:
        return
    wide = {"xref": "paper", "x0": 0, "x1": 1}
    # The veil reaches below all points, so that zooming out shows no edge.
    low = min([chart.view.y[0], *(p.y * chart.unit for p in chart.frontier.points)])
    veil = {"fillcolor": GROUNDS[chart.dark], "opacity": 1 - FADED, "line": {"width": 0}, "layer": "above"}
    figure.add_shape(type="rect", name=VEIL_SHAPE, y0=low - abs(low) - 1, y1=floor, **veil, **wide)
    figure.add_shape(type="line", name=BUDGET_SHAPE, y0=floor, y1=floor, line=guide(chart.ink, "dash"), **wide)


def _is_at_base(chart: FrontierChart, p: FrontierPoint) -> bool:
    """Return True if another point overlaps the baseline's symbol."""
    if chart.base is None or p is chart.base:
        return False
    position, base_position = (chart.view.to_pixels(chart.locate(each)) for each in (p, chart.base))
    return math.dist(position, base_position) < OVERLAP_PX


def _add_labels(figure: Figure, chart: FrontierChart) -> None:
    """Add names of important points, without overlap."""
    points = chart.frontier.points
    callouts = chart.callouts or {}
    fixed_labels = {*callouts, chart.opened, *chart.current}
    fixed_points = [*chart.system_points, *(p for p in points if p.point.label in fixed_labels)]
    floor = -math.inf if chart.floor is None else chart.floor
    best = [p for p in chart.best_points.values() if p.y * chart.unit >= floor - 1e-9 and not _is_at_base(chart, p)]
    chosen = {p.point.label: p for p in [*fixed_points, *sorted(best, key=lambda p: -p.x)]}
    # The symbol of another system may be under the veil, so its label has it too.
    signs = {p.point.label: f"{method_style(p.point.method).sign} " for p in chart.system_points}
    texts = [
        [f"{p.name}: {callouts[label]}"] if label in callouts else [signs.get(label, "") + p.name, format_method(p)]
        for label, p in chosen.items()
    ]
    places = [chart.locate(p) for p in chosen.values()]
    marks = [chart.locate(p) for p in points if not p.dominated]
    for placed, (x, y) in zip(place_labels(zip(texts, places, strict=True), marks, chart.view), places, strict=True):
        if placed is not None:
            text, (x_shift, y_shift) = placed
            font = {"font": {"color": chart.ink, "size": 12}, "bgcolor": translucent(GROUNDS[chart.dark], 0.75)}
            position = {"x": x, "y": y, "xshift": x_shift, "yshift": y_shift, "xanchor": "center", "yanchor": "middle"}
            figure.add_annotation(text=escape(text, 80), showarrow=False, name="label", **position, **font)
