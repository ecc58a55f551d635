"""Frontier of a sweep: the best points within a budget, the decoders' curves, the Pareto staircase."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from dashboard.charts.figure import (
    apply_layout,
    build_tooltip,
    error_bars,
    escape,
    guide,
    legend_below,
    new_figure,
    read_column,
    time_axis,
)
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
    """Content and options of the Trade-off chart: diversity or time to the right, relevance upwards.

    The frontier has a point per decoder setting. The vertical axis is y in percent of the baseline's, if that
    is above 0, else y. The budget is the share of the baseline's y that a setting has to keep.
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
        """Point of the baseline, the first selector with the default scorers; None if it is not on the chart."""
        # Methods and scorers are registered in an order whose first entries make the baseline.
        kind = next(iter(methods())), _first_chain()
        return next((point for point in self.frontier.points if _point_kind(point) == kind), None)

    @cached_property
    def unit(self) -> float:
        """Factor from y to the vertical axis: 100 / the baseline's y, or 1 if the axis is not in percent."""
        return 100 / self.base.y if self.base is not None and self.base.y > 0 else 1.0

    @property
    def relative(self) -> bool:
        """True if the vertical axis is in percent of the baseline."""
        return self.base is not None and self.base.y > 0

    @property
    def floor(self) -> float | None:
        """Smallest value on the vertical axis that keeps the budget; None without a budget or a baseline."""
        if self.share is None or self.base is None:
            return None
        return 100 * self.share if self.relative else compute_floor(self.base, self.share)

    def locate(self, point: FrontierPoint) -> Place:
        """Return a point's position on the chart; a logarithmic axis counts in powers of ten."""
        return math.log10(point.x) if self.frontier.x == TIME_AXIS else point.x, point.y * self.unit

    def xy(self, points: Sequence[FrontierPoint]) -> dict[str, list[float]]:
        """Return the coordinates of points as plotly takes them, by axis."""
        return {"x": read_column(points, "x"), "y": [point.y * self.unit for point in points]}

    @cached_property
    def view(self) -> Window:
        """Ranges of both axes that are visible at first."""
        places, required = (list(map(self.locate, points)) for points in (self.frontier.points, self.system_points))
        base_place = self.locate(self.base) if self.base else places[0]
        return compute_window(places, base_place, self.floor, self.whole, required)

    @property
    def system_points(self) -> list[FrontierPoint]:
        """Points of uploaded runs, which are rankings by systems that are not decoders of this program."""
        method_names = methods()
        return [point for point in self.frontier.points if point.point.method not in method_names]

    @cached_property
    def best_points(self) -> Mapping[str, FrontierPoint]:
        """Label → each method's best setting within the budget; Pareto-optimal ones if there is no baseline."""
        points: Sequence[FrontierPoint] = self.frontier.front
        if self.base is not None:
            share = KEPT_SHARE.default if self.share is None else self.share
            points = select_best_per_method(self.frontier, self.base.point.label, share)
        return {point.point.label: point for point in points}

    def colour(self, point: FrontierPoint) -> str:
        return method_style(point.point.method).colour(self.dark)

    @property
    def ink(self) -> str:
        """Colour of text."""
        return INK.colour(self.dark)


def _find_comparison(chart: FrontierChart, metric: str, point: FrontierPoint) -> Comparison | None:
    """Return the comparison of a decoder's point with the baseline in a metric; None without one."""
    return (chart.rows or {}).get(metric, {}).get(point.point.label)


def _select_points(chart: FrontierChart, labels: Collection[str | None]) -> list[FrontierPoint]:
    """Return the points of decoders by their labels, in the frontier's order."""
    return [point for point in chart.frontier.points if point.point.label in labels]


