"""A selector's means over queries as step functions of its λ."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine.errors import ParamError
from engine.evaluation.metrics import LESS_IS_BETTER
from engine.params import Param
from engine.stages import Selector, make_selector, spec_of

DECIMALS = 9
"""Means that agree so far are the same: running sums round."""
PLACES = 101
"""At so many values, evenly through the interval, a curve has bands."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Steps:
    """One metric of every query as a step function of λ.

    query, start: (T,) whose each step is and where it begins, query by query, ascending; values: metric → (T,)
    """

    query: np.ndarray
    start: np.ndarray
    values: Mapping[str, np.ndarray]

    @cached_property
    def first(self) -> np.ndarray:
        """(B,) the first step of each query."""
        return np.flatnonzero(np.diff(self.query, prepend=-1))

    def only(self, kept: np.ndarray) -> "Steps":
        """Those of some queries: kept (B,) bool."""
        mask = kept[self.query]
        values = {name: column[mask] for name, column in self.values.items()}
        return Steps(query=self.query[mask], start=self.start[mask], values=values)

    def at(self, places: np.ndarray) -> dict[str, np.ndarray]:
        """Metric → (B, p) values at places, (p,): right of a step that begins there."""
        ends = np.append(self.first[1:], len(self.query))
        parts = zip(self.first.tolist(), ends.tolist(), strict=True)
        step = np.stack([a + np.searchsorted(self.start[a:b], places, side="right") - 1 for a, b in parts])
        step = np.maximum(step, self.first[:, None])
        return {name: column[step] for name, column in self.values.items()}

    def means(self, metric: str, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """(p,) where each piece of the mean over the queries that have the metric begins, and (p,) the means."""
        column = self.values[metric]
        defined = ~np.isnan(column)
        before = np.where(self.query == np.roll(self.query, 1), np.roll(column, 1), np.nan)
        before[self.first] = np.nan
        order = np.argsort(self.start, kind="stable")
        total = np.cumsum((np.where(defined, column, 0) - np.nan_to_num(before))[order])
        count = np.cumsum((defined.astype(int) - ~np.isnan(before))[order])
        start = self.start[order]
        place = np.floor((start - start[0]) / tolerance) if tolerance else start
        last = np.flatnonzero(np.append(np.diff(place) > 0, True))
        begins = start[np.append(0, last[:-1] + 1)]
        with np.errstate(invalid="ignore"):
            return begins, np.where(count[last] > 0, total[last] / count[last], np.nan)


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """Means over queries at every value of a selector's parameter in an interval."""

    selector: Mapping[str, Any]  # as plain values; its own value of the parameter does not count
    label: str  # the same as text, without that value
    method: str  # the selector's name
    parameter: str
    interval: tuple[float, float]
    k: int
    split: str
    queries: tuple[str, ...]
    breakpoints: np.ndarray  # (p − 1,) where a mean changes, ascending
    means: Mapping[str, np.ndarray]  # metric → (p,) mean between neighbouring breakpoints, over queries that have it
    places: np.ndarray  # (PLACES,) values of the parameter
    bands: Mapping[str, np.ndarray]  # metric → (PLACES, 2) ends of the mean's 95% interval there, NaN for one query
    left_out: int  # number of queries without judgements
    tolerance: float  # of breakpoints nearer than this some were merged
    resamples: int  # of the bands
    seed: int
    provenance: Mapping[str, str]
    key: str  # digest of what was asked
    steps: Steps | None = None  # the queries' own values; None for a curve read from a file

    def __len__(self) -> int:
        return len(self.breakpoints) + 1

    @property
    def declared(self) -> Param:
        """The parameter's declaration."""
        return next(p for p in spec_of(self.method).params if p.name == self.parameter)

    @property
    def symbol(self) -> str:
        """The parameter's symbol."""
        return self.declared.symbol

    @property
    def middles(self) -> np.ndarray:
        """(p,) a value of the parameter in each piece."""
        low, high = self.interval
        edges = np.concatenate([[low], self.breakpoints, [high]])
        middles: np.ndarray = (edges[:-1] + edges[1:]) / 2
        return middles

    def at(self, value: float) -> dict[str, float]:
        """Metric → mean at a value. Raises ParamError outside the interval."""
        low, high = self.interval
        if not low <= value <= high:
            raise ParamError(f"value must be in [{low:g}, {high:g}]; got {value!r}")
        piece = int(np.searchsorted(self.breakpoints, value, side="right"))
        return {name: float(column[piece]) for name, column in self.means.items()}

    def best(self, metric: str) -> tuple[float, float]:
        """The ends of the widest interval where a mean is best; NaN where it exists nowhere."""
        column = np.round(self.means[metric], DECIMALS) * (-1 if metric in LESS_IS_BETTER else 1)
        if not np.isfinite(column).any():
            return np.nan, np.nan
        edges = np.concatenate([self.interval[:1], self.breakpoints, self.interval[1:]])
        top = np.diff(np.concatenate([[0], column == np.nanmax(column), [0]]).astype(int))
        runs = zip(edges[np.flatnonzero(top > 0)].tolist(), edges[np.flatnonzero(top < 0)].tolist(), strict=True)
        return max(runs, key=lambda run: run[1] - run[0])

    def stage(self, value: float) -> Selector:
        """The selector at a value."""
        given = {name: setting for name, setting in self.selector.items() if name != "name"}
        return make_selector(self.method, **{**given, self.parameter: value})
