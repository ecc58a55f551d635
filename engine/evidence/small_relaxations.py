"""The CCBQP paper's relaxation on documents few enough for every face to be looked at."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from engine.evidence.claim import Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.measures import unit_rows
from engine.theory.relaxation import relaxation

CASES = 500
LOADINGS = (0.0, 0.5, 1.0)
"""Ascending; at the last, the paper's, the relaxation is said to be tight."""
Instance = tuple[np.ndarray, np.ndarray, int, float]
"""Unit rows, a unit query, k and θ."""


def instances(cases: int, seed: int) -> Iterator[Instance]:
    """Four to eight documents each, every second time in a narrow cone, as embeddings are."""
    rng = np.random.default_rng(seed)
    for case in range(cases):
        count, dimensions = int(rng.integers(4, 9)), int(rng.integers(2, 6))
        points = rng.standard_normal((count + 1, dimensions)) + (case % 2) * rng.standard_normal(dimensions)
        *rows, query = unit_rows(points)
        yield np.array(rows), query, int(rng.integers(2, min(count, 5))), float(rng.uniform(0, 0.95))


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """Case by case, over every stationary point.

    above: what the relaxation's maximum has more than the best set, at the paper's loading; between: how many
    stationary points are no set, there; stuck: from how many of those no step between two documents ascends; lost: how
    many local maxima a larger loading loses; gained: how many the largest has more than the least
    """
    columns: dict[str, list[float]] = {name: [] for name in ("above", "between", "stuck", "lost", "gained")}
    for rows, query, k, weight in instances(CASES, seed):
        by_loading = [relaxation(rows, query, k, relevance_weight=weight, loading=load) for load in LOADINGS]
        maxima, tight = [r.local_maxima for r in by_loading], by_loading[-1]
        columns["above"].append(tight.value - tight.integral)
        columns["between"].append(tight.fractional)
        columns["stuck"].append(tight.fractional - tight.saddles)
        columns["lost"].append(sum(len(before - after) for before, after in pairwise(maxima)))
        columns["gained"].append(len(maxima[-1] - maxima[0]))
    return columns
