"""The certified pool: every route to a pick gives the pick of the plain procedure, and says how it came by it."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import engine
from engine.candidates import Candidates
from engine.matrix import Matrix
from engine.solvers.gram import Gram
from engine.solvers.greedy import certified, steps
from support.draws import deepen, every_other
from support.instances import FAMILIES, few_or_all, problem, unit
from support.selector_oracles import check_picks

NAMES = ("mmr", "dpp", "ssd")
WEIGHTS = [{"relevance_weight": w} for w in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)]
each = pytest.mark.parametrize("name", NAMES)
each_family = pytest.mark.parametrize("family", FAMILIES)


SMALL = {
    "GRAM_MIN_PROBLEMS": 1000,
    "SMALL_GRAM_PRODUCTS": 0,
    "SINGLE_POOL_SIZE": 0,
    "POOL_SIZE_RANGE": (3, 3),
    "SUM_POOL_SIZE": 3,
}
ROUTES = {
    "all inner products": {"GRAM_MIN_PROBLEMS": 1},
    "pools": SMALL,
    "pools that stay small": {**SMALL, "MAX_POOL_SIZE": 3},
    "few bounds renewed": {**SMALL, "MAX_PARTIAL_REFRESH": 5, "MIN_POOL_PICKS": 1, "POINT_BLOCK_SIZE": 1},
}


@pytest.fixture(params=ROUTES.values(), ids=ROUTES)
def route(request, monkeypatch):
    """Sizes that send small problems down the routes that large ones take."""
    for size, value in request.param.items():
        monkeypatch.setattr(certified, size, value)


@few_or_all(range(1), range(8))
@pytest.mark.parametrize(
    ("name", "family", "route"), every_other(NAMES, FAMILIES, ROUTES.values(), step=4), indirect=["route"], ids=str
)
def test_every_route_gives_the_oracles_picks(name, family, route, seeds):
    decided = 0
    for seed in seeds:
        rows, queries = problem(family, seed, n=50, d=12, batch=2)
        for params in ({}, {"relevance_weight": 0.4}, {"relevance_weight": 0.3, "window": 4}):
            answer = engine.select(name, rows, queries, k=14, **params)
            for b, query in enumerate(queries):
                given = {"relevance_weight": 0.8, **params}
                decided += check_picks(name, rows, query, answer.index[b].tolist(), **given)
                assert answer.info[b]["certified"]
    assert decided > 30 * len(seeds)


@pytest.mark.parametrize(
    ("name", "family", "route"), every_other(NAMES, FAMILIES, ROUTES.values(), step=4), indirect=["route"], ids=str
)
def test_a_grid_is_its_settings_one_at_a_time(name, family, route):
    rows, queries = problem(family, 3, n=80, d=10, batch=2)
    grid = [*WEIGHTS, {"relevance_weight": 0.3, "window": 2}, {}, WEIGHTS[0]]
    together = engine.select_grid(name, rows, queries, k=15, grid=grid)
    assert len(together) == len(grid)
    for params, answer in zip(grid, together, strict=True):
        for b, query in enumerate(queries):
            alone = engine.select(name, rows, query, k=15, **params)
            assert alone.index[0].tolist() == answer.index[b].tolist()
            assert torch.allclose(alone.gain[0], answer.gain[b], rtol=0, atol=1e-9)


@each
def test_pools_are_small_where_relevance_counts_and_few_passes_are_made(name):
    rows, queries = problem("clustered", 1, n=6000, d=96, batch=2)
    answer = engine.select(name, rows, queries, k=40, relevance_weight=0.9)
    for info in answer.info:
        assert info["pool"] < 1500 and info["passes"] <= 3 and info["candidates"] == 6000


def test_a_window_of_everything_is_no_window():
    rows, queries = problem("clustered", 5, n=500, d=24)
    for name in NAMES:
        grid = [{"relevance_weight": 0.5, "window": window} for window in (None, 29, 1)]
        whole, wide, narrow = engine.select_grid(name, rows, queries, k=30, grid=grid)
        assert torch.equal(whole.index, wide.index) and not torch.equal(whole.index, narrow.index)


def test_dpp_says_where_it_ran_past_its_rank():
    rng = np.random.default_rng(0)
    rows = unit(rng.standard_normal((300, 6)) @ rng.standard_normal((6, 40))).astype(np.float32)
    query = rows[3]
    for weight in (0.2, 0.9):
        answer = engine.select("dpp", rows, query, k=12, relevance_weight=weight)
        assert answer.info[0]["past_rank"] == 6
        rest = answer.index[0, 6:].tolist()
        left = [i for i in np.argsort(-(rows @ query), kind="stable") if i not in answer.index[0, :6].tolist()]
        assert rest == left[:6], "past the rank relevance decides"
        assert answer.gain[0, 6:].tolist() == pytest.approx((rows @ query)[rest].tolist(), abs=1e-5)
    assert engine.select("dpp", rows, query, k=5).info[0]["past_rank"] is None
    assert engine.select("dpp", rows, query, k=12, relevance_weight=1).info[0]["past_rank"] is None


def test_dpp_maximises_the_determinant_greedily():
    """The gains are the growth of λ·Σr + (1−λ)·log det, computed here from the whole matrix."""
    rows, queries = problem("random", 4, n=60, d=16, dtype=np.float64)
    answer = engine.select("dpp", rows, queries, k=9, relevance_weight=0.6)
    for b, query in enumerate(queries):
        before = 0.0
        for step in range(1, 10):
            chosen = rows[answer.index[b, :step].numpy()]
            now = 0.6 * (chosen @ query).sum() + 0.4 * np.linalg.slogdet(chosen @ chosen.T)[1]
            assert answer.gain[b, step - 1].item() == pytest.approx(now - before, abs=1e-9)
            before = now


def test_a_grid_must_be_a_list_of_settings():
    rows, queries = problem("random", 1, n=10, d=4)
    for grid in ({"relevance_weight": 0.5}, "0.5", [0.5]):
        with pytest.raises(engine.ParamError, match="grid must be a list"):
            engine.select_grid("mmr", rows, queries, grid=grid)
    with pytest.raises(engine.ParamError, match=r"relevance_weight.*1\.5"):
        engine.select_grid("mmr", rows, queries, grid=[{"relevance_weight": 1.5}])
    assert engine.select_grid("mmr", rows, queries, grid=[]) == []


def gap(rows, query, picks, weight):
    """By how much, in shares of the largest relevance, any pick falls short of the best at its moment."""
    relevance = (rows * query).sum(1)
    near, worst = np.full(len(rows), -np.inf), relevance.max() - relevance[picks[0]]
    for before, pick in pairwise(picks):
        near = np.maximum(near, (rows * rows[before]).sum(1))
        score = weight * relevance - (1 - weight) * near
        score[picks[: picks.index(pick)]] = -np.inf
        worst = max(worst, score.max() - score[pick])
    return worst / np.abs(relevance).max()


def test_problems_of_a_query_may_be_at_different_stages(monkeypatch):
    for name, value in {**SMALL, "MAX_POOL_SIZE": 8}.items():
        monkeypatch.setattr(certified, name, value)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = unit(rng.standard_normal((1500, 3)) + 3)
        query = rng.standard_normal(3) + 0.5
        grid = [{"relevance_weight": w} for w in (0.999, 0.1)]
        for params, answer in zip(grid, engine.select_grid("mmr", rows, query, k=30, grid=grid), strict=True):
            assert gap(rows, query, answer.index[0].tolist(), params["relevance_weight"]) < 1e-9


@pytest.mark.parametrize("length", deepen([1e-6, 1e-3, 1.0, 1e3], [1e-3, 1.0]))
def test_short_queries_and_weights_near_one(length, monkeypatch):
    """1 − λ and what is left of a difference keep their digits."""
    monkeypatch.setattr(certified, "POOL_SIZE_RANGE", (32, 32))
    rng = np.random.default_rng(1)
    for d in (1, 2, 12):
        rows = unit(rng.standard_normal((3000, d)) + 0.3).astype(np.float32)
        query = (length * unit(rng.standard_normal(d) + 0.3)).astype(np.float32)
        weights = (0.1, 0.8, 0.95, 0.999, 0.99999947)
        answers = engine.select_grid("mmr", rows, query, k=30, grid=[{"relevance_weight": w} for w in weights])
        for weight, answer in zip(weights, answers, strict=True):
            alone = engine.select("mmr", rows, query, k=30, relevance_weight=weight).index[0].tolist()
            assert alone == answer.index[0].tolist()
            assert gap(rows.astype(float), query.astype(float), alone, weight) < 1e-5


def test_a_batch_by_all_products_settles_near_ties_too():
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((2400, 8)) * 1e4).astype(np.float32)
    rows[1200:] = rows[:1200] * (1 + 3e-7 * rng.standard_normal((1200, 8)))
    queries = rng.standard_normal((100, 8)).astype(np.float32)
    answer = engine.select("mmr", rows, queries, k=60, relevance_weight=0.5)
    for b in range(0, 100, 25):
        assert gap(rows.astype(float), queries[b].astype(float), answer.index[b].tolist(), 0.5) == 0


def test_dpp_keeps_the_order_of_relevance_past_its_rank_for_short_queries():
    rng = np.random.default_rng(0)
    rows = unit(rng.standard_normal((100, 5))).astype(np.float32)
    for length in (1e-7, 1.0, 1e6):
        query = (length * rng.standard_normal(5)).astype(np.float32)
        answer = engine.select("dpp", rows, query, k=40, relevance_weight=0.5)
        relevance = (rows.astype(float) * query.astype(float)).sum(1)
        rest = answer.index[0, answer.info[0]["past_rank"] :].tolist()
        assert len(rest) > 20 and (np.diff(relevance[rest]) <= 0).all()
        told = answer.gain[0, answer.info[0]["past_rank"] :].numpy()
        assert told == pytest.approx(relevance[rest], rel=1e-6, abs=1e-9 * np.abs(relevance).max())


@pytest.mark.parametrize("n,k", [(60, 9), (200, 100), (700, 9), (700, 300), (3000, 9)])
def test_the_first_gain_is_told_on_every_route(n, k):
    rows, queries = problem("clustered", 2, n=n, d=8)
    for params in ({"k": k}, {"k": k, "pool": n - 5}):
        answer = engine.select("mmr", rows, queries[0], relevance_weight=0.7, **params)
        best = (rows.astype(float) * queries[0].astype(float)).sum(1).max()
        assert answer.gain[0, 0].item() == pytest.approx(0.7 * best, abs=1e-9)


KINDS = {"mmr": (steps.NEAREST, 0.0), "dpp": (steps.LOG_RESIDUAL, 1e-6), "ssd": (steps.ROOT_RESIDUAL, 1e-12)}
KINDS["max_sum"] = (steps.SUM, 0.0)


@pytest.mark.parametrize("name", KINDS)
def test_no_gain_is_above_its_bound(name):
    """Products and relevance as far off as they may be; the bound is no guess either: some gain comes near it."""
    kind, floor = KINDS[name]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        gram = Gram(torch.tensor(problem("random", seed, n=80, d=12)[0]).double() * 0.9)
        relevance, error, n = rng.standard_normal(80), 1e-3, 80
        picks, chosen = np.arange(6), np.zeros((6, n))
        exact, bound = np.empty(n), np.empty(n)
        steps.init_state(kind, gram.squares, exact)
        bound[:] = exact
        coefficients = np.empty((6, 6))
        given = (kind, gram.columns, gram.fill_all_rows(), picks, gram.squares)
        for t in range(6):
            steps.fold_pick(*given, picks, t, exact, exact, floor, chosen, coefficients)
        points = gram.columns[:, :6]
        if kind not in (steps.NEAREST, steps.SUM):
            points = np.empty((12, 6))
            steps.orthonormalise_picks(gram.columns, picks, 6, floor, points)
        inner = points.T @ gram.columns + error * rng.choice([-1.0, 1.0], size=(6, n))
        steps.fold_state_bound(kind, inner, error, bound)
        a, b, scratch, nothing = np.empty(n), np.empty(n), np.empty((2, n)), np.empty(n)
        steps.init_gains(kind, gram.squares, relevance, 7, a, nothing)
        steps.update_gains(kind, exact, gram.squares, floor, a, b, scratch)
        for weight in (0.0, 0.3, 1.0):
            off = relevance + error * rng.choice([-1.0, 1.0], size=n)
            upper = steps.compute_upper_bounds(kind, off, error, bound, gram.squares, 7, weight, floor)
            above = upper - (weight * a + (1 - weight) * b)
            assert (above >= 0).all() and above.min() < 0.1, above.min()


@pytest.mark.parametrize("noise", [1e-2, 1e-5])
def test_short_residuals_are_at_right_angles_to_the_chosen(noise):
    """Inner products lose its digits; one pass of Gram–Schmidt leaves rounding along the basis."""
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.standard_normal((20, 6)))[0].T
    rows = np.concatenate([basis, rng.standard_normal((4, 6)) @ basis + noise * rng.standard_normal((4, 20))])
    gram, chosen, floor = Gram(torch.tensor(rows)), np.arange(10), 1e-14
    points, along, state = np.empty((20, 10)), np.zeros((10, 10)), gram.squares.copy()
    coefficients = np.empty((10, 10))
    steps.orthonormalise_picks(gram.columns, chosen, 10, floor, points)
    assert np.abs(points.T @ points - np.eye(10)).max() < 1e-14
    given = (steps.LOG_RESIDUAL, gram.columns, gram.fill_all_rows(), chosen, gram.squares)
    for t in range(10):
        steps.fold_pick(*given, chosen, t, state, state, floor, along, coefficients)
    assert np.abs(along - points.T @ rows.T).max() < 1e-9


def test_dpp_puts_what_adds_nothing_last_though_every_relevance_is_negative():
    rows = torch.tensor([[1.0, 0], [1, 0], [0, 1]])
    relevance = torch.tensor([[-1.0, -1, -1000]])
    c = Candidates(rows, relevance, torch.ones(1, 2), Matrix(rows), inner_product=False)
    answer = engine.make("dpp", relevance_weight=0.5).select(c, 3)
    assert answer.index.tolist() == [[0, 2, 1]] and answer.info[0]["past_rank"] == 2


def test_a_pick_that_is_noise_with_more_picks_before_it_bounds_nothing(monkeypatch):
    """The third row is new beside the second alone, and noise beside the first two; 300 more lie just under a bound
    that would take it for new."""
    for size in ("SMALL_GRAM_PRODUCTS", "SINGLE_POOL_SIZE"):
        monkeypatch.setattr(certified, size, 0)
    axes, rng, weight = np.eye(16), np.random.default_rng(0), 0.99
    query = axes[0] + 0.9 * axes[1] + 0.1 * axes[2] + 0.1 * axes[3]
    rows = [axes[0], axes[1], axes[1] + 9e-6 * (axes[0] + 0.1 * axes[2]), axes[2]]
    along, across = math.sqrt(1 - 0.998**2), 0.998
    for score in (0.108995, *np.linspace(0.108975, 0.10896, 299)):
        cosine = ((score - 0.01 * across) / weight - 0.9 * along) / (across * 0.1)
        rest = unit(rng.standard_normal(12))
        rows.append(along * axes[1] + across * (cosine * axes[3] + np.r_[np.zeros(4), math.sqrt(1 - cosine**2) * rest]))
    vectors, point = torch.tensor(np.array(rows)).float(), torch.tensor(query[None]).float()
    answers = [
        certified.select_greedily(
            Candidates(vectors, point @ vectors.T, point, matrix), 4,
            steps.ROOT_RESIDUAL, [weight], window, 1e-12,
        )[0].index.tolist()
        for window in (3, None)
        for matrix in (Matrix(vectors), Matrix(vectors, cached=True))
    ]  # fmt: skip
    assert answers[0] == answers[1] == [[0, 2, 1, 3]] and answers[2] == answers[3]
