"""What judgements tell already, against the same by hand and by going through every way the unjudged can turn out."""

from itertools import product

import numpy as np
import pytest
import torch

import engine
from engine.errors import DataError, ParamError
from engine.evaluation.runs import RankedRun
from engine.evaluation.statistics import estimate_queries_needed
from engine.judging.standing import compute_standing
from support.points import interval, p_value
from support.rankings import queries_of, space_of

SPACE = space_of(torch.eye(12))
QUERIES = queries_of(torch.eye(12)[:6])


def runs_of(*lists):
    """A run a system; lists: query → rows, one a query."""
    return [
        RankedRun(name, {f"q{n}": tuple(f"d{d}" for d in docs) for n, docs in enumerate(rows)})
        for name, rows in zip(("base", "other", "third"), lists, strict=False)
    ]


def random_runs(seed, k=4, queries=6):
    rng = np.random.default_rng(seed)
    return runs_of(*([rng.permutation(12)[:k].tolist() for _ in range(queries)] for _ in range(3)))


def random_qrels(seed, share=0.6, queries=6):
    rng = np.random.default_rng(seed)
    return engine.Qrels({
        f"q{n}": {f"d{d}": int(rng.integers(0, 3)) for d in range(12) if rng.random() < share} | {f"d{n}": 2}
        for n in range(queries)
    })  # fmt: skip


def recall(run, qrels, query, k):
    relevant = qrels.relevant(query)
    return len(relevant & set(run.documents[query][:k])) / len(relevant)


def test_means_intervals_and_tests_are_those_of_the_judged_queries():
    runs, qrels = random_runs(0), random_qrels(1, queries=4)
    standing = compute_standing(runs, qrels, SPACE, QUERIES, k=4, resamples=2000, seed=5)
    values = [[recall(run, qrels, f"q{n}", 4) for n in range(4)] for run in runs]
    assert (standing.n_queries, standing.n_without_relevant) == (4, 0)
    for system, run, values_of in zip(standing.systems, runs, values, strict=True):
        assert system.name == run.name and system.mean == pytest.approx(np.mean(values_of))
        assert (system.low, system.high) == pytest.approx(interval(values_of, resamples=2000, seed=5))
        judged = [doc in qrels.grades[f"q{n}"] for n in range(4) for doc in run.documents[f"q{n}"]]
        assert system.judged_share == pytest.approx(np.mean(judged))
    for difference, name, values_of in zip(standing.differences, ("other", "third"), values[1:], strict=True):
        row = difference.comparison
        assert (row.name, row.baseline, row.queries, row.k) == (name, "base", 4, 4)
        assert row.difference == pytest.approx(np.mean(values_of) - np.mean(values[0]))
        assert row.p == pytest.approx(p_value(values_of, values[0], resamples=2000, seed=5))
        assert difference.n_needed == estimate_queries_needed(np.subtract(values_of, values[0]), 0.05)


def test_another_baseline_turns_the_difference_round():
    runs, qrels = random_runs(2), random_qrels(3)
    ahead, back = (
        compute_standing(runs[:2], qrels, SPACE, QUERIES, k=4, baseline=b).differences[0] for b in ("base", "other")
    )
    assert ahead.comparison.difference == pytest.approx(-back.comparison.difference)
    assert (ahead.worst_case, ahead.best_case) == pytest.approx((-back.best_case, -back.worst_case))


@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_the_extremes_over_all_judgements(seed):
    """For precision, which a document changes by its own share alone: the extremes over every way to judge the rest."""
    base, second = random_runs(seed, queries=2)[:2]
    qrels = engine.Qrels(
        {q: {d: min(g, 1) for d, g in docs.items()} for q, docs in random_qrels(seed, 0.4, 2).grades.items()}
    )
    (row,) = compute_standing([base, second], qrels, SPACE, QUERIES, metric="precision", k=4).differences
    open_pairs = [
        (q, d) for q in ("q0", "q1") for d in {*base.documents[q], *second.documents[q]} if d not in qrels.grades[q]
    ]
    seen = []
    for grades in product((0, 1), repeat=len(open_pairs)):
        relevant = {(q, d) for (q, d), grade in zip(open_pairs, grades, strict=True) if grade}
        relevant |= {(q, d) for q, docs in qrels.grades.items() for d, grade in docs.items() if grade}
        hits = [
            np.mean([[(q, d) in relevant for d in run.documents[q]] for q in ("q0", "q1")]) for run in (base, second)
        ]
        seen.append(hits[1] - hits[0])
    assert (row.worst_case, row.best_case) == pytest.approx((min(seen), max(seen)))
    assert row.is_open == (np.sign(min(seen)) != np.sign(max(seen)))


