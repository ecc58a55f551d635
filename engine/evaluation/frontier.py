"""The frontier of relevance and diversity, with confidence bands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, filterfalse, groupby
from numbers import Real as RealNumber
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from engine.decoder import LIMIT_FIELDS
from engine.display import DataFrame, OneLine, Tabular, build_rows_table
from engine.errors import DataError, ParamError
from engine.evaluation import paired
from engine.evaluation.metrics import METRICS, title_of
from engine.evaluation.statistics import RESAMPLES, SEED, estimate_mean_intervals
from engine.params import Real
from engine.progress import counted
from engine.stages import methods

BAND_RESAMPLES = 1000
TIME_AXIS = "milliseconds"
"""The axis of a query's time: no metric but one number a cell, of which less is better."""
KEPT_SHARE = Real(
    0.95,
    "share",
    0.0,
    1.05,
    comfortable=(0.8, 1.05),
    name="share",
    help="How much of the baseline's value must be kept.",
)
UNTIMED_REASON = "cells of one query alone, and runs of other systems, have none"
"""The reason why cells have no time."""
_EQUALITY_DECIMALS = -round(math.log10(paired.TIE_TOLERANCE))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class FrontierPoint(OneLine):
    """One setting on the chart: a cell with its means, their intervals, and if it is dominated."""

    point: Any  # its cell
    name: str  # short, of the decoder
    parameter: str  # what its curve sweeps, "" where it sweeps nothing
    value: Any  # of that parameter
    x: float  # mean over the frontier's queries, or the point's time
    y: float
    x_low: float | None  # ends of the means' 95% intervals, None for equal values of few queries and for a time
    x_high: float | None
    y_low: float | None
    y_high: float | None
    dominated: bool  # another point has as much of both and more of one

    def _describe(self) -> str:
        place = ", dominated" if self.dominated else ""
        return f"{self.name}, x {self.x:.4g}, y {self.y:.4g}{place}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Frontier(Tabular):
    """Every decoder's mean x and y, two metrics or a metric and a time, over the queries that have both."""

    curves: Mapping[str, tuple[FrontierPoint, ...]]  # label → points in the order of the parameter that is swept
    front: tuple[FrontierPoint, ...]  # those that no other dominates, by x
    hypervolume: float  # the area they dominate above `reference`
    reference: tuple[float, float]
    k: int
    x: str  # a metric at k, or TIME
    y: str  # a metric at k
    queries: int  # number of queries that the means are over
    asked: int  # number of all queries
    left_out: tuple[str, ...]  # names of decoders that have x and y on too few queries
    resamples: int  # of the bands
    seed: int
    untimed: int = 0  # points left out where x is TIME: theirs was never measured
    left_out_cells: tuple[Any, ...] = ()  # those of `left_out`

    def _describe(self) -> str:
        axes = f"{self.y} over {self.x} at k={self.k}"
        n_points, n_queries = counted(len(self.points), "setting"), counted(self.queries, "query", "queries")
        return f"{axes}, {n_points}, {len(self.front)} on the frontier, {n_queries}"

    def to_frame(self) -> DataFrame:
        """Return one row for each setting, curve by curve.

        Columns: curve, name, label (the decoder in full), parameter and value (what the curve sweeps), x and y (means
        of the metrics that the frontier's `x` and `y` name), x_low, x_high, y_low, y_high (ends of their 95 %
        intervals), dominated, k and queries.
        """
        names = ("name", "parameter", "value", "x", "y", "x_low", "x_high", "y_low", "y_high", "dominated")
        rows = []
        for curve_label, points in self.curves.items():
            for point in points:
                facts = {name: getattr(point, name) for name in names}
                label = getattr(point.point, "label", point.name)
                rows.append({"curve": curve_label, "label": label, **facts, "k": self.k, "queries": self.queries})
        return build_rows_table(rows, ("curve", "name", "label", *names[1:], "k", "queries"), names[3:-1])

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics on the axes, y first; the time of a query, which x may be, is no metric."""
        return tuple(dict.fromkeys(_list_metrics(self.y, self.x)))

    @property
    def direction(self) -> int:
        """The sign of a better x: 1 for a metric, −1 for a time."""
        return _axis_direction(self.x)

    @property
    def remark(self) -> str:
        """A sentence about the settings without a time; empty if there are none."""
        if not self.untimed:
            return ""
        have, were = ("has", "was") if self.untimed == 1 else ("have", "were")
        return f"{counted(self.untimed, 'setting')} {have} no time and {were} left out: {UNTIMED_REASON}."

    @property
    def points(self) -> tuple[FrontierPoint, ...]:
        """All points, one curve after the other."""
        return tuple(chain.from_iterable(self.curves.values()))


def frontier(
    points: Iterable[Any],
    x: str = "ilad",
    y: str = "recall",
    k: int = 10,
    *,
    reference: tuple[float, float] | None = None,
    seed: int = 0,
    resamples: int = BAND_RESAMPLES,
) -> Frontier:
    """Compute the frontier of a sweep's cells at k in two metrics.

    A curve is a method with its scorers and all parameters but one: of the numbers that vary, the first declared is
    swept, and every combination of the others is a curve of its own. Bands are percentile intervals of a bootstrap over
    queries with draws shared by all points; each is for its point alone.

    Parameters
    ----------
    points : iterable of Cell
        Cells of one split, of any k.
    x : str
        A metric of which more is better, or "milliseconds", the time of a query; cells without a time are counted.
    y : str
        A metric of which more is better.
    k : int
        The size of the retrieved sets.
    reference : tuple of float, float or None
        (x, y) from which the hypervolume is measured, by default the worst x and the worst y of the cells; give one
        to compare two frontiers.
    seed : int
        The seed of the bands' draws.
    resamples : int
        The number of the bands' draws.

    Returns
    -------
    Frontier
        The curves, the points that no other dominates, and the hypervolume.

    Raises
    ------
    ParamError
        If an axis is unknown or less of it is better.
    DataError
        If the cells have no query in common, or none has a time.

    Examples
    --------
    >>> import engine, torch
    >>> corpus = engine.Corpus(("a", "b"), ("red", "blue"))
    >>> space = engine.Space(corpus, engine.Embeddings(("a", "b"), torch.eye(2)))
    >>> queries, qrels = engine.Embeddings(("q",), torch.tensor([[1.0, 0.5]])), engine.Qrels({"q": {"a": 1}})
    >>> cells = list(engine.sweep(engine.grid(list(engine.methods("selector"))[1], 3), space, queries, qrels, k=2))
    >>> [(point.x, point.y) for point in engine.frontier(cells, k=2).front]
    [(1.0, 1.0), (1.0, 1.0), (1.0, 1.0)]
    """
    resamples, seed = RESAMPLES.check(resamples), SEED.check(seed)
    for axis_name, metric in (("x", x), ("y", y)):
        if metric in METRICS and METRICS[metric].lower_is_better:
            raise ParamError(f"{axis_name} must be a metric of which more is better; got {metric!r}")
    if y == TIME_AXIS:
        raise ParamError(f"y must be a metric; {y!r} may be x")
    cells = paired.select_cells(points, k)
    timed_cells = [cell for cell in cells if cell.latency is not None] if x == TIME_AXIS else cells
    if not timed_cells:
        raise DataError(f"no point at k = {k} has a time: {UNTIMED_REASON}")
    # Where the baseline is among the settings, it stays: what is decided is a share of its metric.
    first_selector = next(iter(methods("selector")))
    baseline = next((cell for cell in timed_cells if cell.decoder["select"].get("name") == first_selector), None)
    aligned = paired.align_on_common_queries(timed_cells, _list_metrics(x, y), k, drops_scarce=True, reference=baseline)
    means, bands = _compute_means_and_bands(aligned, x, y, resamples, seed)
    # Multiplied by its sign, more of an axis is always better.
    axis_signs = np.array([_axis_direction(x), 1])
    dominated = find_dominated(means * axis_signs)
    reference_point = _resolve_reference(reference, means * axis_signs, axis_signs)
    scorers = paired.needs_scorer_names([*aligned.cells, *aligned.left_out])
    # A curve is called by its decoder without the parameter that it sweeps.
    curves = {}
    for members in _group_into_curves(aligned.cells):
        label = paired.format_decoder(aligned.cells[members.members[0]].decoder, scorers, omitted=members.swept)
        curves[label] = _build_curve_points(members, aligned.cells, scorers, means, bands, dominated)
    front = filterfalse(attrgetter("dominated"), chain.from_iterable(curves.values()))

    def order_on_front(point: FrontierPoint) -> tuple[float, float, str]:
        """Return the key that sorts the front: rising x, falling y, then the label; means within rounding tie."""
        return round(point.x, _EQUALITY_DECIMALS), -round(point.y, _EQUALITY_DECIMALS), point.point.label

    volume = compute_hypervolume(means * axis_signs, (axis_signs[0] * reference_point[0], reference_point[1]))
    left_out = tuple(paired.format_decoder(cell.decoder, scorers) for cell in aligned.left_out)
    return Frontier(
        curves=curves, front=tuple(sorted(front, key=order_on_front)), hypervolume=volume, reference=reference_point,
        k=aligned.cells[0].k, x=x, y=y, queries=len(aligned.queries), asked=aligned.n_common, left_out=left_out,
        resamples=resamples, seed=seed, untimed=len(cells) - len(timed_cells), left_out_cells=aligned.left_out,
    )  # fmt: skip


def format_axis_title(axis: str) -> str:
    """Return the title of an axis, a metric or the time, as charts write it."""
    return "milliseconds a query" if axis == TIME_AXIS else title_of(axis)


def _list_metrics(*axes: str) -> list[str]:
    """Return the axes that are metrics, without the time."""
    return [axis for axis in axes if axis != TIME_AXIS]


def _axis_direction(axis: str) -> int:
    """Return the sign of a better value: −1 for the time, 1 for a metric."""
    return -1 if axis == TIME_AXIS else 1


def _compute_means_and_bands(
    aligned: paired.AlignedCells, x: str, y: str, resamples: int, seed: int
) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
    """Return each cell's means of x and y, (m, 2), and the ends of the means' intervals.

    The ends are m tuples: x low, x high, y low, y high. A cell is one decoder's metrics, query by query, at one k. x
    may be the time of a query, which is one number a cell and has no interval.
    """
    # Both axes in one table, so that the bootstrap draws the same queries for both.
    measured = np.concatenate([aligned.values[metric] for metric in _list_metrics(x, y)], axis=1)
    axis_means, n_cells = measured.mean(0), len(aligned.cells)
    interval_ends = [*estimate_mean_intervals(measured, resamples, seed)]
    if x == TIME_AXIS:
        axis_means = np.concatenate([list(map(attrgetter("latency"), aligned.cells)), axis_means])
        # A time is one number a cell and has no interval.
        interval_ends = [*[(None, None)] * n_cells, *interval_ends]
    # All cells' x come first, then all cells' y.
    x_ends, y_ends = interval_ends[:n_cells], interval_ends[n_cells:]
    bands = [(*x_pair, *y_pair) for x_pair, y_pair in zip(x_ends, y_ends, strict=True)]
    return axis_means.reshape(2, -1).T, bands


def _build_curve_points(
    members: _CurveMembers, cells: Sequence[Any], scorers: bool, means: np.ndarray, bands: Any, dominated: np.ndarray
) -> tuple[FrontierPoint, ...]:
    """Build the points of one curve: settings that differ in a single swept number.

    means: (m, 2) of all cells; bands: their four interval ends; dominated: (m,) mask; scorers: mention them in names
    """
    frontier_points, parameter = [], members.swept[1] if members.swept else ""
    for index, value in zip(members.members, members.values, strict=True):
        name, (x, y) = paired.format_decoder(cells[index].decoder, scorers), means[index].tolist()
        x_low, x_high, y_low, y_high = bands[index]
        frontier_points.append(FrontierPoint(
            point=cells[index], name=name, parameter=parameter, value=value, x=x, y=y,
            x_low=x_low, x_high=x_high, y_low=y_low, y_high=y_high, dominated=bool(dominated[index]),
        ))  # fmt: skip
    return tuple(frontier_points)


def select_best_per_method(frontier: Frontier, baseline: str, share: float) -> tuple[FrontierPoint, ...]:
    """Select each method's setting with the best x that keeps a share of the baseline's y; baseline first.

    One selector behind two scorers, or with and without a reranker, counts as two methods. baseline: the label of one
    of the points; share: in [0, 1]. If none of a method's settings keeps that much, the one with the most y represents
    it. Ties go to more of the other metric, then to the first. Raises ParamError.
    """
    share = KEPT_SHARE.check(share)

    def method_key(point: FrontierPoint) -> tuple[str | None, ...]:
        """Return what identifies a point's method here: the names of its selector, scorer and reranker."""
        decoder = point.point.decoder
        return point.point.method, *((decoder.get(role) or {}).get("name") for role in ("retrieve", "rerank"))

    base = next((point for point in frontier.points if point.point.label == baseline), None)
    if base is None:
        raise ParamError(f"baseline must be the label of a point of the frontier; got {baseline!r}")
    y_floor = compute_floor(base, share)
    best_by_method: dict[Any, FrontierPoint] = {}
    for point in frontier.points:
        best = best_by_method.get(method_key(point))
        if best is None or _is_better(point, best, y_floor, frontier.direction):
            best_by_method[method_key(point)] = point
    return (base, *(point for point in best_by_method.values() if method_key(point) != method_key(base)))


