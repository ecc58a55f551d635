"""Frontier of a sweep: settings and exact curves, as wide as they are sure to keep the budget, and the two choices."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from dashboard.charts.figure import (
    apply_layout,
    build_tooltip,
    escape,
    guide,
    legend_below,
    new_figure,
    read_column,
    time_axis,
)
from dashboard.charts.frontier_layout import (
    CHARACTER_PX,
    PLOT_PX,
    Box,
    Place,
    Window,
    compute_window,
    needs_leader,
    place_labels,
    trace_envelope,
)
from dashboard.charts.palette import DASHES, GREY, GROUNDS, INK, method_style, mix_with_ink, translucent
from engine.decoder import read_limits
from engine.evaluation.decision import SURE_CHANCE, lacks_confirmed_gain
from engine.evaluation.frontier import KEPT_SHARE, TIME_AXIS, compute_floor, select_best_per_method
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import describe_guarantee, format_decoder, scorer_chain
from engine.progress import counted
from engine.stages import methods
from engine.wording import decimal, format_budget, percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from engine.evaluation.curve import Curve
    from engine.evaluation.decide import OptionEstimates
    from engine.evaluation.decision import Decision, Option
    from engine.evaluation.frontier import Frontier, FrontierPoint
    from engine.evaluation.statistics import Comparison

MAX_PIECES = 800
"""Pieces of an exact curve that are drawn: more are not visible on a screen."""
MAX_CURVES = 2
"""Curves of a method that are drawn: of more only the best one is, beside all points."""
VEIL_OPACITY, STRIP_OPACITY = 0.05, 0.9
"""Opacity of the area below the budget, the smallest y that a setting must keep, and of the two choices' whiskers."""
SEGMENTS = 20
"""Pieces of an exact curve that have a width of their own."""
MIN_WIDTH, WIDTH_RANGE, MIN_OPACITY, MIN_DARK_OPACITY = 1.0, 2.0, 0.2, 0.55
"""A line's width in pixels and its opacity, at a chance of 0, and the width that a chance of 1 adds. On a dark page a
colour that is as pale as on a light one cannot be told from the ground."""
UNKNOWN_WIDTH, UNKNOWN_OPACITY, LONE_OPACITY = 2.0, 0.7, 0.75
"""Width in pixels and opacity of a line of which no chance is known, and the least opacity of a decoder's only point,
which no line shows."""
JOIN_WIDTH = 1.5
"""Width in pixels of the dotted lines between settings: as wide as a chance they would pass for curves."""
RING_PX, STRIP_PX, CAP_PX = 9, 1, 5
"""Radius of the ring at a choice, and half the widths of its whisker and of the whisker's ends."""
BUDGET_STEP = 0.005
"""Distance of two budgets, shares of the baseline's y to keep, that can be chosen."""
ENVELOPE_OPACITY = 0.55
"""Opacity of the envelope, the best y at each x or further right."""
LINE_STEP_PX = 6
"""Distance of the positions along a line that labels should not cover."""
INK_SHARE = 0.4
"""Share of the text's colour in a name that has its decoder's."""
CURRENT_NAME = "Explore"
"""Name of the rings around the settings of Explore."""
MAX_NAMED_CURRENT = 3
"""Up to so many rings of Explore have names on the chart: more would cover what it shows, and hovering names them."""
OVERLAP_PX = 16
"""Distance below which two symbols overlap."""
NO_LINES_TEXT = "no lines between points: only measured settings have a time"
AXIS_TITLES = {"ilad": "Diversity (ILAD@{k})", TIME_AXIS: "milliseconds a query"}
DENIED_ROLE, GAINLESS_ROLE = "looked sure", "sure, gains nothing"
"""Roles of the sure setting on charts where another split does not confirm that it keeps the budget, or its gain."""
BUDGET_SHAPE, VEIL_SHAPE = "budget", "veil"
"""Names of the shapes that the browser draws itself where the budget can be dragged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FrontierChart:
    """Content and options of the Trade-off chart: diversity or time to the right, relevance upwards.

    The frontier has a point per decoder setting. The vertical axis is y in percent of the baseline's, if that
    is above 0, else y. The budget is the share of the baseline's y that a setting has to keep.
    """

    frontier: Frontier
    dark: bool
    share: float | None = None  # of the baseline's y to keep, None for no budget
    estimates: OptionEstimates | None = None  # of the chances to keep a budget; None draws all alike
    whole: bool = False  # True to show all points, not only useful ones
    current: Collection[str] = ()  # labels of ringed points
    opened: str | None = None  # label of the point that has error bars
    exact: Collection[Curve] = ()  # curves at every value of a parameter, in place of lines between points
    rows: Mapping[str, Mapping[str, Comparison]] | None = None  # metric → label → comparison, for the hover
    scrub: tuple[Curve, float] | None = None  # curve of the movable dot, and its position
    legend: bool = False
    has_handles: bool = True  # False for a budget that cannot be dragged
    is_partial: bool = False  # True while settings are measured: only exact curves are lines, calm without a chance
    has_envelope: bool = True  # False to leave out the best of all decoders together
    pinned: str | None = None  # label of the sure setting that stays so at this budget, as another split confirms it
    denied_role: str = ""  # of this budget's sure setting if another split does not confirm it, by `name_denied_role`

    @cached_property
    def base(self) -> FrontierPoint | None:
        """Point of the baseline, the first selector with the default scorers; None if it is not on the chart."""
        # Methods and scorers are registered in an order whose first entries make the baseline.
        kind = next(iter(methods())), _first_chain()
        return next((point for point in self.frontier.points if _point_kind(point) == kind), None)

    @cached_property
    def unit(self) -> float:
        """Factor from y to the vertical axis: 100 / the baseline's y, or 1 if the axis is not in percent."""
        return 100 / self.base.y if self.base is not None and self.relative else 1.0

    @property
    def relative(self) -> bool:
        """True if the vertical axis is in percent of the baseline; a single query gets no percentages."""
        return self.base is not None and self.base.y > 0 and self.frontier.queries > 1

    @property
    def floor(self) -> float | None:
        """Smallest y that keeps the required share of the baseline's y; None without a share or a baseline."""
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
        places, required = (
            list(map(self.locate, points)) for points in (self.frontier.points, _list_system_points(self.frontier))
        )
        if self.frontier.x != TIME_AXIS:  # curves have no times
            places += list_curve_places(self)
        base_place = self.locate(self.base) if self.base else places[0]
        floor = self.floor
        if not self.has_handles:
            required += _list_budget_places(self, base_place[0])
        elif self.relative and self.estimates is not None and self.share is not None:
            # Of every budget, so that the axes stay while it is dragged.
            positions = set(chain.from_iterable(self.choices)) - {None}
            tops = [100 * float(self.estimates.intervals[1][position]) for position in positions]
            required += [(base_place[0], top) for top in tops]
        if floor is None or not self.relative:
            return compute_window(places, base_place, floor, self.whole, required)
        # The window is that of the default share to keep, so that axes stay when a person has dragged the share; only a
        # share whose line would be outside has a window of its own.
        usual = compute_window(places, base_place, 100 * KEPT_SHARE.default, self.whole, required)
        if floor > usual.y[0]:
            return usual
        return compute_window(places, base_place, floor, self.whole, required)

    @cached_property
    def choices(self) -> list[tuple[int | None, int | None]]:
        """The sure setting and the bet of every budget that can be dragged to, as the estimates' positions."""
        if self.estimates is None:
            return []
        pairs = []
        for share in list_budgets():
            # A setting is pinned at one budget alone.
            pinned = self.pinned if self.share is not None and math.isclose(share, self.share) else None
            pairs.append(self.estimates.find_choices(share, pinned))
        return pairs

    @cached_property
    def best_points(self) -> Mapping[str, FrontierPoint]:
        """Label → each method's best setting that keeps the budget, a share of the baseline's metric.

        Without a baseline: label → each Pareto-optimal setting.
        """
        points: Sequence[FrontierPoint] = self.frontier.front
        if self.base is not None:
            share = KEPT_SHARE.default if self.share is None else self.share
            points = select_best_per_method(self.frontier, self.base.point.label, share)
        return {point.point.label: point for point in points}

    @cached_property
    def decision(self) -> Decision | None:
        """The two recommended settings; None without estimates or without a budget.

        The budget is the share of the baseline's metric to keep. Each is the setting with the largest gain on the
        horizontal axis: "sure" among those almost certain to keep the budget, "bet" among those expected to keep it.
        """
        if self.estimates is None or self.share is None:
            return None
        # with_options=False: the list of all settings takes longest and is not used.
        return self.estimates.decide(self.share, with_options=False, pinned=self.pinned)

    def colour(self, point: FrontierPoint) -> str:
        return method_style(point.point.method).colour(self.dark)

    @property
    def ink(self) -> str:
        """Colour of text."""
        return INK.colour(self.dark)


