"""The whole λ₁ path: optimal at every kink and between them, whatever the rows; and what is read from it."""

import numpy as np
import pytest
import torch

import engine
from engine.candidates import Candidates
from engine.matrix import Matrix
from engine.solvers.elastic_net.path import regularization_path
from support.elastic_oracles import NASTY, nasty, scores, sharp, violations, weights_of

RIDGES = (0.0, 1e-4, 0.01, 0.1, 1.0)
KINDS = (np.float32, np.float64)
each_family = pytest.mark.parametrize("family", NASTY)


def candidates(rows, query, kept=False):
    matrix = Matrix(torch.tensor(rows), cached=kept)
    queries = torch.tensor(query).unsqueeze(0)
    return Candidates(matrix.vectors, queries @ matrix.vectors.T, queries, matrix)


def problems(family, seeds, **given):
    """(rows, query, best score) of queries whose best score is above 0."""
    for seed in seeds:
        rows, queries = nasty(family, seed, dtype=KINDS[seed % 2], **given)
        for query in queries:
            if (best := float(scores(rows, query).max())) > 0:
                yield rows, query, best


def paths(family, seeds, ridges, lowest, **given):
    """(rows, query, best score, λ₂, path) of every such problem down to that share of the best score."""
    for rows, query, best in problems(family, seeds, **given):
        for l2 in ridges:
            yield rows, query, best, l2, regularization_path(candidates(rows, query), l2, lowest * best)


def dense(path, l1, n):
    """(n,) the weights at a λ₁."""
    full = np.zeros(n)
    members, weights = path.at(l1)
    assert len(set(members.tolist())) == len(members) and (weights > 0).all() and (np.diff(weights) <= 0).all()
    full[members] = weights
    return full


def looked_at(path, rows):
    """(λ₁, well) at every kink and thrice in between; well: the segment's system keeps half of float64's digits."""
    for t in range(len(path)):
        high, low = path.levels[t], path.levels[t + 1]
        own = rows[path.members[path.segment(t)]].astype(np.float64)
        well = bool(np.linalg.cond(own @ own.T + path.l2 * np.eye(len(own))) < 1e8)
        for share in (0.0, 0.01, 0.5, 0.99) if t + 1 < len(path) else (0.0, 0.5, 1.0):
            yield float(high + share * (low - high)), well


@each_family
def test_optimal_at_every_kink_and_between(family):
    count = good = 0
    more = paths(family, (5, 6), RIDGES, 1e-4, n=90)
    for rows, query, best, l2, path in (*paths(family, range(7), RIDGES, 1e-4), *more):
        assert path.finished and path.l2 == l2
        assert path.levels[0] == pytest.approx(best, rel=1e-12) and path.levels[-1] == 1e-4 * best
        assert (np.diff(path.levels) <= 0).all() and len(path.levels) == len(path) + 1
        worst = 0.0
        for l1, well in looked_at(path, rows):
            full = dense(path, l1, len(rows))
            off = violations(rows, query[None], full[None], l1, l2)[0]
            count, good, worst = count + 1, good + well, max(worst, off)
            assert off <= 1e-6 * best or not well, (l2, l1)
        # Linear in between: no point is worse than both its kinks, and the path knows its worst kink.
        assert worst <= path.residual + 1e-9 * best
    assert good > 0.9 * count or family == "near twins"
    assert good > 400


@each_family
def test_the_path_passes_through_what_select_finds(family):
    compared = 0
    for rows, query, best, l2, path in paths(family, range(6), (0.0, 1e-3, 0.1), 1e-3):
        grid = [{"l1": share * best, "l2": l2} for share in (1.0, 0.8, 0.3, 0.1, 0.02, 0.001)]
        for params, answer in zip(grid, engine.select_grid("nnn", rows, query, len(rows), grid=grid), strict=True):
            full = weights_of(answer, len(rows))[0]
            own = dense(path, params["l1"], len(rows))
            # Several rows of a kind may share a weight in more than one way where nothing spreads it.
            if l2 == 0 and sharp(rows, query, full, params["l1"]) < 1e-2:
                assert own.sum() == pytest.approx(full.sum(), abs=1e-6 * (1 + full.sum()))
                continue
            compared += 1
            assert np.abs(own - full).max() <= 1e-8 * (1 + full.max()), params
    assert compared > 60


@each_family
def test_between_kinks_the_support_stays(family):
    """What a segment holds is what select gives a weight, wherever the segment is wide enough to tell."""
    told = 0
    for rows, query, best, _, path in paths(family, range(4), (0.1,), 1e-3):
        wide = np.flatnonzero(-np.diff(path.levels) > 1e-6 * best)
        grid = [{"l1": float(path.levels[t : t + 2].mean()), "l2": 0.1} for t in wide]
        for t, answer in zip(wide, engine.select_grid("nnn", rows, query, len(rows), grid=grid), strict=True):
            chosen = answer.index[0, : answer.info[0]["support"]].tolist()
            assert sorted(path.members[path.segment(t)].tolist()) == sorted(chosen)
            assert path.sizes[t] == len(chosen)
            told += 1
    assert told > 10


