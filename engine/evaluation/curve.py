"""A selector's means over queries as step functions of its λ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from engine.decoder import Decoder
from engine.display import DataFrame, OneLine, Tabular, build_table, list_briefly
from engine.errors import ParamError
from engine.evaluation.metrics import LESS_IS_BETTER, map_values
from engine.params import Param
from engine.progress import counted
from engine.stages import Selector, make_selector, spec_of

MEAN_DECIMALS = 9
"""Means that agree to so many decimals are equal: running sums round."""
N_BANDS = 101
"""Number of evenly spaced values of the parameter at which a curve has bands."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Steps(OneLine):
    """Every query's metrics as step functions of λ, all queries' steps one after another.

    A step is an interval of λ on which a query's retrieved set, and so its metrics, stay the same. interval: from where
    to where λ goes; query_index, step_starts: (T,) query and start of each step, query by query, ascending; values:
    metric → (T,); counts: name → (T,) documents, as `RetrievedSets.count_documents` names them

    At the interval's ends a selector's ties can give a set that it gives nowhere near them: a step then holds at the
    lower end alone, the next one begins at the next float, or a step begins at the upper end.
    """

    interval: tuple[float, float]
    query_index: np.ndarray
    step_starts: np.ndarray
    values: Mapping[str, np.ndarray]
    counts: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def first_steps(self) -> np.ndarray:
        """The (B,) positions of each query's first step among all steps, which come query by query."""
        return np.flatnonzero(np.diff(self.query_index, prepend=-1))

    def select_queries(self, is_selected: np.ndarray) -> Steps:
        """Return the steps of the selected queries alone; each query keeps its number.

        A step is an interval of λ on which a query's retrieved set stays the same. is_selected: (B,) bool, by query
        """
        is_kept_step = is_selected[self.query_index]
        values, counts = (map_values(itemgetter(is_kept_step), columns) for columns in (self.values, self.counts))
        query_index, step_starts = self.query_index[is_kept_step], self.step_starts[is_kept_step]
        return replace(self, query_index=query_index, step_starts=step_starts, values=values, counts=counts)

    def evaluate_at(self, positions: np.ndarray) -> dict[str, np.ndarray]:
        """Return metric → (B, p) values of each query at p values of λ; positions: (p,) values of λ."""
        return map_values(itemgetter(self.find_steps(positions)), self.values)

    def find_steps(self, positions: np.ndarray) -> np.ndarray:
        """Return the (B, p) steps of each query at p values of λ, as positions among all steps.

        A step is an interval of λ on which a query's retrieved set stays the same; its start belongs to it. positions:
        (p,) values of λ
        """
        query_ends = np.append(self.first_steps[1:], len(self.query_index))
        steps_by_query = []
        for first, end in zip(self.first_steps.tolist(), query_ends.tolist(), strict=True):
            steps_by_query.append(first + np.searchsorted(self.step_starts[first:end], positions, side="right") - 1)
        # A position left of the first step takes the first step.
        step_index: np.ndarray = np.maximum(np.stack(steps_by_query), self.first_steps[:, None])
        return step_index

    def mean_pieces(self, metric: str, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """Return a metric's mean over queries as a step function of λ: starts and means of its p pieces.

        A query's value changes where its next step starts, so the mean changes where a step of any query starts: a
        piece lies between two such λ. tolerance: starts closer than this are merged, except the interval's ends. A
        piece in which no query has the metric is NaN.
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
        low, high = self.interval
        start_bins = np.floor((sorted_starts - low) / tolerance) if tolerance else sorted_starts.copy()
        # The means at the ends must not be merged with those next to them.
        start_bins[sorted_starts == low], start_bins[sorted_starts == high] = -np.inf, np.inf
        last_of_bin = np.flatnonzero(np.append(start_bins[1:] > start_bins[:-1], True))
        piece_starts = sorted_starts[np.append(0, last_of_bin[:-1] + 1)]
        totals, counts = running_totals[last_of_bin], running_counts[last_of_bin]
        # Where no query has the metric, 0 or a rounding error is divided by 0.
        with np.errstate(divide="ignore", invalid="ignore"):
            return piece_starts, np.where(counts > 0, totals / counts, np.nan)

    def average(self, tolerance: float) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the (p − 1,) breakpoints where some mean over queries changes, and metric → its (p,) means.

        A query's value changes where its next step starts, so the mean changes where a step of any query starts: a
        piece lies between two such λ. tolerance: starts closer than this are merged, except the interval's ends
        """
        means = {}
        for metric in self.values:
            # The starts depend on the steps alone, so they are equal for all metrics.
            piece_starts, means[metric] = self.mean_pieces(metric, tolerance)
        # NaN differs from itself, so undefined means are compared as infinity.
        mean_table = np.nan_to_num(np.stack(list(means.values())), nan=np.inf)
        # Where no mean changes there is no breakpoint.
        is_kept = np.append(True, (mean_table[:, 1:] != mean_table[:, :-1]).any(0))
        return piece_starts[is_kept][1:], map_values(itemgetter(is_kept), means)


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(Tabular):
    """Means over queries at every value of a selector's parameter in an interval.

    A piece is an interval of the parameter on which no mean changes. It holds its lower end, and not its upper one, at
    which the next begins. The first and the last may hold an end of the curve's interval alone, where ties can give a
    selector other sets than next to it.
    """

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
    steps: Steps  # the values of single queries
    limits: Mapping[str, Any] = field(default_factory=dict)  # of its decoders, as `Decoder.limits` has them

    def __len__(self) -> int:
        return len(self.breakpoints) + 1

    def _describe(self) -> str:
        low, high = self.interval
        span = f"{self.parameter} from {low:g} to {high:g} in {counted(len(self), 'piece')}"
        n_queries = counted(len(self.queries), "query", "queries")
        return f"{self.method}, {span}, k={self.k}, {n_queries}, metrics {list_briefly(self.means)}"

    def to_frame(self) -> DataFrame:
        """Return one row for each piece, an interval of the parameter on which no mean changes.

        Columns: method, parameter, low and high (the piece's ends), k, split, and one column with the mean for each
        metric.
        """
        lows, highs = self.piece_ends
        n_pieces = len(self)
        columns: dict[str, Any] = {"method": [self.method] * n_pieces, "parameter": [self.parameter] * n_pieces}
        columns |= {"low": lows, "high": highs, "k": [self.k] * n_pieces, "split": [self.split] * n_pieces}
        return build_table(columns | dict(self.means))

    @property
    def declared(self) -> Param:
        """The declaration of the parameter that the curve varies, with its symbol, range and default."""
        return next(param for param in spec_of(self.method).params if param.name == self.parameter)

    @property
    def symbol(self) -> str:
        """The symbol of the parameter that the curve varies, such as λ."""
        return self.declared.symbol

    @property
    def piece_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The (p,) lowest and the (p,) highest value of the parameter in each piece.

        They are equal in a piece that is a single value.
        """
        low, high = self.interval
        return np.append(low, self.breakpoints), np.append(np.nextafter(self.breakpoints, -np.inf), high)

    @property
    def middles(self) -> np.ndarray:
        """The (p,) middle values of the parameter in each piece."""
        lowest, highest = self.piece_ends
        middles: np.ndarray = (lowest + highest) / 2
        return middles

    def at(self, value: float) -> dict[str, float]:
        """Return metric → mean over queries at one value of the parameter; ParamError outside the interval."""
        low, high = self.interval
        if not low <= value <= high:
            raise ParamError(f"value must be in [{low:g}, {high:g}]; got {value!r}")
        # At a breakpoint the piece that begins there counts.
        piece_index = int(np.searchsorted(self.breakpoints, value, side="right"))
        return map_values(float, map_values(itemgetter(piece_index), self.means))

    def find_best_interval(self, metric: str) -> tuple[float, float]:
        """Return the ends of the widest interval of λ on which a metric's mean is best; NaN if undefined.

        The mean is a step function of λ, which changes at the breakpoints only: between two of them lies a piece.
        """
        signed_means = np.round(self.means[metric], MEAN_DECIMALS) * (-1 if metric in LESS_IS_BETTER else 1)
        if not np.isfinite(signed_means).any():
            return np.nan, np.nan
        # Neighbouring pieces with equal means count as one interval.
        lowest, highest = self.piece_ends
        # +1 where a run of best pieces begins, −1 behind its end; the zeros close runs at both ends.
        is_best_change = np.diff(np.concatenate([[0], signed_means == np.nanmax(signed_means), [0]]).astype(int))
        lows, highs = lowest[np.flatnonzero(is_best_change > 0)], highest[np.flatnonzero(is_best_change < 0) - 1]
        best_runs = zip(lows.tolist(), highs.tolist(), strict=True)
        return max(best_runs, key=lambda run: run[1] - run[0])

    def make_stage(self, value: float) -> Selector:
        """Make the selector with the curve's parameter at a value."""
        params = {**self.selector, self.parameter: value}
        # The plain values hold the selector's name beside its parameters.
        params.pop("name", None)
        return make_selector(self.method, **params)

    def make_decoder(self, value: float) -> Decoder:
        """Make the decoder with the curve's parameter at a value."""
        return Decoder(self.make_stage(value), **self.limits)

    def has(self, decoder: Decoder) -> bool:
        """Return True if a decoder is one of the curve's, at whatever value of the parameter."""
        selector = decoder.select
        return selector.spec.name == self.method and self.make_decoder(getattr(selector, self.parameter)) == decoder