def _list_system_points(frontier: Frontier) -> list[FrontierPoint]:
    """List the points of uploaded runs, which are rankings by systems that are not decoders of this program."""
    method_names = methods()
    return [point for point in frontier.points if point.point.method not in method_names]


def _list_budget_places(chart: FrontierChart, base_x: float) -> list[Place]:
    """Return what a budget that nobody drags needs in the window: its line, and the ends of both intervals."""
    places = [] if chart.floor is None else [(base_x, chart.floor)]
    choices = () if chart.decision is None or not chart.relative else (chart.decision.sure, chart.decision.bet)
    for option in filter(None, choices):
        x, _ = _locate_option(chart, option)
        places += [(x, 100 * find_sure_end(option)), (x, 100 * option.high)]
    return places


def find_sure_end(option: Option) -> float:
    """Return the lower end of a choice's whisker: the largest share that it is sure to keep, at least 0.

    The rule of the choice has one side. The lower end of a two-sided interval would lie below the budget for settings
    that are sure to keep it.
    """
    return max(0.0, option.sure_share)


def name_denied_role(sure: Option | None) -> str:
    """Return the role on charts of a sure setting that another split denies, by its reason; "" unless it does."""
    if sure is None or not sure.is_denied:
        return ""
    return GAINLESS_ROLE if lacks_confirmed_gain(sure) else DENIED_ROLE


def _find_comparison(chart: FrontierChart, metric: str, point: FrontierPoint) -> Comparison | None:
    """Return the comparison of a decoder's point with the baseline in a metric; None without one."""
    return (chart.rows or {}).get(metric, {}).get(point.point.label)


def _select_points(chart: FrontierChart, labels: Collection[str | None]) -> list[FrontierPoint]:
    """Return the points of decoders by their labels, in the frontier's order."""
    return [point for point in chart.frontier.points if point.point.label in labels]


def plot_frontier(chart: FrontierChart) -> Figure:
    """Plot the trade-off: a metric such as Recall upwards, diversity or time to the right.

    Each point is a decoder. The likelier it keeps the budget (a share of the baseline's metric), the more opaque is its
    point, and the wider are the curves there. The recommended settings have a ring, a whisker from what they surely
    keep, and a name. A click on a point returns its decoder's label.
    """
    figure, frontier = new_figure(), chart.frontier
    if (envelope := build_envelope(chart)) is not None:
        figure.add_scatter(**envelope)
    # Each group is one legend entry. The baseline comes last, so that no other mark at its place hides it.
    groups = group_curves(frontier)
    for curves, position in sorted(groups, key=lambda group: any(chart.base is curve[0] for curve in group[0])):
        _add_method(figure, chart, curves, position)
    _add_rings(figure, chart, _select_points(chart, chart.current), CURRENT_NAME, 17)
    _add_opened(figure, chart)
    add_budget(figure, chart)
    add_choices(figure, chart)
    _add_labels(figure, chart)
    x_title, y_title = format_titles(chart)
    x_range, y_range = {"range": list(chart.view.x)}, {"range": list(chart.view.y)}
    is_time = frontier.x == TIME_AXIS
    x_axis = time_axis(f"← {x_title}") | x_range if is_time else x_range | {"title": f"{x_title} →"}
    figure.update_xaxes(x_axis)
    y_axis = {"title": f"{escape(y_title, 80)} ↑", "ticksuffix": "%" if chart.relative else ""}
    figure.update_yaxes(y_axis | y_range)
    legend = legend_below(-0.2) if chart.legend else {}
    revision = f"{frontier.x} {frontier.y} {chart.whole}"
    meta = {"labels": True} | build_controls(chart)
    return apply_layout(figure, **legend, height=540, uirevision=revision, meta=meta)


