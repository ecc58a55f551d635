"""Metrics against plain Python, brute force, trec_eval and ndeval, and the cases in which they do not exist."""

import math

import ir_measures
import numpy as np
import pytest
import torch

import engine
from engine.evaluation import aspects as arrays
from engine.evaluation.duplicate_threshold import resolve_duplicate_threshold
from engine.evaluation.metrics import METRICS, available_metrics
from support.instances import FAMILIES, problem
from support.judged_sets import DATA, SETS
from support.rankings import queries_of, random_aspects, random_rows, ranking_of, space_of

ALL = ("recall", "comp", "ndcg", "mrr", "precision", "ilad")


def embeddings_of(vectors):
    return engine.Embeddings(("a", "b", "c")[: len(vectors)], torch.tensor(vectors))


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
    got = engine.measure(ranking_of([list(range(10))]), space_of(rows), ["a"], k=10, metrics=["ilad", "redundancy"])
    assert 0 <= got.mean["ilad"] < 1e-12 and got.mean["redundancy"] == 0.9


@pytest.mark.parametrize("row", [3, 7])
def test_a_ranking_of_another_corpus_is_refused(row):
    with pytest.raises(engine.DataError, match=f"not of this corpus: it holds row {row}"):
        engine.measure(ranking_of([[0, row]]), space_of(np.eye(3)), ["a"], k=2, metrics=["ilad"])


@pytest.mark.parametrize(
    "change,message",
    [
        (dict(k=3), r"k \(3\) must be at most the ranking's depth, 2"),
        (dict(k=0), "k.*whole number"),
        (dict(metrics=["hits"]), "metrics must be among recall.*'hits'"),
        (dict(qrels=None), r"recall, comp, ndcg need judgements \(qrels\); without, only ilad, redundancy can be"),
        (dict(metrics=["s_recall", "ilad", "alpha_ndcg"]), "s_recall, alpha_ndcg need aspects"),
        (dict(metrics=["cos_sum"]), "cos_sum needs the queries' vectors"),
        (dict(metrics=["cos_sum", "mrr"], qrels=None), "mrr needs judgements.*; cos_sum needs the queries' vectors"),
        (dict(metrics=["cos_sum"], queries=embeddings_of([[1.0, 0.0]])), "have 2 dimensions, the corpus has 3"),
        (dict(metrics=["s_recall"], aspects=["a"]), "aspects must be query → aspect → set"),
        (dict(metrics=["s_recall"], aspects={"a": {"x": "d0"}}), "aspects must be query → .* got 'd0' for a set"),
        (dict(metrics=["s_recall"], aspects={"a": {"x": 1}}), "aspects must be query → .* got 1 for a set"),
        (dict(metrics=["s_recall"], aspects={"a": {"d0"}}), "aspects must be query → aspect → set"),
        (dict(queries=["a", "b"]), "2 queries, 1 ranking$"),
        (dict(queries="a"), "list of distinct query ids"),
        (dict(qrels={"a": {"d0": 1}}), "qrels must be engine.Qrels"),
    ],
)
def test_bad_argument_raises_error_naming_it(change, message):
    options = {"queries": ["a"], "qrels": engine.Qrels({"a": {"d0": 1}}), "k": 2, **change}
    with pytest.raises(engine.FrontierError, match=message):
        engine.measure(ranking_of([[0, 1]]), space_of(np.eye(3, dtype=np.float32)), **options)


def test_without_aspects_a_query_is_undefined():
    aspects = {"b": {"x": frozenset({"d0"})}, "c": {"empty": frozenset()}}
    got = engine.measure(
        ranking_of([[0, 1]] * 3), space_of(np.eye(3)), ["a", "b", "c"], None, 2, ["alpha_ndcg", "s_recall"], aspects
    )
    assert got.undefined == {"alpha_ndcg": 2, "s_recall": 2} and got.mean == {"alpha_ndcg": 1.0, "s_recall": 1.0}
    assert got.per_query["s_recall"] == {"b": 1.0} and got.left_out == 0
    none = engine.measure(ranking_of([[0, 1]]), space_of(np.eye(3)), ["a"], None, 2, ["alpha_ndcg"], {})
    assert none.undefined == {"alpha_ndcg": 1} and math.isnan(none.mean["alpha_ndcg"])


