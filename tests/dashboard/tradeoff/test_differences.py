"""The views of differences to the baseline: the order of the table of all settings."""

from types import SimpleNamespace

import pytest

from dashboard.tradeoff.differences import order_settings


@pytest.mark.parametrize(("direction", "names"), [(1, "base wide good wild"), (-1, "base good wide wild")])
def test_settings_that_keep_the_budget_stand_above_more_diverse_ones_that_do_not(direction, names):
    figures = {"wild": (0.9, 0.021), "good": (0.5, 0.6), "base": (0.4, 0.6), "wide": (0.6, 0.58)}
    points = {name: SimpleNamespace(name=name, x=x, y=y) for name, (x, y) in figures.items()}
    curves = SimpleNamespace(points=tuple(points.values()), direction=direction)
    assert [point.name for point in order_settings(curves, points["base"], 0.95)] == names.split()
