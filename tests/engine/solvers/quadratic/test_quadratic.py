"""frank_wolfe and max_sum against independent float64 procedures, swaps and the CCBQP paper's theorems."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch

import engine
from engine.candidates import Candidates
from engine.decoder import decode_grid
from engine.matrix import Matrix
from engine.solvers.greedy.certified import select_greedily
from engine.solvers.greedy.steps import SUM
from support.draws import deepen, every_other
from support.instances import FAMILIES, crowd, problem, unit
from support.quadratic_oracles import Problem
from support.selector_oracles import (
    assert_lowest_copies_first,
    make_foreign_candidates,
    select_together_and_alone,
    space_of,
)
from support.stage_laws import picks

WEIGHTS = (0.0, 0.3, 0.5, 0.7, 0.9, 1.0)
NAMES = ("frank_wolfe", "max_sum")
each_family = pytest.mark.parametrize("family", FAMILIES)
each_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def by_passes(monkeypatch):
    """Small corpora are answered as large ones are: by passes, with a shortlist and a certificate."""
    monkeypatch.setattr("engine.solvers.quadratic.solve.GRAM_ROWS", 0)


def described(answer, b, oracle):
    """The answer's order, gains and objective are the oracle's."""
    got, info = picks(answer, b), answer.info[b]
    assert len(set(got)) == len(got) == oracle.k
    assert info["objective"] == pytest.approx(oracle.value(got), abs=1e-9 * (1 + oracle.scale))
    gains = [oracle.r[i] if oracle.k == 1 else oracle.marginal(i, got) for i in got]
    assert answer.gain[b, : len(got)].tolist() == pytest.approx(gains, abs=1e-9 * (1 + oracle.scale))
    assert all(a >= b - 1e-9 * oracle.scale for a, b in pairwise(gains))
    assert info["candidates"] == oracle.n


@each_family
def test_frank_wolfe_without_polish_is_algorithm_1(family):
    decided = 0
    for seed in range(12, 30):
        rows, queries = problem(family, seed, n=2 + seed % 29)
        k, weight, loading = 1 + seed % 9, WEIGHTS[seed % 6], (1.0, 0.5, 0.0, 1.0)[seed % 4]
        params = dict(relevance_weight=weight, loading=loading, polish=False)
        answer = select_together_and_alone("frank_wolfe", rows, queries, k, **params)[0]
        for b, query in enumerate(queries):
            oracle = Problem(rows, query, weight, min(k, len(rows)))
            described(answer, b, oracle)
            expected, whole, close = oracle.algorithm_1(loading)
            if oracle.k > 1 and close > 1e-10 * oracle.scale:
                assert answer.info[b]["integral"] == whole
                assert answer.info[b]["capped"] == (answer.info[b]["iterations"] == 200)
            if oracle.k > 1 and whole and close > 1e-10 * oracle.scale:
                decided += 1
                assert sorted(picks(answer, b)) == expected
                assert answer.info[b]["gap"] <= 1e-9
    assert decided > 15, "ties and stalls excused nearly every instance"


@each_family
def test_max_sum_without_polish_is_greedy(family):
    decided = 0
    for seed in range(18):
        rows, queries = problem(family, seed, n=2 + seed % 29)
        k, weight = 1 + seed % 9, WEIGHTS[seed % 6]
        answer = select_together_and_alone("max_sum", rows, queries, k, relevance_weight=weight, polish=False)[0]
        for b, query in enumerate(queries):
            oracle = Problem(rows, query, weight, min(k, len(rows)))
            described(answer, b, oracle)
            expected, close = oracle.greedy()
            if close > 1e-10 * oracle.scale:
                decided += 1
                assert sorted(picks(answer, b)) == expected
    assert decided > 30, "ties excused nearly every instance"


@each_name
@each_family
def test_polish_leaves_no_swap_and_no_loss(name, family):
    for seed in range(10):
        rows, queries = problem(family, seed, n=2 + seed % 23)
        k, weight = 1 + seed % 8, WEIGHTS[seed % 6]
        plain = engine.select(name, rows, queries, k=k, relevance_weight=weight, polish=False)
        answer = select_together_and_alone(name, rows, queries, k, relevance_weight=weight)[0]
        for b, query in enumerate(queries):
            oracle = Problem(rows, query, weight, min(k, len(rows)))
            described(answer, b, oracle)
            assert answer.info[b]["objective"] >= plain.info[b]["objective"] - 1e-15
            if oracle.k > 1:
                assert answer.info[b]["swap_optimal"]
                assert oracle.best_swap(picks(answer, b)) <= 2e-9 * oracle.scale


@pytest.mark.parametrize(("name", "dtype"), every_other(NAMES, [np.float32, np.float64]))
def test_a_narrow_shortlist_still_ends_swap_optimal(name, dtype, monkeypatch, by_passes):
    """With one candidate beside the set, rivals are found by the certificate's pass alone."""
    monkeypatch.setattr("engine.solvers.quadratic.solve.MIN_SHORTLIST_SIZE", 1)
    monkeypatch.setattr("engine.solvers.quadratic.solve.MAX_JOINING", 3)
    rounds = 0
    for family in FAMILIES:
        for seed in range(6):
            rows, queries = problem(family, seed, n=50, d=6, dtype=dtype)
            k, weight = (3, 6, 12)[seed % 3], WEIGHTS[seed % 6]
            answer = engine.select(name, rows, queries, k=k, relevance_weight=weight)
            engine.select(name, rows, queries, k=k, relevance_weight=weight, pool=40)
            for b, query in enumerate(queries):
                rounds += answer.info[b]["swaps"]
                assert answer.info[b]["swap_optimal"]
                assert Problem(rows, query, weight, k).best_swap(picks(answer, b)) <= 1e-7
    assert rounds > 50


