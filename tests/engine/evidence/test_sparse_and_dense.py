"""Slopes over lengths, against fits made otherwise."""

import numpy as np
import pytest
from engine.evidence.sparse_and_dense import per_doubling, per_doubling_of

RNG = np.random.default_rng(3)


def test_slopes_over_lengths_are_those_of_least_squares():
    lengths, columns = (25, 50, 100, 200), RNG.normal(size=(4, 30)) + np.arange(4)[:, None]
    expected = np.polyfit(np.log2(lengths), columns.mean(1), 1)[0]
    assert np.mean(per_doubling(lengths, columns.tolist())) == pytest.approx(expected)
    words, values = RNG.uniform(5, 300, 40), RNG.normal(size=40)
    assert np.mean(per_doubling_of(words, values)) == pytest.approx(np.polyfit(np.log2(words), values, 1)[0])