def plot_named_budget(chart: FrontierChart) -> Figure:
    """Plot the page's frontier with the budget's name, which on the page stands on the handle that drags it."""
    figure = plot_frontier(chart)
    if chart.share is not None and chart.base is not None and chart.floor is not None:
        text = f"keep ≥ {format_budget(chart.share)} of {chart.base.name}'s {title_of(chart.frontier.y)}"
        place = {"xref": "paper", "x": 1, "xanchor": "right", "y": chart.floor, "yanchor": "top"}
        name = {"text": escape(text, 60), "showarrow": False, "font": {"color": chart.ink, "size": 12}, **place}
        # On a narrow page the first names are the last ones to be hidden.
        figure.layout.annotations = (name, *figure.layout.annotations)
    return figure


def build_envelope(chart: FrontierChart) -> dict[str, Any] | None:
    """Build the trace of all settings' upper envelope: for each x, the best y that any has there or further right.

    Return None for a single decoder, which needs none, and where the chart leaves it out.
    """
    if not has_envelope_line(chart):
        return None
    is_time = chart.frontier.x == TIME_AXIS
    places = [(point.x, point.y * chart.unit) for point in chart.frontier.points]
    xs, ys = trace_envelope([*places, *list_curve_places(chart)], smaller_is_better=is_time)
    # Between two settings only the lower of their y is reached, so the line has steps.
    look = {"color": translucent(chart.ink, ENVELOPE_OPACITY), "width": 1, "shape": "hv" if is_time else "vh"}
    options = {"hoverinfo": "skip", "showlegend": False, "name": "best of all"}
    return {"x": xs, "y": ys, "mode": "lines", "line": look} | options


def has_envelope_line(chart: FrontierChart) -> bool:
    """Return True if the best of all settings is drawn: the chart wants it, and there are several decoders."""
    methods_beside_base = {point.point.method for point in chart.frontier.points if point is not chart.base}
    return chart.has_envelope and len(methods_beside_base) > 1


def has_exact_lines(frontier: Frontier, exact_curves: Collection[Curve]) -> bool:
    """Return True if an exact curve can be drawn: one with the metrics of both axes; times it has none."""
    return any({frontier.x, frontier.y} <= set(curve.means) for curve in exact_curves)


def has_joins(chart: FrontierChart) -> bool:
    """Return True if settings of a decoder are joined by straight lines, as it has no curve."""
    return any(not line.is_exact for curves, _ in group_curves(chart.frontier) for line in build_lines(chart, curves))


def list_curve_places(chart: FrontierChart) -> list[Place]:
    """Return the positions of all settings of the exact curves, in the units of the axes."""
    axes, places = (chart.frontier.x, chart.frontier.y), list[Place]()
    for curve in chart.exact:
        if set(axes) <= set(curve.means):
            xs, ys = (curve.means[axis] for axis in axes)
            places += zip(xs.tolist(), (ys * chart.unit).tolist(), strict=True)
    return places


def group_curves(frontier: Frontier) -> list[tuple[list[Sequence[FrontierPoint]], int]]:
    """Group the curves of a frontier by selector and scorers; return (curves, scorers' position) of each.

    The position is 0 for the default scorers, and counts others as they first appear. The chart draws scorers at 0 with
    filled symbols, and others with open symbols and dashes.
    """
    # Its keys are (selector, scorers).
    by_kind: dict[Any, list[Sequence[FrontierPoint]]] = defaultdict(list)
    for curve_points in frontier.curves.values():
        by_kind[_point_kind(curve_points[0])].append(curve_points)
    chains = list(dict.fromkeys([_first_chain(), *map(itemgetter(1), by_kind)]))
    return [(curves, chains.index(scorers)) for (_, scorers), curves in by_kind.items()]


def _title_axis(axis: str, k: int) -> str:
    """Return the title of an axis' metric at k, as all pages write it."""
    return AXIS_TITLES.get(axis, f"{title_of(axis)}@{{k}}").format(k=k)


def format_titles(chart: FrontierChart) -> tuple[str, str]:
    """Format the titles of the two axes, without arrows."""
    frontier = chart.frontier
    x_title, y_title = (_title_axis(axis, frontier.k) for axis in (frontier.x, frontier.y))
    if chart.relative and chart.base is not None:
        y_title = f"{title_of(frontier.y)}@{frontier.k}, % of {chart.base.name}"
    return x_title, y_title


def build_controls(chart: FrontierChart) -> dict[str, Any]:
    """Return what the browser needs to let people drag the budget's line ("level") and a dot on a "curve"."""
    controls = dict[str, Any]()
    # The budget can only be dragged on an axis in percent.
    if chart.has_handles and chart.floor is not None and chart.relative and chart.base is not None:
        low_share, high = (round(100 * bound) for bound in KEPT_SHARE.comfortable_range)
        label = f"keep ≥ {{}} of {chart.base.name}'s {title_of(chart.frontier.y)}"
        step = 100 * BUDGET_STEP
        level = {"value": chart.floor, "low": low_share, "high": high, "step": step, "label": label}
        # Another split was asked about this budget alone.
        level |= {"denied": chart.floor if chart.denied_role else None, "minOpacity": fade(0, chart.dark)}
        controls["level"] = level | (_build_choices(chart, chart.estimates) if chart.estimates is not None else {})
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
        "method": curve.method,
        "colour": method_style(curve.method).colour(chart.dark),
        "values": [],
        "at": int(np.abs(curve.band_positions - dot_value).argmin()),
    }
    dot_values |= {"x": [], "y": [], "texts": [], "settings": [], "means": []}
    for curve_position in curve.band_positions.tolist():
        means = curve.at(curve_position)
        x, y = means[frontier.x], means[frontier.y] * chart.unit
        dot_values["values"].append(round(curve_position, 9))
        dot_values["x"].append(round(x, 6))
        dot_values["y"].append(round(y, 4))
        y_text, x_text = f"{title_of(frontier.y)} {decimal(y, digits)}{suffix}", f"{title_of(frontier.x)} {decimal(x)}"
        dot_values["texts"].append(f"{curve.symbol} {curve_position:.2f} · {y_text} · {x_text}")
        # The heading beside the chart, and the line below it.
        dot_values["settings"].append(format_setting(curve, curve_position))
        dot_values["means"].append(format_means(frontier, means[frontier.x], means[frontier.y]))
    return dot_values


