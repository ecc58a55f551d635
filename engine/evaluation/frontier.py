"""The frontier: what relevance costs in diversity and back, with bands that say how sure that is."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from numbers import Real as RealNumber
from typing import Any, NamedTuple

import numpy as np

from engine.errors import DataError, ParamError
from engine.evaluation.metrics import METRICS, title_of
from engine.evaluation.paired import (
    EQUALITY_TOLERANCE,
    AlignedCells,
    align_on_common_queries,
    declared_parameters,
    format_decoder,
    needs_scorer_names,
    none_last_key,
    select_cells,
)
from engine.evaluation.statistics import RESAMPLES, SEED, bootstrap_intervals
from engine.params import Real
from engine.progress import counted
from engine.stages import methods

BAND_RESAMPLES = 1000
TIME_AXIS = "milliseconds"
"""The axis of a query's time, which is no metric: a number for each point, of which less is better."""
KEPT_SHARE = Real(
    default=0.95,
    low=0.0,
    high=1.0,
    comfortable=(0.5, 1.0),
    symbol="share",
    name="share",
    help="How much of the baseline's value must be kept.",
)
UNTIMED_REASON = "cells of one query alone, and runs of other systems, have none"
"""Why points have no time."""
_EQUALITY_DECIMALS = -round(math.log10(EQUALITY_TOLERANCE))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class FrontierPoint:
    """A decoder's place on the chart."""

    point: Any  # its cell
    name: str  # short, of the decoder
    parameter: str  # what its curve sweeps, "" where it sweeps nothing
    value: Any  # of that parameter
    x: float  # mean over the frontier's queries, or the point's time
    y: float
    x_low: float | None  # ends of the means' 95% intervals, None for a single query and of a time
    x_high: float | None
    y_low: float | None
    y_high: float | None
    dominated: bool  # another point has as much of both and more of one


