"""What the CCBQP paper says of its relaxation: every stationary point against ascents, and its ends on a corpus."""

from itertools import combinations

import numpy as np
import pytest
from scipy import optimize

import engine
from engine.theory.relaxation import measure_cone, measure_ends, relaxation
from support.instances import problem, unit
from support.quadratic_oracles import Problem
from support.rankings import queries_of, space_of


def instance(seed, n=6, d=3):
    rng = np.random.default_rng([seed, n])
    return unit(rng.standard_normal((n, d))), unit(rng.standard_normal(d))


def climbed(rows, query, k, weight, loading, starts, seed):
    """The largest value that scipy's SLSQP reaches from random points, in the scale of eq. 2."""
    n, rng = len(rows), np.random.default_rng(seed)
    r, curved = rows @ query, (1 + loading) * np.eye(n) - rows @ rows.T

    def value(x):
        return (weight * (k - 1) * r @ x + (1 - weight) * (x @ curved @ x - loading * k)) / (k * (k - 1))

    best = -np.inf
    for _ in range(starts):
        x = rng.random(n)
        fixed = {"type": "eq", "fun": lambda x: x.sum() - k}
        found = optimize.minimize(lambda x: -value(x), x * k / x.sum(), bounds=[(0, 1)] * n, constraints=[fixed])
        best = max(best, value(np.clip(found.x, 0, 1))) if abs(found.x.sum() - k) < 1e-7 else best
    return best


@pytest.mark.parametrize("loading", [0.0, 0.4, 1.0])
def test_no_ascent_ends_above_the_enumerated_maximum_and_some_reach_it(loading):
    for seed in range(3):
        rows, query = instance(seed)
        weight, k = (0.0, 0.3, 0.8)[seed % 3], 2 + seed % 3
        found = relaxation(rows, query, k, relevance_weight=weight, loading=loading)
        reached = climbed(rows, query, k, weight, loading, 20, seed)
        assert reached <= found.value + 1e-6 and reached == pytest.approx(found.value, abs=1e-5)
        values = {c: Problem(rows, query, weight, k).value(c) for c in combinations(range(6), k)}
        assert found.integral == pytest.approx(max(values.values()), abs=1e-12)
        assert values[found.rows] == pytest.approx(found.integral, abs=1e-12)
        assert found.tight == (found.value <= found.integral + 1e-9) and sum(found.point) == pytest.approx(k)
        assert found.tight or loading < 1, "Theorem 2.1"


def test_theorems_2_4_and_2_5_on_every_stationary_point():
    """At δ = 1 every fractional one is a saddle; more loading keeps the local maxima and adds others."""
    fractional, grown = 0, 0
    for seed in range(8):
        rows, query = instance(seed, n=7, d=4)
        found = [relaxation(rows, query, 3, relevance_weight=0.4, loading=load) for load in (0.0, 0.5, 1.0)]
        assert found[2].fractional == found[2].saddles
        assert found[0].local_maxima <= found[1].local_maxima <= found[2].local_maxima
        assert found[2].rows in found[2].local_maxima
        fractional += found[2].fractional
        grown += len(found[2].local_maxima) > len(found[0].local_maxima)
    assert fractional > 10 and grown > 0


def test_the_paper_needs_its_loading():
    """Three rows at 120°: at δ = 0 two thirds of each, whose sum is zero, beat every pair."""
    angles = np.array([0, 2, 4]) * np.pi / 3
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    found = relaxation(rows, [1.0, 0], 2, relevance_weight=0.0, loading=0.0)
    assert not found.tight and found.point == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    assert (found.value, found.integral) == pytest.approx((2 / 3, 1 / 2))
    assert relaxation(rows, [1.0, 0], 2, relevance_weight=0.0, loading=1.0).tight


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"vectors": 2 * np.eye(4)}, engine.DataError, "vectors must be of unit length"),
        (
            {"vectors": np.tile(np.eye(4), (3, 1))},
            engine.ParamError,
            "vectors must have 4 to 10 rows, k being 3; got 12",
        ),
        ({"k": 4}, engine.ParamError, "vectors must have 5 to 10 rows"),
        ({"k": 1}, engine.ParamError, r"k must be a whole number in \[2"),
        ({"loading": 2}, engine.ParamError, r"loading \(δ\) must be a number in \[0, 1\]; got 2"),
        ({"relevance_weight": -1}, engine.ParamError, "relevance_weight"),
        ({"query": np.ones(3)}, engine.DataError, "dimension"),
    ],
)
def test_bad_input_is_refused(change, error, message):
    given = {"vectors": np.eye(4), "query": np.eye(4)[0], "k": 3, **change}
    with pytest.raises(error, match=message):
        relaxation(given.pop("vectors"), given.pop("query"), given.pop("k"), **given)


def test_ends_count_what_the_selector_says():
    rows, points = problem("clustered", 2, n=60, d=8, batch=5)
    space, queries = space_of(rows), queries_of(points)
    for found in measure_ends(space, queries, (0.0, 0.7), (2, 6)):
        params = {"relevance_weight": found.weight, "polish": False}
        info = engine.select("frank_wolfe", rows, points, k=found.k, **params).info
        steps = [i["iterations"] for i in info]
        assert (found.runs, found.steps, found.most) == (5, np.median(steps), max(steps))
        assert found.fractional == found.capped == 0
        for b, query in enumerate(points):
            assert Problem(rows, query, found.weight, found.k).algorithm_1()[1] == info[b]["integral"]
    opposite = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    (stuck,) = measure_ends(space_of(opposite), queries_of(np.array([[0.6, 0.8]])), (0.0,), (2,), loading=0.0)
    assert stuck.fractional == 1
    with pytest.raises(engine.ParamError, match="sizes must be at least 2"):
        list(measure_ends(space, queries, (0.5,), (1,)))


def test_a_cone_by_numpy(monkeypatch):
    rows, _ = problem("clustered", 4, n=48, d=6)
    rows[7] = -1.5 * rows[3]
    for chunk in (1 << 22, 100):
        monkeypatch.setattr("engine.matrix.CHUNK_NUMBERS", chunk)
        found = measure_cone(space_of(rows))
        assert found.least == pytest.approx(-1) and set(found.pair) == {"d3", "d7"}
        assert found.sizes == (3, 6, 12, 24, 48)
        for size, largest in zip(found.sizes, found.largest, strict=True):
            part = rows[[i * 48 // size for i in range(size)]].astype(np.float64)
            assert largest == pytest.approx(np.linalg.eigvalsh(part @ part.T)[-1])
    line = np.tile([[0.6, 0.8]], (64, 1))
    assert measure_cone(space_of(line)).slope == pytest.approx(1) and measure_cone(
        space_of(line)
    ).least == pytest.approx(1)
    with pytest.raises(engine.DataError, match="at least two documents"):
        measure_cone(space_of(line[:1]))
