"""What choosing a method's parameters for every query could gain over one setting for all (NNN paper, §5)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.evaluation.paired import align_on_common_queries
from engine.evaluation.statistics import RESAMPLES, SEED, bootstrap_means, percentile_ends


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """One method's settings, the best for all queries beside the best for each."""

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
        """What no choice of settings by query can exceed."""
        return self.oracle - self.mean


def per_query_best(
    points: Iterable[Any], metric: str, k: int = 10, *, resamples: int = RESAMPLES.default, seed: int = 0
) -> tuple[Headroom, ...]:
    """Each method's best setting for all queries, and its best for each, in the points' order.

    points: of a sweep, those of other k are passed over. The oracle sees the judgements of the very query that it
    chooses for, and of many settings one is best by chance: it bounds what a rule could reach, and reaches nothing
    itself. Intervals draw the queries again and choose the best setting for all anew. Raises ParamError or DataError.
    """
    resamples, seed = RESAMPLES.check(resamples), SEED.check(seed)
    common = align_on_common_queries(points, (metric,), k)
    values, rows = common.values[metric], []
    for method in dict.fromkeys(point.method for point in common.cells):
        own = [at for at, point in enumerate(common.cells) if point.method == method]
        part = values[:, own]
        chosen, largest = int(part.mean(0).argmax()), part.max(1)
        low = high = None
        if len(part) > 1:
            drawn = bootstrap_means(np.column_stack([part, largest]), resamples, seed)
            gaps = drawn[:, -1] - drawn[:, :-1].max(1)
            low, high = percentile_ends(gaps)
        rows.append(
            Headroom(
                method=method,
                metric=metric,
                k=common.cells[0].k,
                settings=len(own),
                queries=len(part),
                best=common.names[own[chosen]],
                mean=float(part[:, chosen].mean()),
                oracle=float(largest.mean()),
                low=low,
                high=high,
            )
        )
    return tuple(rows)
