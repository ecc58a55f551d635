"""The elastic net's minimisers by every route: optimality, other people's solvers, gap, bound, and sameness."""

import dataclasses
import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import engine
from engine.candidates import Candidates
from engine.matrix import Matrix
from engine.solvers.elastic_net import active_set, dual_newton, solve, working_set
from engine.solvers.elastic_net.rounding import SUM_FACTOR
from support import elastic_oracles as oracles
from support.draws import deepen, seeds_of
from support.instances import few_or_all
from support.stage_laws import threads

ROUTES = {
    "gram": "_solve_with_gram",
    "rows": "_solve_with_rows",
    "codes": "_solve_with_rows",
    "pools": "_solve_with_gram",
    "rows of pools": "_solve_with_rows",
    "newton": "_solve_by_newton",
}
KINDS = (np.float32, np.float64)
each_family = pytest.mark.parametrize("family", deepen(oracles.NASTY, oracles.QUIET_FAMILIES))


@pytest.fixture(params=ROUTES)
def route(request, monkeypatch):
    """Every problem goes one way, starting from few rows so that more must be found; the test fails if it did not."""
    name, taken, coded = request.param, set(), []

    def spied(way, made):
        return lambda *args: taken.add(way) or made(*args)

    for way in dict.fromkeys(ROUTES.values()):
        monkeypatch.setattr(solve, way, spied(way, getattr(solve, way)))
    compiled = working_set.solve_by_rows
    monkeypatch.setattr(working_set, "solve_by_rows", lambda *args: coded.append(len(args[1]) > 0) or compiled(*args))
    monkeypatch.setattr(solve, "MIN_START_ROWS", 3)
    if name in ("gram", "codes"):
        monkeypatch.setattr("engine.decoder.Matrix", functools.partial(Matrix, cached=True))
    if name in ("rows", "codes"):
        monkeypatch.setattr(solve, "GRAM_ROWS", 0)
    if name == "codes":
        monkeypatch.setattr(solve, "CACHED_NUMBERS", 0)
    if name == "rows of pools":
        monkeypatch.setattr(solve, "MAX_GRAM_POOL", 0)
    if name == "newton":
        monkeypatch.setattr(solve, "_solve_problems", solve._solve_by_newton)
        monkeypatch.setattr(dual_newton, "START_ROWS", 6)
    yield name
    assert taken == {ROUTES[name]}
    assert not coded or any(coded) == (name == "codes")


def instances(seeds, n=None):
    """Every family in both precisions; every sixth instance is large."""
    for family in oracles.NASTY:
        for dtype in KINDS:
            for seed in seeds:
                rows, queries = oracles.nasty(family, seed, n=n or (None if seed % 6 else 200), dtype=dtype)
                if len(rows) > 1:
                    yield f"{family} {dtype.__name__} {seed}", rows, queries


def faults(route, rows, queries, grid):
    """(problems, passes, faults): what is wrong with the answers to every setting of a grid, as text."""
    n = len(rows)
    pool = n // 2 if "pools" in route else None
    answers = engine.select_grid("nnn", rows, queries, k=n, grid=grid, pool=pool)
    kept = [oracles.select_pool_rows(rows, query, pool) for query in queries]
    best = np.maximum(oracles.scores(rows, queries).max(1), 0)
    size = np.abs(oracles.scores(rows, queries)).max(1)
    found, most = [], 0
    for params, answer in zip(grid, answers, strict=True):
        full, l1, l2 = oracles.weights_of(answer, n), params["l1"], params["l2"]
        off = [
            oracles.violations(rows[own], queries[b : b + 1], full[b : b + 1, own], l1, l2)[0]
            for b, own in enumerate(kept)
        ]
        for b, info in enumerate(answer.info):
            own = kept[b]
            wrong = {
                "not optimal": off[b] > 1e-6 * best[b],
                "its residual is another": abs(info["residual"] - off[b]) > 1e-9 * size[b],
                "not certified": not info["certified"],
                "a weight outside the pool": np.delete(full[b], own).any(),
                "another support": (full[b] > 0).sum() != info["support"] or info["candidates"] != len(own),
            }
            found += [f"query {b} {params}: {what} ({off[b]:.3g})" for what, so in wrong.items() if so]
            most = max(most, info["passes"])
    return len(grid) * len(queries), most, found