@each_name
def test_what_the_rounds_do_not_suffice_for_is_not_called_optimal(name, monkeypatch, by_passes):
    for what, value in (("MIN_SHORTLIST_SIZE", 1), ("MAX_JOINING", 1), ("MAX_ROUNDS", 1)):
        monkeypatch.setattr(f"engine.solvers.quadratic.solve.{what}", value)
    proven, improvable = [], 0
    for family in FAMILIES:
        for seed in range(4):
            rows, queries = problem(family, seed, n=70, d=6)
            k, weight = (3, 6, 12)[seed % 3], WEIGHTS[seed % 6]
            answer = engine.select(name, rows, queries, k=k, relevance_weight=weight)
            for b, query in enumerate(queries):
                proven.append(answer.info[b]["swap_optimal"])
                better = Problem(rows, query, weight, k).best_swap(picks(answer, b)) > 1e-7
                improvable += better
                assert not (proven[-1] and better)
    assert any(proven) and improvable > 2, "one round suffices everywhere"


def test_pools_of_max_sum_change_nothing(monkeypatch):
    """Also on a pool a query, and where relevance is a scorer's own."""
    rng = np.random.default_rng(0)
    for seed, weight in enumerate(WEIGHTS):
        for family in list(FAMILIES)[seed % 2 :: 2]:
            rows, queries = problem(family, seed, n=400, d=12)
            k, other = int(rng.integers(2, 25)), make_foreign_candidates(rows, queries)
            stage = engine.make("max_sum", relevance_weight=weight, polish=False)

            def answers(stage=stage, rows=rows, queries=queries, k=k, other=other):
                asked = ((queries, None), (queries, 300), (queries[0], None))
                return [*(engine.select(stage, rows, q, k=k, pool=m) for q, m in asked), stage.select(other, k)]

            plain = answers()
            sizes = {"GRAM_MIN_PROBLEMS": 1000, "SMALL_GRAM_PRODUCTS": 0, "SINGLE_POOL_SIZE": 0, "SUM_POOL_SIZE": 20}
            with monkeypatch.context() as patch:
                for size, value in sizes.items():
                    patch.setattr(f"engine.solvers.greedy.certified.{size}", value)
                for dense, pooled in zip(plain, answers(), strict=True):
                    assert torch.equal(dense.index, pooled.index) and torch.equal(dense.gain, pooled.gain)


def test_pools_spare_passes(monkeypatch):
    rows, query = problem("clustered", 3, n=6000, d=32, batch=1)
    monkeypatch.setattr("engine.solvers.greedy.certified.SUM_POOL_SIZE", 200)
    c = Candidates(*[torch.tensor(x) for x in (rows, query @ rows.T, query)], Matrix(torch.tensor(rows)))
    info = select_greedily(c, 50, SUM, [0.8])[0].info[0]
    assert 0 < info["passes"] < 20 and info["pool"] < 700


