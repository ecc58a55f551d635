"""Agreement of a model's grades with a person's: scikit-learn's κ, its interval, and judges that are refused."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from engine import DataError, Qrels
from engine.evaluation.judge_agreement import check_judge, compute_judge_agreement


def draw_qrels(seed, n_queries=30, share_right=0.7, levels=4):
    """Grades of a person and of a model; the model also grades documents and queries that the person did not."""
    rng = np.random.default_rng(seed)
    person, model = {}, {}
    for query in range(n_queries):
        own = rng.integers(levels, size=8)
        says = np.where(rng.random(8) < share_right, own, rng.integers(levels, size=8))
        person[f"q{query}"] = {f"d{i}": int(grade) for i, grade in enumerate(own)}
        model[f"q{query}"] = {f"d{i}": int(grade) for i, grade in enumerate(says)} | {"other": 1}
    return Qrels(person), Qrels(model | {"q-other": {"d0": 1}})


def collect_pairs(person, model):
    return np.array([
        (grade, model.grades[query][doc]) for query, grades in person.grades.items() for doc, grade in grades.items()
    ])  # fmt: skip


@pytest.mark.parametrize("levels", [2, 4])
def test_kappa_equals_scikit_learn(levels):
    person, model = draw_qrels(1, levels=levels)
    pairs = collect_pairs(person, model)
    agreement = compute_judge_agreement(person, model, "M")
    assert agreement.kappa == pytest.approx(cohen_kappa_score(*pairs.T, weights="quadratic"))
    assert agreement.same == (pairs[:, 0] == pairs[:, 1]).sum()
    assert (agreement.pairs, agreement.queries) == (240, 30)
    if levels == 2:
        assert agreement.kappa == pytest.approx(cohen_kappa_score(*pairs.T))


def test_interval_is_the_jackknife_over_queries_and_covers():
    person, model = draw_qrels(2, n_queries=12)
    agreement, without_one = compute_judge_agreement(person, model), []
    for left_out in person.grades:
        rest = Qrels({query: grades for query, grades in person.grades.items() if query != left_out})
        without_one.append(compute_judge_agreement(rest, model).kappa)
    spread = np.sqrt(11 / 12 * ((np.array(without_one) - np.mean(without_one)) ** 2).sum())
    assert agreement.high - agreement.kappa == pytest.approx(2.2009851600 * spread)
    truth = compute_judge_agreement(*draw_qrels(0, n_queries=4000)).kappa
    results = [compute_judge_agreement(*draw_qrels(seed)) for seed in range(10, 210)]
    assert np.mean([row.low <= truth <= row.high for row in results]) >= 0.9


def test_judge_no_better_than_chance_is_refused_by_name():
    person, model = draw_qrels(3)
    opposite = Qrels({query: {doc: 3 - grade for doc, grade in own.items()} for query, own in person.grades.items()})
    with pytest.raises(DataError, match=r"^M must agree with you better than chance; κ is −0\.9\d on 240 documents"):
        check_judge(person, opposite, "M")
    assert check_judge(person, model, "M").sentence.startswith("M gives your grade to ")


def test_nothing_in_common_is_refused_and_equal_grades_have_no_kappa():
    with pytest.raises(DataError, match="must have graded some of the documents that you graded"):
        compute_judge_agreement(Qrels({"q": {"a": 1}}, 1, "pooled"), Qrels({"q": {"b": 1}}))
    agreement = check_judge(Qrels({"q": {"a": 1, "b": 1}}), Qrels({"q": {"a": 1, "b": 1}}))
    assert agreement.kappa is agreement.low is None
    assert agreement.sentence == "a model gives your grade to 100% of 2 documents."
    pooled = Qrels({"q": {"a": 1, "b": 1}}, 1, "pooled")
    assert check_judge(pooled, Qrels({"q": {"a": 1, "b": 0}})).kappa is None, "one grade alone tells nothing of chance"


def test_of_complete_judgements_a_document_without_a_grade_has_grade_0():
    model = Qrels({"q": {"a": 1, "b": 0, "c": 1, "d": 0}})
    agreement = compute_judge_agreement(Qrels({"q": {"a": 1}}), model)
    assert (agreement.pairs, agreement.same) == (4, 3)
    assert agreement.kappa == pytest.approx(cohen_kappa_score([1, 0, 0, 0], [1, 0, 1, 0]))
    assert compute_judge_agreement(Qrels({"q": {"a": 1}}, 1, "pooled"), model).pairs == 1
