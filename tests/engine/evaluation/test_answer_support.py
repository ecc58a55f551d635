"""Shares of supported answers and their differences: Wilson's and Student's intervals, and what is left out."""

import numpy as np
import pytest
from scipy import stats

from engine.errors import DataError
from engine.evaluation.answer_support import estimate_support
from engine.evaluation.corrected_judge import correct_means

NAMES = ("Top-k", "MMR", "VRSD")


def draw_grades(n_queries=200, n_person=40, seed=0, agreement=0.85):
    """Support as a person sees it, and a model that agrees with the person on a share of the answers."""
    rng = np.random.default_rng(seed)
    person = (rng.random((n_queries, 1)) + 0.3 * rng.random((n_queries, 3)) > [0.6, 0.7, 0.5]).astype(float)
    model = np.where(rng.random(person.shape) < agreement, person, 1 - person)
    person[n_person:] = np.nan
    return model, person


def test_one_judge_gives_wilsons_shares_and_paired_differences():
    model, _ = draw_grades()
    support = estimate_support(NAMES, model)
    assert (support.n_queries, support.n_left_out, support.n_person, support.use) == (200, 0, 0, None)
    z = stats.norm.ppf(0.975)
    for system, column in zip(support.systems, model.T, strict=True):
        share = column.mean()
        centre, margin = share + z**2 / 400, z * np.sqrt(share * (1 - share) / 200 + z**2 / 160_000)
        expected = (share, (centre - margin) / (1 + z**2 / 200), (centre + margin) / (1 + z**2 / 200))
        assert (system.rate, system.low, system.high) == pytest.approx(expected)
    assert support.systems[0].comparison is None
    for column, system in enumerate(support.systems[1:], 1):
        row = system.comparison
        assert row.difference == pytest.approx((model[:, column] - model[:, 0]).mean())
        assert row.wins.win == ((model[:, column] > model[:, 0]).sum()) and row.comparisons == 2


def test_a_person_corrects_shares_and_differences():
    model, person = draw_grades()
    support = estimate_support(NAMES, model, person, judge="wise")
    assert support.is_corrected and (support.n_person, support.use.judge, support.use.model_queries) == (
        40,
        "wise",
        200,
    )
    means = correct_means(person[:40], model[:40], model[40:])
    for column, system in enumerate(support.systems):
        assert means.weights[column] > 0 and system.rate == pytest.approx(means.mean[column])
        alone = estimate_support(NAMES, person).systems[column]
        assert system.high - system.low < alone.high - alone.low, "the model's other queries narrow the interval"
    assert support.systems[1].comparison.judge.person_queries == 40
    # Where the person found every answer supported the model tells nothing, and the interval has a width.
    person[:40] = 1
    sure = estimate_support(NAMES, model, person).systems[0]
    assert sure.rate == 1 and sure.high == 1 and sure.low == pytest.approx(40 / (40 + stats.norm.ppf(0.975) ** 2))


def test_queries_without_every_grade_are_left_out_and_few_of_a_person_correct_nothing():
    model, person = draw_grades(n_person=36)
    model[:7, 1] = np.nan
    support = estimate_support(NAMES, model, person)
    assert (support.n_queries, support.n_left_out, support.is_corrected) == (193, 7, False)
    assert support.n_person == 29
    assert support.systems[0].rate == pytest.approx(model[7:, 0].mean())
    with pytest.raises(DataError, match="no query has a grade of every system's answer"):
        estimate_support(NAMES, np.full((3, 3), np.nan))


def test_a_decoder_without_the_persons_grades_is_named_and_nothing_is_corrected():
    model, person = draw_grades(n_person=60)
    # Only where its answer is the baseline's there is a grade: their difference there is 0.
    person[:30, 2], person[30:60, 2] = person[:30, 0], np.nan
    support = estimate_support(NAMES, model, person)
    assert support.n_person == 30 and not support.is_corrected and support.lacking == {"VRSD": 30}
    assert support.systems == estimate_support(NAMES, model).systems
    # One query may be what the person is at.
    person[31:60] = np.nan
    support = estimate_support(NAMES, model, person)
    assert support.is_corrected and not support.lacking


def test_queries_without_an_answer_count_as_unsupported_with_their_share():
    model, person = draw_grades()
    alone = estimate_support(NAMES, model, person)
    is_empty = np.repeat([False, True], (200, 300))
    model, person = np.vstack([model, np.zeros((300, 3))]), np.vstack([person, np.full((300, 3), np.nan)])
    support = estimate_support(NAMES, model, person, is_empty=is_empty)
    assert (support.n_queries, support.n_gradable, support.n_person) == (500, 200, 40)
    for system, own in zip(support.systems, alone.systems, strict=True):
        # The share of 40% has an error of its own.
        margin = stats.norm.ppf(0.975) * own.rate * np.sqrt(0.4 * 0.6 / 500)
        ends = [
            0.4 * own.rate + sign * np.hypot(0.4 * (end - own.rate), margin)
            for sign, end in ((-1, own.low), (1, own.high))
        ]
        assert (system.rate, system.low, system.high) == pytest.approx((0.4 * own.rate, *ends))
        if own.comparison is not None:
            names = ("mean", "baseline_mean", "difference", "low", "high", "single_low", "single_high")
            expected = [0.4 * getattr(own.comparison, name) for name in names]
            assert [getattr(system.comparison, name) for name in names] == pytest.approx(expected)


def test_queries_without_a_difference_leave_it_an_interval():
    model, person = draw_grades(n_person=30)
    person[:30, 1] = person[:30, 0]
    row = estimate_support(NAMES[:2], model[:, :2], person[:, :2]).systems[1].comparison
    bound = stats.norm.ppf(0.975) ** 2 / (30 + stats.norm.ppf(0.975) ** 2)
    assert (row.difference, row.p, row.low, row.high) == pytest.approx((0, 1, -bound, bound))
    # Widened for both comparisons where there are two.
    assert estimate_support(NAMES, model, person).systems[1].comparison.high > bound
