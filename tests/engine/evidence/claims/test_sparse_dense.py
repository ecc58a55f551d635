"""Measures of claims of the sparse-dense paper, by independent ways."""

from types import SimpleNamespace

import numpy as np
import pytest

from engine.evidence.claims.sparse_dense import choose_in_time, fit_doubling, fit_growth, fit_per_query

RNG = np.random.default_rng(3)


def test_slopes_over_lengths_are_those_of_least_squares():
    lengths, columns = (25, 50, 100, 200), RNG.normal(size=(4, 30)) + np.arange(4)[:, None]
    expected = np.polyfit(np.log2(lengths), columns.mean(1), 1)[0]
    assert np.mean(fit_doubling(lengths, columns.tolist())) == pytest.approx(expected)
    words, values = RNG.uniform(5, 300, 40), RNG.normal(size=40)
    assert np.mean(fit_per_query(words, values)) == pytest.approx(np.polyfit(np.log2(words), values, 1)[0])


def test_a_search_in_time_is_chosen_on_other_queries():
    def searched(milliseconds, mrr):
        return SimpleNamespace(milliseconds=milliseconds, mean={"mrr": mrr})

    own = [searched(1.0, 0.9), searched(2.0, 0.5), searched(4.0, 0.6)]
    other = [searched(9.0, 0.3), searched(9.0, 0.4), searched(9.0, 0.8)]
    assert [choose_in_time(range(3), own, other, ms) for ms in (0.5, 1.5, 2.0, 5.0)] == [0, 0, 1, 2]


def test_growth_of_a_dimension_in_proportion_is_linear_and_thin_bins_do_not_count():
    x = np.array([30.0, 100.0, 300.0, 1000.0])
    bins = [SimpleNamespace(inverse=value, dimension=2 * value, pairs=150) for value in x]
    chance = [
        SimpleNamespace(inverse=5000.0, dimension=64, pairs=3),
        SimpleNamespace(inverse=9.0, dimension=32, pairs=99),
    ]
    missed = SimpleNamespace(inverse=9000.0, dimension=None, pairs=150)
    errors = SimpleNamespace(bins=(*bins, *chance, missed), slope=8.0)
    assert fit_growth(errors) == pytest.approx([1.0, 1.0, 4.0])
