"""Metrics against independent programs: trec_eval and ndeval (through ir_measures), and brute force."""

import math

import ir_measures
import numpy as np
import pytest
import torch

import engine
from engine.evaluation.metrics import METRICS, REDUNDANT
from support.instances import FAMILIES, problem
from support.judged_sets import DATA, SETS
from support.rankings import queries_of, ranking_of, space_of

AGREES = dict(rel=0, abs=1e-9)
TREC = {"recall": ir_measures.R, "ndcg": ir_measures.nDCG, "mrr": ir_measures.RR, "precision": ir_measures.P}
NDEVAL = {"alpha_ndcg": ir_measures.alpha_nDCG(alpha=0.5), "s_recall": ir_measures.StRecall}


def rankings(rng, batch, n, k):
    """Rows without repetition; some queries got fewer, one a single document and one none."""
    rows = np.stack([rng.permutation(n)[:k] for _ in range(batch)])
    for b in range(0, batch, 3):
        rows[b, rng.integers(1, k) :] = -1
    rows[1, 1:] = -1
    rows[2] = -1
    return rows


def their_run(space, ids, rows):
    return [
        ir_measures.ScoredDoc(query, space.corpus.ids[row], float(-rank))
        for query, found in zip(ids, rows.tolist(), strict=True)
        for rank, row in enumerate(found)
        if row >= 0
    ]


def theirs(measures, k, judged, run):
    """(metric, query) → value of another program; what it has nothing to say of is 0, as its own means take it."""
    of = {name: measure @ k for name, measure in measures.items()}
    names = {measure: name for name, measure in of.items()}
    return {(names[m.measure], m.query_id): m.value for m in ir_measures.iter_calc(of.values(), judged, run)}


@pytest.mark.parametrize("seed", range(12))
def test_judged_metrics_are_those_of_trec_eval(seed):
    rng = np.random.default_rng(seed)
    space, ids = space_of(np.eye(40, 4, dtype=np.float32)), tuple(f"q{b}" for b in range(12))
    rows = rankings(rng, len(ids), len(space), 20)
    # Few grades, so that they tie; half of the documents unjudged; ten that the corpus lacks; a query that none judges.
    grades = {
        q: {f"d{i}": int(rng.integers(-1, 4)) for i in rng.permutation(50)[: rng.integers(2, 25)]} for q in ids[1:]
    }
    grades[ids[5]] = {"d0": 0, "d1": -1}
    judged = [ir_measures.Qrel(q, d, g) for q, of in grades.items() for d, g in of.items()]
    run = their_run(space, ids, rows)
    for k in (1, 3, 10, 20):
        ours = engine.measure(ranking_of(rows), space, ids, engine.Qrels(grades), k, (*TREC, "comp"))
        expected = theirs(TREC, k, judged, run)
        relevant = {q for q, of in grades.items() if max(of.values()) > 0}
        assert len(expected) == len(TREC) * len(grades) and ours.left_out == len(ids) - len(relevant)
        for name in TREC:
            assert ours.per_query[name] == pytest.approx({q: expected[name, q] for q in relevant}, **AGREES), (name, k)
        assert ours.per_query["comp"] == {q: float(expected["recall", q] == 1) for q in relevant}


def random_aspects(rng, ids, n):
    """Up to six aspects a query, overlapping, of the corpus and of ten documents that it lacks; one query has none."""
    return {
        q: {str(a): frozenset(f"d{i}" for i in rng.permutation(n + 10)[: rng.integers(1, 9)]) for a in range(many)}
        for q in ids[1:]
        if (many := int(rng.integers(1, 7)))
    }


def ndeval(aspects, k, run):
    judged = [ir_measures.Qrel(q, d, 1, a) for q, of in aspects.items() for a, covering in of.items() for d in covering]
    return theirs(NDEVAL, k, judged, run)


@pytest.mark.parametrize("seed", range(12))
def test_aspect_metrics_are_those_of_ndeval(seed):
    rng = np.random.default_rng(seed)
    space, ids = space_of(np.eye(30, 4, dtype=np.float32)), tuple(f"q{b}" for b in range(12))
    rows, aspects = rankings(rng, len(ids), len(space), 20), random_aspects(rng, ids, len(space))
    run = their_run(space, ids, rows)
    answered = {q for q, found in zip(ids, rows, strict=True) if found[0] >= 0}
    for k in (1, 2, 5, 10, 20):
        ours = engine.measure(ranking_of(rows), space, ids, None, k, tuple(NDEVAL), aspects)
        expected = ndeval(aspects, k, run)
        assert set(ours.undefined.values()) == {1}
        for name in NDEVAL:
            # ndeval is silent about a query that got nothing.
            assert {q for m, q in expected if m == name and q in answered} == answered & set(aspects)
            known = {q: expected.get((name, q), 0.0) if q in answered else 0.0 for q in aspects}
            assert ours.per_query[name] == pytest.approx(known, **AGREES), (name, k)


def defined(found, vectors, query):
    """ILAD, redundancy and cos(sum, query) of one set, pair by pair."""
    chosen = [vectors[row].astype(float) for row in found if row >= 0]

    def cosine(x, y):
        lengths = np.linalg.norm(x) * np.linalg.norm(y)
        return float(x @ y / lengths) if lengths else 0.0

    pairs = [1 - cosine(x, y) for i, x in enumerate(chosen) for y in chosen[:i]]
    again = [max((cosine(x, y) for y in chosen[:i]), default=-1.0) >= REDUNDANT for i, x in enumerate(chosen)]
    return {
        "ilad": np.mean(pairs) if pairs else math.nan,
        "redundancy": np.mean(again) if again else math.nan,
        "cos_sum": cosine(np.sum(chosen, axis=0), query.astype(float)) if chosen else math.nan,
    }


