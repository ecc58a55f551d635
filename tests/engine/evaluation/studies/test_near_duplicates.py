"""Groups of near-duplicates against networkx over all cosines in float64."""

import threading

import networkx
import numpy as np
import pytest
import torch

import engine
import engine.evaluation.studies.near_duplicates as module
from engine.evaluation.studies.near_duplicates import find_near_duplicates
from support.draws import deepen
from support.instances import problem


def build_space(vectors, texts=None):
    """A space of these vectors, each with a text of its own unless texts are given."""
    ids = tuple(f"d{row}" for row in range(len(vectors)))
    return engine.Space(engine.Corpus(ids, texts or ids), engine.Embeddings(ids, torch.from_numpy(vectors)), "cpu")


def group_by_networkx(vectors, threshold):
    """(numbers of neighbours, groups as sets of rows) over all cosines."""
    vectors = vectors.astype(float)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit_vectors = vectors / np.where(lengths > 0, lengths, 1)
    is_near = unit_vectors @ unit_vectors.T >= threshold - 1e-14
    np.fill_diagonal(is_near, False)
    components = networkx.connected_components(networkx.from_numpy_array(is_near))
    return is_near.sum(1), {frozenset(component) for component in components if len(component) > 1}


def make_vectors(family, n):
    """Vectors with ties at the threshold, rows of zeros, copies at any length, or of the laws' families."""
    rng = np.random.default_rng(n)
    if family == "binary":
        return rng.integers(0, 2, (n, 6)).astype(np.float32)
    if family == "scaled":
        return rng.normal(size=(n // 3 + 1, 5))[rng.integers(0, n // 3 + 1, n)] * rng.uniform(1e-20, 1e9, (n, 1))
    if family == "equal":
        return np.tile(rng.normal(size=7), (n, 1)).astype(np.float32)
    if family == "zeros":
        return rng.normal(size=(n, 4)) * (rng.random((n, 1)) < 0.5)
    return problem(family, 1, n=n, d=6)[0]


@pytest.mark.parametrize(
    "family",
    deepen(
        ["random", "clustered", "duplicated", "degenerate", "binary", "scaled", "equal", "zeros"], ["random", "binary"]
    ),
)
def test_groups_and_neighbours_are_those_of_all_cosines(family, monkeypatch):
    for n, threshold, blocks in ((1, None, (8, 8)), (2, 1.0, (8, 8)), (150, 0.8, (7, 13)), (120, 0.0, (64, 16)),
                                 (250, None, (1024, 4096)), (150, 1.0, (50, 200)), (20, 0.5, (1, 1))):  # fmt: skip
        monkeypatch.setattr(module, "ROW_BLOCK", blocks[0])
        monkeypatch.setattr(module, "COLUMN_BLOCK", blocks[1])
        vectors = make_vectors(family, n)
        result = find_near_duplicates(build_space(vectors), threshold)
        neighbours, groups = group_by_networkx(vectors, result.threshold)
        assert result.neighbours.tolist() == neighbours.tolist()
        assert {frozenset(group.rows) for group in result.groups} == groups
        assert list(map(len, result.groups)) == sorted(map(len, groups), reverse=True)
        for group in result.groups:
            most = max(group.rows, key=lambda row: (neighbours[row], -row))
            assert group.head == most and list(group.rows[1:]) == sorted(set(group.rows) - {most})
        assert result.n_collapsed == n - sum(len(group) - 1 for group in groups)
        assert [result.count_with_neighbours(m) for m in (1, 5)] == [(neighbours >= m).sum() for m in (1, 5)]
        heads = result.find_heads()
        assert (result.group_of[heads] == result.group_of).all() and (heads[heads] == heads).all()


def test_copies_are_joined_whatever_their_vectors():
    vectors = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0.0]])
    texts = ("red", "red", "blue", "green", "", "")
    result = find_near_duplicates(build_space(vectors, texts))
    assert [group.rows for group in result.copies] == [(0, 1)]
    assert [group.rows for group in result.equal_vectors] == [(2, 3)]
    assert [(group.kind, group.rows) for group in result.groups] == [("near", (0, 1)), ("near", (2, 3))]
    assert result.find_heads("copies").tolist() == [0, 0, 2, 3, 4, 5] and result.n_without_copies == 5
    assert result.neighbours.tolist() == [0, 0, 1, 1, 0, 0]
    # Documents without any text are copies where their vectors are equal.
    textless = find_near_duplicates(build_space(vectors, ("",) * 6))
    assert [group.rows for group in textless.copies] == [(2, 3)]


def test_the_search_reports_stops_and_is_cached(monkeypatch):
    monkeypatch.setattr(module, "ROW_BLOCK", 10)
    space, reports, stop = build_space(make_vectors("random", 50)), [], threading.Event()
    result = find_near_duplicates(space, progress=lambda *report: reports.append(report))
    assert reports[0] == (0, 5, "comparing documents") and reports[-1][:2] == (5, 5)
    stop.set()
    assert find_near_duplicates(space, stop=stop) is result
    with pytest.raises(engine.Cancelled, match="near-duplicates"):
        find_near_duplicates(space, 0.7, stop=stop)