def test_a_cosine_at_the_threshold_is_redundant():
    rows = np.array([[1.0, 8, 0, 5], [0, 7, 4, 5]])  # a cosine of 81/90
    got = engine.measure(ranking_of([[0, 1]]), space_of(rows), ["a"], k=2, metrics="redundancy")
    assert got.mean["redundancy"] == 0.5


def test_cos_sum_by_hand():
    space = space_of(np.array([[3, 0], [0, 4], [-3, 0], [0, 0]], dtype=np.float32))
    points = embeddings_of([[2.0, 0.0], [0.0, 0.5], [0.0, 0.0]])
    cases = [((0, 1), [0.6, 0.8, 0]), ((1, 3), [0, 1, 0]), ((2, -1), [-1, 0, 0]), ((0, 2), [0, 0, 0])]
    for rows, cosines in [*cases, ((-1, -1), [math.nan] * 3)]:
        got = engine.measure(ranking_of([list(rows)] * 3), space, points, k=2, metrics=["cos_sum"])
        assert got.values["cos_sum"] == pytest.approx(cosines, nan_ok=True), rows


def test_values_are_in_the_order_of_the_queries():
    space = space_of(np.eye(3, dtype=np.float32))
    qrels = engine.Qrels({"z": {"d0": 1, "d2": 1}, "b": {"d0": 0}, "a": {"d1": 1}})
    got = engine.measure(ranking_of([[0, 1]] * 3), space, ["z", "b", "a"], qrels, 2, METRICS["recall"].name)
    assert got.values["recall"].dtype == np.float64
    assert got.values["recall"].tolist() == pytest.approx([0.5, math.nan, 1.0], nan_ok=True)
    assert list(got.per_query["recall"].items()) == [("z", 0.5), ("a", 1.0)]
    assert got.mean["recall"] == 0.75 and got.undefined["recall"] == 1


def test_measure_without_queries_is_empty():
    points = engine.Embeddings((), torch.zeros(0, 3))
    nothing = engine.Ranking(torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0, 2), ())
    space, qrels = space_of(np.eye(3, dtype=np.float32)), engine.Qrels({"a": {"d0": 1}})
    covered = {"a": {"x": {"d0"}}}
    got = engine.measure(nothing, space, points, qrels, 2, tuple(METRICS), covered, covered, source="source")
    assert all(values.shape == (0,) for values in got.values.values()) and got.left_out == 0


def test_available_metrics_are_all_measurable():
    qrels, aspects = engine.Qrels({"a": {"d0": 1}}), {"a": {"x": frozenset({"d0"})}}
    points = embeddings_of([[1.0, 0.0, 0.0]])
    assert available_metrics() == ("ilad", "redundancy")
    assert set(available_metrics(qrels)) == {*ALL, "budget_recall", "redundancy"}
    assert set(available_metrics(None, aspects)) == {"ilad", "redundancy", "alpha_ndcg", "s_recall"}
    assert set(available_metrics(vectors=points)) == {"ilad", "redundancy", "cos_sum"}
    assert available_metrics(engine.Qrels({}), {}, engine.Queries(("a",), ("text",))) == ("ilad", "redundancy")
    by_default = tuple(name for name in METRICS if name not in ("holes", "answer_coverage", "unique_sources"))
    assert available_metrics(qrels, aspects, points) == by_default
    assert available_metrics(qrels, aspects, points, "source") == (*by_default, "unique_sources")
    for available in ((None, None, None), (qrels, None, points), (None, aspects, points), (qrels, aspects, points)):
        queries = ["a"] if available[2] is None else points
        got = engine.measure(
            ranking_of([[0, 1]]),
            space_of(np.eye(3)),
            queries,
            available[0],
            2,
            available_metrics(*available),
            available[1],
        )
        assert set(got.mean) == set(available_metrics(*available)) and not any(got.undefined.values())