def format_setting(curve: Curve, value: float) -> str:
    """Format the setting that a curve has at a value of its parameter, without its scorers."""
    return format_decoder({"select": curve.make_stage(value).as_json(), **curve.limits}, with_scorers=False)


def format_means(frontier: Frontier, x: float, y: float, *intervals: str) -> str:
    """Format a setting's means of the metrics on both axes.

    intervals: texts behind y and x; none by default
    """
    parts = []
    for axis, mean_value, interval in zip((frontier.y, frontier.x), (y, x), intervals or ("", ""), strict=True):
        title = f"{_title_axis(axis, frontier.k)} {decimal(mean_value)}{interval}"
        parts.append(f"{mean_value:.2g} ms a query" if axis == TIME_AXIS else title)
    return f"Mean of {counted(frontier.queries, 'query', 'queries')}: {' · '.join(parts)}"


def list_budgets() -> list[float]:
    """Return the budgets, shares of the baseline's metric to keep, that a person can drag the line to."""
    low, high = KEPT_SHARE.comfortable_range
    return [round(low + BUDGET_STEP * step, 6) for step in range(round((high - low) / BUDGET_STEP) + 1)]


def _build_choices(chart: FrontierChart, estimates: OptionEstimates) -> dict[str, Any]:
    """Build the two recommended settings of every budget, for the browser to draw while it is dragged.

    A budget is the share of the baseline's metric that a setting must keep: the sure setting does almost certainly, the
    bet with a moderate chance. For each budget, "choices" has the positions of the sure setting and the bet in
    "options", None where there is none, and "sureEnds" what both are sure to keep. "calibrations" has a scale and a
    shift, by which the browser corrects the scores of lines and points. Student's t distribution with "degrees" degrees
    of freedom then turns a score into the chance to keep the budget; "atStake" queries could lose something.
    """
    choices, sure_ends, option_of = [], [], dict[int, int]()
    for share, positions in zip(list_budgets(), chart.choices, strict=True):
        pair, ends = [], []
        for position in positions:
            # Options are numbered as they first appear.
            pair.append(None if position is None else option_of.setdefault(position, len(option_of)))
            end = None if position is None else 100 * find_sure_end(estimates.build_option(position, share))
            ends.append(None if end is None else round(end, 4))
        choices.append(pair)
        sure_ends.append(ends)
    # The share to keep matters for an option's chance and its surely kept share, which are sent by budget: any will do.
    options = [build_mark(chart, estimates.build_option(position, keep=1.0)) for position in option_of]
    return {"choices": choices, "sureEnds": sure_ends, "options": options, **build_calibrations(estimates)}


def build_calibrations(estimates: OptionEstimates) -> dict[str, Any]:
    """Build what the browser turns scores into chances with, at every budget that can be dragged to."""
    calibrations = []
    for share in list_budgets():
        calibration = estimates.calibrate(share)
        calibrations.append([round(calibration.scale, 6), round(calibration.shift, 6)])
    degrees = estimates.losses.degrees
    sure_score = round(float(stdtrit(degrees, SURE_CHANCE)), 6)
    n_at_stake = estimates.losses.n_at_stake
    return {"calibrations": calibrations, "degrees": degrees, "atStake": n_at_stake, "sureScore": sure_score}


def build_mark(chart: FrontierChart, option: Option) -> dict[str, Any]:
    """Build the mark of a recommended setting: position, ends of its whisker, colour and name."""
    x, y = _locate_option(chart, option)
    method = option.decoder.select.spec.name if option.decoder is not None else option.label
    interval = {"low": 100 * find_sure_end(option), "high": 100 * option.high}
    look = {"colour": method_style(method).colour(chart.dark), "name": option.name, "method": method}
    return {"x": x, "y": y} | interval | look


def _locate_option(chart: FrontierChart, option: Option) -> Place:
    """Return an estimated setting's position on the chart's axes; a time counts in powers of ten."""
    assert chart.estimates is not None
    x, y = chart.estimates.find_means(option.label)
    if chart.frontier.x == TIME_AXIS:
        return math.log10(x), y * chart.unit
    aligned = chart.estimates.aligned
    if chart.base is not None and chart.estimates.model is None and len(aligned.queries) < chart.frontier.queries:
        # Settings with few values may leave fewer queries than the drawn means are over: the mark stands where it
        # would if the baseline had these means, at the gain and the share that are said of it.
        base_x, base_y = (float(aligned.means[metric][0]) for metric in (chart.frontier.x, chart.frontier.y))
        x, y = x * chart.base.x / base_x if base_x else x, y * chart.base.y / base_y
    return x, y * chart.unit


