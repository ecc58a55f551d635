"""Approximate search against brute force in float64; without faiss only what needs none."""

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.data.passages import part_id
from engine.evaluation.studies.ann import find_quickest, list_searchable, merge_hits
from engine.evaluation.studies.ann_indexes import INDEXES, Exact, Hnsw, Index, Ivf, usual_indexes
from engine.params import params_of
from support.instances import random_rows
from support.parameters import invalid_values
from support.rankings import queries_of, space_of

N, D, B = 300, 16, 12
DENSE = engine.make("dense")


def random_space(seed=0, most=5):
    """N documents of one random vector each, and 1 to `most` others as parts; queries; judgements."""
    draw = np.random.default_rng(seed)
    counts = draw.integers(1, most + 1, N)
    named = tuple(part_id(f"d{i}", j) for i, count in enumerate(counts) for j in range(count))
    parts = engine.Embeddings(named, random_rows(draw, len(named), D).astype(np.float32))
    whole = space_of(random_rows(draw, N, D).astype(np.float32))
    space = engine.Space(whole.corpus, whole.embeddings, "cpu", parts)
    queries = queries_of(random_rows(draw, B, D).astype(np.float32))
    qrels = engine.Qrels({f"q{b}": {f"d{int(row)}": 1 for row in draw.integers(0, N, 4)} for b in range(B)})
    return space, queries, qrels


def best(space, queries, many, k):
    """Rows of the k best documents by brute force in float64, (B, k), and all scores."""
    points = queries.vectors.double().numpy()
    if not many:
        scores = points @ space.vectors.double().numpy().T
    else:
        found = points @ space.parts.vectors.double().numpy().T
        scores = np.full((len(points), N), -np.inf)
        for at, document in enumerate(space.parts.documents.tolist()):
            scores[:, document] = np.maximum(scores[:, document], found[:, at])
    return np.argsort(-scores, axis=1, kind="stable")[:, :k], scores


def reciprocal(rows, space, qrels):
    """MRR by hand."""
    values = []
    for b, row in enumerate(rows):
        right = [space.corpus.position[d] for d in qrels.relevant(f"q{b}")]
        places = [at for at, document in enumerate(row, start=1) if document in right]
        values.append(1 / places[0] if places else 0.0)
    return values


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss")


@pytest.mark.parametrize("name", ["dense", "max_sim"])
def test_exhaustive_settings_find_the_exact_answer(faiss, name):
    space, queries, qrels = random_space()
    scorer, many = engine.make(name), name == "max_sim"
    indexes = [Ivf(cells=9, probes=9), Ivf(cells=9, probes=1), Hnsw(links=64, construction=400, breadth=2000)]
    found = list(engine.approximate(scorer, space, queries, qrels, indexes=indexes, metrics=("mrr", "recall")))
    assert [row.label for row in found] == ["exact", *(index.label for index in indexes)]
    rows, scores = best(space, queries, many, 10)
    exact, whole, one, graph = found
    for row in (exact, whole, graph):
        assert row.values["mrr"] == pytest.approx(reciprocal(rows, space, qrels))
        assert (row.agreement == 1).all() and row.share == 1 and row.returned == 10
    assert one.share < 1 and one.agreement.shape == (B,)
    assert whole.entries == (len(space.parts) if many else N) and whole.per_document == whole.entries / N
    assert all(row.milliseconds > 0 and row.build > 0 and row.megabytes >= 4e-6 * D * row.entries for row in found)
    assert exact.exact and not whole.exact and {row.scorer for row in found} == {scorer.label}
    assert (np.diff(np.take_along_axis(scores, rows, 1)) < 0).all(), "the oracle must have no ties"


def test_the_share_found_is_that_of_the_exact_answer(faiss):
    space, queries, _ = random_space(1)
    index = Ivf(cells=12, probes=2)
    _, found = engine.approximate(DENSE, space, queries, indexes=[index])
    vectors = space.vectors.numpy()
    built = index.build(faiss, vectors, 0)
    index.apply_effort(built)
    _, hits = built.search(queries.vectors.numpy(), 10)
    rows, _ = best(space, queries, False, 10)
    expected = [len(set(a) & set(b)) / 10 for a, b in zip(hits.tolist(), rows.tolist(), strict=True)]
    assert found.agreement == pytest.approx(expected) and 0 < found.share < 1 and found.values == {}


def test_documents_of_many_near_vectors_leave_room_for_others(faiss):
    """One document's 60 vectors are nearest to every query: more have to be fetched before ten documents are there."""
    draw = np.random.default_rng(3)
    point = np.zeros(D)
    point[0] = 1
    near = point + 0.01 * draw.standard_normal((60, D))
    rest = 0.5 * point + 0.3 * draw.standard_normal((39, D))
    named = (*(part_id("d0", j) for j in range(60)), *(part_id(f"d{i}", 0) for i in range(1, 40)))
    parts = engine.Embeddings(named, np.concatenate([near, rest]).astype(np.float32))
    whole = space_of(torch.eye(40, D))
    space = engine.Space(whole.corpus, whole.embeddings, "cpu", parts)
    queries = queries_of(point[None].astype(np.float32))
    indexes = [Ivf(cells=1, probes=1), Hnsw(links=32, construction=200, breadth=16)]
    found = list(engine.approximate(engine.make("max_sim"), space, queries, indexes=indexes))
    assert [row.returned for row in found] == [10, 10, 10] and found[1].share == 1


def test_hits_become_documents_best_first():
    documents = np.array([0, 0, 1, 2, 2, 3])
    hits, scores = np.array([4, 3, 0, 5, 1, -1]), np.array([0.9, 0.8, 0.7, 0.7, 0.7, 0.0])
    assert merge_hits(hits, scores, documents, 10).tolist() == [2, 0, 3]
    assert merge_hits(hits, scores, documents, 2).tolist() == [2, 0]
    assert merge_hits(np.array([-1, -1]), np.zeros(2), documents, 2).tolist() == []