@few_or_all((1, 6), range(1, 9), quick=1)
def test_every_answer_is_a_minimiser(route, seeds):
    """Over 10,000 problems a route: optimal to 1e-6 of the best score, and the residual it states is the true one."""
    count, passes, wrong = 0, 0, []
    for name, rows, queries in instances(seeds):
        grid = [s for s in oracles.grid_for(rows, queries) if s["l2"] > 0 or (s["l1"] > 0 and route != "newton")]
        done, most, found = faults(route, rows, queries, grid)
        count, passes = count + done, max(passes, most)
        wrong += [f"{name}, {text}" for text in found]
    assert not wrong, f"{len(wrong)} of {count}: " + "\n".join(wrong[:8])
    assert count > 1_100 * len(seeds)
    assert passes > 2 or route in ("gram", "pools"), "no row was ever missed: the passes were put to no test"


@pytest.mark.parametrize("route", [r for r in ROUTES if r != "newton"], indirect=True)
def test_without_penalties_every_answer_is_a_minimiser_too(route):
    """λ₁ = λ₂ = 0, where weights grow as far as rounding lets them."""
    count, wrong = 0, []
    for name, rows, queries in instances(range(2)):
        done, _, found = faults(route, rows, queries, [{"l1": 0.0, "l2": 0.0}])
        count += done
        wrong += [f"{name}, {text}" for text in found]
    assert not wrong, f"{len(wrong)} of {count}: " + "\n".join(wrong[:8])


@pytest.mark.parametrize("route", [r for r in ROUTES if r != "newton"], indirect=True)
def test_tiny_penalties_are_penalties(route):
    wrong = []
    grid = [{"l1": l1, "l2": l2} for l2 in (0.0, 1e-8, 1e-6) for l1 in (1e-7, 1e-6, 1e-5, 1e-4)]
    for name, rows, queries in instances((1,)):
        wrong += [f"{name}, {text}" for text in faults(route, rows, queries, grid)[2]]
    assert not wrong, "\n".join(wrong[:8])


@pytest.mark.parametrize("route", ["codes"], indirect=True)
def test_sums_of_codes_stay_within_their_whole_numbers(route):
    """Rows of signs, and a query of signs: every product of the 8-bit form is as large as it can be."""
    rng = np.random.default_rng(0)
    for d in (130, 520, 1030, 4100):
        rows = rng.choice([-1.0, 1.0], size=(60, d)).astype(np.float32) / np.float32(np.sqrt(d))
        rows[7] = np.abs(rows[7])
        grid = [{"l1": l1, "l2": l2} for l2 in (0.0, 0.1) for l1 in (0.01, 0.5)]
        assert not faults(route, rows, np.stack([np.abs(rows[0]), rows[9]]), grid)[2]


def test_a_support_larger_than_the_active_set_has_room_for(monkeypatch):
    """Newton steps take over, and the settings after it are right all the same."""
    monkeypatch.setattr("engine.solvers.elastic_net.active_set.MAX_ACTIVE", 12)
    taken, ascended = [], solve._solve_queries_by_newton
    monkeypatch.setattr(solve, "_solve_queries_by_newton", lambda *args: taken.append(1) or ascended(*args))
    for many in (2048, 0):
        monkeypatch.setattr(solve, "GRAM_ROWS", many)
        for dtype in KINDS:
            rows, queries = oracles.nasty("cone", 1, n=300, d=6, dtype=dtype)
            grid = [{"l1": l1, "l2": l2} for l2 in (0.0, 0.01, 10.0) for l1 in (0.3, 0.01, 0.0) if l1 + l2 > 0]
            assert not faults("", rows, queries, grid)[2]
            largest = engine.select("nnn", rows, queries, k=300, l1=0.0, l2=10.0)
            assert max(info["support"] for info in largest.info) > 100
    assert taken