def add_choices(figure: Figure, chart: FrontierChart, axes: Mapping[str, str] | None = None) -> None:
    """Mark the recommended settings, "sure" and "bet", with a ring, a whisker for what they keep, and a name.

    While the budget is dragged the browser draws them itself (budget_level.js). axes: method → number of the axes of
    its panel, which is "" for the first one; None for a single plot
    """
    # The whiskers are of the kept share, which only an axis in percent of the baseline has.
    if chart.estimates is None or chart.decision is None or chart.floor is None or not chart.relative:
        return
    marks = []
    for role, option in (("sure", chart.decision.sure), ("bet", chart.decision.bet)):
        if option is not None:
            mark = build_mark(chart, option)
            axis = "" if axes is None else axes[mark["method"]]
            marks.append((role, mark, {"xref": f"x{axis}", "yref": f"y{axis}"}))
    for role, mark, refs in marks:
        _add_whisker(figure, chart, role, mark, refs)
    # Rings come after all whiskers: that of the one choice may pass through the ring of the other.
    for role, mark, refs in marks:
        ring = {"x0": -RING_PX, "x1": RING_PX, "y0": -RING_PX, "y1": RING_PX, "ysizemode": "pixel"}
        anchor = refs | {"xsizemode": "pixel", "xanchor": mark["x"], "yanchor": mark["y"]}
        figure.add_shape(
            type="circle", name=f"{role} ring", line={"color": mark["colour"], "width": 3}, **anchor | ring
        )
        # A panel has its decoder's name as its title.
        role_name = chart.denied_role if chart.denied_role and role == "sure" else role
        text = f"{role_name}: {escape(mark['name'], 60)}" if axes is None else role_name
        figure.add_annotation(
            name=f"{role} label", x=mark["x"], y=mark["y"], text=text, showarrow=False, **refs, xshift=RING_PX + 5,
            yshift=14, xanchor="left", yanchor="middle", font={"color": chart.ink, "size": 13},
            bgcolor=translucent(GROUNDS[chart.dark], 0.75),
        )  # fmt: skip


def _add_whisker(
    figure: Figure, chart: FrontierChart, role: str, mark: Mapping[str, Any], refs: Mapping[str, str]
) -> None:
    """Add the whisker of a choice, from what it surely keeps to its likely best; its part below the budget is grey.

    role: "sure" or "bet"; mark: as `build_mark` has it; refs: of the axes
    """
    assert chart.floor is not None
    anchor = {**refs, "xsizemode": "pixel", "xanchor": mark["x"]}
    strip = anchor | {"x0": -STRIP_PX, "x1": STRIP_PX, "line": {"width": 0}, "opacity": STRIP_OPACITY}
    middle = min(max(chart.floor, mark["low"]), mark["high"])
    parts = (("kept", middle, mark["high"], mark["colour"]), ("missed", mark["low"], middle, GREY[chart.dark]))
    for part, y0, y1, colour in parts:
        figure.add_shape(type="rect", name=f"{role} {part}", y0=y0, y1=y1, fillcolor=colour, **strip)
    # A whisker without a grey part ends in the choice's colour.
    low_colour = GREY[chart.dark] if mark["low"] < middle else mark["colour"]
    for end, colour in (("high", mark["colour"]), ("low", low_colour)):
        cap = {"x0": -CAP_PX, "x1": CAP_PX, "y0": -1, "y1": 1, "ysizemode": "pixel", "yanchor": mark[end]}
        cap |= {"fillcolor": colour, "line": {"width": 0}, "opacity": STRIP_OPACITY}
        figure.add_shape(type="rect", name=f"{role} {end} end", **anchor | cap)


def _add_method(figure: Figure, chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]], position: int) -> None:
    """Add the points and lines of one selector with one chain of scorers, which score documents before it.

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
    for line in build_lines(chart, curves):
        look = build_line_look(chart, line, colour)
        if position:
            look["dash"] = DASHES[position % len(DASHES)]
        figure.add_scatter(
            x=line.x, y=line.y, mode="lines", line=look, hoverinfo="skip", showlegend=False,
            meta=build_line_facts(chart, first.point.method, line), **named,
        )  # fmt: skip
    look, facts = build_point_look(chart, first.point.method, labels)
    figure.add_scatter(
        **chart.xy(points),
        mode="markers",
        marker={"symbol": symbol, "size": sizes, "color": colour, "line": {"width": 0}} | look,
        customdata=labels,
        meta=facts,
        **build_tooltip([_format_card(chart, point) for point in points]),
        showlegend=False,
        **named,
    )
    if chart.legend:  # an entry of its own: it looks like its trace's first point, which may be a pale one
        legend_entry = {"symbol": symbol, "size": 10, "color": colour}
        figure.add_scatter(x=[None], y=[None], mode="markers", marker=legend_entry, hoverinfo="skip", **named)


@dataclass(frozen=True)
class CurvePart:
    """Part of a curve on the chart, drawn in one width."""

    x: list[float]
    y: list[float]
    position: int | None = None  # of the setting in its middle, among those of the estimates; None without one
    is_exact: bool = True  # False for straight lines between settings, on which no setting lies


def is_chance_unknown(chart: FrontierChart, line: CurvePart) -> bool:
    """Return True if nothing is known of a line's chance: no settings lie on it, or none that are estimated, or yet."""
    return not line.is_exact or (line.position is None and (chart.is_partial or chart.estimates is not None))


def build_line_look(chart: FrontierChart, line: CurvePart, colour: str) -> dict[str, Any]:
    """Build colour and width of a line: by its chance to keep the budget, and calm where that is not known."""
    if not line.is_exact:
        return {"color": translucent(colour, UNKNOWN_OPACITY), "width": JOIN_WIDTH, "dash": "dot"}
    if is_chance_unknown(chart, line):
        return {"color": translucent(colour, UNKNOWN_OPACITY), "width": UNKNOWN_WIDTH}
    chance = find_chance(chart, line.position)
    return {"color": translucent(colour, fade(chance, chart.dark)), "width": widen(chance)}


def build_line_facts(chart: FrontierChart, method: str, line: CurvePart) -> dict[str, Any] | None:
    """Build the numbers by which the browser widens a line, as `build_chance_facts`; None for one that stays."""
    return None if is_chance_unknown(chart, line) else build_chance_facts(chart, method, [line.position])


