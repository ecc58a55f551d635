"""A metric over two parameters of one method, as a table: NNN paper, Fig. 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import DataError, ParamError
from engine.evaluation.metrics import METRICS
from engine.evaluation.pairing import SAME, at, declared_by
from engine.params import UNSET, form_of


@dataclass(frozen=True)
class Axis:
    """A parameter: its name, its symbol, and the values that were tried, rising, None last."""

    name: str
    symbol: str
    values: tuple[Any, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as people read them."""
        return tuple(UNSET if v is None else f"{v:g}" if isinstance(v, float) else str(v) for v in self.values)


@dataclass(frozen=True, eq=False)
class HeatMap:
    """metric at k on a split; rows, columns: the two parameters, in the order in which they are declared; values:
    (rows, columns) means, NaN where nothing was measured or the metric exists for no query; queries: (rows, columns)
    over how many each mean is: where they differ, so do the queries, and the means do not compare."""

    method: str
    metric: str
    title: str
    k: int
    split: str
    rows: Axis
    columns: Axis
    values: np.ndarray
    queries: np.ndarray
    keys: np.ndarray


def heat_map(points: Iterable[Any], metric: str, k: int = 10, method: str | None = None) -> HeatMap:
    """The means of a metric over the two parameters that a sweep varies.

    points: `Point`s of one split, of any k and any methods; method: which one, needed where there are several with two
    parameters that vary. Raises ParamError or DataError: not two parameters vary, or something besides them does.
    """
    there = at(points, k)
    chosen = [p for p in there if method in (None, p.method)]
    varying = {name: _varying([p for p in chosen if p.method == name]) for name in {p.method for p in chosen}}
    two = [name for name, own in varying.items() if len(own) == 2]
    if len(two) != 1:
        told = "; ".join(f"{name} varies {', '.join(own) or 'nothing'}" for name, own in sorted(varying.items()))
        asked = f"of {method} " if method else ""
        raise ParamError(
            f"a heat-map {asked}needs points of one method in which exactly two parameters vary"
            + (f": {told}" if told else "; there are none")
            + ("; say which method" if len(two) > 1 else "")
        )
    own = [p for p in chosen if p.method == two[0]]
    if len({str([p.decoder.get(name) for name in ("retrieve", "rerank", "depth")]) for p in own}) > 1:
        raise ParamError(f"the points of {two[0]} differ in scorers or pool besides: take those of one chain")
    if missing := [p.label for p in own if metric not in p.values]:
        raise ParamError(f"{metric} was not measured for {missing[0]}")
    declared = declared_by(two[0])
    axes = []
    for name in varying[two[0]]:
        values = sorted({p.decoder["select"][name] for p in own}, key=lambda v: (v is None, 0 if v is None else v))
        forms = {form_of(declared[name], p.decoder["select"])[1].symbol for p in own} if name in declared else {name}
        axes.append(Axis(name, forms.pop() if len(forms) == 1 else declared[name].symbol, tuple(values)))
    values = np.full(tuple(len(axis.values) for axis in axes), np.nan)
    queries, keys = np.zeros(values.shape, dtype=int), np.full(values.shape, "", dtype=object)
    seen = set()
    for point in own:
        cell = tuple(axis.values.index(point.decoder["select"][axis.name]) for axis in axes)
        has = np.isfinite(point.values[metric])
        mean = float(point.values[metric][has].mean()) if has.any() else np.nan
        if cell in seen and not np.isclose(values[cell], mean, rtol=0, atol=SAME, equal_nan=True):
            raise DataError(f"two points are called {point.label} and differ: take those of one data set")
        seen.add(cell)
        values[cell], queries[cell], keys[cell] = mean, int(has.sum()), point.key
    title = METRICS[metric].title if metric in METRICS else metric
    return HeatMap(two[0], metric, title, own[0].k, str(own[0].split), *axes, values, queries, keys)


def _varying(points: list[Any]) -> list[str]:
    """The selector's parameters that have more than one value, as declared."""
    return [name for name in points[0].decoder["select"] if len({p.decoder["select"].get(name) for p in points}) > 1]
