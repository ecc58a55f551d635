"""The non-negative elastic net, dense and in float64: its conditions, its minimisers, and nasty instances."""

import warnings

import mpmath
import numpy as np
from scipy.optimize import linprog, nnls
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet

from support.instances import clustered_rows, random_rows, unit

FIRST = (0.0, 0.001, 0.01, 0.05, 0.2, 0.6)
"""λ₁ of the fuzz, beside one that is no less than the best score."""
SECOND = (0.0, 1e-4, 0.01, 0.1, 1.0)
"""λ₂ of the fuzz."""


def as_float64(*arrays):
    return [np.asarray(a, dtype=np.float64) for a in arrays]


def scores(rows, queries):
    """(n,) or (B, n) inner products in float64; identical rows have identical ones, as in no matrix product."""
    rows, queries = as_float64(rows, queries)
    return (rows * queries[..., None, :]).sum(-1)


def select_pool_rows(rows, query, pool=None):
    """Return the most relevant rows in ascending order, the lower of equals first; all rows without a pool."""
    return np.sort(np.argsort(-scores(rows, query), kind="stable")[: pool or len(rows)])


def weights_of(answer, n):
    """Return every document's weight, (B, n), 0 outside the support."""
    full = np.zeros((len(answer), n))
    index, gain = answer.index.numpy(), answer.gain.numpy()
    for b, info in enumerate(answer.info):
        n_weights = info["support"]
        full[b, index[b, :n_weights]] = gain[b, :n_weights]
    return full


def slopes(rows, queries, weights, l1, l2):
    """(B, n) u·(v − Uᵀw) − λ₁ − λ₂ w: 0 where a weight is optimal, at most 0 where the optimal weight is 0."""
    rows, queries, weights = as_float64(rows, queries, weights)
    return (queries - weights @ rows) @ rows.T - np.reshape(l1, (-1, 1)) - l2 * weights


def violations(rows, queries, weights, l1, l2):
    """(B,) the largest violation of the optimality conditions; infinite where a weight is negative."""
    slope = slopes(rows, queries, weights, l1, l2)
    off = np.where(weights > 0, np.abs(slope), np.maximum(slope, 0)).max(1)
    return np.where((weights < 0).any(1), np.inf, off)


def objective(rows, query, weights, l1, l2):
    """Compute eq. 1 as written."""
    rows, query = as_float64(rows, query)
    return 0.5 * ((rows.T @ weights - query) ** 2).sum() + l1 * weights.sum() + 0.5 * l2 * (weights**2).sum()


def dual_objective(rows, query, weights, l1, l2):
    """The dual function at the point v − Uᵀw: no minimiser's objective is below it."""
    rows, query = as_float64(rows, query)
    point = query - rows.T @ weights
    return point @ query - 0.5 * point @ point - (np.maximum(rows @ point - l1, 0) ** 2).sum() / (2 * l2)


def minimiser(rows, query, l1, l2):
    """(n,) the weights by somebody else's solver: least squares with [Uᵀ; √λ₂ I] at λ₂ > 0, else coordinate descent."""
    rows, query = as_float64(rows, query)
    n, d = rows.shape
    if l2 > 0:
        tall = np.vstack([rows.T, np.sqrt(l2) * np.eye(n)])
        return nnls(tall, np.concatenate([query, np.full(n, -l1 / np.sqrt(l2))]), maxiter=100 * n)[0]
    model = ElasticNet(alpha=l1 / d, l1_ratio=1.0, positive=True, fit_intercept=False, tol=1e-15, max_iter=100_000)
    with warnings.catch_warnings():
        # Rounding keeps a gap of 1e-15 out of reach; the result is judged by its optimality conditions.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows.T, query).coef_


def shortest_fit(rows, query):
    """(misfit, sum): how close non-negative weights come to the query, and the least sum of any that come so close."""
    rows, query = as_float64(rows, query)
    weights, misfit = nnls(rows.T, query, maxiter=1000 * len(rows))
    fitted = linprog(np.ones(len(rows)), A_eq=rows.T, b_eq=rows.T @ weights, method="highs")
    return misfit, fitted.fun if fitted.status == 0 else weights.sum()


