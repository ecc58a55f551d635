"""The certified pool: every route to a pick gives the pick of the plain procedure, and says how it came by it."""

import numpy as np
import pytest
import torch
from instances import problem
from oracles import check_picks

import engine
from engine.solvers import pools

NAMES = ("mmr", "dpp", "ssd")
WEIGHTS = [{"relevance_weight": w} for w in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)]
each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(params=["tiny pools", "no Gram", "many passes"])
def route(request, monkeypatch):
    """Sizes that send small problems down the routes that large ones take."""
    if request.param == "tiny pools":
        monkeypatch.setattr(pools, "POOL", (3, 5))
        monkeypatch.setattr(pools, "REACH", 2)
    if request.param != "many passes":
        monkeypatch.setattr(pools, "GRAM_ROWS", 0)
    else:
        monkeypatch.setattr(pools, "PASS_NUMBERS", 64)
        monkeypatch.setattr(pools, "POOL", (8, 8))
    return request.param


@each
@pytest.mark.parametrize("family", ["random", "clustered", "duplicated", "degenerate"])
def test_every_route_gives_the_oracles_picks(name, family, route):
    decided = 0
    for seed in range(2):
        rows, queries = problem(family, seed, n=70, d=12, batch=2)
        for params in ({}, {"relevance_weight": 0.4}, {"relevance_weight": 0.3, "window": 4}):
            answer = engine.select(name, rows, queries, k=20, **params)
            for b, query in enumerate(queries):
                given = {"relevance_weight": 0.8, **params}
                decided += check_picks(name, rows, query, answer.index[b].tolist(), **given)
                assert answer.info[b]["certified"]
    assert decided > 60


@each
@pytest.mark.parametrize("family", ["random", "clustered", "duplicated", "degenerate"])
def test_a_grid_is_its_settings_one_at_a_time(name, family, route):
    rows, queries = problem(family, 3, n=120, d=10, batch=4)
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
        whole = engine.select(name, rows, queries, k=30, relevance_weight=0.5)
        wide = engine.select(name, rows, queries, k=30, relevance_weight=0.5, window=29)
        narrow = engine.select(name, rows, queries, k=30, relevance_weight=0.5, window=1)
        assert torch.equal(whole.index, wide.index)
        assert not torch.equal(whole.index, narrow.index)


def test_dpp_says_where_it_ran_past_its_rank():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 6)) @ rng.standard_normal((6, 40))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
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


def test_past_the_dimension_relevance_orders_the_rest():
    rows, queries = problem("random", 2, n=700, d=5)
    for name in ("dpp", "ssd"):
        answer = engine.select(name, rows, queries, k=30, relevance_weight=0.5)
        for b, query in enumerate(queries):
            check_picks(name, rows, query, answer.index[b].tolist(), relevance_weight=0.5)


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