def test_unique_sources_are_counted_over_the_documents_returned():
    corpus = engine.Corpus(("d0", "d1", "d2", "d3"), ("",) * 4, metadata={"url": ("x", "x", "", "")})
    space = engine.Space(corpus, engine.Embeddings(corpus.ids, np.eye(4)), "cpu")
    ranking = ranking_of([[0, 1, 2], [0, 1, -1], [2, 3, 0], [-1, -1, -1]])
    got = engine.measure(ranking, space, ["a", "b", "c", "d"], k=3, metrics="unique_sources", source="url")
    # A document without a value is a source of its own; nothing returned has no share.
    assert got.values["unique_sources"] == pytest.approx([2 / 3, 1 / 2, 1, math.nan], nan_ok=True)
    with pytest.raises(engine.DataError, match=r"source must be a metadata column.*'author'"):
        engine.measure(ranking, space, ["a", "b", "c", "d"], k=3, metrics="unique_sources", source="author")


def test_holes_metric_counts_unjudged_documents():
    """A document judged irrelevant is no hole; nothing returned has no share of holes."""
    qrels = engine.Qrels({"a": {"d0": 1, "d1": 0, "d9": 1}, "b": {"d2": 2}, "c": {"d0": 0}})
    ranking = ranking_of([[0, 1, 2, 3], [2, 3, -1, -1], [0, 1, 2, 3], [0, 1, 2, 3]])
    got = engine.measure(ranking, space_of(np.eye(4)), ["a", "b", "c", "d"], qrels, 4, "holes")
    assert got.per_query["holes"] == {"a": 0.5, "b": 0.5} and got.left_out == 2
    assert engine.measure(ranking, space_of(np.eye(4)), list("abcd"), qrels, 2, "holes").mean["holes"] == 0.25


def test_answer_coverage_counts_documents_within_word_budget():
    """Documents of 300, 200 and 1 words: the second does not fit into 400, and ends the reading."""
    space = space_of(torch.eye(3), ["a " * 300, "b " * 200, "c"])
    answers = {"q": {"a": {"d0"}, "b": {"d1"}, "nowhere": frozenset()}, "r": {"c": {"d2", "d9"}}, "none": {}}
    ranking = ranking_of([[0, 1, 2], [1, 2, 0], [2, 0, 1], [-1, -1, -1], [0, 1, 2]])
    ids = ["q", "r", "none", "q2", "other"]
    got = engine.measure(ranking, space, ids, None, 3, "answer_coverage", answers={**answers, "q2": answers["q"]})
    assert got.per_query["answer_coverage"] == pytest.approx({"q": 1 / 3, "r": 1.0, "q2": 0.0})
    with pytest.raises(engine.DataError, match="answer_coverage needs answers"):
        engine.measure(ranking, space, ids, None, 3, "answer_coverage")


def test_judgements_become_arrays_once_for_equal_contents():
    space, ids = space_of(np.eye(3)), ("a", "b")
    first = arrays.load_judgements(space, ids, engine.Qrels({"a": {"d0": 1}}))
    assert arrays.load_judgements(space_of(np.eye(3)), list(ids), engine.Qrels({"a": {"d0": 1}})) is first
    for changed in (
        arrays.load_judgements(space, ids, engine.Qrels({"a": {"d0": 2}})),
        arrays.load_judgements(space, ids[::-1], engine.Qrels({"a": {"d0": 1}})),
        arrays.load_judgements(space_of(np.eye(4)), ids, engine.Qrels({"a": {"d0": 1}})),
    ):
        assert changed is not first
    for i in range(3 * arrays.MAX_CACHED_ARRAYS):
        arrays.load_judgements(space, (f"q{i}",), engine.Qrels({}))
    assert len(arrays._array_cache) == arrays.MAX_CACHED_ARRAYS
    assert arrays.load_judgements(space, ids, engine.Qrels({"a": {"d0": 1}})) is not first


