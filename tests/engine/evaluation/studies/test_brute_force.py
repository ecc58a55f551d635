"""The exact optimum by enumeration: against plain loops, and the heuristics against it."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch

import engine
from engine.evaluation.studies.brute_force import optimum_gap
from support.instances import FAMILIES, problem
from support.quadratic_oracles import Problem, small_instance


def score_set(objective, rows, query, chosen, weight):
    chosen_rows = [rows[i] for i in chosen]
    if objective == "vrsd":
        total = np.sum(chosen_rows, axis=0)
        size = np.linalg.norm(total) * np.linalg.norm(query)
        return total @ query / size if size > 1e-12 else 0.0
    if objective == "dpp":
        gram = np.array([[a @ b for b in chosen_rows] for a in chosen_rows])
        det = np.linalg.det(gram)
        volume = math.log(det) if det > 1e-30 else -math.inf
        return weight * sum(a @ query for a in chosen_rows) + ((1 - weight) * volume if weight < 1 else 0)
    return Problem(np.array(chosen_rows), query, weight, len(chosen_rows)).value(range(len(chosen_rows)))


@pytest.mark.parametrize("objective", ["vrsd", "frank_wolfe", "max_sum", "dpp"])
def test_optimum_and_worst_bound_every_set(objective):
    for seed in range(6):
        rows, queries = problem("random", seed, n=8, d=5, dtype=np.float64)
        for k in (1, 2, 4):
            weight = (0.0, 0.4, 1.0)[seed % 3]
            params = {} if objective == "vrsd" else {"relevance_weight": weight}
            optimum = engine.optimum(objective, rows, queries[0], k, **params)
            values = {c: score_set(objective, rows, queries[0], c, weight) for c in combinations(range(8), k)}
            assert optimum.sets == len(values) == math.comb(8, k)
            assert optimum.value == pytest.approx(max(values.values()), abs=1e-9)
            assert optimum.worst == pytest.approx(min(values.values()), abs=1e-9)
            assert values[optimum.index] == pytest.approx(optimum.value, abs=1e-9)


def test_definition_2_fixes_the_most_relevant_document():
    """The optimum over all sets is never smaller than over those with that document, and often larger."""
    wider = 0
    for seed in range(4, 10):
        rows, queries = problem("random", seed, n=9, d=4, dtype=np.float64)
        for k in (1, 3, 5):
            optimum = engine.optimum("vrsd", rows, queries[0], k, fix_first=True)
            first = int(np.argmax(rows @ queries[0]))
            values = {c: score_set("vrsd", rows, queries[0], c, 0) for c in combinations(range(9), k) if first in c}
            assert optimum.sets == len(values) == math.comb(8, k - 1) and first in optimum.index
            assert optimum.value == pytest.approx(max(values.values()), abs=1e-12)
            assert optimum.worst == pytest.approx(min(values.values()), abs=1e-12)
            assert values[optimum.index] == pytest.approx(optimum.value, abs=1e-12)
            free = engine.optimum("vrsd", rows, queries[0], k)
            assert free == engine.optimum("vrsd", rows, queries[0], k, fix_first=False)
            assert free.value >= optimum.value - 1e-12
            wider += free.value > optimum.value + 1e-9
    assert wider > 0


@pytest.mark.parametrize(
    "name, params", [("vrsd", {}), ("frank_wolfe", {"polish": False}), ("max_sum", {}), ("dpp", {})]
)
def test_gap_is_relative_to_the_range_of_values(name, params):
    for seed in range(4):
        rows, queries = problem("clustered", seed, n=9, d=12)
        weight = {} if name == "vrsd" else {"relevance_weight": 0.6}
        optimum = optimum_gap(name, rows, queries[0], 3, **weight, **params)
        assert optimum.best == engine.optimum(name, rows, queries[0], 3, **weight)
        picks = engine.select(name, rows, queries[0], k=3, **weight, **params).index[0].tolist()
        assert optimum.index == tuple(sorted(picks))
        exact = rows.astype(np.float64), queries[0].astype(np.float64)
        values = {c: score_set(name, *exact, c, 0.6) for c in combinations(range(9), 3)}
        assert optimum.value == pytest.approx(values[optimum.index], abs=1e-9)
        best, worst = max(values.values()), min(values.values())
        assert optimum.share == pytest.approx((best - optimum.value) / (best - worst), abs=1e-6)
        assert (optimum.share == 0) == (optimum.index == optimum.best.index)
    with pytest.raises(engine.ParamError, match="max_sum has no parameter fix_first"):
        optimum_gap("max_sum", rows, queries[0], 3, fix_first=True)
    singular = optimum_gap("dpp", np.tile([0.6, 0.8], (4, 1)), [1.0, 0.0], 2)
    assert singular.share == 0 and singular.best.value == -math.inf


def test_optimum_is_independent_of_block_size(monkeypatch):
    rows, queries = problem("clustered", 3, n=12, d=5)
    one_block = engine.optimum("frank_wolfe", rows, queries[0], 5)
    monkeypatch.setattr("engine.evaluation.studies.brute_force.CHUNK_NUMBERS", 1000)
    assert engine.optimum("frank_wolfe", rows, queries[0], 5) == one_block


def test_ties_go_to_the_first_set_and_k_stops_at_n():
    rows = np.tile([0.6, 0.8], (6, 1))
    assert engine.optimum("max_sum", rows, [1.0, 0.0], 3).index == (0, 1, 2)
    assert engine.optimum("max_sum", rows, [1.0, 0.0], 9).index == tuple(range(6))
    assert engine.optimum("dpp", rows, [1.0, 0.0], 3).value == -math.inf
    assert engine.optimum("vrsd", [[1.0, 0], [-1, 0]], [1.0, 0.0], 2).value == 0


@pytest.mark.parametrize("name", ["frank_wolfe", "max_sum"])
def test_optimum_value_equals_selector_objective(name):
    for family in FAMILIES:
        for seed in range(2):
            rows, queries = problem(family, seed, n=11, d=6)
            for k in (1, 3, 11):
                best = engine.optimum(name, rows, queries[0], k, relevance_weight=0.6)
                got = engine.select(name, rows, queries[0], k=k, relevance_weight=0.6).info[0]["objective"]
                scale = max(1.0, abs(best.worst))
                assert best.worst - 1e-9 * scale <= got <= best.value + 1e-9 * scale


@pytest.mark.parametrize(
    "weight,share,gap,n_instances",
    [(0.5, 0.6, 0.01, 20), (0.7, 0.95, 0.002, 20), pytest.param(0.9, 0.95, 0.002, 60, marks=pytest.mark.deep)],
)
def test_frank_wolfe_is_mostly_optimal(weight, share, gap, n_instances):
    """A part of the instances of assets/results/optimality.md: n = 22, k = 5."""
    gaps, paper = [], []
    for seed in range(n_instances):
        rows, query = small_instance(seed)
        best = engine.optimum("frank_wolfe", rows, query, 5, relevance_weight=weight)
        for gaps_of_variant, params in ((gaps, {}), (paper, {"polish": False})):
            got = engine.select("frank_wolfe", rows, query, k=5, relevance_weight=weight, **params)
            gaps_of_variant.append((best.value - got.info[0]["objective"]) / (best.value - best.worst))
    gaps, paper = np.array(gaps), np.array(paper)
    assert (gaps > -1e-9).all() and (gaps <= paper + 1e-9).all()
    assert (gaps < 1e-9).mean() >= max(share, (paper < 1e-9).mean())
    assert gaps.mean() <= gap


BAD = [
    (dict(objective="mmr"), "objective must be one of 'vrsd'.*got 'mmr'"),
    (dict(k=0), r"k must be a whole number in \[1.*got 0"),
    (dict(k=40), r"at most 5,000,000 sets.*k = 40 of 100 rows.*fewer rows"),
    (dict(relevance_weight=2), r"relevance_weight \(θ\) must be a number in \[0, 1\]; got 2"),
    (dict(loading=1), "frank_wolfe has no parameter loading; it has relevance_weight"),
    (dict(fix_first=True), "frank_wolfe has no parameter fix_first; it has relevance_weight"),
    (dict(objective="vrsd", relevance_weight=0.5), "vrsd has no parameter relevance_weight; it has fix_first"),
    (dict(query=np.ones(3)), "query must be one vector of the vectors' 2 numbers"),
    (dict(query=np.ones((2, 2))), "query must be one vector"),
    (dict(query=np.array([np.nan, 1])), "query must be finite"),
    (dict(vectors=np.array([[np.inf, 1.0]])), "vectors must be finite"),
]


@pytest.mark.parametrize("change,message", BAD, ids=[m for _, m in BAD])
def test_bad_input_names_the_argument_its_range_and_the_value(change, message):
    options = {"objective": "frank_wolfe", "vectors": np.ones((100, 2)), "query": np.ones(2), "k": 2, **change}
    with pytest.raises(engine.FrontierError, match=message):
        engine.optimum(options.pop("objective"), options.pop("vectors"), options.pop("query"), **options)


def test_tensors_and_lists_are_vectors_too():
    assert engine.optimum("vrsd", torch.eye(3), torch.tensor([1, 2, 0]), 2).index == (0, 1)
    assert engine.optimum("vrsd", [[1, 0], [0, 1]], [0, 1], 1).index == (1,)