@seeds_of((0,), range(7))
@each_family
def test_weights_are_those_of_other_people_s_solvers(family, seeds):
    """Where the minimiser is unique: at λ₂ > 0 always, at λ₂ = 0 where rows that may have a weight are independent."""
    decided = {True: 0, False: 0}
    for seed in seeds:
        for dtype in KINDS:
            rows, queries = oracles.nasty(family, seed, dtype=dtype)
            grid = [{"l1": l1, "l2": l2} for l2 in oracles.SECOND for l1 in (0.0, 0.01, 0.2) if l1 + l2 > 0]
            answers = engine.select_grid("nnn", rows, queries, k=len(rows), grid=grid)
            for b, query in enumerate(queries):
                scale = np.abs(oracles.scores(rows, query)).max()
                for params, answer in zip(grid, answers, strict=True):
                    l1, l2 = params["l1"], params["l2"]
                    expected = oracles.minimiser(rows, query, l1, l2)
                    own = oracles.violations(rows, query[None], expected[None], l1, l2)[0]
                    if own > 1e-9 * scale or (l2 == 0 and oracles.sharp(rows, query, expected, l1) < 0.05):
                        continue
                    decided[l2 > 0] += 1
                    assert np.abs(oracles.weights_of(answer, len(rows))[b] - expected).max() <= 1e-6, (seed, b, params)
    assert decided[True] > 60 * len(seeds) and (decided[False] > len(seeds) or family == "twins"), decided


@each_family
def test_gap_and_bound_hold_for_rough_answers_and_exact_ones(family):
    """gap is primal minus dual objective; |w − w*| ≤ bound; the first `ordered` are the minimiser's first, in order."""
    rough = ordered = 0
    kinds = ({}, *({"solver": "fista", "iterations": steps} for steps in (1, 3, 10, 60)))
    for seed in (0, 3, 7):
        rows, queries = oracles.nasty(family, seed, dtype=KINDS[seed % 2])
        for l1, l2 in ((0.0, 1e-4), (0.01, 0.01), (0.2, 0.1), (0.05, 1.0), (100.0, 1.0)):
            nearest = [oracles.minimiser(rows, query, l1, l2) for query in queries]
            grid = [{"l1": l1, "l2": l2, **params} for params in kinds]
            answers = engine.select_grid("nnn", rows, queries, k=len(rows), grid=grid)
            for params, answer in zip(grid, answers, strict=True):
                for b, (query, info) in enumerate(zip(queries, answer.info, strict=True)):
                    w, best = oracles.weights_of(answer, len(rows))[b], nearest[b]
                    primal, dual = (
                        oracles.objective(rows, query, w, l1, l2),
                        oracles.dual_objective(rows, query, w, l1, l2),
                    )
                    # Both carry |[Uρ − λ₁]₊|² / 2λ₂, or what is as large.
                    noise = 1e-13 * (1 + abs(primal) + abs(dual) + np.square(oracles.scores(rows, query)).sum() / l2)
                    if info["bound"] is None:
                        assert info["gap"] is info["ordered"] is None
                        assert np.sqrt(2 * max(primal - dual, 0) / l2) > w.sum() - 1e-7
                        continue
                    assert info["gap"] == pytest.approx(primal - dual, rel=1e-9, abs=noise), (seed, b, params)
                    assert info["bound"] == pytest.approx(np.sqrt(2 * info["gap"] / l2))
                    assert np.linalg.norm(w - best) <= info["bound"] + 1e-7 * (1 + np.linalg.norm(best))
                    first = check_ordered(answer, b, info)
                    assert first == np.argsort(-best, kind="stable")[: len(first)].tolist(), (seed, b, params)
                    ordered += len(first)
                    rough += info["gap"] > 1e-6
    assert rough > 20 and ordered > 10


def check_ordered(answer, b, info):
    """The rows in certified order, having checked that they are those whose weights are far enough apart."""
    held = info["support"]
    weights = [*answer.gain[b, :held].tolist(), 0.0]
    apart = [weights[i] - weights[i + 1] > 2 * info["bound"] for i in range(held)]
    expected = apart.index(False) if False in apart else held
    assert info["ordered"] == expected
    return answer.index[b, :expected].tolist()


