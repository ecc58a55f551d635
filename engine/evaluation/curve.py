"""A selector's means over queries as step functions of its λ."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from engine.errors import ParamError
from engine.evaluation.metrics import LESS_IS_BETTER, map_values
from engine.params import Param
from engine.stages import Selector, make_selector, spec_of

MEAN_DECIMALS = 9
"""Means that agree to so many decimals are equal: running sums round."""
N_BANDS = 101
"""Number of evenly spaced values of the parameter at which a curve has bands."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Steps:
    """Every query's metrics as step functions of λ, all queries' steps one after another.

    A step is an interval of λ on which a query's retrieved set, and so its metrics, stay the same. query_index,
    step_starts: (T,) query and start of each step, query by query, ascending; values: metric → (T,)
    """

    query_index: np.ndarray
    step_starts: np.ndarray
    values: Mapping[str, np.ndarray]

    @cached_property
    def first_steps(self) -> np.ndarray:
        """The (B,) positions of each query's first step among all steps."""
        return np.flatnonzero(np.diff(self.query_index, prepend=-1))

    def select_queries(self, is_selected: np.ndarray) -> "Steps":
        """Return the steps of the selected queries alone; is_selected: (B,) bool. Queries keep their numbers."""
        is_kept_step = is_selected[self.query_index]
        values = map_values(itemgetter(is_kept_step), self.values)
        query_index, step_starts = self.query_index[is_kept_step], self.step_starts[is_kept_step]
        return Steps(query_index=query_index, step_starts=step_starts, values=values)

    def evaluate_at(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return metric → (B, p) values of each query at p values of λ; a step's start belongs to that step."""
        query_ends = np.append(self.first_steps[1:], len(self.query_index))
        steps_by_query = []
        for first, end in zip(self.first_steps.tolist(), query_ends.tolist(), strict=True):
            steps_by_query.append(first + np.searchsorted(self.step_starts[first:end], positions, side="right") - 1)
        # A position left of the first step takes the first step.
        step_index = np.maximum(np.stack(steps_by_query), self.first_steps[:, None])
        return map_values(itemgetter(step_index), self.values)

    def mean_pieces(self, metric: str, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """Return a metric's mean over queries as a step function of λ: starts and means of its p pieces.

        tolerance: starts closer than this are merged. A piece in which no query has the metric is NaN.
        """
        column = self.values[metric]
        is_defined = ~np.isnan(column)
        # The value that a query had on the step before; NaN where the step before is another query's.
        previous_values = np.where(self.query_index == np.roll(self.query_index, 1), np.roll(column, 1), np.nan)
        # With one query only, np.roll would make its first step follow its last.
        previous_values[self.first_steps] = np.nan
        start_order = np.argsort(self.step_starts, kind="stable")
        # Sorted by λ, each step adds the change of its query's value to the sum over all queries.
        running_totals = np.cumsum((np.where(is_defined, column, 0) - np.nan_to_num(previous_values))[start_order])
        running_counts = np.cumsum((is_defined.astype(int) - ~np.isnan(previous_values))[start_order])
        sorted_starts = self.step_starts[start_order]
        # Starts closer than the tolerance share a bin and become one breakpoint.
        start_bins = np.floor((sorted_starts - sorted_starts[0]) / tolerance) if tolerance else sorted_starts
        last_of_bin = np.flatnonzero(np.append(np.diff(start_bins) > 0, True))
        piece_starts = sorted_starts[np.append(0, last_of_bin[:-1] + 1)]
        totals, counts = running_totals[last_of_bin], running_counts[last_of_bin]
        with np.errstate(invalid="ignore"):
            return piece_starts, np.where(counts > 0, totals / counts, np.nan)


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve:
    """Means over queries at every value of a selector's parameter in an interval."""

    selector: Mapping[str, Any]  # as plain values; its value of the parameter is ignored
    label: str  # the same as text, without that value
    method: str  # the selector's name
    parameter: str
    interval: tuple[float, float]
    k: int
    split: str
    queries: tuple[str, ...]
    breakpoints: np.ndarray  # (p − 1,) where a mean changes, ascending
    means: Mapping[str, np.ndarray]  # metric → (p,) mean between neighbouring breakpoints, over queries that have it
    band_positions: np.ndarray  # (N_BANDS,) values of the parameter
    bands: Mapping[str, np.ndarray]  # metric → (N_BANDS, 2) ends of the mean's 95% interval there, NaN for one query
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
        return next(param for param in spec_of(self.method).params if param.name == self.parameter)

    @property
    def symbol(self) -> str:
        """The parameter's symbol."""
        return self.declared.symbol

    @property
    def middles(self) -> np.ndarray:
        """The (p,) middle values of the parameter in each piece."""
        low, high = self.interval
        edges = np.concatenate([[low], self.breakpoints, [high]])
        middles: np.ndarray = (edges[:-1] + edges[1:]) / 2
        return middles

    def at(self, value: float) -> dict[str, float]:
        """Return metric → mean over queries at one value of the parameter; ParamError outside the interval."""
        low, high = self.interval
        if not low <= value <= high:
            raise ParamError(f"value must be in [{low:g}, {high:g}]; got {value!r}")
        piece_index = int(np.searchsorted(self.breakpoints, value, side="right"))
        return map_values(float, map_values(itemgetter(piece_index), self.means))

    def find_best_interval(self, metric: str) -> tuple[float, float]:
        """Return the ends of the widest interval of λ on which a metric's mean is best; NaN if undefined."""
        signed_means = np.round(self.means[metric], MEAN_DECIMALS) * (-1 if metric in LESS_IS_BETTER else 1)
        if not np.isfinite(signed_means).any():
            return np.nan, np.nan
        # Neighbouring pieces with equal means count as one interval.
        edges = np.concatenate([self.interval[:1], self.breakpoints, self.interval[1:]])
        # +1 where a run of best pieces begins, −1 behind its end; the zeros close runs at both ends.
        is_best_change = np.diff(np.concatenate([[0], signed_means == np.nanmax(signed_means), [0]]).astype(int))
        lows, highs = edges[np.flatnonzero(is_best_change > 0)], edges[np.flatnonzero(is_best_change < 0)]
        best_runs = zip(lows.tolist(), highs.tolist(), strict=True)
        return max(best_runs, key=lambda run: run[1] - run[0])

    def make_stage(self, value: float) -> Selector:
        """Make the selector with the curve's parameter at a value."""
        params = {**self.selector, self.parameter: value}
        params.pop("name", None)
        return make_selector(self.method, **params)