@each_name
def test_relevance_may_be_a_scorer_s_own(name):
    for seed in range(6):
        rows, queries = problem(list(FAMILIES)[seed % 4], seed, n=24, d=5)
        shared = make_foreign_candidates(rows, queries, seed)
        own = shared.relevance.numpy()
        stage = engine.make(name, relevance_weight=WEIGHTS[seed % 6], polish=False)
        polished = engine.make(name, relevance_weight=WEIGHTS[seed % 6])
        pools = torch.stack([torch.randperm(24)[:15].sort().values for _ in queries])
        own_pools = replace(shared, vectors=shared.vectors[pools], relevance=shared.relevance.gather(1, pools))
        for b in range(len(queries)):
            for c, kept in ((shared, np.arange(24)), (own_pools, pools[b].numpy())):
                oracle = Problem(rows[kept], None, WEIGHTS[seed % 6], 5, relevance=own[b][kept])
                answer = stage.select(c, 5)
                described(answer, b, oracle)
                if name == "max_sum":
                    expected, close = oracle.greedy()
                else:
                    expected, whole, close = oracle.algorithm_1()
                    close = close if whole else 0
                if close > 1e-9 * oracle.scale:
                    assert sorted(picks(answer, b)) == expected
                better = polished.select(c, 5)
                assert oracle.best_swap(picks(better, b)) <= 1e-9 * oracle.scale
                assert stage.select(c, 1).index[b, 0] == own[b][kept].argmax()


@each_name
def test_zero_equal_and_opposite_rows(name):
    query = np.array([1.0, 0, 0], dtype=np.float32)
    for row in ([0, 0, 0], [0.6, 0.8, 0], [1e-30, 0, 0]):
        answer = engine.select(name, np.tile(np.float32(row), (30, 1)), query, k=6)
        assert sorted(picks(answer)) == list(range(6)), "equal rows: the lowest"
        assert answer.info[0]["swap_optimal"]
    rows = np.array([[0.6, 0.8, 0], [0.6, -0.8, 0], [0.61, np.sqrt(1 - 0.61**2), 0], [-1, 0, 0]])
    assert sorted(picks(engine.select(name, rows, query, k=2, relevance_weight=0.5))) == [0, 1]
    assert 3 in picks(engine.select(name, rows, query, k=2, relevance_weight=0))


@each_name
def test_many_equal_rows_are_one_kind(name):
    """More exact duplicates than join a shortlist: certified by their kinds, lowest rows taken."""
    rows, queries, kinds = crowd(2, 1500, 24, batch=3)
    for weight in (0.3, 0.8):
        answer = select_together_and_alone(name, rows, queries, 12, relevance_weight=weight)[0]
        for b in range(3):
            assert answer.info[b]["swap_optimal"]
            assert_lowest_copies_first(rows, kinds, sorted(picks(answer, b)))