@pytest.mark.parametrize("n", [30, 200])
@pytest.mark.parametrize("family", FAMILIES)
def test_metrics_of_vectors_are_their_definitions(family, n):
    rng = np.random.default_rng(n)
    for seed in range(8):
        vectors, queries = problem(family, seed, n=n, d=5, batch=9)
        queries[4] = 0
        space, asked = space_of(vectors), queries_of(queries)
        rows = rankings(rng, 9, n, 10)
        for k in (1, 2, 7, 10):
            got = engine.measure(ranking_of(rows), space, asked, None, k, ("ilad", "redundancy", "cos_sum")).values
            for b in range(9):
                for name, value in defined(rows[b, :k], vectors, queries[b]).items():
                    assert got[name][b] == pytest.approx(value, abs=1e-9, nan_ok=True), (name, seed, b, k)
        assert n * n <= 4 * rows.size * 10 if n == 30 else n * n > 4 * rows.size * 10, "one way of the two is not tried"


def test_redundancy_is_there_to_be_found():
    """The families above hold sets of every kind, or their agreement would say little."""
    seen = set()
    for family in FAMILIES:
        vectors, _ = problem(family, 0, n=30, d=5)
        rows = rankings(np.random.default_rng(0), 9, 30, 10)
        seen |= {defined(found, vectors, vectors[0])["redundancy"] for found in rows[3:]}
    assert len(seen) > 4 and 0 in seen


def test_many_queries_in_blocks_are_as_one_at_a_time(monkeypatch):
    rng = np.random.default_rng(3)
    vectors, queries = problem("degenerate", 1, n=50, d=6, batch=40)
    space, ids = space_of(vectors), tuple(f"q{b}" for b in range(40))
    rows, aspects = rankings(rng, 40, 50, 8), random_aspects(rng, ids, 50)
    qrels = engine.Qrels({q: {f"d{i}": int(rng.integers(0, 3)) for i in rng.permutation(50)[:9]} for q in ids[2:]})

    def measured(picked):
        asked = engine.Embeddings(tuple(ids[b] for b in picked), torch.tensor(queries[picked]))
        names = tuple(METRICS)
        return engine.measure(ranking_of(rows[picked]), space, asked, qrels, 8, names, aspects, aspects).values

    one = [measured([b]) for b in range(40)]
    whole = measured(list(range(40)))
    monkeypatch.setattr("engine.evaluation.metrics.CHUNK_NUMBERS", 7 * 8 * 6)
    monkeypatch.setattr("engine.evaluation.metrics.CACHED_NUMBERS", 4 * 3 * 6)
    blocks = measured(list(range(40)))
    for name in METRICS:
        apart = np.concatenate([values[name] for values in one])
        assert np.allclose(whole[name], apart, rtol=0, atol=1e-12, equal_nan=True), name
        assert np.allclose(blocks[name], apart, rtol=0, atol=1e-12, equal_nan=True), name
        assert 0 < np.isfinite(apart).sum() < 40


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_measures_the_same():
    rng = np.random.default_rng(5)
    vectors, queries = problem("degenerate", 2, n=300, d=16, batch=30)
    asked, here = queries_of(queries), space_of(vectors)
    there = engine.Space(here.corpus, here.embeddings, "cuda")
    ranking, aspects = ranking_of(rankings(rng, 30, 300, 10)), random_aspects(rng, asked.ids, 300)
    qrels = engine.Qrels({q: {f"d{i}": 1 for i in rng.permutation(300)[:40]} for q in asked.ids})
    far = engine.Ranking(ranking.index.cuda(), ranking.gain.cuda(), ranking.info)
    expected = engine.measure(ranking, here, asked, qrels, 10, tuple(METRICS), aspects, aspects).values
    for given in (ranking, far):
        got = engine.measure(given, there, asked, qrels, 10, tuple(METRICS), aspects, aspects).values
        for name in METRICS:
            assert np.allclose(got[name], expected[name], rtol=0, atol=1e-12, equal_nan=True), name


@pytest.mark.skipif("perspectrum" not in SETS, reason="perspectrum is not here")
def test_perspectives_are_counted_as_ndeval_counts_them():
    dataset = engine.load_dataset(DATA / "perspectrum")
    qrels, ids, n = dataset.qrels["dev"], dataset.judged("dev").ids, len(dataset.corpus)
    space = engine.Space(dataset.corpus, engine.Embeddings(dataset.corpus.ids, torch.ones(n, 2)), "cpu")
    rng = np.random.default_rng(0)
    rows = np.zeros((len(ids), 10), dtype=int)
    for b, query in enumerate(ids):
        right = sorted(dataset.corpus.position[d] for d in qrels.relevant(query))[:30]
        others = np.setdiff1d(rng.integers(n, size=40), right)[:20]
        rows[b] = rng.permutation([*right, *others])[:10]
    run = their_run(space, ids, rows)
    for k in (5, 10):
        ours = engine.measure(ranking_of(rows), space, ids, qrels, k, tuple(NDEVAL), aspects=dataset.aspects)
        expected = ndeval({q: dataset.aspects[q] for q in ids}, k, run)
        assert ours.undefined == {"alpha_ndcg": 0, "s_recall": 0} and 0.1 < ours.mean["s_recall"] < 0.9
        for name in NDEVAL:
            assert ours.per_query[name] == pytest.approx({q: expected[name, q] for q in ids}, **AGREES)
