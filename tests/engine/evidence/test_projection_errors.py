"""How a needed dimension grows, on bins whose answer is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine.evidence.projection_errors import growth_of


def test_growth_of_a_dimension_in_proportion_is_linear_and_thin_bins_do_not_count():
    x = np.array([30.0, 100.0, 300.0, 1000.0])
    bins = [SimpleNamespace(inverse=value, dimension=2 * value, pairs=150) for value in x]
    chance = [
        SimpleNamespace(inverse=5000.0, dimension=64, pairs=3),
        SimpleNamespace(inverse=9.0, dimension=32, pairs=99),
    ]
    missed = SimpleNamespace(inverse=9000.0, dimension=None, pairs=150)
    errors = SimpleNamespace(bins=(*bins, *chance, missed), slope=8.0)
    assert growth_of(errors) == pytest.approx([1.0, 1.0, 4.0])