def plot_frontier(chart: FrontierChart) -> Figure:
    """Plot the trade-off: a metric such as Recall upwards, diversity or time to the right.

    Each point is a decoder. Pareto-optimal points (no other has as much of both and more of one) are filled,
    outlined and joined by a staircase, dominated ones pale; everything below the budget is faded. A click on
    a point returns its decoder's label.
    """
    figure, frontier = new_figure(), chart.frontier
    _add_staircase(figure, chart)
    # Curves are grouped by method and scorers: each group is one legend entry.
    by_kind = defaultdict(list)
    for curve_points in frontier.curves.values():
        by_kind[_point_kind(curve_points[0])].append(curve_points)
    # Scorers by their first appearance, the default ones first: later ones have open symbols.
    chains = list(dict.fromkeys([_first_chain(), *map(itemgetter(1), by_kind)]))
    for (_, scorers), curves in by_kind.items():
        _add_method(figure, chart, curves, chains.index(scorers))
    _add_rings(figure, chart, _select_points(chart, chart.current), "current setting", 17)
    _add_opened(figure, chart)
    _add_rings(figure, chart, _select_points(chart, chart.callouts or {}), "knee", 21)
    _add_budget(figure, chart)
    _add_labels(figure, chart)
    x_title, y_title = (
        AXIS_TITLES.get(axis, f"{title_of(axis)}@{{k}}").format(k=frontier.k) for axis in (frontier.x, frontier.y)
    )
    x_range, y_range = {"range": list(chart.view.x)}, {"range": list(chart.view.y)}
    is_time = frontier.x == TIME_AXIS
    x_axis = time_axis("← milliseconds a query") | x_range if is_time else x_range | {"title": f"{x_title} →"}
    figure.update_xaxes(x_axis)
    y_axis = {"title": f"{y_title} ↑"}
    if chart.relative and chart.base is not None:
        percent_title = f"{title_of(frontier.y)}@{frontier.k}, % of {escape(chart.base.name)} ↑"
        y_axis = {"title": percent_title, "ticksuffix": "%"}
    figure.update_yaxes(y_axis | y_range)
    legend = legend_below(-0.2) if chart.legend else {}
    revision = f"{frontier.x} {frontier.y} {chart.whole}"
    return apply_layout(figure, **legend, height=540, uirevision=revision, meta=_build_controls(chart))


def _build_controls(chart: FrontierChart) -> dict[str, Any]:
    """Return what the browser needs to let people drag the budget's line ("level") and a dot on a "curve"."""
    controls: dict[str, Any] = {"labels": True}
    # The budget can only be dragged on an axis in percent.
    if chart.floor is not None and chart.relative and chart.base is not None:
        low_share, high = (round(100 * bound) for bound in KEPT_SHARE.comfortable_range)
        label = f"keep ≥ {{}} of {chart.base.name}'s {title_of(chart.frontier.y)}"
        controls["level"] = {"value": round(chart.floor), "low": low_share, "high": high, "step": 1, "label": label}
    if chart.scrub is not None:
        controls["curve"] = _build_dot(chart, *chart.scrub)
    return controls


def _build_dot(chart: FrontierChart, curve: Curve, dot_value: float) -> dict[str, Any]:
    """Build positions and texts of the dot that people drag along a curve of all values of a parameter.

    dot_value: the parameter's value at which the dot starts; it can stop at the curve's `band_positions`.
    """
    # Values in percent have one decimal, values of a metric three.
    frontier, (digits, suffix) = chart.frontier, (1, "%") if chart.relative else (3, "")
    dot_values: dict[str, Any] = {
        "name": f"{methods()[curve.method].title} {curve.symbol}",
        "colour": method_style(curve.method).colour(chart.dark),
        "values": [],
        "at": int(np.abs(curve.band_positions - dot_value).argmin()),
    }
    dot_values |= {"x": [], "y": [], "texts": []}
    for curve_position in curve.band_positions.tolist():
        means = curve.at(curve_position)
        x, y = means[frontier.x], means[frontier.y] * chart.unit
        dot_values["values"].append(round(curve_position, 9))
        dot_values["x"].append(round(x, 6))
        dot_values["y"].append(round(y, 4))
        y_text, x_text = f"{title_of(frontier.y)} {decimal(y, digits)}{suffix}", f"{title_of(frontier.x)} {decimal(x)}"
        dot_values["texts"].append(f"{curve.symbol} {curve_position:.2f} · {y_text} · {x_text}")
    return dot_values


def _add_staircase(figure: Figure, chart: FrontierChart) -> None:
    """Add the line through the Pareto-optimal points, as a staircase, with the area under it.

    A point is Pareto-optimal if no other is at least as good in both metrics and better in one.
    """
    all_places, front_places = chart.xy(chart.frontier.points), chart.xy(chart.frontier.front)
    x, y, lowest = front_places["x"], front_places["y"], min(all_places["y"])
    # With diversity, more is better: from the left edge of all points the staircase falls to the lowest.
    # With time, less is better: from the lowest it climbs to the right edge.
    rises = chart.frontier.direction > 0
    figure.add_scatter(
        x=[min(all_places["x"]), *x, x[-1]] if rises else [x[0], *x, max(all_places["x"])],
        y=[y[0], *y, lowest] if rises else [lowest, *y, y[-1]],
        mode="lines",
        line={"color": chart.ink, "width": 2, "shape": "vh" if rises else "hv"},
        fill="tozeroy",
        fillcolor=translucent(chart.ink, AREA_OPACITY),
        name="Pareto frontier",
        hoverinfo="skip",
    )


