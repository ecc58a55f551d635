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


def random_space(seed=0, max_parts=5):
    """N documents of one random vector each, and 1 to `max_parts` others as parts; queries; judgements."""
    draw = np.random.default_rng(seed)
    counts = draw.integers(1, max_parts + 1, N)
    named = tuple(part_id(f"d{i}", j) for i, count in enumerate(counts) for j in range(count))
    parts = engine.Embeddings(named, random_rows(draw, len(named), D).astype(np.float32))
    documents = space_of(random_rows(draw, N, D).astype(np.float32))
    space = engine.Space(documents.corpus, documents.embeddings, "cpu", parts)
    queries = queries_of(random_rows(draw, B, D).astype(np.float32))
    qrels = engine.Qrels({f"q{b}": {f"d{int(row)}": 1 for row in draw.integers(0, N, 4)} for b in range(B)})
    return space, queries, qrels


def best_by_brute_force(space, queries, has_parts, k):
    """Rows of the k best documents by brute force in float64, (B, k), and all scores."""
    points = queries.vectors.double().numpy()
    if not has_parts:
        scores = points @ space.vectors.double().numpy().T
    else:
        products = points @ space.parts.vectors.double().numpy().T
        scores = np.full((len(points), N), -np.inf)
        for part_row, document in enumerate(space.parts.documents.tolist()):
            scores[:, document] = np.maximum(scores[:, document], products[:, part_row])
    return np.argsort(-scores, axis=1, kind="stable")[:, :k], scores


def reciprocal_ranks(rows, space, qrels):
    """MRR by hand."""
    values = []
    for b, row in enumerate(rows):
        right = [space.corpus.position[d] for d in qrels.relevant(f"q{b}")]
        ranks = [rank for rank, document in enumerate(row, start=1) if document in right]
        values.append(1 / ranks[0] if ranks else 0.0)
    return values


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss")


@pytest.mark.parametrize("name", ["dense", "max_sim"])
def test_exhaustive_settings_find_the_exact_answer(faiss, name):
    space, queries, qrels = random_space()
    scorer, has_parts = engine.make(name), name == "max_sim"
    indexes = [Ivf(cells=9, probes=9), Ivf(cells=9, probes=1), Hnsw(links=64, construction=400, breadth=2000)]
    measured = list(engine.approximate(scorer, space, queries, qrels, indexes=indexes, metrics=("mrr", "recall")))
    assert [row.label for row in measured] == ["exact", *(index.label for index in indexes)]
    rows, scores = best_by_brute_force(space, queries, has_parts, 10)
    exact, full, single_list, graph_row = measured
    for row in (exact, full, graph_row):
        assert row.values["mrr"] == pytest.approx(reciprocal_ranks(rows, space, qrels))
        assert (row.agreement == 1).all() and row.share == 1 and row.returned == 10
    assert single_list.share < 1 and single_list.agreement.shape == (B,)
    assert full.entries == (len(space.parts) if has_parts else N) and full.per_document == full.entries / N
    assert all(row.milliseconds > 0 and row.build > 0 and row.megabytes >= 4e-6 * D * row.entries for row in measured)
    assert exact.exact and not full.exact and {row.scorer for row in measured} == {scorer.label}
    assert (np.diff(np.take_along_axis(scores, rows, 1)) < 0).all(), "the oracle must have no ties"


def test_the_share_found_is_that_of_the_exact_answer(faiss):
    space, queries, _ = random_space(1)
    index = Ivf(cells=12, probes=2)
    _, measured = engine.approximate(DENSE, space, queries, indexes=[index])
    vectors = space.vectors.numpy()
    built = index.build(faiss, vectors, 0)
    index.apply_effort(built)
    _, hits = built.search(queries.vectors.numpy(), 10)
    rows, _ = best_by_brute_force(space, queries, False, 10)
    expected = [len(set(a) & set(b)) / 10 for a, b in zip(hits.tolist(), rows.tolist(), strict=True)]
    assert measured.agreement == pytest.approx(expected) and 0 < measured.share < 1 and measured.values == {}


def test_documents_of_many_near_vectors_leave_room_for_others(faiss):
    """One document's 60 vectors are nearest to every query: more have to be fetched before ten documents are there."""
    draw = np.random.default_rng(3)
    point = np.zeros(D)
    point[0] = 1
    near = point + 0.01 * draw.standard_normal((60, D))
    remaining = 0.5 * point + 0.3 * draw.standard_normal((39, D))
    named = (*(part_id("d0", j) for j in range(60)), *(part_id(f"d{i}", 0) for i in range(1, 40)))
    parts = engine.Embeddings(named, np.concatenate([near, remaining]).astype(np.float32))
    corpus = space_of(torch.eye(40, D))
    space = engine.Space(corpus.corpus, corpus.embeddings, "cpu", parts)
    queries = queries_of(point[None].astype(np.float32))
    indexes = [Ivf(cells=1, probes=1), Hnsw(links=32, construction=200, breadth=16)]
    rows = list(engine.approximate(engine.make("max_sim"), space, queries, indexes=indexes))
    assert [row.returned for row in rows] == [10, 10, 10] and rows[1].share == 1