@dataclass(frozen=True, eq=False, kw_only=True)
class Frontier:
    """Every decoder's mean x and y, over the queries on which all of them have both."""

    curves: Mapping[str, tuple[FrontierPoint, ...]]  # label → points in the order of the parameter that is swept
    front: tuple[FrontierPoint, ...]  # those that no other dominates, by x
    hypervolume: float  # the area they dominate above `reference`
    reference: tuple[float, float]
    k: int
    x: str  # a metric at k, or TIME
    y: str  # a metric at k
    queries: int  # number of queries that the means are over
    asked: int  # number of all queries
    left_out: tuple[str, ...]  # names of decoders that have x and y on no query
    resamples: int  # of the bands
    seed: int
    untimed: int = 0  # points left out where x is TIME: theirs was never measured

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics among the axes, y first."""
        return tuple(dict.fromkeys(axis for axis in (self.y, self.x) if axis != TIME_AXIS))

    @property
    def direction(self) -> int:
        """What makes more of x better: 1 for a metric, −1 for a time."""
        return _axis_direction(self.x)

    @property
    def remark(self) -> str:
        """What is said of the points without a time; empty where there are none."""
        if not self.untimed:
            return ""
        have, were = ("has", "was") if self.untimed == 1 else ("have", "were")
        return f"{counted(self.untimed, 'setting')} {have} no time and {were} left out: {UNTIMED_REASON}."

    @property
    def points(self) -> tuple[FrontierPoint, ...]:
        """All points, curve by curve."""
        return tuple(point for curve in self.curves.values() for point in curve)


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
    """The frontier of a sweep's points at k in two metrics, of both of which more is better.

    points: of one split, of any k; x: may be "milliseconds", the time of a query, of which less is better: points
    without one are left out and counted; reference: (x, y) from which the hypervolume is measured, by default the worst
    x and the worst y among the points: give one to compare two frontiers. A curve is a method with its scorers and all
    parameters but one: of the numbers that vary, the first declared is swept, and every combination of the others is a
    curve of its own. Bands are percentile intervals of a bootstrap over queries, the draws shared by all points; each
    is for its point alone. Raises ParamError or DataError.
    """
    resamples, seed = RESAMPLES.check(resamples), SEED.check(seed)
    for axis_name, metric in (("x", x), ("y", y)):
        if metric in METRICS and METRICS[metric].lower_is_better:
            raise ParamError(f"{axis_name} must be a metric of which more is better; got {metric!r}")
    if y == TIME_AXIS:
        raise ParamError(f"y must be a metric; {y!r} may be x")
    cells = select_cells(points, k)
    timed_cells = [cell for cell in cells if cell.latency is not None] if x == TIME_AXIS else cells
    if not timed_cells:
        raise DataError(f"no point at k = {k} has a time: {UNTIMED_REASON}")
    aligned = align_on_common_queries(timed_cells, (y,) if x == TIME_AXIS else (x, y), k)
    mean_points, bands = _compute_means_and_bands(aligned, x, y, resamples, seed)
    axis_signs = np.array([_axis_direction(x), 1])
    is_dominated = find_dominated(mean_points * axis_signs)
    reference_point = _resolve_reference(reference, mean_points * axis_signs, axis_signs)
    with_scorers = needs_scorer_names([*aligned.cells, *aligned.left_out])
    frontier_curves = {}
    for members in _group_into_curves(aligned.cells):
        curve_label = format_decoder(aligned.cells[members.members[0]].decoder, with_scorers, omitted=members.swept)
        frontier_curves[curve_label] = _build_curve_points(
            members, aligned.cells, with_scorers, mean_points, bands, is_dominated
        )
    front = [cell for members in frontier_curves.values() for cell in members if not cell.dominated]
    return Frontier(
        curves=frontier_curves,
        front=tuple(
            sorted(
                front,
                key=lambda cell: (
                    round(cell.x, _EQUALITY_DECIMALS),
                    -round(cell.y, _EQUALITY_DECIMALS),
                    cell.point.label,
                ),
            )
        ),
        hypervolume=compute_hypervolume(
            mean_points * axis_signs, (_axis_direction(x) * reference_point[0], reference_point[1])
        ),
        reference=reference_point,
        k=aligned.cells[0].k,
        x=x,
        y=y,
        queries=len(aligned.queries),
        asked=aligned.n_common,
        left_out=tuple(format_decoder(cell.decoder, with_scorers) for cell in aligned.left_out),
        resamples=resamples,
        seed=seed,
        untimed=len(cells) - len(timed_cells),
    )


def format_axis_title(axis: str) -> str:
    """A metric, or the time, as charts write it."""
    return "milliseconds a query" if axis == TIME_AXIS else title_of(axis)


def _axis_direction(axis: str) -> int:
    return -1 if axis == TIME_AXIS else 1


def _compute_means_and_bands(
    aligned: AlignedCells, x: str, y: str, resamples: int, seed: int
) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
    """(m, 2) means, or times and means; and (m, 4) ends of their intervals in x and y."""
    axis_values = np.concatenate([aligned.values[axis] for axis in (x, y) if axis != TIME_AXIS], axis=1)
    axis_means, interval_ends, n_cells = (
        axis_values.mean(0),
        [*bootstrap_intervals(axis_values, resamples, seed)],
        len(aligned.cells),
    )
    if x == TIME_AXIS:
        axis_means = np.concatenate([[cell.latency for cell in aligned.cells], axis_means])
        interval_ends = [*[(None, None)] * n_cells, *interval_ends]
    return axis_means.reshape(2, -1).T, [
        x_ends + y_ends for x_ends, y_ends in zip(interval_ends[:n_cells], interval_ends[n_cells:], strict=True)
    ]


def _build_curve_points(
    members: "_CurveMembers",
    cells: Sequence[Any],
    with_scorers: bool,
    mean_points: np.ndarray,
    interval_bands: Sequence[Any],
    is_dominated: np.ndarray,
) -> tuple[FrontierPoint, ...]:
    """The points of a curve; mean_points: (m, 2) means; interval_bands: (m, 4) ends in x and y; is_dominated: (m,) dominated."""
    frontier_points = []
    for cell_index, param_value in zip(members.members, members.values, strict=True):
        (x, y), (x_low, x_high, y_low, y_high) = mean_points[cell_index].tolist(), interval_bands[cell_index]
        frontier_point = FrontierPoint(
            point=cells[cell_index],
            name=format_decoder(cells[cell_index].decoder, with_scorers),
            parameter=members.swept[1] if members.swept else "",
            value=param_value,
            x=x,
            y=y,
            x_low=x_low,
            x_high=x_high,
            y_low=y_low,
            y_high=y_high,
            dominated=bool(is_dominated[cell_index]),
        )
        frontier_points.append(frontier_point)
    return tuple(frontier_points)


def select_best_per_method(frontier: Frontier, baseline: str, share: float) -> tuple[FrontierPoint, ...]:
    """Each method's setting with the best x among those that keep `share` of the baseline's y, the baseline first.

    A method behind other scorers is another one.

    baseline: the label of one of the points; share: in [0, 1]. Where none of a method's settings keeps so much, the one
    with the most y stands for it. Ties go to more of the other metric, then to the first. Raises ParamError.
    """
    share = KEPT_SHARE.check(share)

    def kind(frontier_point: FrontierPoint) -> tuple[str | None, ...]:
        decoder = frontier_point.point.decoder
        return frontier_point.point.method, *(
            (decoder.get(stage_role) or {}).get("name") for stage_role in ("retrieve", "rerank")
        )

    baseline_point = next(
        (frontier_point for frontier_point in frontier.points if frontier_point.point.label == baseline), None
    )
    if baseline_point is None:
        raise ParamError(f"baseline must be the label of a point of the frontier; got {baseline!r}")
    y_floor = compute_floor(baseline_point, share)
    best_by_kind: dict[Any, FrontierPoint] = {}
    for frontier_point in frontier.points:
        if kind(frontier_point) not in best_by_kind or _is_better(
            frontier_point, best_by_kind[kind(frontier_point)], y_floor, frontier.direction
        ):
            best_by_kind[kind(frontier_point)] = frontier_point
    return (
        baseline_point,
        *(frontier_point for frontier_point in best_by_kind.values() if kind(frontier_point) != kind(baseline_point)),
    )


def compute_floor(baseline_point: FrontierPoint, share: float) -> float:
    """The least y that keeps a share of the baseline's, rounding allowed for."""
    return baseline_point.y - (1 - share) * abs(baseline_point.y) - EQUALITY_TOLERANCE


