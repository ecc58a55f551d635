"""Metrics against plain Python, and the cases in which they do not exist."""

import math

import numpy as np
import pytest
import torch
from instances import problem

import engine

ALL = ("recall", "comp", "ndcg", "mrr", "precision", "ilad")


def space_of(vectors):
    ids = tuple(f"d{i}" for i in range(len(vectors)))
    return engine.Space(engine.Corpus(ids, ("",) * len(ids)), engine.Embeddings(torch.tensor(vectors), ids))


def ranking_of(rows):
    index = torch.tensor(rows)
    return engine.Ranking(index, torch.zeros(index.shape), ({},) * len(index))


def plain(found, grades, vectors, k):
    """Every metric of one query by its definition."""
    relevant = {d for d, g in grades.items() if g > 0}
    top = [d for d in found[:k] if d is not None]
    hits = [d for d in top if d in relevant]
    first = next((r for r, d in enumerate(top, 1) if d in relevant), None)
    dcg = sum(max(0, grades.get(d, 0)) / math.log2(r + 1) for r, d in enumerate(top, 1))
    ideal = sorted((g for g in grades.values() if g > 0), reverse=True)[:k]
    cosines = []
    for a in range(len(top)):
        for b in range(a):
            x, y = (vectors[int(top[i][1:])].astype(float) for i in (a, b))
            lengths = np.linalg.norm(x) * np.linalg.norm(y)
            cosines.append(1 - (x @ y / lengths if lengths else 0))
    return {
        "recall": len(hits) / len(relevant),
        "comp": float(relevant <= set(top)),
        "ndcg": dcg / sum(g / math.log2(r + 1) for r, g in enumerate(ideal, 1)),
        "mrr": 1 / first if first else 0.0,
        "precision": len(hits) / k,
        "ilad": float(np.mean(cosines)) if cosines else None,
    }


@pytest.mark.parametrize("family", ["random", "clustered", "duplicated", "degenerate"])
def test_equals_the_definitions(family):
    rng = np.random.default_rng(0)
    for seed in range(15):
        vectors, _ = problem(family, seed, n=30, d=5)
        space = space_of(vectors)
        ids = [f"q{b}" for b in range(8)]
        rows = np.stack([rng.permutation(30)[:10] for _ in ids])
        rows[0, 4:] = -1
        rows[1, 1:] = -1
        rows[2] = -1
        grades = {q: {f"d{i}": int(rng.integers(-1, 4)) for i in rng.permutation(34)[:6]} for q in ids}
        for q in ids:
            grades[q]["d3"] = 1
        for k in (1, 3, 10):
            got = engine.measure(ranking_of(rows), space, ids, engine.Qrels(grades), k, ALL)
            for b, q in enumerate(ids):
                found = [f"d{i}" if i >= 0 else None for i in rows[b]]
                for name, value in plain(found, grades[q], vectors, k).items():
                    if value is None:
                        assert q not in got.per_query[name]
                    else:
                        assert got.per_query[name][q] == pytest.approx(value, abs=1e-9), (name, q, k)


def test_a_query_without_relevant_documents_is_left_out_and_counted():
    space = space_of(np.eye(3, dtype=np.float32))
    qrels = engine.Qrels({"a": {"d0": 1}, "b": {"d0": 0}})
    got = engine.measure(ranking_of([[0, 1]] * 3), space, ["a", "b", "c"], qrels, k=2, metrics=ALL)
    assert got.left_out == 2
    assert got.per_query["recall"] == {"a": 1.0} and got.mean["recall"] == 1.0
    assert set(got.per_query["ilad"]) == {"a", "b", "c"}
    assert got.undefined["recall"] == 2 and got.undefined["ilad"] == 0


def test_ilad_is_undefined_not_zero_for_fewer_than_two():
    space = space_of(np.eye(3, dtype=np.float32))
    got = engine.measure(ranking_of([[0, -1], [0, 1], [-1, -1]]), space, ["a", "b", "c"], k=2, metrics=["ilad"])
    assert got.per_query["ilad"] == {"b": 1.0} and got.undefined["ilad"] == 2
    alone = engine.measure(ranking_of([[0, 1]]), space, ["a"], k=1, metrics=["ilad"])
    assert math.isnan(alone.mean["ilad"])


def test_identical_documents_are_exactly_alike():
    rows = np.repeat(np.random.default_rng(0).standard_normal((1, 384)), 10, axis=0).astype(np.float32)
    got = engine.measure(ranking_of([list(range(10))]), space_of(rows), ["a"], k=10, metrics=["ilad"])
    assert 0 <= got.per_query["ilad"]["a"] < 1e-12


def test_a_ranking_of_another_corpus_is_refused():
    with pytest.raises(engine.DataError, match="not of this corpus: it holds row 7"):
        engine.measure(ranking_of([[0, 7]]), space_of(np.eye(3)), ["a"], k=2, metrics=["ilad"])


def test_negative_cosines_count_in_full():
    vectors = np.array([[1, 0], [-2, 0]], dtype=np.float32)
    got = engine.measure(ranking_of([[0, 1]]), space_of(vectors), ["a"], k=2, metrics=["ilad"])
    assert got.per_query["ilad"]["a"] == pytest.approx(2.0)


def test_a_relevant_document_outside_the_corpus_counts_as_not_found():
    space = space_of(np.eye(2, dtype=np.float32))
    got = engine.measure(ranking_of([[0]]), space, ["a"], engine.Qrels({"a": {"d0": 1, "gone": 1}}), k=1)
    assert got.mean["recall"] == 0.5 and got.mean["comp"] == 0.0


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(k=3), r"k \(3\) must be at most the ranking's depth, 2"),
        (dict(k=0), "k.*whole number"),
        (dict(metrics=["hits"]), "metrics must be among recall.*'hits'"),
        (dict(qrels=None), "recall, comp, ndcg need judgements"),
        (dict(queries=["a", "b"]), "2 queries, 1 rankings"),
        (dict(queries="a"), "list of distinct query ids"),
        (dict(qrels={"a": {"d0": 1}}), "qrels must be engine.Qrels"),
    ],
)
def test_bad_calls_say_what_is_wrong(change, message):
    given = {"queries": ["a"], "qrels": engine.Qrels({"a": {"d0": 1}}), "k": 2, **change}
    with pytest.raises(engine.FrontierError, match=message):
        engine.measure(ranking_of([[0, 1]]), space_of(np.eye(3, dtype=np.float32)), **given)