def test_fully_judged_standing_has_no_open_bounds():
    runs = random_runs(7)
    qrels = random_qrels(8, share=1.1)
    standing = compute_standing(runs, qrels, SPACE, QUERIES, metric="ndcg", k=4)
    assert {system.judged_share for system in standing.systems} == {1.0}
    for difference in standing.differences:
        assert difference.worst_case == difference.best_case == pytest.approx(difference.comparison.difference)
        assert not difference.is_open
    assert "Unjudged" not in " ".join(standing.sentences)


def test_one_unjudged_document_can_decide():
    runs = runs_of([[0, 1]] * 2, [[0, 2]] * 2)
    qrels = engine.Qrels({"q0": {"d0": 1, "d1": 1, "d2": 0}, "q1": {"d0": 1}})
    (row,) = compute_standing(runs, qrels, SPACE, QUERIES, k=2).differences
    assert row.is_open and row.worst_case < row.comparison.difference == -0.25 < row.best_case
    sure = engine.Qrels({**qrels.grades, "q1": {"d0": 1, "d1": 1, "d2": 0}})
    assert not compute_standing(runs, sure, SPACE, QUERIES, k=2).differences[0].is_open


def test_sentences_state_the_difference_and_queries_needed():
    rng = np.random.default_rng(0)
    runs = runs_of(*([rng.permutation(12)[:4].tolist() for _ in range(6)] for _ in range(2)))
    standing = compute_standing(runs, random_qrels(1), SPACE, QUERIES, k=4, difference=0.1)
    needed = standing.differences[0].n_needed
    (sentence,) = standing.sentences
    assert sentence.startswith("No significant difference. other: ")
    assert f"To find a difference of 0.100 takes {needed:,} queries: {needed - 6:,} queries more." in sentence
    assert "Unjudged documents decide: with them the difference could be −" in sentence
    easy = compute_standing(runs, random_qrels(1), SPACE, QUERIES, k=4, difference=50.0)
    assert "takes 2 queries: there are enough." in easy.sentences[0]


def test_before_anything_relevant_is_found_there_are_no_means():
    qrels = engine.Qrels({"q0": {"d1": 0}, "q1": {"d2": 0}})
    standing = compute_standing(random_runs(0), qrels, SPACE, QUERIES, k=4)
    assert (standing.n_queries, standing.n_without_relevant, standing.differences, standing.sentences) == (0, 2, (), ())
    assert {(s.mean, s.low, s.high) for s in standing.systems} == {(None, None, None)}


def test_one_query_has_a_mean_and_no_interval():
    standing = compute_standing(random_runs(0), engine.Qrels({"q0": {"d0": 1}}), SPACE, QUERIES, k=4)
    assert standing.n_queries == 1 and all(s.mean is not None and s.low is None for s in standing.systems)
    assert all(difference.n_needed is None for difference in standing.differences)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"baseline": "nobody"}, ParamError, r"baseline must be one of the runs \(base, other, third\); got 'nobody'"),
        ({"metric": "ilad"}, ParamError, "metric must be one that needs judgements: recall, .*; got 'ilad'"),
        ({"qrels": engine.Qrels({"q0": {}})}, DataError, "nothing is judged yet"),
        ({"qrels": engine.Qrels({"elsewhere": {"d0": 1}})}, DataError, "nothing is judged yet"),
        ({"difference": 0.0}, ParamError, "difference must be a number other than 0"),
    ],
)
def test_incomparable_runs_raise_error(how, error, message):
    with pytest.raises(error, match=message):
        compute_standing(random_runs(0), how.pop("qrels", random_qrels(0)), SPACE, QUERIES, k=4, **how)


def test_unjudged_documents_become_relevant_at_the_level_that_counts():
    runs = runs_of([[0, 1]], [[0, 2]])
    qrels = engine.Qrels({"q0": {"d0": 3, "d3": 1}}, relevant_from=3)
    (difference,) = compute_standing(runs, qrels, SPACE, QUERIES, k=2).differences
    assert difference.comparison.difference == 0
    # Of two relevant documents then, each system returns the one that it alone has, and the other misses it.
    assert (difference.worst_case, difference.best_case) == pytest.approx((-0.5, 0.5))
    low = engine.Qrels({"q0": {"d0": 1, "d3": 0}, "q1": {"d1": 1}}, relevant_from=2)
    assert compute_standing(runs, low, SPACE, QUERIES, k=2).n_queries == 0