@given(st.integers(0, 10**6))
def test_the_judge_of_any_weights_is_the_formula(seed):
    """Also of weights that are far from optimal, off the support as on it; rounding widens both."""
    draw = np.random.default_rng(seed)
    m, k, l1, l2 = 12, int(draw.integers(0, 5)), 0.1, 0.3
    c, chosen, weight = draw.normal(0, 0.4, m), draw.permutation(m)[:k], draw.random(k)
    standing = np.zeros(m, dtype=np.int64)
    standing[chosen] = active_set.IN
    length, share = draw.random(m), 10.0 ** draw.integers(-20, 0)
    exact = active_set.bound_violation(c, m, standing, chosen, weight, k, l1, l2, length, 0.0, 0.0, 0.0, 0.0)
    worst, gap = active_set.bound_violation(c, m, standing, chosen, weight, k, l1, l2, length, share, 0.0, 0.0, 0.0)
    for _ in range(10):
        near = c + share * length * draw.uniform(-1, 1, m)
        less = active_set.bound_violation(near, m, standing, chosen, weight, k, l1, l2, length, 0.0, 0.0, 0.0, 0.0)
        assert less[0] <= worst * (1 + 1e-15) and less[1] <= gap * (1 + 1e-14)
    worst, gap = exact
    g, w = c - l1, np.zeros(m)
    w[chosen] = weight
    off = np.delete(np.maximum(g, 0), chosen)
    on = l2 * w[chosen] - g[chosen]
    squares = (off**2).sum() + (on**2 - np.minimum(g[chosen], 0) ** 2).sum()
    assert worst == pytest.approx(max([0, *off, *abs(on)]), abs=1e-15)
    assert gap == pytest.approx(SUM_FACTOR * squares / (2 * l2), rel=1e-13, abs=1e-15)


def test_without_ridge_there_is_no_gap():
    rows, queries = oracles.nasty("random", 1)
    for info in engine.select("nnn", rows, queries, k=5, l1=0.1, l2=0).info:
        assert info["gap"] is info["bound"] is info["ordered"] is None and info["certified"]


@seeds_of((2,), range(9))
@each_family
def test_a_batch_is_its_queries_one_at_a_time_and_a_grid_its_settings(family, seeds):
    """Same rows in the same order, weights to 1e-9: whatever the route, and whatever was solved before."""
    grid = [{"l1": l1, "l2": l2} for l2 in (0.1, 0.0, 1e-3) for l1 in (0.02, 0.3, 0.1)]
    compared = 0
    for seed in seeds:
        rows, queries = oracles.nasty(family, seed, n=None if seed % 6 else 150, dtype=KINDS[seed % 2])
        answers = engine.select_grid("nnn", rows, queries, k=len(rows), grid=grid)
        for params, warm in zip(grid, answers, strict=True):
            together = engine.select("nnn", rows, queries, k=len(rows), **params)
            for b, query in enumerate(queries):
                alone = engine.select("nnn", rows, query, k=len(rows), **params)
                compared += same(alone, 0, together, b, rows, query, params)
                compared += same(alone, 0, warm, b, rows, query, params)
    assert compared > 30 * len(seeds)


def same(one, a, other, b, rows, query, params):
    """Whether the answers had to be equal: without ridge rows that depend on each other leave several minimisers."""
    full = oracles.weights_of(one, len(rows))[a]
    kinds = np.unique(rows, axis=0)
    lifted = np.array([full[(rows == kind).all(1)].sum() for kind in kinds])
    apart = 1.0 if params["l2"] else oracles.sharp(kinds, query, lifted, params["l1"])
    if apart < 1e-7:
        return False
    assert torch.equal(one.index[a], other.index[b]), (one.index[a], other.index[b], params)
    # Rows that are alike to 1e-4 leave half of a weight's digits.
    assert torch.allclose(one.gain[a], other.gain[b], rtol=0, atol=1e-9 if apart > 1e-2 else 1e-6)
    assert one.info[a]["tied"] == other.info[b]["tied"] and one.info[a]["l1"] == other.info[b]["l1"]
    return True