@each_family
def test_the_certified_route_misses_no_row(family, monkeypatch):
    """Over a working set that begins too small, and must grow until nothing outside belongs to it."""
    grown = 0
    for rows, query, best, l2, whole in paths(family, range(6), (0.0, 0.01, 0.3), 1e-3, n=90):
        with monkeypatch.context() as patch:
            for name, value in (("GRAM_ROWS", 0), ("FIRST", 2), ("PROBES", 1)):
                patch.setattr(f"engine.solvers.elastic_net.path.{name}", value)
            path = regularization_path(candidates(rows, query), l2, 1e-3 * best)
        assert path.finished and max(path.residual, whole.residual) <= 1e-8 * best
        grown += path.passes > 3
        for l1, well in looked_at(path, rows):
            full = dense(path, l1, len(rows))
            assert violations(rows, query[None], full[None], l1, l2)[0] <= 1e-6 * best or not well
            if l2 > 0:
                assert np.abs(full - dense(whole, l1, len(rows))).max() <= 1e-7 * (1 + full.max())
    assert grown > 3 or family == "flat", "the first working set had all rows already"


@pytest.mark.parametrize("rows_at_once", [0, 2048], ids=["rows", "gram"])
@pytest.mark.parametrize("family", ["twins", "near twins"])
def test_copies_that_enter_beside_each_other_keep_the_path_optimal(family, rows_at_once, monkeypatch):
    """At its kink a member's weight is 0, though p − λ₁ q of two large numbers is not: seeds where rounding showed."""
    monkeypatch.setattr("engine.solvers.elastic_net.path.GRAM_ROWS", rows_at_once)
    for _, _, best, _, path in paths(family, (5, 12, 24, 68, 93), (0.0, 1e-4), 1e-4, n=90):
        assert path.finished and path.residual <= 1e-8 * best


def test_a_corpus_too_large_for_its_gram_matrix():
    rows, queries = nasty("cone", 1, n=3000, d=24, batch=2)
    for query in queries:
        best = float(scores(rows, query).max())
        path = regularization_path(candidates(rows, query), 0.05, 0.01 * best)
        assert path.finished and len(path) > 5
        for l1, _ in list(looked_at(path, rows))[:: max(1, len(path) // 5)]:
            full = dense(path, l1, len(rows))
            assert violations(rows, query[None], full[None], l1, 0.05)[0] <= 1e-6 * best


def test_a_pool_a_query_has_its_own_path():
    rows, queries = nasty("random", 2, n=60, d=8)
    own = np.sort(np.argsort(-scores(rows, queries[0]), kind="stable")[:25])
    c = candidates(rows, queries[0])
    pool = torch.tensor(own).unsqueeze(0)
    pooled = Candidates(c.vectors[pool], c.relevance.gather(1, pool), c.queries, c.matrix, True, pool)
    path = regularization_path(pooled, 0.1, 0.01)
    alone = regularization_path(candidates(rows[own], queries[0]), 0.1, 0.01)
    assert path.levels.tolist() == pytest.approx(alone.levels.tolist(), rel=1e-12)
    assert path.members.tolist() == alone.members.tolist() and path.p.tolist() == pytest.approx(alone.p.tolist())


def test_outside_its_levels():
    """Nothing from the best score on; below the lowest level, what the last segment becomes."""
    rows, queries = nasty("random", 1, n=30, d=10)
    query, best = queries[1], float(scores(rows, queries[1]).max())
    path = regularization_path(candidates(rows, query), 0.1, 0.2 * best)
    for l1 in (path.levels[0], 1.1 * best, 1e9):
        members, weights = path.at(l1)
        assert len(members) == len(weights) == 0
    own = path.segment(len(path) - 1)
    members, weights = path.at(0.15 * best)
    expected = path.p[own] - 0.15 * best * path.q[own]
    assert sorted(weights.tolist()) == pytest.approx(sorted(expected[expected > 0].tolist()))
    assert set(members.tolist()) <= set(path.members[own].tolist())


def test_without_a_score_above_zero_there_is_no_segment():
    query = np.array([1.0, 0.0])
    for rows in (np.array([[-1.0, 0.2], [-0.5, 0.1]]), np.zeros((3, 2))):
        path = regularization_path(candidates(rows, query), 0.1, 1e-3)
        assert len(path) == 0 and path.finished and path.residual == 0
        assert len(path.at(1e-3)[0]) == 0 and path.first_of(1)[1] == 0


@each_family
def test_first_of_is_where_so_many_documents_first_have_a_weight(family):
    """(λ₁, size) such that select gives exactly `size` documents a weight there."""
    asked = 0
    for rows, query, best, l2, whole in paths(family, range(6), (0.0, 0.1), 1e-4):
        wide = -np.diff(whole.levels) > 1e-9 * best
        for size in (1, 2, 3, 5, 8, len(rows) + 1):
            path = regularization_path(candidates(rows, query), l2, 1e-4 * best, size)
            l1, size_there = path.first_of(size)
            answer = engine.select("nnn", rows, query, k=1, l1=l1, l2=l2)
            assert answer.info[0]["support"] == size_there
            first = np.flatnonzero((whole.sizes == size) & wide)
            if len(first) and not (whole.sizes[: first[0]][wide[: first[0]]] > size).any():
                asked += 1
                assert size_there == size and whole.levels[first[0]] >= l1 >= whole.levels[first[0] + 1]
                assert len(path) <= first[0] + 1
    assert asked > 20


@each_family
def test_a_path_is_the_same_every_time(family):
    for rows, query, best in problems(family, range(3)):
        one, two = (regularization_path(candidates(rows, query, kept), 0.01, 1e-3 * best) for kept in (False, True))
        for name in ("levels", "ends", "members", "p", "q"):
            assert np.array_equal(getattr(one, name), getattr(two, name))
