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

MEAN_DECIMALS = 9
"""Means that agree so far are the same: running sums round."""
N_BANDS = 101
"""At so many values, evenly through the interval, a curve has bands."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Steps:
    """One metric of every query as a step function of λ.

    query, start: (T,) whose each step is and where it begins, query by query, ascending; values: metric → (T,)
    """

    query_index: np.ndarray
    step_starts: np.ndarray
    values: Mapping[str, np.ndarray]

    @cached_property
    def first_steps(self) -> np.ndarray:
        """(B,) the first step of each query."""
        return np.flatnonzero(np.diff(self.query_index, prepend=-1))

    def select_queries(self, is_selected: np.ndarray) -> "Steps":
        """Those of some queries: kept (B,) bool."""
        is_kept_step = is_selected[self.query_index]
        values = {metric_name: metric_values[is_kept_step] for metric_name, metric_values in self.values.items()}
        return Steps(
            query_index=self.query_index[is_kept_step], step_starts=self.step_starts[is_kept_step], values=values
        )

    def evaluate_at(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Metric → (B, p) values at places, (p,): right of a step that begins there."""
        query_ends = np.append(self.first_steps[1:], len(self.query_index))
        query_spans = zip(self.first_steps.tolist(), query_ends.tolist(), strict=True)
        step_index = np.stack(
            [
                span_start + np.searchsorted(self.step_starts[span_start:span_end], positions, side="right") - 1
                for span_start, span_end in query_spans
            ]
        )
        step_index = np.maximum(step_index, self.first_steps[:, None])
        return {metric_name: metric_values[step_index] for metric_name, metric_values in self.values.items()}

    def mean_pieces(self, metric: str, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """(p,) where each piece of the mean over the queries that have the metric begins, and (p,) the means."""
        metric_values = self.values[metric]
        is_defined = ~np.isnan(metric_values)
        previous_values = np.where(self.query_index == np.roll(self.query_index, 1), np.roll(metric_values, 1), np.nan)
        previous_values[self.first_steps] = np.nan
        start_order = np.argsort(self.step_starts, kind="stable")
        running_totals = np.cumsum(
            (np.where(is_defined, metric_values, 0) - np.nan_to_num(previous_values))[start_order]
        )
        running_counts = np.cumsum((is_defined.astype(int) - ~np.isnan(previous_values))[start_order])
        sorted_starts = self.step_starts[start_order]
        start_bins = np.floor((sorted_starts - sorted_starts[0]) / tolerance) if tolerance else sorted_starts
        last_of_bin = np.flatnonzero(np.append(np.diff(start_bins) > 0, True))
        piece_starts = sorted_starts[np.append(0, last_of_bin[:-1] + 1)]
        with np.errstate(invalid="ignore"):
            return piece_starts, np.where(
                running_counts[last_of_bin] > 0, running_totals[last_of_bin] / running_counts[last_of_bin], np.nan
            )


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
    band_positions: np.ndarray  # (PLACES,) values of the parameter
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
        return next(param for param in spec_of(self.method).params if param.name == self.parameter)

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
        piece_index = int(np.searchsorted(self.breakpoints, value, side="right"))
        return {metric_name: float(piece_means[piece_index]) for metric_name, piece_means in self.means.items()}

    def find_best_interval(self, metric: str) -> tuple[float, float]:
        """The ends of the widest interval where a mean is best; NaN where it exists nowhere."""
        signed_means = np.round(self.means[metric], MEAN_DECIMALS) * (-1 if metric in LESS_IS_BETTER else 1)
        if not np.isfinite(signed_means).any():
            return np.nan, np.nan
        edges = np.concatenate([self.interval[:1], self.breakpoints, self.interval[1:]])
        is_best_change = np.diff(np.concatenate([[0], signed_means == np.nanmax(signed_means), [0]]).astype(int))
        best_runs = zip(
            edges[np.flatnonzero(is_best_change > 0)].tolist(),
            edges[np.flatnonzero(is_best_change < 0)].tolist(),
            strict=True,
        )
        return max(best_runs, key=lambda run: run[1] - run[0])

    def make_stage(self, value: float) -> Selector:
        """The selector at a value."""
        fixed_params = {param_name: setting for param_name, setting in self.selector.items() if param_name != "name"}
        return make_selector(self.method, **{**fixed_params, self.parameter: value})
