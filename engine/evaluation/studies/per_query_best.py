"""Headroom of choosing a method's parameters for every query over one setting for all (NNN paper, §5)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.evaluation.paired import align_on_common_queries
from engine.evaluation.statistics import RESAMPLES, SEED, bootstrap_means, percentile_ends


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """Best setting of a method for all queries, and the best for each query."""

    method: str
    metric: str
    k: int
    settings: int
    queries: int  # number for which every point has the metric
    best: str  # the setting with the largest mean, as charts write it
    mean: float  # its mean
    oracle: float  # the mean over the queries of the largest value that any setting has
    low: float | None  # ends of the 95% interval of their difference, None for one query
    high: float | None

    @property
    def difference(self) -> float:
        """The most that choosing settings by query could gain over one setting for all."""
        return self.oracle - self.mean


def compute_headroom(
    points: Iterable[Any], metric: str, k: int = 10, *, resamples: int = RESAMPLES.default, seed: int = 0
) -> tuple[Headroom, ...]:
    """Compute what a method could gain by choosing its setting query by query, over one setting for all.

    A cell is one decoder's metrics, query by query, at one k. The mean of each query's best value, called the oracle,
    is compared with the best setting's mean. The oracle sees the judgements of the query that it chooses for, and of
    many settings one is best by chance: no rule for choosing could gain more. Intervals resample the queries and choose
    the best setting for all again. points: cells of a sweep; those of other k are ignored. Raises ParamError or
    DataError.
    """
    resamples, seed = RESAMPLES.check(resamples), SEED.check(seed)
    common_cells = align_on_common_queries(points, (metric,), k)
    cell_values, headrooms = common_cells.values[metric], []
    for method in dict.fromkeys(cell.method for cell in common_cells.cells):
        method_columns = [column for column, cell in enumerate(common_cells.cells) if cell.method == method]
        method_values = cell_values[:, method_columns]
        best_column, oracle_values = int(method_values.mean(0).argmax()), method_values.max(1)
        low_gap = high_gap = None
        if len(method_values) > 1:
            # The best setting is chosen again in every resample: the choice is a part of what varies.
            drawn_means = bootstrap_means(np.column_stack([method_values, oracle_values]), resamples, seed)
            drawn_oracles, drawn_best = drawn_means[:, -1], drawn_means[:, :-1].max(1)
            low_gap, high_gap = percentile_ends(drawn_oracles - drawn_best)
        headrooms.append(Headroom(
            method=method, metric=metric, k=common_cells.cells[0].k, settings=len(method_columns),
            queries=len(method_values), best=common_cells.names[method_columns[best_column]],
            mean=float(method_values[:, best_column].mean()), oracle=float(oracle_values.mean()),
            low=low_gap, high=high_gap,
        ))  # fmt: skip
    return tuple(headrooms)