def compute_floor(base: FrontierPoint, share: float) -> float:
    """Return the smallest y that counts as keeping a share of the baseline's y, allowing for rounding."""
    return base.y - (1 - share) * abs(base.y) - paired.TIE_TOLERANCE


def _is_better(candidate: FrontierPoint, incumbent: FrontierPoint, y_floor: float, direction: int) -> bool:
    """Return True if a candidate represents its method better than the incumbent.

    y_floor: the y that a setting must keep. Reaching it comes first; among settings that do, more x wins, and among
    those that do not, more y. direction: 1 if more x is better, −1 if less is.
    """
    reaches_floor = candidate.y >= y_floor
    if reaches_floor != (incumbent.y >= y_floor):
        return reaches_floor
    candidate_keys, incumbent_keys = (direction * candidate.x, candidate.y), (direction * incumbent.x, incumbent.y)
    if not reaches_floor:
        # At the floor x counts and y breaks ties; below it the other way round.
        candidate_keys, incumbent_keys = candidate_keys[::-1], incumbent_keys[::-1]
    (main, tie), (other_main, other_tie) = candidate_keys, incumbent_keys
    if abs(main - other_main) <= paired.TIE_TOLERANCE and tie > other_tie + paired.TIE_TOLERANCE:
        return True
    return main > other_main + paired.TIE_TOLERANCE


