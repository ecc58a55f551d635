"""The quadratic objective, its greedy, its Frank–Wolfe and its swaps in float64, one problem at a time."""

import numpy as np

from support.instances import unit


class Problem:
    """rows (n, d), query (d,) or relevance (n,); θ; k: everything as dense float64 matrices."""

    def __init__(self, rows, query, weight, k, relevance=None):
        self.rows = rows.astype(np.float64)
        # Row by row: a matrix product gives identical rows different numbers.
        values = [np.dot(row, query.astype(np.float64)) for row in self.rows] if relevance is None else relevance
        self.r = np.asarray(values, dtype=np.float64)
        self.s = np.array([[np.dot(a, b) for b in self.rows] for a in self.rows])
        self.d = np.diag(self.s).copy()
        if np.abs(np.sqrt(self.d) - 1).max() < 1e-6:
            self.d[:] = 1
        self.weight, self.k, self.n = weight, k, len(rows)
        self.scale = (k - 1) * (weight * np.abs(self.r).max() + 2 * (1 - weight) * self.d.max()) + 1e-300

    def value(self, chosen):
        """Compute eq. 2; at k = 1 relevance."""
        chosen, k = list(chosen), self.k
        if k == 1:
            return self.r[chosen[0]]
        pairs = sum(self.s[i, j] for i in chosen for j in chosen if i != j)
        return self.weight / k * self.r[chosen].sum() - (1 - self.weight) / (k * (k - 1)) * pairs

    def marginal(self, i, chosen):
        """Compute the gain of i over the other members, k(k−1) times eq. 2."""
        remaining = [j for j in chosen if j != i]
        return self.weight * (self.k - 1) * self.r[i] - 2 * (1 - self.weight) * self.s[i, remaining].sum()

    def best_swap(self, chosen):
        """Find the largest gain of any swap."""
        outside = [j for j in range(self.n) if j not in set(chosen)]
        gains = [-np.inf]
        for i in chosen:
            remaining = [j for j in chosen if j != i]
            lost_value = self.marginal(i, chosen)
            gains += [self.marginal(j, [*remaining, j]) - lost_value for j in outside]
        return max(gains)

    def greedy(self):
        """(set, smallest margin by which a pick that is no exact duplicate of the runner-up was decided)."""
        chosen, close = [], np.inf
        for step in range(self.k):
            score = self.r if step == 0 else np.array([self.marginal(i, [*chosen, i]) for i in range(self.n)])
            score = score.copy()
            score[chosen] = -np.inf
            pick = int(np.argmax(score))
            rivals = score[[i for i in range(self.n) if (self.rows[i] != self.rows[pick]).any()]]
            if len(rivals):
                close = min(close, score[pick] - rivals.max())
            chosen.append(pick)
        return sorted(chosen), close

    def algorithm_1(self, loading=1.0, steps=200):
        """The paper's Algorithm 1: (set, converged to it, smallest margin at the k-th place)."""
        weight, k, n = self.weight, self.k, self.n
        x, close = np.full(n, k / n), np.inf
        for _ in range(steps):
            pulled = np.array([np.dot(row, x) for row in self.s])
            g = weight * (k - 1) * self.r + 2 * (1 - weight) * ((1 + loading) * self.d * x - pulled)
            order = np.argsort(-g, kind="stable")
            # Identical rows tie to rounding: the lower one first.
            if k < n:
                last, out = order[k - 1], order[k]
                alike = (self.rows[last] == self.rows[out]).all()
                close = min(close, 0 if alike and abs(g[last] - g[out]) > 0 else np.inf if alike else g[last] - g[out])
            toward = np.zeros(n)
            toward[order[:k]] = 1
            move = toward - x
            gap = g @ move
            if abs(gap) <= 1e-12 * k * self.scale:
                break
            curvature = 2 * (1 - weight) * ((1 + loading) * self.d @ move**2 - move @ self.s @ move)
            x = x + (1 if curvature >= 0 else min(1, gap / -curvature)) * move
        is_integral = np.abs(x - np.round(x)).max() < 1e-12
        return sorted(np.flatnonzero(x > 0.5).tolist()), bool(is_integral and x.sum() > k - 0.5), close


def small_instance(seed, n=22):
    """(rows (n, d), query) for brute force: odd seeds four clusters in a cone, even seeds uniform on the sphere."""
    rng = np.random.default_rng([seed, n])
    d = int(rng.choice([4, 8, 16, 32]))
    if seed % 2:
        centres = unit(rng.standard_normal((4, d)) + 0.5 * rng.standard_normal(d))
        rows = unit(centres[rng.integers(4, size=n)] + 0.6 * rng.standard_normal((n, d)) / np.sqrt(d))
    else:
        rows = unit(rng.standard_normal((n, d)))
    return rows, unit(rows[rng.integers(n)] + 0.7 * rng.standard_normal(d) / np.sqrt(d))