def test_changed_aspects_are_reread():
    space, ids, aspects = space_of(np.eye(3)), ("a",), {"a": {"x": frozenset({"d0"})}}
    first = arrays.load_coverage(space, ids, aspects, 2)
    assert arrays.load_coverage(space, ids, {"a": {"x": frozenset({"d0"})}, "other": {}}, 2) is first
    assert arrays.load_coverage(space, ids, aspects, 1) is not first
    changing = {"a": {"x": {"d0"}}}
    assert arrays.load_coverage(space, ids, changing, 2) is first
    changing["a"]["x"].add("d1")
    changing["a"]["y"] = {"d2"}
    assert arrays.load_coverage(space, ids, changing, 2).s_recall(np.array([[1, 0]])) == pytest.approx([0.5])


def test_recall_in_a_budget_of_words():
    """Documents count, best first, while they fit together; the first always does."""
    texts = ["a " * 150, "b " * 250, "c", "d " * 401, "e " * 400]
    space = space_of(torch.eye(5), texts)
    grades = {q: {"d1": 1, "d2": 1, "d3": 0, "d4": 2} for q in "abcdef"}
    qrels = engine.Qrels(grades | {"g": {"d0": 0}, "h": {"d3": 1, "d2": 1}})
    rows = [
        [0, 1, 2, 4],
        [0, 2, 1, 4],
        [3, 2, 1, 4],
        [4, 2, 1, 0],
        [2, -1, -1, -1],
        [-1] * 4,
        [0, 1, 2, 4],
        [3, 2, 1, 0],
    ]
    got = engine.measure(ranking_of(rows), space, list("abcdefgh"), qrels, 4, "budget_recall")
    # 150 + 250 fit exactly and one word more does not; 401 words are read alone, and end it.
    expected = {"a": 1 / 3, "b": 1 / 3, "c": 0, "d": 1 / 3, "e": 1 / 3, "f": 0, "h": 1 / 2}
    assert got.per_query["budget_recall"] == pytest.approx(expected) and got.left_out == 1
    # Where all fits, it is the recall.
    both_means = engine.measure(ranking_of(rows[4:5]), space, ["a"], qrels, 4, ("budget_recall", "recall")).mean
    assert both_means["budget_recall"] == both_means["recall"]


AGREES = dict(rel=0, abs=1e-9)
TREC = {"recall": ir_measures.R, "ndcg": ir_measures.nDCG, "mrr": ir_measures.RR, "precision": ir_measures.P}
NDEVAL = {"alpha_ndcg": ir_measures.alpha_nDCG(alpha=0.5), "s_recall": ir_measures.StRecall}


def their_run(space, ids, rows):
    return [
        ir_measures.ScoredDoc(query, space.corpus.ids[row], float(-rank))
        for query, doc_rows in zip(ids, rows.tolist(), strict=True)
        for rank, row in enumerate(doc_rows)
        if row >= 0
    ]


def compute_theirs(measures, k, judged, run):
    """(metric, query) → value of another program; what it has nothing to say of is 0, as its own means take it."""
    cutoffs = {name: measure @ k for name, measure in measures.items()}
    names = {measure: name for name, measure in cutoffs.items()}
    return {(names[m.measure], m.query_id): m.value for m in ir_measures.iter_calc(cutoffs.values(), judged, run)}