def sharp(rows, query, weights, l1):
    """The least singular value, of the largest, of the rows that may have a weight at λ₂ = 0: 0 where they depend."""
    rows, query = as_float64(rows, query)
    dual = rows @ (query - rows.T @ weights)
    able = rows[dual > l1 - 1e-7 * np.abs(rows @ query).max()]
    if not len(able):
        return 1.0
    if len(able) > rows.shape[1]:
        return 0.0
    values = np.linalg.svd(able, compute_uv=False)
    return values[-1] / values[0]


def paper_fista(rows, query, l1, l2, steps):
    """Run eq. 5 of the paper, transcribed."""
    rows, query = as_float64(rows, query)
    bound = max(np.linalg.eigvalsh(rows @ rows.T)[-1] + l2, 1e-300)
    w = y = np.zeros(len(rows))
    t = 1.0
    for _ in range(steps):
        step = y - (rows @ (rows.T @ y - query) + l2 * y) / bound
        new, t_new = np.maximum(step - l1 / bound, 0), (1 + np.sqrt(1 + 4 * t * t)) / 2
        w, y, t = new, new + (t - 1) / t_new * (new - w), t_new
    return w


def cone_rows(rng, n, d):
    """Rows with a common direction twice as long as their differences, as sentence embeddings have."""
    return unit(2 * unit(rng.standard_normal(d)) + rng.standard_normal((n, d)) / np.sqrt(d))


