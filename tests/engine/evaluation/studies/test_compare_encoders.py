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
    """What an encoder of d dimensions makes of a corpus, all of it at random."""
    rows = random_rows(np.random.default_rng(seed), N + QUERIES, d).astype(np.float32)
    return Variant(space_of(rows[:N], (text,) * N), queries_of(rows[N:]))


@pytest.fixture(scope="module")
def made():
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
    for i, own in enumerate(rows):
        relevant = qrels.relevant(f"q{i}")
        recall.append(np.mean([d in {f"d{r}" for r in own} for d in relevant]) if relevant else np.nan)
        pairs = [(a, b) for at, a in enumerate(own) for b in own[at + 1 :]]
        ilad.append(np.mean([1 - vectors[a] @ vectors[b] for a, b in pairs]))
    return np.array(recall), np.array(ilad)


def test_values_overlap_and_statistics_against_numpy_and_scipy(made):
    variants, qrels = made
    found = compare_encoders(variants, [TOP, MMR], qrels, K)
    name = found.decoders[0]
    products = {v: (own.queries.vectors @ own.space.vectors.T).numpy() for v, own in variants.items()}
    rows = {v: np.argsort(-products[v], axis=1, kind="stable")[:, :K] for v in variants}
    wanted = {v: by_hand(rows[v], variants, qrels) for v in variants}
    for v in variants:
        for metric, column in zip(("recall", "ilad"), wanted[v], strict=True):
            np.testing.assert_allclose(found.values[name, v][metric], column, atol=1e-6)
    shared = np.array([len(set(a) & set(b)) / K for a, b in zip(rows["old"], rows["new"], strict=True)])
    np.testing.assert_array_equal(found.overlap[name, "new"], shared)
    assert found.agreement(name, "new") == pytest.approx(shared.mean()) and found.agreement(name, "old") == 1

    for metric, at in (("recall", 0), ("ilad", 1)):
        (row,) = found.rows[metric][name]
        a, b = wanted["new"][at], wanted["old"][at]
        there = np.isfinite(a) & np.isfinite(b)
        d = (a - b)[there]
        assert row.queries == there.sum() == (QUERIES - 1 if metric == "recall" else QUERIES)
        assert (row.mean, row.baseline_mean, row.difference) == pytest.approx(
            (a[there].mean(), b[there].mean(), d.mean()), abs=1e-6
        )
        assert tuple(row.wins) == ((d > 1e-6).sum(), (np.abs(d) <= 1e-6).sum(), (d < -1e-6).sum())
        student = stats.t.interval(0.95, len(d) - 1, d.mean(), stats.sem(d))
        assert (row.low, row.high) == pytest.approx(student, abs=0.15 * (student[1] - student[0]))
        oracle = stats.permutation_test(
            (d,), np.mean, permutation_type="samples", n_resamples=9_999, random_state=np.random.default_rng(5)
        )
        assert row.p == pytest.approx(oracle.pvalue, abs=0.02)


def test_holm_is_over_the_decoders_of_a_metric(made):
    variants, qrels = made
    found = compare_encoders(variants, [TOP, MMR], qrels, K)
    for metric in found.metrics:
        rows = [row for own in found.rows[metric].values() for row in own]
        small, large = sorted(rows, key=lambda row: row.p)
        assert small.p_holm == pytest.approx(min(1, 2 * small.p)) and {r.comparisons for r in rows} == {2}
        assert large.p_holm == pytest.approx(max(large.p, min(1, 2 * small.p)))


def test_diversity_is_measured_in_the_first_space(made):
    """In its own space the second encoder's sets have another ILAD; in the other order the numbers swap."""
    variants, qrels = made
    found = compare_encoders(variants, [TOP], qrels, K)
    name = found.decoders[0]
    own = engine.measure(engine.decode(TOP, variants["new"].space, variants["new"].queries, K), variants["new"].space,
                         variants["new"].queries, k=K, metrics=("ilad",)).mean["ilad"]  # fmt: skip
    assert abs(found.mean(name, "new", "ilad") - own) > 0.005
    turned = compare_encoders(dict(reversed(variants.items())), [TOP], qrels, K)
    assert turned.mean(name, "new", "ilad") == pytest.approx(own)
    assert turned.rows["recall"][name][0].difference == -found.rows["recall"][name][0].difference
    assert turned.rows["recall"][name][0].p == found.rows["recall"][name][0].p