def _is_better(candidate: FrontierPoint, incumbent: FrontierPoint, y_floor: float, direction: int) -> bool:
    """Whether p has a better x than another of those that reach the floor, or is nearer to it."""
    reaches_floor = candidate.y >= y_floor
    if reaches_floor != (incumbent.y >= y_floor):
        return reaches_floor
    axis_pairs = ((direction * frontier_point.x, frontier_point.y) for frontier_point in (candidate, incumbent))
    (candidate_main, candidate_tie), (incumbent_main, incumbent_tie) = (
        axis_pair if reaches_floor else axis_pair[::-1] for axis_pair in axis_pairs
    )
    return candidate_main > incumbent_main + EQUALITY_TOLERANCE or (
        abs(candidate_main - incumbent_main) <= EQUALITY_TOLERANCE
        and candidate_tie > incumbent_tie + EQUALITY_TOLERANCE
    )


def find_dominated(mean_points: np.ndarray) -> np.ndarray:
    """(m,) whether another of the (m, 2) points is at least as good in both numbers and better in one.

    Points at the same place do not dominate one another. Numbers within rounding are the same: two methods that return
    one set in two orders are worth the same.
    """
    x_values, y_values = np.round(np.asarray(mean_points, dtype=np.float64), _EQUALITY_DECIMALS).reshape(-1, 2).T
    is_dominated = np.zeros(len(x_values), dtype=bool)
    best_y_right = best_y_here = -math.inf  # the best y further right; the best y at this x
    last_x = None
    for point_index in np.lexsort((-y_values, -x_values)):
        if x_values[point_index] != last_x:
            best_y_right, best_y_here, last_x = (
                max(best_y_right, best_y_here),
                y_values[point_index],
                x_values[point_index],
            )
        is_dominated[point_index] = y_values[point_index] <= best_y_right or y_values[point_index] < best_y_here
    return is_dominated