def find_dominated(means: np.ndarray) -> np.ndarray:
    """Return the (m,) mask of points that another dominates: as good in both means, better in one.

    Equal points do not dominate one another, and numbers within rounding are equal: two methods that return one set in
    two orders tie.
    """
    x_values, y_values = np.round(np.asarray(means, dtype=np.float64), _EQUALITY_DECIMALS).reshape(-1, 2).T
    dominated = np.zeros(len(x_values), dtype=bool)
    # From right to left: the best y further right, and the best y at this x.
    best_y_right = best_y_here = -math.inf
    last_x = None
    # A point is dominated if a point further right has as much y, or one at the same x has more.
    for index in np.lexsort((-y_values, -x_values)):
        if x_values[index] != last_x:
            best_y_right = max(best_y_right, best_y_here)
            best_y_here, last_x = y_values[index], x_values[index]
        dominated[index] = y_values[index] <= best_y_right or y_values[index] < best_y_here
    return dominated


def compute_hypervolume(means: np.ndarray, reference: tuple[float, float]) -> float:
    """Compute the area that (m, 2) points dominate above and right of the reference (Zitzler & Thiele).

    A point that is not better than the reference in both numbers adds nothing.
    """
    means = np.asarray(means, dtype=np.float64).reshape(-1, 2) - reference
    total_area = best_height = 0.0
    for x_excess, y_excess in means[np.lexsort((-means[:, 1], -means[:, 0]))].tolist():
        if x_excess > 0 and y_excess > best_height:
            # Points come from right to left: each adds the rectangle above those before it.
            total_area += x_excess * (y_excess - best_height)
            best_height = y_excess
    return total_area