def test_duplicates_do_not_crowd_out_the_rest():
    """Five copies of every document and k = 20: copies tie and enter the paper's set together, polish parts them."""
    rng = np.random.default_rng(4)
    distinct = unit(rng.standard_normal((40, 16)) + 1.5 * rng.standard_normal(16))
    rows = np.repeat(distinct, 5, axis=0).astype(np.float32)
    query = unit(rows[:50].mean(0))
    paper = engine.select("frank_wolfe", rows, query, k=20, relevance_weight=0.5, polish=False)
    ours = engine.select("frank_wolfe", rows, query, k=20, relevance_weight=0.5)
    kinds = [len({i // 5 for i in picks(a)}) for a in (paper, ours)]
    assert kinds[1] >= 2 * kinds[0], kinds
    assert ours.info[0]["objective"] > paper.info[0]["objective"]


def test_sets_too_large_to_polish_say_so(monkeypatch, by_passes):
    monkeypatch.setattr("engine.solvers.quadratic.solve.MAX_POLISHED_SIZE", 4)
    rows, queries = problem("clustered", 1, n=40, d=8)
    for name in NAMES:
        answer = engine.select(name, rows, queries, k=5)
        assert [i["swap_optimal"] for i in answer.info] == [False] * 3
        assert torch.equal(answer.index, engine.select(name, rows, queries, k=5, polish=False).index)


def test_work_is_capped_and_said(monkeypatch):
    monkeypatch.setattr("engine.solvers.quadratic.solve.max_swaps", lambda k: 1)
    monkeypatch.setattr("engine.solvers.quadratic.solve.max_swaps", lambda k: 1)
    for module in ("sets", "frank_wolfe", "solve"):
        monkeypatch.setattr(f"engine.solvers.quadratic.{module}.MAX_ASCENT_STEPS", 1)
    for rows in (2048, 0):
        monkeypatch.setattr("engine.solvers.quadratic.solve.GRAM_ROWS", rows)
        answer = engine.select("max_sum", *problem("random", 1, n=60, d=8, batch=8), k=8, relevance_weight=0.3)
        assert {i["swaps"] for i in answer.info} <= {0, 1} and not all(i["swap_optimal"] for i in answer.info)
        capped = engine.select("frank_wolfe", *problem("degenerate", 0, n=60, d=8), k=8, relevance_weight=0.3)
        assert {i["iterations"] for i in capped.info} == {1} and max(i["gap"] for i in capped.info) > 1e-6
        assert all(i["capped"] for i in capped.info)


@pytest.mark.parametrize("rows", [2048, 0])
def test_an_ascent_that_ends_between_sets_says_that_it_was_rounded(rows, monkeypatch):
    """At θ = 0 and δ = 0 opposite pairs share their weight: x = k/n is stationary, and no set."""
    monkeypatch.setattr("engine.solvers.quadratic.solve.GRAM_ROWS", rows)
    opposite = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)
    for params in ({"polish": False}, {"polish": True}):
        stuck = engine.select("frank_wolfe", opposite, [0.6, 0.8], k=2, relevance_weight=0, loading=0, **params)
        assert stuck.info[0]["integral"] is False and stuck.info[0]["iterations"] == 0
        assert sorted(picks(stuck, 0)) != [] and not stuck.info[0]["capped"]
        whole = engine.select("frank_wolfe", opposite, [0.6, 0.8], k=2, relevance_weight=0.5, **params)
        assert whole.info[0]["integral"] is True
        assert engine.select("frank_wolfe", opposite, [0.6, 0.8], k=4, **params).info[0]["integral"] is True


GRIDS = {
    "frank_wolfe": [
        {"relevance_weight": w, "loading": d, "polish": p} for w in WEIGHTS for d in (0, 1) for p in (0, 1)
    ],
    "max_sum": [{"relevance_weight": w, "polish": p} for w in WEIGHTS for p in (0, 1)],
}


@each_name
@each_family
def test_a_space_a_grid_and_a_query_alone_agree_to_the_last_bit(name, family):
    rows, queries = problem(family, 4, n=90, d=8)
    space, grid = space_of(rows), [{**params, "polish": bool(params["polish"])} for params in GRIDS[name]]
    decoders = [engine.Decoder(engine.make(name, **params)) for params in grid]
    for k in (1, 2, 7, 90):
        asked = engine.Embeddings(tuple("abc"), torch.tensor(queries))
        for decoder, shared in zip(decoders, decode_grid(decoders, space, asked, k), strict=True):
            for b in range(3):
                alone = engine.decode(decoder, space, asked.take([b]), k)
                assert torch.equal(alone.index[0], shared.index[b]) and torch.equal(alone.gain[0], shared.gain[b])
                assert alone.info[0] == shared.info[b]


@each_name
def test_gram_rows_and_passes_find_the_same(name, monkeypatch):
    """Tie-free data, whose shortlist is the whole corpus: sets, and what is told of them."""
    for seed in range(6):
        rows, queries = problem("clustered" if seed % 2 else "random", seed, n=100, d=9)
        asked, k = engine.Embeddings(tuple("abc"), torch.tensor(queries)), (2, 5, 14)[seed % 3]
        order = np.random.default_rng(seed).permutation(100)
        for params in GRIDS[name][seed % 5 :: 5]:
            decoder = engine.Decoder(engine.make(name, **{**params, "polish": bool(params["polish"])}))
            small, turned = (engine.decode(decoder, space_of(x), asked, k) for x in (rows, rows[order]))
            assert (np.sort(order[turned.index.numpy()]) == np.sort(small.index.numpy())).all()
            with monkeypatch.context() as patch:
                patch.setattr("engine.solvers.quadratic.solve.GRAM_ROWS", 0)
                large = engine.decode(decoder, space_of(rows), asked, k)
            assert torch.equal(small.index.sort().values, large.index.sort().values)
            assert torch.allclose(small.gain, large.gain, atol=1e-9)
            for one, other in zip(small.info, large.info, strict=True):
                assert list(one) == list(other)
                # The gap, up to what float32 products leave of it.
                gap = {"gap": pytest.approx(other["gap"], abs=1e-6)} if "gap" in other else {}
                assert one == {**other, "objective": pytest.approx(other["objective"]), **gap}


class Relaxation:
    """Eq. 4 with unit rows: f(x) = θ(k−1) r·x + (1−θ) xᵀ((1+δ)I − S)x over x ∈ [0,1]ⁿ, Σx = k."""

    def __init__(self, seed, n=9, k=4, weight=0.5, loading=1.0, d=3):
        rng = np.random.default_rng([seed, n, k])
        self.rows, self.query = unit(rng.standard_normal((n, d))), unit(rng.standard_normal(d))
        self.n, self.k, self.weight, self.loading, self.rng = n, k, weight, loading, rng
        self.linear = weight * (k - 1) * (self.rows @ self.query)
        self.quadratic = (1 - weight) * ((1 + loading) * np.eye(n) - self.rows @ self.rows.T)

    def at(self, loading):
        self.quadratic += (1 - self.weight) * (loading - self.loading) * np.eye(self.n)
        self.loading = loading
        return self

    def f(self, x):
        return self.linear @ x + x @ self.quadratic @ x

    def gradient(self, x):
        return self.linear + 2 * self.quadratic @ x

    def indicator(self, chosen):
        x = np.zeros(self.n)
        x[list(chosen)] = 1
        return x

    def vertices(self):
        return [self.indicator(c) for c in combinations(range(self.n), self.k)]

    def projected(self, x):
        """The nearest feasible point, by bisection on the multiplier."""
        low, high = x.min() - 2, x.max() + 1
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if np.clip(x - middle, 0, 1).sum() > self.k else (low, middle)
        return np.clip(x - (low + high) / 2, 0, 1)

    def random_point(self):
        spread = self.rng.choice([0.3, 1, 3])
        return self.projected(spread * self.rng.standard_normal(self.n) + self.k / self.n)

    def oracle(self, x):
        return self.indicator(np.argsort(-self.gradient(x), kind="stable")[: self.k])

    def frank_wolfe_step(self, x):
        move = self.oracle(x) - x
        gap, curvature = self.gradient(x) @ move, 2 * move @ self.quadratic @ move
        return x + (1 if curvature >= 0 else min(1, gap / -curvature)) * move

    def is_local_maximum(self, x):
        """Appendix B, case 2: every member's derivative exceeds every other's."""
        g = self.gradient(x)
        return g[x > 0.5].min() > g[x < 0.5].max() + 1e-12

    def stationary_on_a_face(self):
        """Points with equal derivatives on their fractional coordinates that meet eq. 15 everywhere."""
        found = []
        for ones in range(self.k):
            for free in range(2, self.n - ones + 1):
                for whole in combinations(range(self.n), ones):
                    rest = [i for i in range(self.n) if i not in whole]
                    for face in combinations(rest, free):
                        x = self._balanced(list(whole), list(face))
                        if x is not None:
                            found.append((x, face))
        return found

    def _balanced(self, whole, face):
        size, q = len(face), 2 * self.quadratic
        system = np.zeros((size + 1, size + 1))
        system[:size, :size], system[:size, size], system[size, :size] = q[np.ix_(face, face)], -1, 1
        right = np.append(-self.linear[face] - q[np.ix_(face, whole)].sum(1), self.k - len(whole))
        if abs(np.linalg.det(system)) < 1e-9:
            return None
        solution = np.linalg.solve(system, right)
        x, level = np.zeros(self.n), solution[size]
        x[whole], x[face] = 1, solution[:size]
        if not ((x[face] > 1e-6) & (x[face] < 1 - 1e-6)).all():
            return None
        g, outside = self.gradient(x), [i for i in range(self.n) if i not in whole and i not in face]
        fits = (g[whole] >= level - 1e-9).all() and (g[outside] <= level + 1e-9).all()
        return x if fits else None


@pytest.mark.parametrize("seed", deepen(range(6), range(1, 6)))
@pytest.mark.parametrize("weight", [0.2, 0.5, 0.8])
def test_theorem_2_1_an_integral_point_is_a_global_maximum(seed, weight):
    relaxation = Relaxation(seed, weight=weight)
    best = max(relaxation.f(x) for x in relaxation.vertices())
    for start in range(2):
        x = relaxation.random_point()
        assert relaxation.f(x) <= best + 1e-9
        y = x
        for _ in range(150):
            x = relaxation.projected(x + 0.1 * relaxation.gradient(x))
            y = relaxation.frank_wolfe_step(y)
        assert max(relaxation.f(x), relaxation.f(y)) <= best + 1e-9, start


def test_theorem_2_1_needs_the_loading():
    """At δ = 0 a fractional point can beat every set: the two halves of a pair of opposite documents."""
    relaxation = Relaxation(0, n=4, k=1, weight=0.0, loading=0.0, d=2)
    relaxation.rows = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    relaxation.quadratic = np.eye(4) - relaxation.rows @ relaxation.rows.T
    assert max(relaxation.f(x) for x in relaxation.vertices()) <= 1e-12
    spread = np.array([0.5, 0.5, 0, 0])
    assert relaxation.f(spread) > 0.4
    assert relaxation.at(1.0).f(spread) <= max(relaxation.f(x) for x in relaxation.vertices()) + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_the_enumerated_optimum_is_that_of_the_relaxation(seed):
    relaxation = Relaxation(seed, n=10, k=4, weight=0.6)
    found = engine.optimum("frank_wolfe", relaxation.rows, relaxation.query, 4, relevance_weight=0.6)
    best = max(relaxation.vertices(), key=relaxation.f)
    assert tuple(np.flatnonzero(best).tolist()) == found.index
    loaded = (1 - 0.6) * relaxation.loading * 4
    assert relaxation.f(best) == pytest.approx(found.value * 4 * 3 + loaded, abs=1e-9)


def test_theorem_2_4_fractional_stationary_points_are_saddles():
    """On every face where one exists, e_i − e_j climbs from it: curvature 2(1−θ)·2(1 + s_ij) at δ = 1."""
    seen = 0
    for seed in range(12):
        relaxation = Relaxation(seed, n=6, k=3, weight=(0.2, 0.5, 0.7)[seed % 3])
        for x, face in relaxation.stationary_on_a_face():
            seen += 1
            for i, j in combinations(face, 2):
                swap = np.zeros(relaxation.n)
                swap[i], swap[j] = 1, -1
                curvature = 2 * swap @ relaxation.quadratic @ swap
                similarity = relaxation.rows[i] @ relaxation.rows[j]
                assert curvature == pytest.approx(4 * (1 - relaxation.weight) * (1 + similarity), abs=1e-12)
                assert curvature > 0 and abs(relaxation.gradient(x) @ swap) < 1e-9
                step = 0.5 * min(x[j], 1 - x[i])
                assert relaxation.f(x + step * swap) > relaxation.f(x)
    assert seen > 20


def test_theorem_2_4_integral_stationary_points_are_maxima_or_saddles():
    for seed in range(4):
        relaxation = Relaxation(seed, n=7, k=3)
        for x in relaxation.vertices():
            if relaxation.is_local_maximum(x):
                for _ in range(8):
                    near = x + 1e-4 * (relaxation.random_point() - x)
                    assert relaxation.f(near) < relaxation.f(x) + 1e-15


def test_theorem_2_5_local_maxima_only_multiply_with_the_loading():
    grew = 0
    for seed in range(20):
        relaxation = Relaxation(seed, n=9, k=4, weight=0.5)
        before: set[tuple] = set()
        sizes = []
        for loading in (1.0, 1.25, 1.5, 2.0, 3.0):
            relaxation.at(loading)
            here = {tuple(x) for x in relaxation.vertices() if relaxation.is_local_maximum(x)}
            assert before <= here
            before = here
            sizes.append(len(here))
        grew += sizes[-1] > sizes[0]
    assert grew == 20


def test_theorem_3_1_one_step_from_near_a_maximiser():
    steps = 0
    for seed in range(20):
        relaxation = Relaxation(seed, n=9, k=4, weight=0.6)
        for x in relaxation.vertices():
            if relaxation.is_local_maximum(x):
                g = relaxation.gradient(x)
                gap = g[x > 0.5].min() - g[x < 0.5].max()
                near = x + min(0.05, 0.02 * gap) * (relaxation.random_point() - x)
                assert np.abs(relaxation.frank_wolfe_step(near) - x).max() == 0
                steps += 1
    assert steps > 40
