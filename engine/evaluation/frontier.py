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
from engine.evaluation.paired import SAME, Shared, cells_at, declared_by, name_of, none_last, scorers_matter, shared
from engine.evaluation.statistics import RESAMPLES, SEED, intervals
from engine.params import Real
from engine.progress import counted
from engine.stages import methods

BAND_RESAMPLES = 1000
TIME = "milliseconds"
"""The axis of a query's time, which is no metric: a number for each point, of which less is better."""
SHARE = Real(
    default=0.95,
    low=0.0,
    high=1.0,
    comfortable=(0.5, 1.0),
    symbol="share",
    name="share",
    help="How much of the baseline's value must be kept.",
)
UNTIMED = "cells of one query alone, and runs of other systems, have none"
"""Why points have no time."""
_DECIMALS = -round(math.log10(SAME))


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
        return tuple(dict.fromkeys(axis for axis in (self.y, self.x) if axis != TIME))

    @property
    def direction(self) -> int:
        """What makes more of x better: 1 for a metric, −1 for a time."""
        return _direction(self.x)

    @property
    def remark(self) -> str:
        """What is said of the points without a time; empty where there are none."""
        if not self.untimed:
            return ""
        have, were = ("has", "was") if self.untimed == 1 else ("have", "were")
        return f"{counted(self.untimed, 'setting')} {have} no time and {were} left out: {UNTIMED}."

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
    for axis, metric in (("x", x), ("y", y)):
        if metric in METRICS and METRICS[metric].lower_is_better:
            raise ParamError(f"{axis} must be a metric of which more is better; got {metric!r}")
    if y == TIME:
        raise ParamError(f"y must be a metric; {y!r} may be x")
    cells = cells_at(points, k)
    timed = [p for p in cells if p.latency is not None] if x == TIME else cells
    if not timed:
        raise DataError(f"no point at k = {k} has a time: {UNTIMED}")
    common = shared(timed, (y,) if x == TIME else (x, y), k)
    where, bands = _places(common, x, y, resamples, seed)
    signs = np.array([_direction(x), 1])
    beaten = dominated(where * signs)
    corner = _reference(reference, where * signs, signs)
    scorers = scorers_matter([*common.points, *common.left_out])
    curves = {}
    for curve in _curves(common.points):
        label = name_of(common.points[curve.members[0]].decoder, scorers, without=curve.swept)
        curves[label] = _placed(curve, common.points, scorers, where, bands, beaten)
    front = [p for curve in curves.values() for p in curve if not p.dominated]
    return Frontier(
        curves=curves,
        front=tuple(sorted(front, key=lambda p: (round(p.x, _DECIMALS), -round(p.y, _DECIMALS), p.point.label))),
        hypervolume=hypervolume(where * signs, (_direction(x) * corner[0], corner[1])),
        reference=corner,
        k=common.points[0].k,
        x=x,
        y=y,
        queries=len(common.queries),
        asked=common.asked,
        left_out=tuple(name_of(p.decoder, scorers) for p in common.left_out),
        resamples=resamples,
        seed=seed,
        untimed=len(cells) - len(timed),
    )


def title_of_axis(axis: str) -> str:
    """A metric, or the time, as charts write it."""
    return "milliseconds a query" if axis == TIME else title_of(axis)


def _direction(axis: str) -> int:
    return -1 if axis == TIME else 1


def _places(common: Shared, x: str, y: str, resamples: int, seed: int) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
    """(m, 2) means, or times and means; and (m, 4) ends of their intervals in x and y."""
    measured = np.concatenate([common.values[axis] for axis in (x, y) if axis != TIME], axis=1)
    means, ends, count = measured.mean(0), [*intervals(measured, resamples, seed)], len(common.points)
    if x == TIME:
        means = np.concatenate([[p.latency for p in common.points], means])
        ends = [*[(None, None)] * count, *ends]
    return means.reshape(2, -1).T, [across + up for across, up in zip(ends[:count], ends[count:], strict=True)]


def _placed(
    curve: "_Curve", cells: Sequence[Any], scorers: bool, where: np.ndarray, bands: Sequence[Any], beaten: np.ndarray
) -> tuple[FrontierPoint, ...]:
    """The points of a curve; where: (m, 2) means; bands: (m, 4) ends in x and y; beaten: (m,) dominated."""
    points = []
    for i, value in zip(curve.members, curve.values, strict=True):
        (x, y), (x_low, x_high, y_low, y_high) = where[i].tolist(), bands[i]
        point = FrontierPoint(
            point=cells[i],
            name=name_of(cells[i].decoder, scorers),
            parameter=curve.swept[1] if curve.swept else "",
            value=value,
            x=x,
            y=y,
            x_low=x_low,
            x_high=x_high,
            y_low=y_low,
            y_high=y_high,
            dominated=bool(beaten[i]),
        )
        points.append(point)
    return tuple(points)