def twin_rows(rng, n, d):
    """Few distinct rows, each many times."""
    return random_rows(rng, max(1, n // 4), d)[rng.integers(max(1, n // 4), size=n)]


def near_twin_rows(rng, n, d):
    """Few distinct rows, each many times up to 1e-4."""
    return unit(twin_rows(rng, n, d) + 1e-4 * rng.standard_normal((n, d)) / np.sqrt(d))


def lattice_rows(rng, n, d):
    """Whole numbers from −2 to 2: scores tie exactly, and so do their differences."""
    return np.clip(np.round(1.2 * rng.standard_normal((n, d))), -2, 2) + 0.0


def hollow_rows(rng, n, d):
    """Rows, many of them zero, and some the opposite of others."""
    rows = random_rows(rng, n, d) * (rng.random((n, 1)) < 0.6)
    rows[: n // 4] = -rows[n - n // 4 :]
    return rows


def flat_rows(rng, n, d):
    """Many more rows than dimensions."""
    return random_rows(rng, max(n, 6 * 3), 3) @ unit(rng.standard_normal((3, d)))


def uneven_rows(rng, n, d):
    """Lengths from a thousandth to ten."""
    return random_rows(rng, n, d) * 10.0 ** rng.uniform(-3, 1, size=(n, 1))


NASTY = {
    "random": random_rows,
    "clustered": clustered_rows,
    "cone": cone_rows,
    "twins": twin_rows,
    "near twins": near_twin_rows,
    "lattice": lattice_rows,
    "hollow": hollow_rows,
    "flat": flat_rows,
    "uneven": uneven_rows,
}


QUIET_FAMILIES = ["random", "cone", "lattice", "uneven"]
"""Instances that are met in deep runs: each differs from another one by the shape of its rows."""


def nasty(family, seed, n=None, d=None, batch=3, dtype=np.float32):
    """(vectors (n, d), queries (batch, d)): queries near rows, mixtures of rows, lattice points and plain noise."""
    rng = np.random.default_rng([seed, *family.encode()])
    n, d = n or int(rng.integers(1, 48)), d or int(rng.integers(2, 24))
    rows = NASTY[family](rng, n, d)
    queries = []
    for b in range(batch):
        kind = (seed + b) % 4
        mixed = rng.dirichlet(np.ones(3)) @ rows[rng.integers(len(rows), size=3)]
        noise = rng.standard_normal(d) / np.sqrt(d)
        query = (mixed, mixed + 0.4 * noise, noise, np.round(2 * (mixed + noise)))[kind]
        queries.append(query if kind == 3 else unit(query))
    return rows.astype(dtype), np.array(queries).astype(dtype)


def grid_for(rows, queries):
    """The settings of the fuzz: every λ₁ with every λ₂, and a λ₁ that no score exceeds."""
    max_score = max(float(scores(rows, queries).max()), 0.0)
    return [{"l1": l1, "l2": l2} for l2 in SECOND for l1 in (*FIRST, max_score + 1e-9)]


def exact_digits(l2):
    """A context in which mpmath's numbers have digits enough for a ridge λ₂ > 0."""
    return mpmath.workprec(int(500 + 2.2 * max(0.0, -np.log2(l2))))


def exact_numbers(array):
    """A matrix or a vector as lists of mpmath's numbers."""
    array = np.asarray(array, dtype=np.float64)
    return [exact_numbers(row) for row in array] if array.ndim > 1 else [mpmath.mpf(float(x)) for x in array]


def exact_minimiser(rows, query, l1, l2):
    """[n] the minimiser at λ₂ > 0 in mpmath's numbers, by Lawson and Hanson's method over distinct rows.

    Its optimality conditions over all rows prove it: it is nearer than 1e-25 of the largest weight, or of 1.
    """
    kinds, which, copies = np.unique(np.asarray(rows, np.float64), axis=0, return_inverse=True, return_counts=True)
    wide, point = exact_numbers(kinds), exact_numbers(query)
    products = [[mpmath.fdot(a, b) for b in wide] for a in wide]
    # m copies of a row share its weight W: their ½λ₂|w|² is ½(λ₂/m)W².
    ridge = [mpmath.mpf(l2) / int(m) for m in copies]
    first = [mpmath.fdot(row, point) - l1 for row in wide]
    total = _lawson_hanson(products, ridge, first, mpmath.ldexp(l2, -100))
    weights = [total[kind] / int(copies[kind]) for kind in which.ravel()]
    off = mpmath.norm(exact_violations(rows, query, weights, l1, l2))
    assert off / l2 <= 1e-25 * max([1, *weights]), "the oracle is wrong"
    return weights


def _lawson_hanson(products, ridge, first, tolerance):
    """Weights ≥ 0 that minimise ½wᵀ(G + diag(ridge))w − first·w."""
    n = len(ridge)
    weights, active = [mpmath.mpf(0)] * n, []
    for _ in range(50 * n + 50):
        slope = [first[i] - sum(products[i][j] * weights[j] for j in active) for i in range(n)]
        worst = max((slope[i], i) for i in range(n) if i not in active) if len(active) < n else (0, 0)
        if worst[0] <= tolerance:
            return weights
        active.append(worst[1])
        while True:
            system = [[products[i][j] + (ridge[i] if i == j else 0) for j in active] for i in active]
            aim = _solve(system, [first[i] for i in active])
            down = [(weights[i] / (weights[i] - x), i) for i, x in zip(active, aim, strict=True) if x <= 0]
            step = min(down)[0] if down else mpmath.mpf(1)
            for i, x in zip(active, aim, strict=True):
                weights[i] += step * (x - weights[i])
            if not down:
                break
            dropped_index = min(down)[1]
            weights[dropped_index] = mpmath.mpf(0)
            active.remove(dropped_index)
    raise AssertionError("the oracle does not end")


def _solve(system, right):
    """Solve a small positive definite system by elimination."""
    rows = [[*row, x] for row, x in zip(system, right, strict=True)]
    n = len(rows)
    for i in range(n):
        for j in range(i + 1, n):
            share = rows[j][i] / rows[i][i]
            rows[j] = [x - share * y if t >= i else x for t, (x, y) in enumerate(zip(rows[j], rows[i], strict=True))]
    solution = [mpmath.mpf(0)] * n
    for i in reversed(range(n)):
        solution[i] = (rows[i][n] - sum(rows[i][j] * solution[j] for j in range(i + 1, n))) / rows[i][i]
    return solution


def _exact_residual(rows, query, weights):
    columns = zip(*exact_numbers(rows), strict=True)
    return [x - mpmath.fdot(weights, column) for x, column in zip(exact_numbers(query), columns, strict=True)]


def exact_violations(rows, query, weights, l1, l2):
    """[n] by how much weights, mpmath's numbers, miss their optimality conditions."""
    residual = _exact_residual(rows, query, weights)
    slopes = [mpmath.fdot(row, residual) - l1 - l2 * w for row, w in zip(exact_numbers(rows), weights, strict=True)]
    return [abs(x) if w > 0 else max(x, mpmath.mpf(0)) for x, w in zip(slopes, weights, strict=True)]


def exact_objective(rows, query, weights, l1, l2):
    """Compute eq. 1 in mpmath's numbers."""
    residual = _exact_residual(rows, query, weights)
    return (mpmath.fdot(residual, residual) + l2 * mpmath.fdot(weights, weights)) / 2 + l1 * mpmath.fsum(weights)