def _add_method(figure: Figure, chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]], position: int) -> None:
    """Add the points and lines of one selector behind one chain of scorers, which estimate relevance.

    curves: its points, a list for each curve, along which one parameter changes; position: of the chain of
    scorers among all on the chart: the first has filled symbols, later ones open
    """
    first, points, sizes = curves[0][0], list(chain.from_iterable(curves)), list[float]()
    for curve_points in curves:
        # Symbols grow with the parameter; a single point has none to show by its size.
        sizes += [10.0] if len(curve_points) < 2 else np.linspace(6, 11, len(curve_points)).tolist()
    colour, style, labels = chart.colour(first), method_style(first.point.method), read_column(points, "point.label")
    symbol = f"{style.symbol}-open" if position else style.symbol
    named = {"name": escape(format_method(first), 48), "legendgroup": f"{first.point.method} {position}"}
    opacity = 0.9 if chart.opened in labels else 0.45
    line_style = {"color": translucent(colour, opacity), "width": 2, "dash": DASHES[position % len(DASHES)]}
    if len(curves) > MAX_CURVES:
        x_corners, y_corners = zip(*convex_hull(map(chart.locate, points)), strict=True)
        figure.add_scatter(
            # The hull was computed on the axis as drawn, which counts time in powers of ten.
            x=[10**x_line for x_line in x_corners] if chart.frontier.x == TIME_AXIS else x_corners,
            y=y_corners,
            mode="none",
            fill="toself",
            fillcolor=translucent(colour, 0.1),
            hoverinfo="skip",
            showlegend=False,
            **named,
        )
    for x_line, y in build_lines(chart, curves):
        figure.add_scatter(x=x_line, y=y, mode="lines", line=line_style, hoverinfo="skip", showlegend=False, **named)
    # Pareto-optimal points have the full colour and an outline.
    looks = [(translucent(colour, DOMINATED_OPACITY), 0) if point.dominated else (colour, 1.5) for point in points]
    colours, widths = map(list, zip(*looks, strict=True))
    figure.add_scatter(
        **chart.xy(points),
        mode="markers",
        marker={"symbol": symbol, "size": sizes, "color": colours, "line": {"width": widths, "color": chart.ink}},
        customdata=labels,
        **build_tooltip([_format_card(chart, point) for point in points]),
        showlegend=False,
        **named,
    )
    if chart.legend:  # an entry of its own: it looks like its trace's first point, which may be a pale one
        legend_entry = {"symbol": symbol, "size": 10, "color": colour}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=legend_entry, hoverinfo="skip", **named)


def build_lines(
    chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]]
) -> list[tuple[list[float], list[float]]]:
    """Return x and y of the lines that join a selector's points, each as two lists of coordinates.

    curves: its points, a list for each curve. Of more than MAX_CURVES curves only one is drawn: the first
    with a best point.
    """
    if len(curves) > MAX_CURVES:
        best = (curve for curve in curves if not chart.best_points.keys().isdisjoint(read_column(curve, "point.label")))
        curves = [next(best, curves[0])]
    lines = []
    for curve in curves:
        exact_curve = find_curve(curve[0], chart.frontier, chart.exact)
        if exact_curve is not None:
            # Equally spaced pieces keep the curve's shape; its ends are always included.
            pieces = np.unique(np.linspace(0, len(exact_curve) - 1, MAX_PIECES).astype(int))
            x, y = (exact_curve.means[axis][pieces] for axis in (chart.frontier.x, chart.frontier.y))
            lines.append((x.tolist(), (y * chart.unit).tolist()))
        elif len(curve) > 1:
            places = chart.xy(curve)
            lines.append((places["x"], places["y"]))
    return lines