@pytest.mark.parametrize("seed", range(12))
def test_judged_metrics_are_those_of_trec_eval(seed):
    rng = np.random.default_rng(seed)
    space, ids = space_of(np.eye(40, 4, dtype=np.float32)), tuple(f"q{b}" for b in range(12))
    rows = random_rows(rng, len(ids), len(space), 20)
    # Few grades, so that they tie; half of the documents unjudged; ten that the corpus lacks; a query that none judges.
    grades = {
        q: {f"d{i}": int(rng.integers(-1, 4)) for i in rng.permutation(50)[: rng.integers(2, 25)]} for q in ids[1:]
    }
    grades[ids[5]] = {"d0": 0, "d1": -1}
    judged = [ir_measures.Qrel(q, d, g) for q, docs in grades.items() for d, g in docs.items()]
    run = their_run(space, ids, rows)
    for k in (1, 3, 10, 20):
        ours = engine.measure(ranking_of(rows), space, ids, engine.Qrels(grades), k, (*TREC, "comp"))
        expected = compute_theirs(TREC, k, judged, run)
        relevant = {q for q, docs in grades.items() if max(docs.values()) > 0}
        assert len(expected) == len(TREC) * len(grades) and ours.left_out == len(ids) - len(relevant)
        for name in TREC:
            assert ours.per_query[name] == pytest.approx({q: expected[name, q] for q in relevant}, **AGREES), (name, k)
        assert ours.per_query["comp"] == {q: float(expected["recall", q] == 1) for q in relevant}


def ndeval(aspects, k, run):
    judged = [
        ir_measures.Qrel(q, d, 1, a)
        for q, covered in aspects.items()
        for a, covering in covered.items()
        for d in covering
    ]
    return compute_theirs(NDEVAL, k, judged, run)


@pytest.mark.parametrize("seed", range(12))
def test_aspect_metrics_are_those_of_ndeval(seed):
    rng = np.random.default_rng(seed)
    space, ids = space_of(np.eye(30, 4, dtype=np.float32)), tuple(f"q{b}" for b in range(12))
    rows, aspects = random_rows(rng, len(ids), len(space), 20), random_aspects(rng, ids, len(space))
    run = their_run(space, ids, rows)
    answered = {q for q, doc_rows in zip(ids, rows, strict=True) if doc_rows[0] >= 0}
    for k in (1, 2, 5, 10, 20):
        ours = engine.measure(ranking_of(rows), space, ids, None, k, tuple(NDEVAL), aspects)
        expected = ndeval(aspects, k, run)
        assert set(ours.undefined.values()) == {1}
        for name in NDEVAL:
            # ndeval is silent about a query that got nothing.
            assert {q for m, q in expected if m == name and q in answered} == answered & set(aspects)
            values = {q: expected.get((name, q), 0.0) if q in answered else 0.0 for q in aspects}
            assert ours.per_query[name] == pytest.approx(values, **AGREES), (name, k)


def by_loops(doc_rows, vectors, query, threshold=0.9):
    """ILAD, redundancy and cos(sum, query) of one set, pair by pair."""
    chosen = [vectors[row].astype(float) for row in doc_rows if row >= 0]

    def cosine(x, y):
        lengths = np.linalg.norm(x) * np.linalg.norm(y)
        return float(x @ y / lengths) if lengths else 0.0

    pairs = [1 - cosine(x, y) for i, x in enumerate(chosen) for y in chosen[:i]]
    again = [max((cosine(x, y) for y in chosen[:i]), default=-1.0) >= threshold for i, x in enumerate(chosen)]
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
        space, points = space_of(vectors), queries_of(queries)
        rows = random_rows(rng, 9, n, 10)
        threshold = 0.9 if seed % 2 else None
        resolved = resolve_duplicate_threshold(space, threshold)
        for k in (1, 2, 7, 10):
            got = engine.measure(
                ranking_of(rows), space, points, None, k, ("ilad", "redundancy", "cos_sum"),
                duplicate_threshold=threshold,
            ).values  # fmt: skip
            for b in range(9):
                for name, value in by_loops(rows[b, :k], vectors, queries[b], resolved).items():
                    assert got[name][b] == pytest.approx(value, abs=1e-9, nan_ok=True), (name, seed, b, k)
        assert n * n <= 4 * rows.size * 10 if n == 30 else n * n > 4 * rows.size * 10, "one way of the two is not tried"