@pytest.mark.parametrize("many", [0, 2048])
def test_what_a_kept_matrix_remembers_changes_no_answer(many, monkeypatch):
    """More queries than it remembers, one by one, twice over, at two settings."""
    monkeypatch.setattr(solve, "GRAM_ROWS", many)
    rows, queries = oracles.nasty("clustered", 2, n=120, d=12, batch=20)
    matrix, points = Matrix(torch.tensor(rows), cached=True), torch.tensor(queries)
    stages = [engine.make("nnn", l1=0.02, l2=l2) for l2 in (0.0, 0.1)]
    for b in (*range(20), *range(20)):
        for stage in stages:
            one = points[b : b + 1]
            answer = stage.select(Candidates(matrix.vectors, one @ matrix.vectors.T, one, matrix), 120)
            expected = engine.select(stage, rows, queries[b], k=120)
            assert torch.equal(answer.index, expected.index)
            assert torch.allclose(answer.gain, expected.gain, rtol=0, atol=1e-9)


@each_family
def test_scaling_by_a_power_of_two_changes_no_digit(family):
    """Vectors and queries times s, λ₁ and λ₂ times s²: the same weights, to the last bit, from 1e-9 to 1e9."""
    for seed in range(2):
        rows, queries = oracles.nasty(family, seed, dtype=np.float64)
        for l1, l2 in ((0.05, 0.1), (0.02, 1e-3), (0.05, 0.0)):
            plain = engine.select("nnn", rows, queries, k=len(rows), l1=l1, l2=l2)
            for s in (2.0**-30, 2.0**30):
                scaled = engine.select("nnn", s * rows, s * queries, k=len(rows), l1=s * s * l1, l2=s * s * l2)
                assert torch.equal(plain.index, scaled.index) and torch.equal(plain.gain, scaled.gain)


def test_thread_count_and_block_size_change_nothing(monkeypatch):
    rows, queries = oracles.nasty("cone", 2, n=400, d=48, batch=30)
    grid = [{"l1": l1, "l2": l2, "fill": True} for l2 in (0.0, 0.1) for l1 in (0.01, 0.2)]
    with threads(2):
        two = engine.select_grid("nnn", rows, queries, k=60, grid=grid)
    one = engine.select_grid("nnn", rows, queries, k=60, grid=grid)
    monkeypatch.setattr("engine.decoder.MAX_BLOCK_SCORES", 2000)
    for module in ("matrix", "solvers.elastic_net.solve", "solvers.elastic_net.decode"):
        monkeypatch.setattr(f"engine.{module}.CHUNK_NUMBERS", 500)
    blocks = engine.select_grid("nnn", rows, queries, k=60, grid=grid)
    for plain, *others in zip(one, two, blocks, strict=True):
        for other in others:
            assert torch.equal(plain.index, other.index)
            # What is filled in is scored in the vectors' precision.
            assert torch.allclose(plain.gain, other.gain, rtol=0, atol=1e-6)
            full, again = oracles.weights_of(plain, len(rows)), oracles.weights_of(other, len(rows))
            assert np.abs(full - again).max() <= 1e-9
            assert all(info["residual"] <= 1e-9 for info in (*plain.info, *other.info))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@each_family
def test_cuda_equals_cpu(family):
    grid = [{"l1": l1, "l2": l2} for l2 in (0.0, 0.01, 0.1) for l1 in (0.02, 0.2)]
    for seed in range(6):
        rows, queries = oracles.nasty(family, seed, n=200, d=24, batch=8, dtype=KINDS[seed % 2])
        here = engine.select_grid("nnn", rows, queries, k=200, grid=grid)
        there = engine.select_grid("nnn", torch.tensor(rows).cuda(), torch.tensor(queries).cuda(), k=200, grid=grid)
        for params, one, other in zip(grid, here, there, strict=True):
            assert other.index.is_cuda and all(info["certified"] for info in other.info)
            other = dataclasses.replace(other, index=other.index.cpu(), gain=other.gain.cpu())
            for b, query in enumerate(queries):
                same(one, b, other, b, rows, query, params)