def test_an_encoder_beside_itself_differs_nowhere(made):
    variants, qrels = made
    found = compare_encoders({"a": variants["old"], "b": variants["old"]}, [TOP, MMR], qrels, K)
    for name in found.decoders:
        assert found.agreement(name, "b") == 1 and not find_disagreements(found, name, "b", "recall")
        for metric in found.metrics:
            (row,) = found.rows[metric][name]
            assert row.difference == 0 and row.p == row.p_holm == 1 and not row.significant
    assert "have the same Recall@5" in describe_comparison(found.rows["recall"][found.decoders[0]][0])


def test_without_judgements_overlap_and_diversity_remain(made):
    found = compare_encoders(made[0], [TOP], None, K)
    assert found.metrics == ("ilad", "redundancy")
    assert found.agreement(found.decoders[0], "new") < 0.5 and found.rows["ilad"][found.decoders[0]][0].queries == 40


def test_the_queries_that_differ_most_come_first(made):
    variants, qrels = made
    found = compare_encoders(variants, [TOP], qrels, K)
    name = found.decoders[0]
    rows = find_disagreements(found, name, "new", "recall", max_queries=QUERIES)
    assert [r.overlap for r in rows] == sorted(r.overlap for r in rows)
    assert len(rows) == (found.overlap[name, "new"] < 1).sum()
    gaps = [abs(r.first - r.other) if r.first is not None else 0 for r in rows if r.overlap == rows[0].overlap]
    assert gaps == sorted(gaps, reverse=True)
    unjudged = next(r for r in rows if r.query == 0)
    assert unjudged.first is None and unjudged.other is None


def test_overlap_is_of_the_larger_set_and_of_nothing_undefined():
    a = np.array([[1, 2, 3], [4, -1, -1], [-1, -1, -1], [-1, -1, -1]])
    b = np.array([[3, 1, 9], [4, 5, -1], [-1, -1, -1], [7, -1, -1]])
    np.testing.assert_array_equal(compute_overlap(a, b), [2 / 3, 1 / 2, np.nan, 0])


def test_three_encoders_are_each_compared_with_the_first(made):
    variants, qrels = made
    more = {**variants, "third": variant(3, 8)}
    found = compare_encoders(more, [TOP], qrels, K)
    assert [row.label for row in found.rows["recall"][found.decoders[0]]] == ["new", "third"]
    assert "with third" in describe_comparison(found.rows["recall"][found.decoders[0]][1])


def test_progress_is_told_and_a_stop_heard(made):
    variants, qrels = made
    told = []
    compare_encoders(variants, [TOP, MMR], qrels, K, progress=lambda *at: told.append(at))
    assert [d for d, _, _ in told] == [0, 40, 80, 120, 160] and {t for _, t, _ in told} == {160}
    stop = threading.Event()
    stop.set()
    with pytest.raises(engine.Cancelled):
        compare_encoders(variants, [TOP], qrels, K, stop=stop)


def test_what_cannot_be_compared_is_refused(made):
    variants, qrels = made
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


def test_two_arithmetics_of_the_bundled_encoder(demo):
    dataset, _ = demo
    queries, qrels = dataset.judged("dev"), dataset.qrels["dev"]
    queries = queries.only(queries.ids[:12])
    rows = sorted({*range(12), *(dataset.corpus.position[d] for q in queries.ids for d in qrels.relevant(q))})
    corpus = Corpus(*(tuple(values[row] for row in rows) for values in (dataset.corpus.ids, dataset.corpus.texts)))
    variants = {}
    for dtype in ("float32", "bfloat16"):
        space = engine.Space(corpus, engine.embed(corpus, dtype=dtype))
        variants[dtype] = Variant(space, engine.embed(queries, dtype=dtype))
    found = compare_encoders(variants, [TOP], qrels)
    assert 0.9 < found.agreement(found.decoders[0], "bfloat16") <= 1
    (row,) = found.rows["recall"][found.decoders[0]]
    assert row.queries == 12 and abs(row.difference) < 0.1 and describe_comparison(row)


def test_queries_with_texts_are_compared_block_by_block(made, monkeypatch):
    """Texts are cut as the vectors are; blocks change nothing."""
    variants, qrels = made
    plain = compare_encoders(variants, [TOP], qrels, K)
    texts = tuple(f"question {i}" for i in range(QUERIES))
    asked = {name: Variant(v.space, replace(v.queries, texts=texts)) for name, v in variants.items()}
    monkeypatch.setattr("engine.evaluation.studies.compare_encoders.DECODE_BLOCK_SIZE", 16)
    found = compare_encoders(asked, [TOP], qrels, K)
    for key, own in plain.values.items():
        np.testing.assert_array_equal(found.values[key]["recall"], own["recall"])
