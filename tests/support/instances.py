"""Problems for laws and oracles: seeded, from easy to nasty."""

import numpy as np
import pytest


def few_or_all(first_seeds, all_seeds, quick=None):
    """Parametrise a test on `seeds`: the first ones in every run, the others before a release.

    quick: how many of the first ones are in every run; the others of them are deep
    """
    first = list(first_seeds)
    groups = [(first[:quick], ()), (first[len(first) if quick is None else quick :], (pytest.mark.deep,))]
    groups.append(([seed for seed in all_seeds if seed not in first], (pytest.mark.exhaustive,)))
    cases = [pytest.param(seeds, id=f"seeds from {seeds[0]}", marks=marks) for seeds, marks in groups if seeds]
    return pytest.mark.parametrize("seeds", cases)


def unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(length == 0, 1, length)


def random_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return unit(rng.standard_normal((n, d)))


def clustered_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Unit rows in tight clusters that share a common direction, as sentence embeddings do."""
    centres = unit(rng.standard_normal((max(2, n // 8), d)) + rng.standard_normal(d))
    return unit(centres[rng.integers(len(centres), size=n)] + 0.3 * rng.standard_normal((n, d)) / np.sqrt(d))


def duplicated_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Few distinct rows, each many times, shuffled: every pick is a tie."""
    distinct = random_rows(rng, max(1, n // 5), d)
    return distinct[rng.integers(len(distinct), size=n)]


def degenerate_rows(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Zero rows, opposite rows, rows of very different lengths and duplicates among them."""
    rows = random_rows(rng, n, d) * rng.choice([0.0, 1e-3, 1.0, 5.0], size=(n, 1))
    rows[: n // 3] = -rows[n - n // 3 :]
    return rows


FAMILIES = {
    "random": random_rows,
    "clustered": clustered_rows,
    "duplicated": duplicated_rows,
    "degenerate": degenerate_rows,
}


def crowd(seed: int, n: int, d: int, batch: int):
    """(vectors (n, d), queries (batch, d), kinds (6, d)): crowds of exact duplicates of six rows."""
    rng = np.random.default_rng(seed)
    kinds = rng.standard_normal((6, d)).astype(np.float32)
    return kinds[rng.integers(6, size=n)], rng.standard_normal((batch, d)).astype(np.float32), kinds


def near_ties(seed: int, n: int, d: int, spread: float, scale: float = 1.0):
    """(vectors (n, d), query (d,), the rows in the exact order of their products): float32 cannot tell them apart."""
    rng = np.random.default_rng(seed)
    query = unit(rng.standard_normal(d)).astype(np.float32)
    rows = (scale * (query + spread * rng.standard_normal((n, d)))).astype(np.float32)
    order = np.argsort(-(rows.astype(np.float64) * query.astype(np.float64)).sum(1), kind="stable")
    assert (order != np.argsort(-(rows @ query), kind="stable")).any(), "the instance is too easy to show anything"
    return rows, query, order.tolist()


def problem(family: str, seed: int, n: int | None = None, d: int | None = None, batch: int = 3, dtype=np.float32):
    """(vectors (n, d), queries (batch, d)) of a family."""
    rng = np.random.default_rng([seed, len(family)])
    n = n or int(rng.integers(1, 60))
    d = d or int(rng.integers(2, 24))
    rows = FAMILIES[family](rng, n, d)
    near = rows[rng.integers(n, size=batch)] + 0.4 * rng.standard_normal((batch, d)) / np.sqrt(d)
    return rows.astype(dtype), unit(near).astype(dtype)
