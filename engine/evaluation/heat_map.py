"""Metrics over the parameters of one method: over two of them as a table (NNN paper, Fig. 2), and along each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import DataError, ParamError
from engine.evaluation.metrics import defined_mean, title_of
from engine.evaluation.paired import SAME, cells_at, common_form, declared_by, name_of, none_last, varying
from engine.params import UNSET


@dataclass(frozen=True)
class Axis:
    """A parameter of a heat-map."""

    name: str
    symbol: str
    values: tuple[Any, ...]  # those that were tried, rising, None last

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as people read them."""
        return tuple(UNSET if v is None else f"{v:g}" if isinstance(v, float) else str(v) for v in self.values)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeatMap:
    """A metric at k on a split over two parameters, in the order in which they are declared."""

    method: str
    metric: str
    title: str
    k: int
    split: str
    rows: Axis
    columns: Axis
    values: np.ndarray  # (rows, columns) means, NaN where nothing was measured or the metric exists for no query
    queries: np.ndarray  # (rows, columns) number that each mean is over; means over other queries do not compare
    keys: np.ndarray  # (rows, columns) of the cells, "" where nothing was measured


def heat_map(points: Iterable[Any], metric: str, k: int = 10, method: str | None = None) -> HeatMap:
    """The means of a metric over the two parameters that a sweep varies.

    points: `Point`s of one split, of any k and any methods; method: which one, needed where there are several with two
    parameters that vary. Raises ParamError or DataError: not two parameters vary, or something besides them does.
    """
    cells = [p for p in cells_at(points, k) if method in (None, p.method)]
    found = {name: varying([p for p in cells if p.method == name]) for name in {p.method for p in cells}}
    two = [name for name, params in found.items() if len(params) == 2]
    if len(two) != 1:
        varied = [f"{name} varies {', '.join(params) or 'nothing'}" for name, params in sorted(found.items())]
        of_method = f"of {method} " if method else ""
        raise ParamError(
            f"a heat-map {of_method}needs points of one method in which exactly two parameters vary"
            + (f": {'; '.join(varied)}" if varied else "; there are none")
            + ("; say which method" if len(two) > 1 else "")
        )
    chosen, names = [p for p in cells if p.method == two[0]], found[two[0]]
    if len({str([p.decoder.get(name) for name in ("retrieve", "rerank", "depth")]) for p in chosen}) > 1:
        raise ParamError(f"the points of {two[0]} differ in scorers or pool besides: take those of one chain")
    if missing := [p.label for p in chosen if metric not in p.values]:
        raise ParamError(f"{metric} was not measured for {missing[0]}")
    rows, columns = (_axis(name, chosen) for name in names)
    shape = len(rows.values), len(columns.values)
    values, queries = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    keys: np.ndarray = np.full(shape, "", dtype=object)
    for point in chosen:
        cell = tuple(axis.values.index(point.decoder["select"][axis.name]) for axis in (rows, columns))
        has = np.isfinite(point.values[metric])
        mean = defined_mean(np.where(has, point.values[metric], np.nan))
        if keys[cell] and not np.isclose(values[cell], mean, rtol=0, atol=SAME, equal_nan=True):
            raise DataError(f"two points are called {point.label} and differ: take those of one data set")
        values[cell], queries[cell], keys[cell] = mean, int(has.sum()), point.key
    return HeatMap(
        method=chosen[0].method,
        metric=metric,
        title=title_of(metric),
        k=chosen[0].k,
        split=str(chosen[0].split),
        rows=rows,
        columns=columns,
        values=values,
        queries=queries,
        keys=keys,
    )


def _axis(name: str, cells: list[Any]) -> Axis:
    """A parameter's values among the cells, with the symbol of the form in which all of them mean it."""
    declared = declared_by(cells[0].method).get(name)
    values = tuple(sorted({p.decoder["select"][name] for p in cells}, key=none_last))
    return Axis(name, name if declared is None else common_form(declared, cells).symbol, values)


