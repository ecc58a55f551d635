"""The rules that judge a choice by other queries, and how many queries a proof takes."""

import numpy as np
import pytest

from engine.evaluation.rules import (
    MAX_NEEDED_FACTOR,
    Outcome,
    bound_share,
    estimate_queries_to_prove,
    judge_choice,
)

CHANCE = 0.95


@pytest.mark.parametrize(
    ("share", "low", "gain", "outcome"),
    [
        (0.97, 0.95, 0.2, Outcome.CONFIRMED),
        (0.97, 0.95, None, Outcome.CONFIRMED),
        (0.98, 0.94, 0.2, Outcome.AGREES),
        (0.95, 0.90, 0.2, Outcome.AGREES),
        (0.949, 0.90, 0.2, Outcome.DENIED),
        (0.99, 0.97, 0.0, Outcome.GAINLESS),
        (0.90, 0.80, -0.1, Outcome.GAINLESS),
    ],
)
def test_judge_choice_denies_by_the_estimate_and_confirms_by_the_bound(share, low, gain, outcome):
    assert judge_choice(share, low, gain, keep=0.95) == outcome


@pytest.fixture
def changes():
    """Changes of 158 queries that lose 1.8% in the mean."""
    losses = np.random.default_rng(3).normal(0, 0.4, 158)
    return losses - losses.mean() - 0.018


def test_queries_to_prove_is_the_number_whose_bound_reaches_the_share(changes):
    n_needed = estimate_queries_to_prove(changes, 158, 0.95, CHANCE)
    # The number is rounded up to two digits.
    assert n_needed > 158 and bound_share(changes, 158, n_needed, CHANCE) >= 0.95
    assert bound_share(changes, 158, int(0.9 * n_needed), CHANCE) < 0.95
    # By the plain formula: the mean is 3.2 points above the budget, and z standard errors must fit between.
    assert n_needed == pytest.approx((1.645 * changes.std(ddof=1) / 0.032) ** 2, rel=0.12)
    assert n_needed % 10 == 0


def test_queries_to_prove_is_none_below_the_budget_and_where_it_is_absurd(changes):
    assert estimate_queries_to_prove(changes, 158, 0.99, CHANCE) is None
    near = 1 + changes.mean() - 1e-4
    assert estimate_queries_to_prove(changes, 158, near, CHANCE) is None
    assert bound_share(changes, 158, MAX_NEEDED_FACTOR * 158, CHANCE) < near


def test_bound_of_repeated_queries_keeps_mean_and_rises_with_their_number(changes):
    bounds = [bound_share(changes, 158, n_queries, CHANCE) for n_queries in (40, 158, 500, 5000)]
    assert bounds == sorted(bounds) and bounds[-1] < 1 + changes.mean()