def _resolve_reference(
    reference: tuple[float, float] | None, signed_means: np.ndarray, axis_signs: np.ndarray
) -> tuple[float, float]:
    """Return the point from which the hypervolume is measured: the given one, or the worst x and worst y.

    signed_means: (m, 2) means times `axis_signs`, so that more is better. Raises ParamError for an invalid point.
    """
    if reference is None:
        x, y = (axis_signs * signed_means.min(0)).tolist()
        return x, y
    reference_pair = tuple(reference) if isinstance(reference, Sequence | np.ndarray) else ()
    if len(reference_pair) != 2 or not all(_is_number(number) and math.isfinite(number) for number in reference_pair):
        raise ParamError(f"reference must be two finite numbers, (x, y); got {reference!r}")
    return float(reference_pair[0]), float(reference_pair[1])


class _CurveMembers(NamedTuple):
    """The cells of one curve of the chart: they differ in one swept parameter only."""

    members: list[int]  # positions of points
    swept: tuple[str, str] | None  # (stage, name) of the parameter that they sweep
    values: list[Any]  # of that parameter


def _group_into_curves(cells: Sequence[Any]) -> list[_CurveMembers]:
    """Group cells into curves: the cells of a curve share everything but one swept number.

    A cell is one decoder's metrics, query by query, at one k. Of the numbers that vary within a method the first
    declared is swept. The order of curves and members depends on the settings only, not on the order of the cells.
    """
    method_order, cell_settings = list(methods()), list(map(_collect_settings, cells))

    def group_key(index: int) -> tuple[Any, ...]:
        """Return what all cells of a curve have in common: the method, and the settings that are no numbers."""
        # A curve sweeps a number: cells with other stages, choices or switches are on other curves.
        settings, method = cell_settings[index].items(), cells[index].method
        fixed = tuple((key, str(value)) for key, value in settings if value is not None and not _is_number(value))
        rank = method_order.index(method) if method in method_order else len(method_order)
        return rank, method, fixed

    def sort_key(index: int, keys: Sequence[Any]) -> list[Any]:
        """Return the values of some settings of a cell, comparable even where one is None."""
        return [paired.none_last_key(cell_settings[index].get(key)) for key in keys]

    curves: list[_CurveMembers] = []
    for _group_key, member_indices in groupby(sorted(range(len(cells)), key=group_key), group_key):
        group = list(member_indices)
        varying_keys = paired.find_varying(list(map(cell_settings.__getitem__, group)))
        swept, remaining_keys = (varying_keys[0], varying_keys[1:]) if varying_keys else (None, [])
        # Sorted by the other parameters first, the members of a curve stand together.
        group.sort(key=partial(sort_key, keys=[*remaining_keys, swept]))
        for _sort_key, curve_indices in groupby(group, partial(sort_key, keys=remaining_keys)):
            curve_members = list(curve_indices)
            values = [cell_settings[index].get(swept) if swept else None for index in curve_members]
            curves.append(_CurveMembers(curve_members, swept, values))
    return curves


def _collect_settings(cell: Any) -> dict[tuple[str, str], Any]:
    """Map (stage, parameter) of a cell's decoder to its value, as declared, the selector's first.

    A cell is one decoder's metrics, query by query, at one k. A stage's name counts as a parameter, its first; the
    depth and the limits have the stage "", as they belong to none.
    """
    settings: dict[tuple[str, str], Any] = {}
    for role in ("select", "retrieve", "rerank"):
        stage = cell.decoder.get(role) or {}
        declared_names = list(paired.declared_parameters(stage.get("name", "")))
        # What is not declared, such as the name, goes first.
        for name in sorted(stage, key=lambda name: declared_names.index(name) if name in declared_names else -1):
            settings[role, name] = stage[name]
    for name in ("depth", *LIMIT_FIELDS):
        settings["", name] = cell.decoder.get(name)
    return settings


def _is_number(value: Any) -> bool:
    return isinstance(value, RealNumber) and not isinstance(value, bool)
