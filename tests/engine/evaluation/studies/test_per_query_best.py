"""The best setting for each query beside the best for all, by hand."""

import numpy as np
import pytest

from engine.evaluation.studies.per_query_best import compute_headroom
from support.points import cell


def test_an_oracle_by_hand():
    points = [
        cell("mmr", {"comp": [1, 0, 0, 1]}, relevance_weight=0.3),
        cell("mmr", {"comp": [0, 1, 0, 0]}, relevance_weight=0.6),
        cell("vrsd", {"comp": [0, 0, 0, 1]}),
        cell("vrsd", {"comp": [1, 1, 1, 1]}, k=5),
    ]
    mmr, vrsd = compute_headroom(points, "comp")
    assert (mmr.method, mmr.settings, mmr.queries, mmr.k) == ("mmr", 2, 4, 10)
    assert "0.3" in mmr.best and (mmr.mean, mmr.oracle, mmr.difference) == (0.5, 0.75, 0.25)
    assert 0 <= mmr.low <= 0.25 <= mmr.high
    assert (vrsd.mean, vrsd.oracle, vrsd.difference, vrsd.low, vrsd.high) == (0.25, 0.25, 0, 0, 0)


def test_the_interval_is_that_of_draws_by_loops():
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2, size=(40, 3)).astype(float)
    points = [cell("mmr", {"comp": values[:, i]}, relevance_weight=i / 4) for i in range(3)]
    (headroom,) = compute_headroom(points, "comp", resamples=4000)
    gaps = []
    for _ in range(4000):
        resampled = values[rng.integers(40, size=40)]
        gaps.append(resampled.max(1).mean() - resampled.mean(0).max())
    assert (headroom.low, headroom.high) == pytest.approx(np.percentile(gaps, [2.5, 97.5]), abs=0.03)
    (single,) = compute_headroom([cell("mmr", {"comp": [1.0]})], "comp")
    assert (single.low, single.high) == (None, None)