def test_redundancy_families_hold_every_kind_of_set():
    """The families above hold sets of every kind, or their agreement would say little."""
    seen = set()
    for family in FAMILIES:
        vectors, _ = problem(family, 0, n=30, d=5)
        rows = random_rows(np.random.default_rng(0), 9, 30, 10)
        seen |= {by_loops(doc_rows, vectors, vectors[0])["redundancy"] for doc_rows in rows[3:]}
    assert len(seen) > 4 and 0 in seen


def test_measure_in_blocks_equals_one_query_at_a_time(monkeypatch):
    rng = np.random.default_rng(3)
    vectors, queries = problem("degenerate", 1, n=50, d=6, batch=40)
    space, ids = space_of(vectors), tuple(f"q{b}" for b in range(40))
    rows, aspects = random_rows(rng, 40, 50, 8), random_aspects(rng, ids, 50)
    qrels = engine.Qrels({q: {f"d{i}": int(rng.integers(0, 3)) for i in rng.permutation(50)[:9]} for q in ids[2:]})

    def measured(picked):
        points = engine.Embeddings(tuple(ids[b] for b in picked), torch.tensor(queries[picked]))
        names = tuple(METRICS)
        return engine.measure(
            ranking_of(rows[picked]), space, points, qrels, 8, names, aspects, aspects, source="source"
        ).values

    single_results = [measured([b]) for b in range(40)]
    block_result = measured(list(range(40)))
    monkeypatch.setattr("engine.evaluation.metrics.CHUNK_NUMBERS", 7 * 8 * 6)
    monkeypatch.setattr("engine.evaluation.metrics.MAX_CACHED_NUMBERS", 4 * 3 * 6)
    blocks = measured(list(range(40)))
    for name in METRICS:
        single_values = np.concatenate([values[name] for values in single_results])
        assert np.allclose(block_result[name], single_values, rtol=0, atol=1e-12, equal_nan=True), name
        assert np.allclose(blocks[name], single_values, rtol=0, atol=1e-12, equal_nan=True), name
        assert 0 < np.isfinite(single_values).sum() < 40


@pytest.mark.skipif("perspectrum" not in SETS, reason="perspectrum is not here")
def test_perspectives_are_counted_as_ndeval_counts_them():
    dataset = engine.load_dataset(DATA / "perspectrum")
    qrels, ids, n = dataset.qrels["dev"], dataset.judged("dev").ids, len(dataset.corpus)
    space = engine.Space(dataset.corpus, engine.Embeddings(dataset.corpus.ids, torch.ones(n, 2)), "cpu")
    rng = np.random.default_rng(0)
    rows = np.zeros((len(ids), 10), dtype=int)
    for b, query in enumerate(ids):
        right = sorted(dataset.corpus.position[d] for d in qrels.relevant(query))[:30]
        other_rows = np.setdiff1d(rng.integers(n, size=40), right)[:20]
        rows[b] = rng.permutation([*right, *other_rows])[:10]
    run = their_run(space, ids, rows)
    for k in (5, 10):
        ours = engine.measure(ranking_of(rows), space, ids, qrels, k, tuple(NDEVAL), aspects=dataset.aspects)
        expected = ndeval({q: dataset.aspects[q] for q in ids}, k, run)
        assert ours.undefined == {"alpha_ndcg": 0, "s_recall": 0} and 0.1 < ours.mean["s_recall"] < 0.9
        for name in NDEVAL:
            assert ours.per_query[name] == pytest.approx({q: expected[name, q] for q in ids}, **AGREES)
