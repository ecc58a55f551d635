"""What the CCBQP paper proves, seen on instances small enough to enumerate (n ≤ 10)."""

from itertools import combinations

import numpy as np
import pytest

import engine
from support.instances import unit


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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("weight", [0.2, 0.5, 0.8])
def test_theorem_2_1_an_integral_point_is_a_global_maximum(seed, weight):
    relaxation = Relaxation(seed, weight=weight)
    best = max(relaxation.f(x) for x in relaxation.vertices())
    for start in range(8):
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
    for seed in range(8):
        relaxation = Relaxation(seed, n=7, k=3)
        for x in relaxation.vertices():
            if relaxation.is_local_maximum(x):
                for _ in range(20):
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
