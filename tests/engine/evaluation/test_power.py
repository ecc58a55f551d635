"""Queries that a difference needs, against simulated tests."""

import numpy as np
import pytest
from scipy import stats

from engine.errors import ParamError
from engine.evaluation.power import queries_needed


def simulated(count, effect, times=40_000):
    """How often a t-test of so many normal differences rejects."""
    draws = np.random.default_rng(count).normal(effect, 1.0, size=(times, count))
    return float((stats.ttest_1samp(draws, 0.0, axis=1).pvalue < 0.05).mean())


@pytest.mark.parametrize("effect", [1.5, 0.8, 0.5, 0.3])
def test_the_number_is_the_least_with_that_power(effect):
    seen = np.array([-1.0, 1.0]) / np.sqrt(2)  # a standard deviation of 1
    count = queries_needed(seen, -effect)
    noise = 4 * np.sqrt(0.8 * 0.2 / 40_000)
    assert simulated(count, effect) > 0.8 - noise
    assert simulated(count - 1, effect) < 0.8 + noise


def test_known_numbers():
    """Cohen 1988: d = 0.5 needs 34 pairs, d = 0.2 needs 199."""
    seen = np.array([-1.0, 1.0]) / np.sqrt(2)
    assert [queries_needed(seen, d) for d in (0.5, 0.2)] == [34, 199]
    assert queries_needed(seen, 0.5, power=0.9) == 44


def test_the_spread_alone_matters():
    seen = np.random.default_rng(0).normal(size=50)
    assert queries_needed(seen, 0.1) == queries_needed(seen + 5, 0.1) == queries_needed(-3 * seen, 0.3)


@pytest.mark.parametrize("seen", [[], [0.3], [0.0, 0.0, 0.0], [0.2, 0.2]])
def test_nothing_is_told_of_what_does_not_vary(seen):
    assert queries_needed(np.array(seen), 0.1) is None


def test_no_number_beyond_a_million_and_bad_arguments():
    seen = np.array([-1.0, 1.0])
    assert queries_needed(seen, 1e-4) is None
    for bad in ((0.0, 0.8), (float("nan"), 0.8), (0.1, 1.0)):
        with pytest.raises(ParamError, match="must be a number"):
            queries_needed(seen, *bad)