def test_same_seed_same_answer(faiss):
    space, queries, _ = random_space(2)
    indexes = [Hnsw(links=2, construction=2, breadth=1), Ivf(cells=20, probes=1)]

    def shares(seed):
        found = engine.approximate([DENSE], space, queries, indexes=indexes, seed=seed)
        return [row.agreement.tolist() for row in found]

    assert shares(5) == shares(5)
    others = [shares(seed) for seed in range(6, 10)]
    assert all(any(other[at] != shares(5)[at] for other in others) for at in (1, 2))


def test_more_effort_finds_more(faiss):
    space, queries, _ = random_space(4)
    found = list(engine.approximate(DENSE, space, queries, k=5))
    tried = usual_indexes(N)
    assert {row.label for row in found} == {"exact", *(index.label for index in tried)} and len(found) > len(INDEXES)
    for kind, cls in INDEXES.items():
        own = [row for row in found if row.index["kind"] == kind]
        ends = min(own, key=lambda r: r.index[cls.effort]), max(own, key=lambda r: r.index[cls.effort])
        assert ends[0].share < ends[1].share == 1
    fast = find_quickest(found, 0.9)[DENSE.label]
    enough = [row for row in found if not row.exact and row.share >= 0.9]
    assert fast.milliseconds == min(row.milliseconds for row in enough)
    assert find_quickest([replace(row, agreement=np.zeros(B)) for row in found]) == {}


def test_few_documents_and_progress(faiss):
    space, queries, _ = random_space()
    told = []
    few = engine.approximate(DENSE, space_of(space.vectors[:3]), queries, progress=lambda *at: told.append(at))
    found = list(few)
    assert {row.returned for row in found if row.share == 1} == {3} and found[0].k == 3
    assert told and all(0 <= done <= total for done, total, _ in told)


def test_a_stop_ends_it_between_queries(faiss):
    space, queries, _ = random_space()
    stop = threading.Event()
    found = engine.approximate(DENSE, space, queries, stop=stop)
    assert next(found).exact
    stop.set()
    with pytest.raises(engine.Cancelled, match="stopped"):
        next(found)
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(engine.Cancelled):
        Hnsw().build(faiss, space.vectors.numpy(), 0, stopped)


def test_threads_are_given_back(faiss):
    space, queries, _ = random_space()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        for _ in engine.approximate(DENSE, space, queries, indexes=[Ivf()]):
            assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)


def test_what_cannot_be_searched_is_refused(faiss):
    space, queries, _ = random_space()
    bad = [
        (
            {"scorers": [engine.make("random_projection")]},
            r"found by nearest vectors, as .*dense.* are; random_projection",
        ),
        ({"scorers": []}, "at least one"),
        ({"scorers": ["dense"]}, r"made by engine\.make"),
        ({"indexes": ["ivf"]}, "hnsw, ivf; got 'ivf'"),
        ({"metrics": ("nothing",)}, "must be among"),
        ({"metrics": ("mrr",)}, "mrr: there are no judgements"),
    ]
    for change, message in bad:
        with pytest.raises(engine.DataError if "judgements" in message else engine.ParamError, match=message):
            engine.approximate(**{"scorers": DENSE, "space": space, "queries": queries, **change})
    cells = rf"cells \(nlist\) must be a whole number in \[1, {N}\] or none.*; got {N + 1}.*{N} vectors"
    probes = r"probes \(nprobe\) must be a whole number in \[1, 4\]; got 5.*4 cells"
    for index, message in ((Ivf(cells=N + 1, probes=1), cells), (Ivf(cells=4, probes=5), probes)):
        with pytest.raises(engine.ParamError, match=message):
            list(engine.approximate(DENSE, space, queries, indexes=[index]))
    assert "dense" in list_searchable() and "bm25" not in list_searchable()


def test_without_faiss_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    space, queries, _ = random_space()
    with pytest.raises(engine.FrontierError, match=r"needs faiss.*pip install 'frontier-retrieval\[ann\]'"):
        engine.approximate(DENSE, space, queries)


@pytest.mark.parametrize("cls", [*INDEXES.values()], ids=list(INDEXES))
def test_settings_are_declared_and_refuse_what_is_out_of_range(cls):
    for param in params_of(cls):
        for bad in invalid_values(param):
            with pytest.raises(engine.ParamError, match=param.name):
                cls(**{param.name: bad})
    index = cls()
    assert index.as_json() == {"kind": cls.kind, **{p.name: p.default for p in params_of(cls)}}
    assert cls.effort in index.as_json() and cls.effort not in index.build_parameters
    assert isinstance(index, Index) and Exact().label == "exact" and index.label.startswith(f"{cls.kind}(")
    for count in (1, 2, 50, 10_000):
        for other in cls.usual_settings(count):
            other.check(count)
    with pytest.raises(engine.ParamError, match="one of hnsw, ivf; got 'tree'"):
        usual_indexes(10, ["tree"])


def test_usual_settings_keep_what_is_fixed():
    fixed = {"hnsw": {"links": 4, "construction": 7}, "ivf": {"cells": 6}}
    graphs = usual_indexes(1000, ["hnsw"], fixed)
    assert {(g.links, g.construction) for g in graphs} == {(4, 7)} and len({g.breadth for g in graphs}) == len(graphs)
    assert [index.probes for index in usual_indexes(1000, ["ivf"], fixed)] == [1, 2, 4, 6]
    assert {index.cells for index in usual_indexes(4, ["ivf"], fixed)} == {4}
    assert {index.cells for index in usual_indexes(100, ["ivf"])} == {10}