def importance(points: Iterable[Any], metric: str, k: int = 10) -> dict[str, float]:
    """Which share of a metric's variance over a full grid each parameter explains alone; what lacks to 1 they share.

    points: of one split and selector. The main effects of a functional ANOVA, a value of a parameter being as likely as
    another (Hutter, Hoos & Leyton-Brown 2014). None where fewer than two parameters vary, where settings are missing,
    as after a search, or where nothing differs.
    """
    cells = list({p.label: p for p in cells_at(points, k)}.values())
    axes = {name: _axis(name, cells) for name in varying(cells)}
    shape = tuple(len(axis.values) for axis in axes.values())
    values = np.full(shape, np.nan)
    for cell in cells:
        own = cell.decoder["select"]
        values[tuple(axis.values.index(own[name]) for name, axis in axes.items())] = cell.mean[metric]
    if len(shape) < 2 or not np.isfinite(values).all() or values.std() <= SAME:
        return {}
    places = range(len(shape))
    alone = [values.mean(tuple(i for i in places if i != place)).var() / values.var() for place in places]
    return {axis.symbol: float(share) for axis, share in zip(axes.values(), alone, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Slice:
    """The m settings of one selector along one of its parameters, rising, what is no number last."""

    name: str  # of the parameter
    symbol: str
    label: str
    log: bool  # whether its scale is one of ratios
    values: tuple[Any, ...]  # m of them, None where it is unset
    texts: tuple[str, ...]  # the same to read
    names: tuple[str, ...]  # of the settings
    keys: tuple[str, ...]
    means: Mapping[str, tuple[float, ...]]  # metric → m means
    on: tuple[bool, ...]  # which settings differ from the chosen one in this parameter alone
    chosen: int | None  # its position, None without one


@dataclass(frozen=True)
class Slices:
    """The settings of one selector along each parameter that varies, as declared."""

    method: str
    k: int
    split: str
    titles: Mapping[str, str]  # metric → as charts write it
    base: Mapping[str, float]  # metric → the baseline's mean
    slices: tuple[Slice, ...]


def slices(
    points: Iterable[Any], base: Any, metrics: Sequence[str], k: int = 10, *, through: Any | None = None
) -> Slices:
    """The settings of one selector along each parameter that varies among them.

    points: of one split and selector; base: the baseline's point; through: the chosen one of them. Without it a setting
    lies on a slice where no other parameter varies. Raises ParamError or DataError.
    """
    cells = list({p.label: p for p in cells_at(points, k)}.values())
    if len(selectors := sorted({p.method for p in cells})) > 1:
        raise ParamError(f"slices need points of one selector; got {', '.join(selectors)}")
    if missing := [p.label for p in (*cells, base) if any(m not in p.values for m in metrics)]:
        raise ParamError(f"{', '.join(metrics)}: not all were measured for {missing[0]}")
    chosen = next((p.decoder["select"] for p in cells if through is not None and p.label == through.label), None)
    lines = tuple(_slice(name, cells, chosen, metrics) for name in varying(cells))
    titles = {m: title_of(m) for m in metrics}
    return Slices(selectors[0], cells[0].k, str(cells[0].split), titles, {m: base.mean[m] for m in metrics}, lines)


def _slice(name: str, cells: Sequence[Any], chosen: Mapping[str, Any] | None, metrics: Sequence[str]) -> Slice:
    """One parameter's slice; chosen: the parameters of the chosen setting."""
    form = common_form(declared_by(cells[0].method)[name], cells)
    order = sorted(cells, key=lambda p: none_last(p.decoder["select"][name]))
    params = [p.decoder["select"] for p in order]
    values = tuple(own[name] for own in params)
    others = [n for n in varying(cells) if n != name]
    return Slice(
        name=name,
        symbol=form.symbol,
        label=form.label,
        log=getattr(form, "scale", "linear") == "log",
        values=values,
        texts=tuple(f"{v:g}" if isinstance(v, float) else form.text(v) for v in values),
        names=tuple(name_of(p.decoder, scorers=False) for p in order),
        keys=tuple(p.key for p in order),
        means={m: tuple(p.mean[m] for p in order) for m in metrics},
        on=tuple(not others if chosen is None else all(own[n] == chosen[n] for n in others) for own in params),
        chosen=None if chosen is None else params.index(chosen),
    )
