"""Exactly recovered sets: against supports solved one by one, and the theorem that orders them."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

import engine
from engine.solvers.elastic_net.path import WeightPath
from engine.theory.success_sets import McNemar, path_has_support, success_sets
from support.instances import problem
from support.rankings import queries_of, space_of


@pytest.fixture(scope="module")
def judged():
    """Queries near sums of two or three documents of clusters: (space, queries, judgements)."""
    rows, _ = problem("clustered", 7, n=50, d=12, dtype=np.float64)
    rng = np.random.default_rng(0)
    picks = [rng.choice(50, size=1 + b % 3, replace=False) for b in range(30)]
    points = np.stack([rows[own].sum(0) + 0.05 * rng.standard_normal(12) for own in picks])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    grades = {f"q{b}": {f"d{row}": 1 for row in own.tolist()} for b, own in enumerate(picks)}
    grades["q29"]["gone"] = 1
    return space_of(rows), queries_of(torch.from_numpy(points)), engine.Qrels(grades), picks


def support(space, point, l1, l2):
    index = engine.select("nnn", space.vectors, point, k=50, l1=l1, l2=l2).index[0]
    return sorted(row for row in index.tolist() if row >= 0)


@pytest.mark.deep
def test_sets_are_those_of_supports_solved_one_by_one(judged):
    space, queries, qrels, picks = judged
    grid = (0.03, 0.1, 0.3)
    found = success_sets(space, queries, qrels, l1=grid, l2=grid, path_l2=(0.0, 0.1, 1000.0))
    assert found.queries == queries.ids and found.grid == tuple((a, b) for b in grid for a in grid)
    rows = space.vectors.numpy()
    for b, own in enumerate(picks):
        point, lost = queries.vectors[b].numpy(), b == 29
        wanted, scores = sorted(own.tolist()), rows @ point
        others = np.delete(scores, own)
        assert found.dense[b] == (not lost and scores[own].min() > max(0, others.max()))
        for at, (l1, l2) in enumerate(found.grid):
            assert found.cells[b, at] == (not lost and support(space, point, l1, l2) == wanted)
        for at, l2 in enumerate(found.l2):
            # A fine sweep of λ₁ sees no set that the path does not have.
            seen = any(support(space, point, l1, l2) == wanted for l1 in np.geomspace(1e-3, scores.max(), 20))
            assert not (seen and not lost) or found.paths[b, at]
            assert not (lost and found.paths[b].any())
    assert found.sizes.tolist() == [len(own) + (b == 29) for b, own in enumerate(picks)]
    assert found.by_path.sum() > found.dense.sum() > 0 and found.by_grid.any()
    assert found.cells[:, found.best_cell].sum() == found.cells.sum(0).max()


def test_what_dense_recovers_some_path_does(judged):
    """Theorem 1, with the witness's own λ₂."""
    space, queries, qrels, _ = judged
    few = success_sets(space, queries, qrels, l1=(0.1,), l2=(0.1,), path_l2=(1.0,))
    assert np.isfinite(few.witnesses[few.dense]).all() and np.isnan(few.witnesses[~few.dense]).all()
    for b in np.flatnonzero(few.dense):
        wide = success_sets(space, queries.take([b]), qrels, l1=(0.1,), l2=(0.1,), path_l2=(float(few.witnesses[b]),))
        assert wide.paths.all() and few.witnesses[b] >= 3 * few.sizes[b] - 1


def test_proposition_1_is_on_the_path_and_not_in_dense():
    example = engine.counterexample()
    space, queries = space_of(example.vectors), queries_of(example.query[None])
    found = success_sets(space, queries, engine.Qrels({"q0": {"d1": 1, "d2": 1}}), path_l2=(0.0,))
    assert not found.dense[0] and found.paths[0, 0]


def test_pairs_by_hand():
    first, second = np.array([1, 1, 1, 1, 0, 0], bool), np.array([1, 0, 0, 0, 1, 0], bool)
    found = McNemar.compare(first, second)
    assert (found.both, found.first, found.second, found.neither) == (1, 3, 1, 1)
    assert found.p == pytest.approx(2 * binom.cdf(1, 4, 0.5))
    assert McNemar.compare(first, first).p == 1


def test_a_segment_of_no_length_does_not_count():
    path = WeightPath(
        l2=0.1, levels=np.array([1.0, 0.5, 0.5 - 1e-12, 0.1]), ends=np.array([1, 3, 6]), finished=True,
        members=np.array([4, 4, 2, 4, 2, 9]), p=np.ones(6), q=np.ones(6),
    )  # fmt: skip
    assert path_has_support(path, [4]) and path_has_support(path, [2, 4, 9]) and not path_has_support(path, [2, 4])


def test_nothing_relevant_is_refused(judged):
    space, queries, *_ = judged
    with pytest.raises(engine.DataError, match="no query has a document judged relevant"):
        success_sets(space, queries, engine.Qrels({"q0": {"d0": 0}}))
    for change, message in (({"l1": ()}, "l1 must be a list of numbers"), ({"path_l2": (-1,)}, r"l2 \(λ₂\) must be")):
        with pytest.raises(engine.ParamError, match=message):
            success_sets(space, queries, engine.Qrels({"q0": {"d0": 1}}), **change)