def build_point_look(
    chart: FrontierChart, method: str, labels: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return how opaque a method's points are, by their chances, and the facts by which the browser does the same."""
    positions = find_positions(chart, labels)
    chances, facts = (
        [find_chance(chart, position) for position in positions],
        build_chance_facts(chart, method, positions),
    )
    min_opacity = MIN_DARK_OPACITY if chart.dark else MIN_OPACITY
    if len(labels) == 1:
        min_opacity = LONE_OPACITY
        facts = None if facts is None else facts | {"minOpacity": LONE_OPACITY}
    return {"opacity": [min_opacity + (1 - min_opacity) * chance for chance in chances]}, facts


def find_positions(chart: FrontierChart, labels: Sequence[str]) -> list[int | None]:
    """Return the index of each setting among those of the chart's estimates, by its label; None without one."""
    return [None if chart.estimates is None else chart.estimates.position_of.get(label) for label in labels]


def find_chance(chart: FrontierChart, position: int | None) -> float:
    """Return the chance that a setting keeps the budget; 1 for the baseline, or if nothing was estimated.

    The budget is the share of the baseline's metric that a setting must keep. It is 0 for a setting that is left out,
    as too few of its documents are judged. position: index of the setting in the chart's estimates, None for the
    baseline
    """
    if position is None or chart.estimates is None or chart.share is None:
        return 1.0
    if chart.estimates.is_left_out[position]:
        return 0.0
    # So few queries give no chance to any setting, and nothing is to fade.
    if chart.estimates.missing_queries:
        return 1.0
    return float(chart.estimates.find_chances(chart.share)[position])


def widen(chance: float) -> float:
    """Return the width in pixels of a line whose settings keep the required share with this chance.

    It is a share of the baseline's metric.
    """
    return MIN_WIDTH + WIDTH_RANGE * chance


def fade(chance: float, is_dark: bool = False) -> float:
    """Return the opacity of a line or point whose settings keep the required share with this chance.

    It is a share of the baseline's metric.
    """
    lowest = MIN_DARK_OPACITY if is_dark else MIN_OPACITY
    return lowest + (1 - lowest) * chance


def build_chance_facts(chart: FrontierChart, method: str, positions: Sequence[int | None]) -> dict[str, Any] | None:
    """Build the numbers from which the browser computes the chances of lines or points for any budget.

    A chance is that of keeping the budget, a share of the baseline's metric: lines and points are as wide and opaque as
    it is high, and so follow a drag of the budget without the server. There is one list for each position: mean change,
    its standard error, skew loss and largest loss, as `LossEstimate` has them. method: of the settings, by which the
    browser finds what belongs together; positions: index of each setting among the estimates' settings, None for a
    setting without estimate. Return None without estimates.
    """
    if chart.estimates is None:
        return None
    losses, facts = chart.estimates.losses, list[list[float] | None]()
    for position in positions:
        if position is None:
            facts.append(None)
            continue
        if chart.estimates.is_left_out[position]:
            # A loss of everything has the chance 0 at every budget.
            facts.append([-1.0, 0.0, 0.0, 1.0])
            continue
        numbers = (losses.mean, losses.std_error, losses.skew_loss, losses.largest_loss)
        facts.append([round(float(values[position]), 6) for values in numbers])
    # The browser's script reads them under this name.
    return {"keep": facts, "method": method}


def build_lines(chart: FrontierChart, curves: Sequence[Sequence[FrontierPoint]]) -> list[CurvePart]:
    """Return the lines that join a selector's points: parts of its exact curve, or else straight ones.

    curves: its points, a list for each curve. Of more than MAX_CURVES curves only those are drawn that have a
    recommended setting, else the first that has a best point, else the first. There are none over times, which differ
    from call to call, so that a line would say nothing of the settings between its points.
    """
    if chart.frontier.x == TIME_AXIS:
        return []
    if len(curves) > MAX_CURVES:
        choices = () if chart.decision is None else (chart.decision.sure, chart.decision.bet)
        chosen_labels = read_column(filter(None, choices), "label")
        chosen = [curve for curve in curves if _passes(curve, chosen_labels)]
        best = [curve for curve in curves if _passes(curve, chart.best_points)]
        curves = chosen or [next(iter(best), curves[0])]
    lines = []
    for curve in curves:
        exact_curve = find_curve(curve[0], chart.frontier, chart.exact)
        if exact_curve is not None:
            lines += _divide_curve(chart, exact_curve)
        # While settings are measured, straight lines would pass for curves that are not there yet.
        elif len(curve) > 1 and not chart.is_partial:
            places = chart.xy(curve)
            lines.append(CurvePart(places["x"], places["y"], is_exact=False))
    return lines


def _list_line_places(chart: FrontierChart) -> list[Place]:
    """Return positions along all lines that are drawn, near enough for no label to lie between two unseen."""
    places = list[Place]()
    for curves, _ in group_curves(chart.frontier):
        for line in build_lines(chart, curves):
            for start, end in pairwise(zip(line.x, line.y, strict=True)):
                length = math.dist(chart.view.to_pixels(start), chart.view.to_pixels(end))
                steps = np.linspace(0, 1, min(MAX_PIECES, int(length / LINE_STEP_PX)) + 2)
                places += [(x, y) for x, y in (np.outer(1 - steps, start) + np.outer(steps, end)).tolist()]
    return places


def _passes(curve: Sequence[FrontierPoint], labels: Collection[str]) -> bool:
    """Return True if a curve passes through a point with one of the labels."""
    return not set(labels).isdisjoint(read_column(curve, "point.label"))


def _divide_curve(chart: FrontierChart, curve: Curve) -> list[CurvePart]:
    """Divide an exact curve into SEGMENTS lines, as the chance to keep the budget differs along it.

    The budget is the share of the baseline's metric that a setting must keep. Each line is drawn as wide as the chance
    at its middle. Without estimates there are no chances: the curve is one line.
    """
    # A piece of one value is an end with sets of its own: a line to it would show means that no value has.
    lowest, highest = curve.piece_ends
    pieces = np.flatnonzero(lowest < highest)
    # Equally spaced pieces keep the curve's shape; the first and the last are always included.
    pieces = pieces[np.unique(np.linspace(0, len(pieces) - 1, MAX_PIECES).astype(int))]
    x, y = (curve.means[axis][pieces] for axis in (chart.frontier.x, chart.frontier.y))
    low, high = curve.interval
    n_segments = 1 if chart.estimates is None else SEGMENTS
    shares = (curve.middles[pieces] - low) / (high - low)
    segment_of = np.minimum((shares * n_segments).astype(int), n_segments - 1)
    positions = [None] if chart.estimates is None else chart.estimates.find_positions(curve)
    lines = []
    for segment in np.unique(segment_of).tolist():
        members = np.flatnonzero(segment_of == segment)
        # A line ends where the next one begins.
        stop = min(members[-1] + 2, len(pieces))
        middle = positions[round((segment + 0.5) / n_segments * (len(positions) - 1))]
        lines.append(CurvePart(x[members[0] : stop].tolist(), (y[members[0] : stop] * chart.unit).tolist(), middle))
    return lines


def find_curve(point: FrontierPoint, frontier: Frontier, exact_curves: Collection[Curve]) -> Curve | None:
    """Return the exact curve through a point, None if there is none.

    An exact curve has the metrics at every value of a parameter. Curves exist only for decoders that have the default
    scorers and choose from the whole corpus; a curve has the limits of its decoders.
    """
    selector = point.point.decoder["select"]
    # Exact curves are computed with the default scorers and without a pool only.
    if scorer_chain(point.point.decoder) != _first_chain() or point.point.decoder["depth"] is not None:
        return None
    for curve in exact_curves:
        other_params = {name: value for name, value in selector.items() if name != curve.parameter}
        is_same = other_params == curve.selector and read_limits(point.point.decoder) == curve.limits
        # A curve has no times, for one, so it may lack the metric of an axis.
        if is_same and frontier.k == curve.k and {frontier.x, frontier.y} <= set(curve.means):
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
    # Other systems are not registered: they have their name alone, without the "run " of their label.
    titles = " → ".join(specs[name].title if name in specs else name.removeprefix("run ") for name in names)
    return ", ".join(filter(None, [titles, describe_guarantee(decoder["select"])]))


def _format_card(chart: FrontierChart, point: FrontierPoint) -> str:
    """Format a point's hover text as HTML: its name, metrics with intervals, and won and lost queries."""
    frontier, part = chart.frontier, ""
    if chart.base is not None and chart.relative:
        part = f" · {percent(point.y / chart.base.y)} of {escape(chart.base.name)}"
    x_interval = _format_interval(point.x_low, point.x_high)
    x_text = f"{_title_axis(frontier.x, frontier.k)} {decimal(point.x)}{x_interval}"
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
            lines.append(f"{title_of(metric)}: {n_wins:,} better · {n_ties:,} same · {n_losses:,} worse")
    return "<br>".join(lines)


def _format_interval(lower_end: float | None, upper_end: float | None) -> str:
    """Format an interval in brackets, "" without one."""
    return "" if lower_end is None or upper_end is None else f" ({decimal(lower_end)}–{decimal(upper_end)})"


def _add_rings(figure: Figure, chart: FrontierChart, points: Sequence[FrontierPoint], name: str, ring_px: int) -> None:
    """Add rings around points, such as those of Explore, if there are any.

    name: of the rings; ring_px: their diameter in pixels
    """
    if points:
        marker = {"symbol": "circle-open", "size": ring_px, "color": chart.ink, "line": {"width": 1.5}}
        figure.add_scatter(**chart.xy(points), mode="markers", marker=marker, name=name, hoverinfo="skip")


def _add_opened(figure: Figure, chart: FrontierChart) -> None:
    """Add a thin ring around the open setting's point."""
    marker = {"symbol": "circle-open", "size": 14, "color": chart.ink, "line": {"width": 2}}
    places = chart.xy(_select_points(chart, [chart.opened]))
    # Without an open point both lists are empty, and nothing is visible.
    figure.add_scatter(**places, mode="markers", marker=marker, name="selected", hoverinfo="skip")


def add_budget(figure: Figure, chart: FrontierChart, axes: Iterable[str] = ("",)) -> None:
    """Add the budget, the y that a setting must keep: a line at the smallest acceptable y, a veil below.

    Where the line can be dragged, the browser draws both itself (budget_level.js). axes: numbers of the panels' axes,
    "" for the first
    """
    floor = chart.floor
    if floor is None:
        return
    # The veil reaches below all points, so that zooming out shows no edge.
    bottom_edge = min(chart.view.y[0], *chart.xy(chart.frontier.points)["y"])
    veil = {"fillcolor": chart.ink, "opacity": VEIL_OPACITY, "line": {"width": 0}, "layer": "below"}
    shapes = list(figure.layout.shapes)
    for axis in axes:
        wide = {"xref": f"x{axis} domain", "yref": f"y{axis}", "x0": 0, "x1": 1}
        low_end = bottom_edge - abs(bottom_edge) - 1
        shapes.append({"type": "rect", "name": VEIL_SHAPE, "y0": low_end, "y1": floor} | veil | wide)
        line = {"line": guide(chart.ink, "dash")}
        shapes.append({"type": "line", "name": BUDGET_SHAPE, "y0": floor, "y1": floor} | line | wide)
    # All at once: Plotly checks the whole list with each shape that is added alone.
    figure.layout.shapes = shapes


def _is_at_base(chart: FrontierChart, point: FrontierPoint) -> bool:
    """Return True if a point's symbol overlaps that of the baseline, which then has the label."""
    if chart.base is None or point is chart.base:
        return False
    position, base_position = map(chart.view.to_pixels, map(chart.locate, (point, chart.base)))
    return math.dist(position, base_position) < OVERLAP_PX


def _add_labels(figure: Figure, chart: FrontierChart) -> None:
    """Add names, where they overlap nothing: of the open setting, of Explore's settings, of each decoder.

    A decoder has its name at the end of each of its lines, in its colour, or at its best point if it has no line. The
    two recommended settings are left out, as `add_choices` names them.
    """
    named_current = chart.current if len(chart.current) <= MAX_NAMED_CURRENT else ()
    fixed_points = [*_list_system_points(chart.frontier), *_select_points(chart, {chart.opened, *named_current})]
    marked = () if chart.decision is None else (chart.decision.sure, chart.decision.bet)
    # Label → point.
    named = {point.point.label: point for point in fixed_points}
    for option in filter(None, marked):
        named.pop(option.label, None)
    candidates, system_labels = [], read_column(_list_system_points(chart.frontier), "point.label")
    for label, point in named.items():
        # The shade below the budget may hide the symbol of another system, so its label repeats the symbol.
        sign = f"{method_style(point.point.method).sign} " if label in system_labels else ""
        names = [sign + point.name, format_method(point)]
        if label in named_current:
            names = [f"{CURRENT_NAME}: {point.name}", CURRENT_NAME]
        candidates.append((names, chart.locate(point), chart.ink))
    ends = sorted(_list_line_ends(chart), key=lambda line_end: -line_end[1][0])
    for point, end in [*ends, *_list_lone_points(chart, {*named, *(o.label for o in marked if o is not None)})]:
        colour = mix_with_ink(chart.colour(point), chart.ink, INK_SHARE)
        candidates.append(([format_method(point)], end, colour))
    marks = [chart.locate(point) for point in chart.frontier.points if not point.dominated]
    marks += _list_line_places(chart) + _list_budget_marks(chart)
    font = {"size": 12}
    texts = [candidate[:2] for candidate in candidates]
    labels = place_labels(texts, marks, chart.view, _list_text_boxes(chart))
    for (_, (x, y), colour), placed in zip(candidates, labels, strict=True):
        if placed is not None:
            label_text, (x_shift, y_shift) = placed
            position = {"x": x, "y": y, "xshift": x_shift, "yshift": y_shift, "xanchor": "center", "yanchor": "middle"}
            look: dict[str, Any] = {"font": font | {"color": colour}, "bgcolor": translucent(GROUNDS[chart.dark], 0.75)}
            look["showarrow"] = needs_leader(*placed)
            if look["showarrow"]:
                # The arrow's tail is the label, whose shift it takes; its y counts downwards.
                look |= {
                    "ax": x_shift,
                    "ay": -y_shift,
                    "arrowhead": 0,
                    "arrowwidth": 1,
                    "arrowcolor": colour,
                    "standoff": 4,
                }
                position |= {"xshift": 0, "yshift": 0}
            figure.add_annotation(text=escape(label_text, 80), name="label", **position, **look)


def _list_text_boxes(chart: FrontierChart) -> list[Box]:
    """Return where other texts stand that names may not cover, in pixels: the budget's, and those of both choices."""
    boxes = list[Box]()
    if chart.floor is not None and chart.base is not None:
        text = f"keep ≥ {format_budget(chart.share or 0)} of {chart.base.name}'s {title_of(chart.frontier.y)}"
        _, y = chart.view.to_pixels((chart.view.x[0], chart.floor))
        width = CHARACTER_PX * len(text) + 16
        # At the right end, where the curves are below the budget already.
        boxes.append((PLOT_PX[0] - width, float(PLOT_PX[0]), y - 20, y))
    choices = () if chart.decision is None or not chart.relative else (chart.decision.sure, chart.decision.bet)
    for role, option in zip(("sure", "bet"), choices, strict=False):
        if option is not None:
            x, y = chart.view.to_pixels(_locate_option(chart, option))
            width = CHARACTER_PX * len(f"{role}: {option.name}") + 8
            boxes += [(x - RING_PX, x + RING_PX, y - RING_PX, y + RING_PX), (x + 14, x + 14 + width, y + 6, y + 23)]
    return boxes


def _list_budget_marks(chart: FrontierChart) -> list[Place]:
    """Return positions along the budget's line and along the whiskers, which would strike names through."""
    (x_low, x_high), (y_low, y_high) = chart.view.x, chart.view.y
    n_columns, n_rows = (pixels // LINE_STEP_PX for pixels in PLOT_PX)
    marks = list[Place]()
    if chart.floor is not None:
        marks += zip(np.linspace(x_low, x_high, n_columns).tolist(), [chart.floor] * n_columns, strict=True)
    choices = () if chart.decision is None or not chart.relative else (chart.decision.sure, chart.decision.bet)
    for option in filter(None, choices):
        x, _ = _locate_option(chart, option)
        heights = np.linspace(y_low, y_high, n_rows)
        is_covered = (heights >= 100 * find_sure_end(option)) & (heights <= 100 * option.high)
        marks += [(x, y) for y in heights[is_covered].tolist()]
    return marks


def _list_line_ends(chart: FrontierChart) -> list[tuple[FrontierPoint, Place]]:
    """Return (a point of a line, the end of the line) of each line that is drawn.

    The end is the visible position within the budget that is farthest from where lines begin, at the baseline; of a
    line without one it is the first visible position.
    """
    start = (chart.view.x[0], chart.view.y[1]) if chart.base is None else chart.locate(chart.base)
    # The tolerance keeps positions that lie on the line of the smallest acceptable y up to rounding.
    min_y = -math.inf if chart.floor is None else chart.floor - 1e-9

    def measure(position: Place) -> float:
        """Return a position's distance from the start, in pixels."""
        return math.dist(chart.view.to_pixels(position), chart.view.to_pixels(start))

    ends = []
    for curves, _ in group_curves(chart.frontier):
        # Of many curves of a decoder one is drawn, and has the name for all.
        for group in [[curve] for curve in curves] if len(curves) <= MAX_CURVES else [curves]:
            places = list[Place]()
            for line in build_lines(chart, group):
                places += filter(chart.view.holds, zip(line.x, line.y, strict=True))
            if places:
                feasible = [position for position in places if position[1] >= min_y]
                ends.append((group[0][0], max(feasible, key=measure, default=places[0])))
    return ends


def _list_lone_points(chart: FrontierChart, named_labels: Collection[str]) -> list[tuple[FrontierPoint, Place]]:
    """Return (point, position) of each decoder's best point where no line has its name; named_labels: left out."""
    min_y = -math.inf if chart.floor is None else chart.floor - 1e-9
    methods_with_line = set()
    for curves, _ in group_curves(chart.frontier):
        if build_lines(chart, curves):
            methods_with_line.add(_point_kind(curves[0][0]))
    lone = []
    for label, point in chart.best_points.items():
        is_lone = label not in named_labels and _point_kind(point) not in methods_with_line
        if is_lone and point.y * chart.unit >= min_y and not _is_at_base(chart, point):
            lone.append((point, chart.locate(point)))
    return lone