def find_curve(point: FrontierPoint, frontier: Frontier, exact_curves: Collection[Curve]) -> Curve | None:
    """Return the exact curve, computed at every value of a parameter, through a point; None without one.

    Exact curves exist only for decoders with the default scorers that choose from the whole corpus.
    """
    selector = point.point.decoder["select"]
    # Exact curves are computed with the default scorers and without a pool only.
    if scorer_chain(point.point.decoder) != _first_chain() or point.point.decoder["depth"] is not None:
        return None
    for curve in exact_curves:
        other_params = {name: value for name, value in selector.items() if name != curve.parameter}
        if other_params == curve.selector and frontier.k == curve.k and {frontier.x, frontier.y} <= set(curve.means):
            return curve
    return None


def _point_kind(point: FrontierPoint) -> tuple[str, Any]:
    """Return a point's method and the scorers before it, by which points are grouped."""
    return point.point.method, scorer_chain(point.point.decoder)


def _first_chain() -> Any:
    """Return the default scorers, as `scorer_chain` does: the first registered scorer, no reranker."""
    scorer = next(iter(methods("scorer").values())).cls()
    return frozenset(scorer.as_json().items()), frozenset[Any]()


def format_method(point: FrontierPoint) -> str:
    """Return a point's selector as text, with its scorers before it if they are not the default.

    Such as "BM25 → MMR", followed by the words that a selector must always carry, such as "fills up to k".
    """
    specs, decoder = methods(), point.point.decoder
    scorers = [stage["name"] for stage in (decoder.get("retrieve"), decoder.get("rerank")) if stage]
    names = [point.point.method] if scorers == [next(iter(methods("scorer")))] else [*scorers, point.point.method]
    # Other systems are not registered: they have their name alone.
    titles = " → ".join(specs[name].title if name in specs else name for name in names)
    return ", ".join(filter(None, [titles, describe_guarantee(decoder["select"])]))


def _format_card(chart: FrontierChart, point: FrontierPoint) -> str:
    """Format a point's hover text as HTML: its name, metrics with intervals, and won and lost queries."""
    frontier, part = chart.frontier, ""
    if chart.base is not None and chart.relative:
        part = f" · {percent(point.y / chart.base.y)} of {escape(chart.base.name)}"
    x_text = f"{title_of(frontier.x)}@{frontier.k} {decimal(point.x)}{_format_interval(point.x_low, point.x_high)}"
    lines = [
        f"<b>{method_style(point.point.method).sign} {escape(point.name, 90)}</b>",
        f"{title_of(frontier.y)}@{frontier.k} {decimal(point.y)}{_format_interval(point.y_low, point.y_high)}{part}",
        f"{point.x:.2g} ms a query" if frontier.x == TIME_AXIS else x_text,
    ]
    # Wins and losses need more than one query.
    for metric in frontier.metrics:
        comparison = _find_comparison(chart, metric, point)
        if comparison is not None and comparison.queries > 1:
            n_wins, n_ties, n_losses = comparison.wins
            lines.append(f"{title_of(metric)}: {n_wins:,} won · {n_ties:,} tied · {n_losses:,} lost")
    return "<br>".join(lines)


def _format_interval(lower_end: float | None, upper_end: float | None) -> str:
    """Format an interval in brackets, "" without one."""
    return "" if lower_end is None or upper_end is None else f" ({decimal(lower_end)}–{decimal(upper_end)})"


def _add_rings(figure: Figure, chart: FrontierChart, points: Sequence[FrontierPoint], name: str, ring_px: int) -> None:
    """Add rings around points, such as "current setting" or "knee", if there are any.

    name: of the rings; ring_px: their diameter in pixels
    """
    if points:
        marker = {"symbol": "circle-open", "size": ring_px, "color": chart.ink, "line": {"width": 1.5}}
        figure.add_scatter(**chart.xy(points), mode="markers", marker=marker, name=name, hoverinfo="skip")


def _add_opened(figure: Figure, chart: FrontierChart) -> None:
    """Add a thick ring around the open setting's point, with a cross of intervals through it.

    They are the 95% intervals of its differences to the baseline, in x and in y.
    """
    points, axes = _select_points(chart, [chart.opened]), (chart.frontier.x, chart.frontier.y)
    places, bar_style = chart.xy(points), {"color": chart.ink, "thickness": 1}
    # Without an open point all these lists are empty, and nothing is visible.
    x_ends, y_ends = (_interval_ends(chart, points, axis) for axis in axes)
    figure.add_scatter(
        **places,
        mode="markers",
        marker={"symbol": "circle-open", "size": 14, "color": chart.ink, "line": {"width": 3}},
        error_x=error_bars(places["x"], *x_ends) | bar_style,
        error_y=error_bars(places["y"], *y_ends) | bar_style,
        name="selected",
        hoverinfo="skip",
    )