def test_hits_become_documents_best_first():
    documents = np.array([0, 0, 1, 2, 2, 3])
    hits, scores = np.array([4, 3, 0, 5, 1, -1]), np.array([0.9, 0.8, 0.7, 0.7, 0.7, 0.0])
    assert merge_hits(hits, scores, documents, 10).tolist() == [2, 0, 3]
    assert merge_hits(hits, scores, documents, 2).tolist() == [2, 0]
    assert merge_hits(np.array([-1, -1]), np.zeros(2), documents, 2).tolist() == []


def test_share_depends_on_seed_alone(faiss):
    space, queries, _ = random_space(2)
    indexes = [Hnsw(links=2, construction=2, breadth=1), Ivf(cells=20, probes=1)]

    def shares(seed):
        rows = engine.approximate([DENSE], space, queries, indexes=indexes, seed=seed)
        return [row.agreement.tolist() for row in rows]

    assert shares(5) == shares(5)
    other_shares = [shares(seed) for seed in range(6, 10)]
    assert all(any(share[index] != shares(5)[index] for share in other_shares) for index in (1, 2))


def test_recall_grows_with_effort(faiss):
    space, queries, _ = random_space(4)
    rows = list(engine.approximate(DENSE, space, queries, k=5))
    tried = usual_indexes(N)
    assert {row.label for row in rows} == {"exact", *(index.label for index in tried)} and len(rows) > len(INDEXES)
    for kind, cls in INDEXES.items():
        rows_of_kind = [row for row in rows if row.index["kind"] == kind]
        ends = (
            min(rows_of_kind, key=lambda r: r.index[cls.effort]),
            max(rows_of_kind, key=lambda r: r.index[cls.effort]),
        )
        assert ends[0].share < ends[1].share == 1
    fast = find_quickest(rows, 0.9)[DENSE.label]
    enough = [row for row in rows if not row.exact and row.share >= 0.9]
    assert fast.milliseconds == min(row.milliseconds for row in enough)
    assert find_quickest([replace(row, agreement=np.zeros(B)) for row in rows]) == {}


def test_small_corpus_reports_progress(faiss):
    space, queries, _ = random_space()
    calls = []
    search = engine.approximate(DENSE, space_of(space.vectors[:3]), queries, progress=lambda *at: calls.append(at))
    rows = list(search)
    assert {row.returned for row in rows if row.share == 1} == {3} and rows[0].k == 3
    assert calls and all(0 <= done <= total for done, total, _ in calls)


def test_stop_ends_search_between_queries(faiss):
    space, queries, _ = random_space()
    stop = threading.Event()
    rows = engine.approximate(DENSE, space, queries, stop=stop)
    assert next(rows).exact
    stop.set()
    with pytest.raises(engine.Cancelled, match="stopped"):
        next(rows)
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(engine.Cancelled):
        Hnsw().build(faiss, space.vectors.numpy(), 0, stopped)


def test_faiss_thread_count_is_restored(faiss):
    space, queries, _ = random_space()
    threads_before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        for _ in engine.approximate(DENSE, space, queries, indexes=[Ivf()]):
            assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(threads_before)


def test_unsearchable_scorer_raises_param_error(faiss):
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
        for setting in cls.usual_settings(count):
            setting.check(count)
    with pytest.raises(engine.ParamError, match="one of hnsw, ivf; got 'tree'"):
        usual_indexes(10, ["tree"])


def test_usual_settings_keep_what_is_fixed():
    fixed = {"hnsw": {"links": 4, "construction": 7}, "ivf": {"cells": 6}}
    graphs = usual_indexes(1000, ["hnsw"], fixed)
    assert {(g.links, g.construction) for g in graphs} == {(4, 7)} and len({g.breadth for g in graphs}) == len(graphs)
    assert [index.probes for index in usual_indexes(1000, ["ivf"], fixed)] == [1, 2, 4, 6]
    assert {index.cells for index in usual_indexes(4, ["ivf"], fixed)} == {4}
    assert {index.cells for index in usual_indexes(100, ["ivf"])} == {10}