def best_of_each(measured: Frontier, baseline: str, share: float) -> tuple[FrontierPoint, ...]:
    """Each method's setting with the best x among those that keep `share` of the baseline's y, the baseline first.

    A method behind other scorers is another one.

    baseline: the label of one of the points; share: in [0, 1]. Where none of a method's settings keeps so much, the one
    with the most y stands for it. Ties go to more of the other metric, then to the first. Raises ParamError.
    """
    share = SHARE.check(share)

    def kind(p: FrontierPoint) -> tuple[str | None, ...]:
        decoder = p.point.decoder
        return p.point.method, *((decoder.get(role) or {}).get("name") for role in ("retrieve", "rerank"))

    base = next((p for p in measured.points if p.point.label == baseline), None)
    if base is None:
        raise ParamError(f"baseline must be the label of a point of the frontier; got {baseline!r}")
    floor = floor_of(base, share)
    best: dict[Any, FrontierPoint] = {}
    for p in measured.points:
        if kind(p) not in best or _better(p, best[kind(p)], floor, measured.direction):
            best[kind(p)] = p
    return (base, *(p for p in best.values() if kind(p) != kind(base)))


def floor_of(base: FrontierPoint, share: float) -> float:
    """The least y that keeps a share of the baseline's, rounding allowed for."""
    return base.y - (1 - share) * abs(base.y) - SAME


def _better(p: FrontierPoint, other: FrontierPoint, floor: float, direction: int) -> bool:
    """Whether p has a better x than another of those that reach the floor, or is nearer to it."""
    reaches = p.y >= floor
    if reaches != (other.y >= floor):
        return reaches
    places = ((direction * q.x, q.y) for q in (p, other))
    (first, second), (other_first, other_second) = (place if reaches else place[::-1] for place in places)
    return first > other_first + SAME or (abs(first - other_first) <= SAME and second > other_second + SAME)


def dominated(where: np.ndarray) -> np.ndarray:
    """(m,) whether another of the (m, 2) points is at least as good in both numbers and better in one.

    Points at the same place do not dominate one another. Numbers within rounding are the same: two methods that return
    one set in two orders are worth the same.
    """
    across, up = np.round(np.asarray(where, dtype=np.float64), _DECIMALS).reshape(-1, 2).T
    beaten = np.zeros(len(across), dtype=bool)
    best = top = -math.inf  # the best y further right; the best y at this x
    last = None
    for i in np.lexsort((-up, -across)):
        if across[i] != last:
            best, top, last = max(best, top), up[i], across[i]
        beaten[i] = up[i] <= best or up[i] < top
    return beaten


def hypervolume(where: np.ndarray, reference: tuple[float, float]) -> float:
    """The area that (m, 2) points dominate above and to the right of the reference: Zitzler & Thiele 1998.

    A point that is not better than the reference in both numbers adds nothing.
    """
    where = np.asarray(where, dtype=np.float64).reshape(-1, 2) - reference
    area = height = 0.0
    for right, up in where[np.lexsort((-where[:, 1], -where[:, 0]))].tolist():
        if right > 0 and up > height:
            area += right * (up - height)
            height = up
    return area


def _reference(given: tuple[float, float] | None, better: np.ndarray, signs: np.ndarray) -> tuple[float, float]:
    """The reference given, or the worst of each; better: (m, 2) of which more is better, the axes times their signs."""
    if given is None:
        x, y = (signs * better.min(0)).tolist()
        return x, y
    pair = tuple(given) if isinstance(given, Sequence | np.ndarray) else ()
    if len(pair) != 2 or not all(_is_number(v) and math.isfinite(v) for v in pair):
        raise ParamError(f"reference must be two finite numbers, (x, y); got {given!r}")
    return float(pair[0]), float(pair[1])


class _Curve(NamedTuple):
    members: list[int]  # positions of points
    swept: tuple[str, str] | None  # (stage, name) of the parameter that they sweep
    values: list[Any]  # of that parameter


def _curves(points: Sequence[Any]) -> list[_Curve]:
    """The points joined, in an order that does not depend on theirs."""
    order = {name: place for place, name in enumerate(methods())}
    settings = [_settings(point) for point in points]

    def kind(i: int) -> tuple[Any, ...]:
        # What is not a number is never swept: stages, choices and switches keep curves apart.
        apart = tuple((key, str(v)) for key, v in settings[i].items() if v is not None and not _is_number(v))
        return order.get(points[i].method, len(order)), points[i].method, apart

    def place(i: int, keys: Sequence[Any]) -> list[Any]:
        return [none_last(settings[i].get(key)) for key in keys]

    curves: list[_Curve] = []
    for _, members in groupby(sorted(range(len(points)), key=kind), kind):
        group = list(members)
        varying = [key for key in settings[group[0]] if len({settings[i].get(key) for i in group}) > 1]
        swept, rest = (varying[0], varying[1:]) if varying else (None, [])
        group.sort(key=partial(place, keys=[*rest, swept]))
        for _, line in groupby(group, partial(place, keys=rest)):
            own = list(line)
            curves.append(_Curve(own, swept, [settings[i].get(swept) if swept else None for i in own]))
    return curves


def _settings(point: Any) -> dict[tuple[str, str], Any]:
    """(stage, parameter) → value, the selector's first, in the order in which they are declared."""
    settings: dict[tuple[str, str], Any] = {}
    for role in ("select", "retrieve", "rerank"):
        stage = point.decoder.get(role) or {}
        declared = list(declared_by(stage.get("name", "")))
        for name in sorted(stage, key=lambda n: declared.index(n) if n in declared else -1):
            settings[role, name] = stage[name]
    settings["", "depth"] = point.decoder.get("depth")
    return settings


def _is_number(value: Any) -> bool:
    return isinstance(value, RealNumber) and not isinstance(value, bool)
