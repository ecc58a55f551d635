"""Metrics against plain Python, and the cases in which they do not exist."""

import math

import numpy as np
import pytest
import torch

import engine
from engine.evaluation import aspects as arrays
from engine.evaluation.metrics import METRICS, available
from support.rankings import ranking_of, space_of

ALL = ("recall", "comp", "ndcg", "mrr", "precision", "ilad")


def embedded(vectors):
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
        (dict(metrics=["cos_sum"], queries=embedded([[1.0, 0.0]])), "have 2 dimensions, the corpus has 3"),
        (dict(metrics=["s_recall"], aspects=["a"]), "aspects must be query → aspect → set"),
        (dict(metrics=["s_recall"], aspects={"a": {"x": "d0"}}), "aspects must be query → .* got 'd0' for a set"),
        (dict(metrics=["s_recall"], aspects={"a": {"x": 1}}), "aspects must be query → .* got 1 for a set"),
        (dict(metrics=["s_recall"], aspects={"a": {"d0"}}), "aspects must be query → aspect → set"),
        (dict(queries=["a", "b"]), "2 queries, 1 rankings"),
        (dict(queries="a"), "list of distinct query ids"),
        (dict(qrels={"a": {"d0": 1}}), "qrels must be engine.Qrels"),
    ],
)
def test_bad_calls_say_what_is_wrong(change, message):
    given = {"queries": ["a"], "qrels": engine.Qrels({"a": {"d0": 1}}), "k": 2, **change}
    with pytest.raises(engine.FrontierError, match=message):
        engine.measure(ranking_of([[0, 1]]), space_of(np.eye(3, dtype=np.float32)), **given)


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
    asked = embedded([[2.0, 0.0], [0.0, 0.5], [0.0, 0.0]])
    found = [((0, 1), [0.6, 0.8, 0]), ((1, 3), [0, 1, 0]), ((2, -1), [-1, 0, 0]), ((0, 2), [0, 0, 0])]
    for rows, cosines in [*found, ((-1, -1), [math.nan] * 3)]:
        got = engine.measure(ranking_of([list(rows)] * 3), space, asked, k=2, metrics=["cos_sum"])
        assert got.values["cos_sum"] == pytest.approx(cosines, nan_ok=True), rows


def test_values_are_in_the_order_of_the_queries():
    space = space_of(np.eye(3, dtype=np.float32))
    qrels = engine.Qrels({"z": {"d0": 1, "d2": 1}, "b": {"d0": 0}, "a": {"d1": 1}})
    got = engine.measure(ranking_of([[0, 1]] * 3), space, ["z", "b", "a"], qrels, 2, METRICS["recall"].name)
    assert got.values["recall"].dtype == np.float64
    assert got.values["recall"].tolist() == pytest.approx([0.5, math.nan, 1.0], nan_ok=True)
    assert list(got.per_query["recall"].items()) == [("z", 0.5), ("a", 1.0)]
    assert got.mean["recall"] == 0.75 and got.undefined["recall"] == 1


def test_no_queries_at_all():
    asked = engine.Embeddings((), torch.zeros(0, 3))
    nothing = engine.Ranking(torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0, 2), ())
    space, qrels = space_of(np.eye(3, dtype=np.float32)), engine.Qrels({"a": {"d0": 1}})
    covered = {"a": {"x": {"d0"}}}
    got = engine.measure(nothing, space, asked, qrels, 2, tuple(METRICS), covered, covered)
    assert all(values.shape == (0,) for values in got.values.values()) and got.left_out == 0


def test_available_names_what_can_be_measured():
    qrels, aspects, asked = engine.Qrels({"a": {"d0": 1}}), {"a": {"x": frozenset({"d0"})}}, embedded([[1.0, 0.0, 0.0]])
    assert available() == ("ilad", "redundancy")
    assert set(available(qrels)) == {*ALL, "budget_recall", "redundancy"}
    assert set(available(None, aspects)) == {"ilad", "redundancy", "alpha_ndcg", "s_recall"}
    assert set(available(vectors=asked)) == {"ilad", "redundancy", "cos_sum"}
    assert available(engine.Qrels({}), {}, engine.Queries(("a",), ("text",))) == ("ilad", "redundancy")
    by_default = tuple(name for name in METRICS if name not in ("holes", "answer_coverage"))
    assert available(qrels, aspects, asked) == by_default
    for given in ((None, None, None), (qrels, None, asked), (None, aspects, asked), (qrels, aspects, asked)):
        queries = ["a"] if given[2] is None else asked
        got = engine.measure(
            ranking_of([[0, 1]]), space_of(np.eye(3)), queries, given[0], 2, available(*given), given[1]
        )
        assert set(got.mean) == set(available(*given)) and not any(got.undefined.values())


def test_holes_are_what_nobody_judged():
    """A document judged irrelevant is no hole; nothing returned has no share of holes."""
    qrels = engine.Qrels({"a": {"d0": 1, "d1": 0, "d9": 1}, "b": {"d2": 2}, "c": {"d0": 0}})
    ranking = ranking_of([[0, 1, 2, 3], [2, 3, -1, -1], [0, 1, 2, 3], [0, 1, 2, 3]])
    got = engine.measure(ranking, space_of(np.eye(4)), ["a", "b", "c", "d"], qrels, 4, "holes")
    assert got.per_query["holes"] == {"a": 0.5, "b": 0.5} and got.left_out == 2
    assert engine.measure(ranking, space_of(np.eye(4)), list("abcd"), qrels, 2, "holes").mean["holes"] == 0.25


def test_answers_count_where_a_document_that_is_read_contains_them():
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
    first = arrays.judgements(space, ids, engine.Qrels({"a": {"d0": 1}}))
    assert arrays.judgements(space_of(np.eye(3)), list(ids), engine.Qrels({"a": {"d0": 1}})) is first
    for other in (
        arrays.judgements(space, ids, engine.Qrels({"a": {"d0": 2}})),
        arrays.judgements(space, ids[::-1], engine.Qrels({"a": {"d0": 1}})),
        arrays.judgements(space_of(np.eye(4)), ids, engine.Qrels({"a": {"d0": 1}})),
    ):
        assert other is not first
    for i in range(3 * arrays.MOST_KEPT):
        arrays.judgements(space, (f"q{i}",), engine.Qrels({}))
    assert len(arrays._kept) == arrays.MOST_KEPT
    assert arrays.judgements(space, ids, engine.Qrels({"a": {"d0": 1}})) is not first


def test_aspects_that_change_are_read_again():
    space, ids, aspects = space_of(np.eye(3)), ("a",), {"a": {"x": frozenset({"d0"})}}
    first = arrays.coverage(space, ids, aspects, 2)
    assert arrays.coverage(space, ids, {"a": {"x": frozenset({"d0"})}, "other": {}}, 2) is first
    assert arrays.coverage(space, ids, aspects, 1) is not first
    changing = {"a": {"x": {"d0"}}}
    assert arrays.coverage(space, ids, changing, 2) is first
    changing["a"]["x"].add("d1")
    changing["a"]["y"] = {"d2"}
    assert arrays.coverage(space, ids, changing, 2).s_recall(np.array([[1, 0]])) == pytest.approx([0.5])


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
    both = engine.measure(ranking_of(rows[4:5]), space, ["a"], qrels, 4, ("budget_recall", "recall")).mean
    assert both["budget_recall"] == both["recall"]
