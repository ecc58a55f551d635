"""Lemma 2 measured: the counts by loops, the bound by the formula, and never a violation."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

import engine
from engine.theory.projection_bounds import recall_dimension, recall_loss_bound
from engine.theory.random_projections import random_entries
from engine.theory.recall_losses import RecallLoss, recall_losses
from support.instances import problem, unit
from support.random_texts import make_texts
from support.rankings import queries_of, space_of


def test_bounds_by_hand():
    """Lemma 2 and eq. 3; for one other document they are Lemma 1 and eq. 2."""
    rate = 0.3**2 / 2 - 0.3**3 / 3
    assert recall_loss_bound(500, 0.3, 20, 5) == pytest.approx(4 * 16 * math.exp(-250 * rate))
    assert recall_loss_bound(500, 0.3, 1) == engine.pair_error_bound(500, 0.3)
    needed = recall_dimension(0.3, 0.05, 20, 5)
    assert needed == math.ceil(2 / rate * math.log(4 * 16 / 0.05))
    assert recall_loss_bound(needed, 0.3, 20, 5) <= 0.05 < recall_loss_bound(needed - 1, 0.3, 20, 5)
    assert recall_dimension(0.3, 0.05, 1) == engine.sufficient_dimension(0.3, 0.05)
    for wrong, message in (((9, 0.3, 4, 5), r"rank \(r₀\) must be at most documents, 4; got 5"), ((9, 0.3, 0), "D")):
        with pytest.raises(engine.ParamError, match=message):
            recall_loss_bound(*wrong)


@pytest.mark.parametrize("rank", [1, 3])
def test_losses_are_counted_as_loops_count_them(rank):
    rows, points = problem("random", 3, n=12, d=7, batch=4, dtype=np.float64)
    found = recall_losses(
        space_of(rows, ("w",) * 12), queries_of(points), "dense", dimensions=(9, 3), rank=rank, draws=6, seed=2
    )
    rng, lost = np.random.default_rng(2), {}
    for _ in range(6):
        entries = np.concatenate(
            [random_entries(rng, (7, 3), "rademacher"), random_entries(rng, (7, 6), "rademacher")], 1
        )
        for b, point in enumerate(points):
            best = int(np.argmax(rows @ point))
            for k in (3, 9):
                projected = (rows @ entries[:, :k]) @ (point @ entries[:, :k])
                ahead = sum(projected[j] >= projected[best] for j in range(12) if j != best)
                lost[b, k] = lost.get((b, k), 0) + (ahead >= rank)
    assert {(row.query, row.k): row.lost for row in found} == lost
    for row in found:
        point = points[row.query]
        best = int(np.argmax(rows @ point))
        apart = rows[best] - np.delete(rows, best, 0)
        margins = np.sort(apart @ point / np.linalg.norm(apart, axis=1) / np.linalg.norm(point))
        assert row.margin == pytest.approx(margins[rank - 1]) and row.documents == 11
        assert row.bound == pytest.approx(recall_loss_bound(row.k, row.margin, 11, rank))
        interval = binomtest(row.lost, 6).proportion_ci(0.95)
        assert row.low == pytest.approx(interval.low) and row.share == row.lost / 6


def test_lemma_2_is_not_violated_where_it_says_something():
    """Few documents, far from the best one: there the bound is below 1 and losses still happen."""
    informative, lost = 0, 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        points = unit(rng.standard_normal((12, 30)))
        rows = unit(np.concatenate([points + 0.1 * rng.standard_normal((12, 30)), rng.standard_normal((8, 30))]))
        found = recall_losses(
            space_of(rows, ("w",) * 20), queries_of(points), "dense", dimensions=(4, 16, 64, 128), draws=40, seed=seed
        )
        assert not any(row.violated for row in found)
        informative += sum(row.bound < 1 for row in found)
        lost += sum(row.lost for row in found)
    assert informative > 20 and lost > 100
    sure = RecallLoss(query=0, k=9, documents=3, margin=0.5, lost=9, draws=10, low=0.55, bound=0.3)
    assert (
        sure.violated
        and not RecallLoss(query=0, k=9, documents=3, margin=0.5, lost=9, draws=10, low=0.55, bound=1.2).violated
    )


def test_words_are_projected_too_and_bad_calls_named():
    corpus, queries = make_texts(5)
    for projection in ("rademacher", "gaussian"):
        found = recall_losses(corpus, queries, projection=projection, dimensions=(64,), draws=4)
        assert found and {row.k for row in found} == {64} and not any(row.violated for row in found)
    for change, message in (
        ({"dimensions": ()}, "dimensions must be a list"),
        ({"rank": 0}, "rank"),
        ({"draws": 1}, "d"),
    ):
        with pytest.raises(engine.ParamError, match=message):
            recall_losses(corpus, queries, **change)
    with pytest.raises(engine.DataError, match="no query has 5000 documents that score less"):
        recall_losses(corpus, queries, rank=5000)