def compute_hypervolume(mean_points: np.ndarray, reference: tuple[float, float]) -> float:
    """The area that (m, 2) points dominate above and to the right of the reference: Zitzler & Thiele 1998.

    A point that is not better than the reference in both numbers adds nothing.
    """
    mean_points = np.asarray(mean_points, dtype=np.float64).reshape(-1, 2) - reference
    total_area = best_height = 0.0
    for x_excess, y_excess in mean_points[np.lexsort((-mean_points[:, 1], -mean_points[:, 0]))].tolist():
        if x_excess > 0 and y_excess > best_height:
            total_area += x_excess * (y_excess - best_height)
            best_height = y_excess
    return total_area


def _resolve_reference(
    reference: tuple[float, float] | None, signed_means: np.ndarray, axis_signs: np.ndarray
) -> tuple[float, float]:
    """The reference given, or the worst of each; signed_means: (m, 2) of which more is better, the axes times their signs."""
    if reference is None:
        x, y = (axis_signs * signed_means.min(0)).tolist()
        return x, y
    reference_pair = tuple(reference) if isinstance(reference, Sequence | np.ndarray) else ()
    if len(reference_pair) != 2 or not all(_is_number(number) and math.isfinite(number) for number in reference_pair):
        raise ParamError(f"reference must be two finite numbers, (x, y); got {reference!r}")
    return float(reference_pair[0]), float(reference_pair[1])


class _CurveMembers(NamedTuple):
    members: list[int]  # positions of points
    swept: tuple[str, str] | None  # (stage, name) of the parameter that they sweep
    values: list[Any]  # of that parameter


def _group_into_curves(cells: Sequence[Any]) -> list[_CurveMembers]:
    """The points joined, in an order that does not depend on theirs."""
    method_order = {method_name: method_index for method_index, method_name in enumerate(methods())}
    cell_settings = [_collect_settings(cell) for cell in cells]

    def kind(cell_index: int) -> tuple[Any, ...]:
        # What is not a number is never swept: stages, choices and switches keep curves apart.
        fixed_settings = tuple(
            (setting_key, str(setting_value))
            for setting_key, setting_value in cell_settings[cell_index].items()
            if setting_value is not None and not _is_number(setting_value)
        )
        return method_order.get(cells[cell_index].method, len(method_order)), cells[cell_index].method, fixed_settings

    def method_index(cell_index: int, setting_keys: Sequence[Any]) -> list[Any]:
        return [none_last_key(cell_settings[cell_index].get(setting_key)) for setting_key in setting_keys]

    curves: list[_CurveMembers] = []
    for _, member_indices in groupby(sorted(range(len(cells)), key=kind), kind):
        kind_members = list(member_indices)
        varying_keys = [
            key
            for key in cell_settings[kind_members[0]]
            if len({cell_settings[cell_index].get(key) for cell_index in kind_members}) > 1
        ]
        swept, remaining_keys = (varying_keys[0], varying_keys[1:]) if varying_keys else (None, [])
        kind_members.sort(key=partial(method_index, setting_keys=[*remaining_keys, swept]))
        for _, line_members in groupby(kind_members, partial(method_index, setting_keys=remaining_keys)):
            curve_members = list(line_members)
            curves.append(
                _CurveMembers(
                    curve_members,
                    swept,
                    [cell_settings[cell_index].get(swept) if swept else None for cell_index in curve_members],
                )
            )
    return curves


def _collect_settings(cell: Any) -> dict[tuple[str, str], Any]:
    """(stage, parameter) → value, the selector's first, in the order in which they are declared."""
    settings: dict[tuple[str, str], Any] = {}
    for stage_role in ("select", "retrieve", "rerank"):
        stage = cell.decoder.get(stage_role) or {}
        declared_names = list(declared_parameters(stage.get("name", "")))
        for param_name in sorted(stage, key=lambda name: declared_names.index(name) if name in declared_names else -1):
            settings[stage_role, param_name] = stage[param_name]
    settings["", "depth"] = cell.decoder.get("depth")
    return settings


def _is_number(value: Any) -> bool:
    return isinstance(value, RealNumber) and not isinstance(value, bool)
