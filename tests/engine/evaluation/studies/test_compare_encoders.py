"""Encoders compared: against NumPy and scipy, and against the bundled model in two arithmetics."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import engine
from engine.evaluation.statistics import describe_comparison
from engine.evaluation.studies.compare_encoders import Variant, compare_encoders, compute_overlap, find_disagreements
from engine.values import Corpus, Qrels
from support.instances import random_rows
from support.rankings import queries_of, space_of

N, QUERIES, K = 60, 40, 5
TOP, MMR = engine.Decoder(select=engine.make("top_k")), engine.Decoder(select=engine.make("mmr", relevance_weight=0.5))


def variant(seed, d, text="text"):
    """Build a variant with random vectors of d dimensions."""
    rows = random_rows(np.random.default_rng(seed), N + QUERIES, d).astype(np.float32)
    return Variant(space_of(rows[:N], (text,) * N), queries_of(rows[N:]))


@pytest.fixture(scope="module")
def data():
    """Two unrelated encoders of one corpus, of different dimensions, and judgements for all queries but one."""
    variants = {"old": variant(1, 12), "new": variant(2, 20)}
    old = variants["old"]
    scores = (old.queries.vectors @ old.space.vectors.T).numpy()
    grades = {f"q{i}": {f"d{j}": 1 for j in np.argsort(-scores[i])[:8:2]} for i in range(1, QUERIES)}
    return variants, Qrels(grades)


def by_hand(rows, variants, qrels):
    """Recall, and ILAD in the first space, by loops."""
    vectors = variants["old"].space.vectors.double().numpy()
    recall, ilad = [], []
    for i, doc_rows in enumerate(rows):
        relevant = qrels.relevant(f"q{i}")
        recall.append(np.mean([d in {f"d{r}" for r in doc_rows} for d in relevant]) if relevant else np.nan)
        pairs = [(a, b) for position, a in enumerate(doc_rows) for b in doc_rows[position + 1 :]]
        ilad.append(np.mean([1 - vectors[a] @ vectors[b] for a, b in pairs]))
    return np.array(recall), np.array(ilad)


def test_values_overlap_and_statistics_against_numpy_and_scipy(data):
    variants, qrels = data
    result = compare_encoders(variants, [TOP, MMR], qrels, K)
    name = result.decoders[0]
    products = {v: (variant.queries.vectors @ variant.space.vectors.T).numpy() for v, variant in variants.items()}
    rows = {v: np.argsort(-products[v], axis=1, kind="stable")[:, :K] for v in variants}
    wanted = {v: by_hand(rows[v], variants, qrels) for v in variants}
    for v in variants:
        for metric, column in zip(("recall", "ilad"), wanted[v], strict=True):
            np.testing.assert_allclose(result.values[name, v][metric], column, atol=1e-6)
    shared = np.array([len(set(a) & set(b)) / K for a, b in zip(rows["old"], rows["new"], strict=True)])
    np.testing.assert_array_equal(result.overlap[name, "new"], shared)
    assert result.agreement(name, "new") == pytest.approx(shared.mean()) and result.agreement(name, "old") == 1

    for metric, index in (("recall", 0), ("ilad", 1)):
        (row,) = result.rows[metric][name]
        a, b = wanted["new"][index], wanted["old"][index]
        is_finite = np.isfinite(a) & np.isfinite(b)
        d = (a - b)[is_finite]
        assert row.queries == is_finite.sum() == (QUERIES - 1 if metric == "recall" else QUERIES)
        assert (row.mean, row.baseline_mean, row.difference) == pytest.approx(
            (a[is_finite].mean(), b[is_finite].mean(), d.mean()), abs=1e-6
        )
        assert tuple(row.wins) == ((d > 1e-6).sum(), (np.abs(d) <= 1e-6).sum(), (d < -1e-6).sum())
        student = stats.t.interval(0.95, len(d) - 1, d.mean(), stats.sem(d))
        assert (row.low, row.high) == pytest.approx(student, abs=0.15 * (student[1] - student[0]))
        oracle = stats.permutation_test(
            (d,), np.mean, permutation_type="samples", n_resamples=9_999, random_state=np.random.default_rng(5)
        )
        assert row.p == pytest.approx(oracle.pvalue, abs=0.02)


def test_holm_is_over_the_decoders_of_a_metric(data):
    variants, qrels = data
    result = compare_encoders(variants, [TOP, MMR], qrels, K)
    for metric in result.metrics:
        rows = [row for decoder_rows in result.rows[metric].values() for row in decoder_rows]
        small, large = sorted(rows, key=lambda row: row.p)
        assert small.p_holm == pytest.approx(min(1, 2 * small.p)) and {r.comparisons for r in rows} == {2}
        assert large.p_holm == pytest.approx(max(large.p, min(1, 2 * small.p)))


def test_diversity_is_measured_in_the_first_space(data):
    """In its own space the second encoder's sets have another ILAD; in the other order the numbers swap."""
    variants, qrels = data
    result = compare_encoders(variants, [TOP], qrels, K)
    name = result.decoders[0]
    space, queries = variants["new"].space, variants["new"].queries
    own_ilad = engine.measure(engine.decode(TOP, space, queries, K), space, queries, k=K, metrics=("ilad",)).mean[
        "ilad"
    ]
    assert abs(result.mean(name, "new", "ilad") - own_ilad) > 0.005
    turned = compare_encoders(dict(reversed(variants.items())), [TOP], qrels, K)
    assert turned.mean(name, "new", "ilad") == pytest.approx(own_ilad)
    assert turned.rows["recall"][name][0].difference == -result.rows["recall"][name][0].difference
    assert turned.rows["recall"][name][0].p == result.rows["recall"][name][0].p