def _interval_ends(chart: FrontierChart, points: Sequence[FrontierPoint], axis: str) -> tuple[list[Any], list[Any]]:
    """Return where an error bar of each point starts and ends on an axis of the chart, as two lists.

    The bar is the interval of the difference to the baseline, moved to the point. axis: the metric; a point
    without an interval has None in both lists
    """
    lower_ends, upper_ends = [], []
    for point in points:
        row = _find_comparison(chart, axis, point)
        low_end = high_end = None
        if row is not None and row.low is not None and row.high is not None:
            mean, unit = (point.x, 1) if axis == chart.frontier.x else (point.y, chart.unit)
            # The interval is around the difference, the bar around the point's mean.
            low_end, high_end = unit * (mean + row.low - row.difference), unit * (mean + row.high - row.difference)
        lower_ends.append(low_end)
        upper_ends.append(high_end)
    return lower_ends, upper_ends


def _add_budget(figure: Figure, chart: FrontierChart) -> None:
    """Add the budget: a line at the smallest acceptable y, and a veil that fades everything below it.

    The browser moves both while a person drags the line.
    """
    floor = chart.floor
    if floor is None:
        return
    wide = {"xref": "paper", "x0": 0, "x1": 1}
    # The veil reaches below all points, so that zooming out shows no edge.
    bottom_edge = min(chart.view.y[0], *chart.xy(chart.frontier.points)["y"])
    veil = {"fillcolor": GROUNDS[chart.dark], "opacity": 1 - FADED, "line": {"width": 0}, "layer": "above"}
    figure.add_shape(type="rect", name=VEIL_SHAPE, y0=bottom_edge - abs(bottom_edge) - 1, y1=floor, **veil, **wide)
    figure.add_shape(type="line", name=BUDGET_SHAPE, y0=floor, y1=floor, line=guide(chart.ink, "dash"), **wide)


def _is_at_base(chart: FrontierChart, point: FrontierPoint) -> bool:
    """Return True if a point's symbol overlaps that of the baseline, which then has the label."""
    if chart.base is None or point is chart.base:
        return False
    position, base_position = map(chart.view.to_pixels, map(chart.locate, (point, chart.base)))
    return math.dist(position, base_position) < OVERLAP_PX


def _add_labels(figure: Figure, chart: FrontierChart) -> None:
    """Add names to the best, the open and the marked points, wherever they overlap nothing.

    callouts are texts at points, such as the gain of the best one.
    """
    callouts = chart.callouts or {}
    fixed_points = [*chart.system_points, *_select_points(chart, {*callouts, chart.opened, *chart.current})]
    # The tolerance keeps points that lie on the budget up to rounding.
    min_y = -math.inf if chart.floor is None else chart.floor - 1e-9
    best_points = [p for p in chart.best_points.values() if p.y * chart.unit >= min_y and not _is_at_base(chart, p)]
    chosen = {p.point.label: p for p in [*fixed_points, *sorted(best_points, key=lambda p: -p.x)]}
    candidates, system_labels = [], read_column(chart.system_points, "point.label")
    for label, point in chosen.items():
        # The symbol of another system may be under the veil, so its label has it too.
        sign = f"{method_style(point.point.method).sign} " if label in system_labels else ""
        # The shorter name is tried where the full one does not fit.
        texts = [f"{point.name}: {callouts[label]}"] if label in callouts else [sign + point.name, format_method(point)]
        candidates.append((texts, chart.locate(point)))
    marks = [chart.locate(point) for point in chart.frontier.points if not point.dominated]
    font = {"font": {"color": chart.ink, "size": 12}, "bgcolor": translucent(GROUNDS[chart.dark], 0.75)}
    labels = place_labels(candidates, marks, chart.view)
    for (_, (x, y)), placed in zip(candidates, labels, strict=True):
        if placed is not None:
            label_text, (x_shift, y_shift) = placed
            position = {"x": x, "y": y, "xshift": x_shift, "yshift": y_shift, "xanchor": "center", "yanchor": "middle"}
            figure.add_annotation(text=escape(label_text, 80), showarrow=False, name="label", **position, **font)
