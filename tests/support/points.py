"""Cells of a sweep for tests of statistics: a decoder and a number for every query."""

from dataclasses import dataclass, field

import numpy as np

from engine.evaluation.statistics import bootstrap_intervals, compute_sign_flip_p_values
from engine.stages import make
from engine.values import digest_of


@dataclass(frozen=True, eq=False)
class Cell:
    """The fields of a cell that the statistics read."""

    decoder: dict
    label: str
    method: str
    k: int
    split: str
    queries: tuple
    values: dict
    latency: float | None = None
    counts: dict = field(default_factory=dict)


def cell(
    method,
    values,
    k=10,
    split="test",
    queries=None,
    retrieve=None,
    rerank=None,
    depth=None,
    latency=None,
    counts=None,
    **params,
):
    """Make the cell of a decoder; values: metric → one number a query; counts: name → documents of each query."""
    stage = make(method, **params)
    decoder = {
        "select": stage.as_json(),
        "retrieve": retrieve or make("dense").as_json(),
        "rerank": rerank,
        "depth": depth,
    }
    values = {name: np.asarray(v, dtype=np.float64) for name, v in values.items()}
    queries = queries or tuple(f"q{i:04}" for i in range(len(next(iter(values.values())))))
    label = f"{decoder['retrieve']} → {rerank} → {stage.label} {depth}"
    counts = {name: np.full(len(queries), number) for name, number in (counts or {}).items()}
    return Cell(decoder, label, method, k, split, tuple(queries), values, latency, counts)


def interval(a, b=0.0, resamples=10_000, seed=0):
    """Bootstrap the interval of the mean of a, or of the mean paired difference a − b."""
    return bootstrap_intervals(np.subtract(a, b)[:, None], resamples, seed)[0]


def p_value(a, b, resamples=10_000, seed=0):
    """Test a against b by sign flips."""
    return compute_sign_flip_p_values(np.subtract(a, b)[:, None], resamples, seed)[0]


def recalls(seed, n=200, shift=0.0):
    rng = np.random.default_rng(seed)
    return np.clip(rng.choice([0, 1 / 3, 1 / 2, 2 / 3, 1], n) + shift * rng.random(n), 0, 1)


def digest_of_all(points):
    """Return one digest of all cells of a sweep, whatever order they came in."""
    return digest_of(sorted(point.digest for point in points))