def test_an_encoder_beside_itself_differs_nowhere(data):
    variants, qrels = data
    result = compare_encoders({"a": variants["old"], "b": variants["old"]}, [TOP, MMR], qrels, K)
    for name in result.decoders:
        assert result.agreement(name, "b") == 1 and not find_disagreements(result, name, "b", "recall")
        for metric in result.metrics:
            (row,) = result.rows[metric][name]
            assert row.difference == 0 and row.p == row.p_holm == 1 and not row.significant
    assert "have the same Recall@5" in describe_comparison(result.rows["recall"][result.decoders[0]][0])


def test_without_judgements_overlap_and_diversity_remain(data):
    result = compare_encoders(data[0], [TOP], None, K)
    assert result.metrics == ("ilad", "redundancy")
    assert (
        result.agreement(result.decoders[0], "new") < 0.5 and result.rows["ilad"][result.decoders[0]][0].queries == 40
    )


def test_the_queries_that_differ_most_come_first(data):
    variants, qrels = data
    result = compare_encoders(variants, [TOP], qrels, K)
    name = result.decoders[0]
    rows = find_disagreements(result, name, "new", "recall", max_queries=QUERIES)
    assert [r.overlap for r in rows] == sorted(r.overlap for r in rows)
    assert len(rows) == (result.overlap[name, "new"] < 1).sum()
    gaps = [abs(r.first - r.other) if r.first is not None else 0 for r in rows if r.overlap == rows[0].overlap]
    assert gaps == sorted(gaps, reverse=True)
    unjudged = next(r for r in rows if r.query == 0)
    assert unjudged.first is None and unjudged.other is None


def test_overlap_is_of_the_larger_set_and_of_nothing_undefined():
    a = np.array([[1, 2, 3], [4, -1, -1], [-1, -1, -1], [-1, -1, -1]])
    b = np.array([[3, 1, 9], [4, 5, -1], [-1, -1, -1], [7, -1, -1]])
    np.testing.assert_array_equal(compute_overlap(a, b), [2 / 3, 1 / 2, np.nan, 0])


def test_three_encoders_are_each_compared_with_the_first(data):
    variants, qrels = data
    three_variants = {**variants, "third": variant(3, 8)}
    result = compare_encoders(three_variants, [TOP], qrels, K)
    assert [row.label for row in result.rows["recall"][result.decoders[0]]] == ["new", "third"]
    assert "with third" in describe_comparison(result.rows["recall"][result.decoders[0]][1])


def test_compare_encoders_reports_progress_and_stops(data):
    variants, qrels = data
    calls = []
    compare_encoders(variants, [TOP, MMR], qrels, K, progress=lambda *at: calls.append(at))
    assert [d for d, _, _ in calls] == [0, 40, 80, 120, 160] and {t for _, t, _ in calls} == {160}
    stop = threading.Event()
    stop.set()
    with pytest.raises(engine.Cancelled):
        compare_encoders(variants, [TOP], qrels, K, stop=stop)


def test_incompatible_variants_raise_param_error(data):
    variants, qrels = data
    fewer = variants["new"]._replace(queries=variants["new"].queries.take(range(3)))
    for wrong, message in (
        ({"old": variants["old"]}, "at least two; got old"),
        ({**variants, "new": variant(2, 20, "else")}, "old and new are not of one corpus"),
        ({**variants, "new": fewer}, "same queries in the same order"),
    ):
        with pytest.raises(engine.DataError, match=message):
            compare_encoders(wrong, [TOP], qrels, K)
    for wrong in ([], ["top_k"]):
        with pytest.raises(engine.ParamError, match="decoders must be"):
            compare_encoders(variants, wrong, qrels, K)
    with pytest.raises(engine.DataError, match="recall needs judgements"):
        compare_encoders(variants, [TOP], None, K, metrics=("recall",))


@pytest.mark.deep
def test_two_arithmetics_of_the_bundled_encoder(demo):
    dataset, _ = demo
    queries, qrels = dataset.judged("dev"), dataset.qrels["dev"]
    queries = queries.only(queries.ids[:6])
    rows = sorted({*range(6), *(dataset.corpus.position[d] for q in queries.ids for d in qrels.relevant(q))})
    corpus = Corpus(*(tuple(values[row] for row in rows) for values in (dataset.corpus.ids, dataset.corpus.texts)))
    variants = {}
    for dtype in ("float32", "bfloat16"):
        space = engine.Space(corpus, engine.embed(corpus, dtype=dtype))
        variants[dtype] = Variant(space, engine.embed(queries, dtype=dtype))
    result = compare_encoders(variants, [TOP], qrels)
    assert 0.9 < result.agreement(result.decoders[0], "bfloat16") <= 1
    (row,) = result.rows["recall"][result.decoders[0]]
    assert row.queries == 6 and abs(row.difference) < 0.1 and describe_comparison(row)


def test_queries_with_texts_are_compared_block_by_block(data, monkeypatch):
    """Texts are cut as the vectors are; blocks change nothing."""
    variants, qrels = data
    without_texts = compare_encoders(variants, [TOP], qrels, K)
    texts = tuple(f"question {i}" for i in range(QUERIES))
    texts_too = {name: Variant(v.space, replace(v.queries, texts=texts)) for name, v in variants.items()}
    monkeypatch.setattr("engine.evaluation.studies.compare_encoders.DECODE_BLOCK_SIZE", 16)
    result = compare_encoders(texts_too, [TOP], qrels, K)
    for key, values in without_texts.values.items():
        np.testing.assert_array_equal(result.values[key]["recall"], values["recall"])
