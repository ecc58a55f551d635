"""Hard elastic nets, small enough for an oracle of hundreds of digits, and the faults of their answers."""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from unittest import mock

import mpmath
import numpy as np

import engine
from engine.matrix import Matrix
from engine.solvers.elastic_net import solve
from support import elastic_oracles as oracles
from support.instances import unit

FAMILIES = ("random", "clustered", "axes", "lattice", "hollow")
ROUTES = ("gram", "rows", "codes", "newton", "fista")
RIDGES = (1e-300, 1e-160, 1e-30, 1e-18, 1e-14, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
FAULTS = {
    "bound": "|w − w*| exceeds the bound",
    "ordered": "the first rows are not those of the minimiser, in order",
    "residual": "a condition is violated by more than the residual",
    "gap": "the objective exceeds the least by more than the gap",
    "certified": "a violation exceeds 1e-6 of the best score",
    "copies": "exact copies have different weights, or stand out of row order",
    "batch": "a query whose weights are all in certified order has another answer alone",
    "sane": "a warning, an infinity or a NaN",
}
"""The faults that an answer may have."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question: rows (n, d), queries (B, d) and a setting, by one way of solving it."""

    family: str
    route: str
    rows: np.ndarray
    queries: np.ndarray
    l1: float
    l2: float


def case(seed):
    """Rows of every family, half of them with exact copies, some far from unit length; a batch, one, or one thrice."""
    rng = np.random.default_rng(seed)
    family = FAMILIES[rng.integers(len(FAMILIES))]
    n, d = int(rng.integers(1, 10)), int(rng.integers(1, 6))
    lengths = (1.0, 1.0, 10 ** rng.uniform(-5, 5), 10 ** rng.uniform(-5, 5, size=(n, 1)))[rng.integers(4)]
    rows = _rows(rng, family, n, d) * lengths
    if rng.random() < 0.5:
        rows = rows[rng.integers(max(1, n // 2), size=n)]
    queries = np.array([_query(rng, rows, d) for _ in range(3)]) * (1, 1, 10 ** rng.uniform(-5, 5))[rng.integers(3)]
    queries = (queries, queries[:1], np.repeat(queries[:1], 3, axis=0))[rng.integers(3)]
    dtype = (np.float32, np.float64)[rng.integers(2)]
    rows, queries = rows.astype(dtype), queries.astype(dtype)
    best = max(float((rows.astype(float) @ queries[0].astype(float)).max()), 0.0)
    l1 = (0.0, 0.1, 0.01 * best, 0.1 * best, 10 ** rng.uniform(-9, 0) * best, best)[rng.integers(6)]
    l2 = float(rng.choice(RIDGES) if rng.random() < 0.7 else 10 ** rng.uniform(-20, 0))
    largest = max((rows.astype(np.float64) ** 2).sum(1).max(), 1e-300)
    ways = [r for r in ROUTES if r != "newton" or l2 > 1e-10 * largest]
    return Case(family=family, route=ways[rng.integers(len(ways))], rows=rows, queries=queries, l1=float(l1), l2=l2)


def _rows(rng, family, n, d):
    if family == "axes":
        return np.eye(d)[rng.integers(d, size=n)]
    if family == "lattice":
        return np.round(1.5 * rng.standard_normal((n, d))) + 0.0
    if family == "clustered":
        return unit(rng.standard_normal(d) + 10 ** rng.uniform(-4, 0) * rng.standard_normal((n, d)))
    return unit(rng.standard_normal((n, d))) * (rng.random((n, 1)) < (0.6 if family == "hollow" else 1.0))


def _query(rng, rows, d):
    mixed = rng.dirichlet(np.ones(2)) @ unit(rows + 1e-300)[rng.integers(len(rows), size=2)]
    kind = rng.integers(6)
    if kind == 0:
        return np.zeros(d) if rng.random() < 0.2 else np.eye(d)[0]
    return (mixed, mixed + 0.4 * rng.standard_normal(d), rng.standard_normal(d), np.round(2 * mixed), np.ones(d))[
        kind - 1
    ]


@contextmanager
def force_route(route):
    """Solve every problem by one route."""
    with mock.patch.object(solve, "MIN_START_ROWS", 2):
        if route in ("rows", "codes"):
            cached = mock.patch("engine.decoder.Matrix", lambda *args, **kw: Matrix(*args, **{**kw, "cached": True}))
            with mock.patch.object(solve, "GRAM_ROWS", 0), mock.patch.object(solve, "CACHED_NUMBERS", 0):
                if route == "rows":
                    yield
                else:
                    with cached:
                        yield
        elif route == "newton":
            with mock.patch.object(solve, "_solve_problems", solve._solve_by_newton):
                yield
        else:
            yield


def solve_case(instance, queries):
    steps = {"solver": "fista", "iterations": 40} if instance.route == "fista" else {}
    with force_route(instance.route):
        return engine.select(
            "nnn", instance.rows, queries, k=len(instance.rows), l1=instance.l1, l2=instance.l2, **steps
        )


def judge_answers(instance):
    """Yield for each problem of the case its info, the true |w − w*|, and the faults of its answer."""
    with warnings.catch_warnings(record=True) as raised_warnings:
        warnings.simplefilter("always")
        answer = solve_case(instance, instance.queries)
    full = oracles.weights_of(answer, len(instance.rows))
    with oracles.exact_digits(instance.l2):
        for b, info in enumerate(answer.info):
            false, distance = _certificates(instance, b, full[b], answer.index[b].tolist(), info)
            numbers = [info[name] for name in ("residual", "gap", "bound")]
            if raised_warnings or not all(x is None or np.isfinite(x) for x in (*numbers, *full[b])):
                false.append("sane")
            if instance.route != "fista":
                false += _copies(instance, full[b], answer.index[b, : info["support"]].tolist())
                alone = solve_case(instance, instance.queries[b]) if len(instance.queries) > 1 else answer
                # Weights that rounding may swap are no fault of a batch.
                if alone.index[0].tolist() != answer.index[b].tolist() and info["ordered"] == info["support"]:
                    false.append("batch")
            yield info, distance, false


def _certificates(instance, b, weights, order, info):
    problem = instance.rows, instance.queries[b]
    w, best = oracles.exact_numbers(weights), oracles.exact_minimiser(*problem, instance.l1, instance.l2)
    distance = mpmath.norm([x - y for x, y in zip(w, best, strict=True)])
    off = max(oracles.exact_violations(*problem, w, instance.l1, instance.l2))
    false = []
    if info["bound"] is not None and distance > info["bound"]:
        false.append("bound")
    first = order[: info["ordered"] or 0]
    expected_weights = [best[i] for i in first] + [
        max([x for i, x in enumerate(best) if i not in first], default=mpmath.mpf(0))
    ]
    if any(x <= y for x, y in pairwise(expected_weights)):
        false.append("ordered")
    if off > info["residual"]:
        false.append("residual")
    if info["gap"] is not None:
        higher = oracles.exact_objective(*problem, w, instance.l1, instance.l2) - oracles.exact_objective(
            *problem, best, instance.l1, instance.l2
        )
        if higher > info["gap"]:
            false.append("gap")
    score = max(
        mpmath.fdot(row, oracles.exact_numbers(instance.queries[b])) for row in oracles.exact_numbers(instance.rows)
    )
    if info["certified"] and off > 1e-6 * abs(score):
        false.append("certified")
    return false, float(distance)


def _copies(instance, weights, order):
    """Check that copies have one weight and stand in row order."""
    for kind in {instance.rows[i].tobytes() for i in order}:
        alike = [i for i in range(len(instance.rows)) if instance.rows[i].tobytes() == kind]
        if [i for i in order if i in alike] != alike or len(set(weights[alike])) > 1:
            return ["copies"]
    return []
