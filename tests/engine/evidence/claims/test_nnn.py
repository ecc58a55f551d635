"""Measures of claims of the NNN paper, by independent ways."""

import numpy as np
import pytest
import torch

from engine.evidence.claims import nnn
from engine.evidence.rules import Finding


@pytest.mark.parametrize(("documents", "steps", "dimensions"), [(20, 3, 4), (50, 7, 10)])
def test_bytes_of_unrolling_are_those_of_two_iterates_and_what_they_rebuild(documents, steps, dimensions):
    rows, query = torch.randn(documents, dimensions), torch.randn(1, dimensions)
    expected = 4 * steps * (2 * documents + dimensions)
    assert nnn.count_gradient_bytes(rows, query, steps) == expected


def test_spread_is_the_best_cell_less_the_median():
    trained = np.random.default_rng(0).random((2, 40, 9))
    means = trained.mean(1)
    spread = np.mean([row.max() - np.median(row) for row in means])
    frozen = np.zeros((2, 40, 9))
    frozen[:, :, 0] = 2 * spread
    value, low, high = nnn.spread_ratio(trained, frozen, 0)
    assert value == pytest.approx(0.5) and low < value < high
    assert nnn.spread_ratio(trained, trained, 0) == pytest.approx([1, 1, 1])


def test_few_steps_are_level_within_a_point_and_every_system_has_its_curve():
    rng = np.random.default_rng(2)
    systems = {"dense": [70.0] * 6, "NNN-Fix": [60.0, 61, 62, 63, 64, 65], nnn.UNROLLED: [80.0] * 6}
    for apart, verdict in ((0.0, Finding.HOLDS), (-5.0, Finding.REFUTED), (5.0, Finding.REFUTED)):
        measured = {"a set": {"curves": systems, "apart": rng.normal(apart, 1, 500).tolist()}}
        ruling = nnn.judge_n30(measured)
        assert ruling.verdict is verdict and [curve.name for curve in ruling.curves] == list(systems)
        assert ruling.curves[1].points == tuple(zip(nnn.FISTA_STEPS, systems["NNN-Fix"], strict=True))


def test_gap_by_relevant_documents_is_the_slope_of_least_squares():
    rng = np.random.default_rng(1)
    relevant = rng.integers(1, 6, 500)
    gains = 4.0 * np.maximum(relevant - 2, 0) + rng.normal(0, 0.5, 500)
    ruling = nnn.judge_n20({"a set": {"relevant": relevant.tolist(), "gains": gains.tolist()}})
    assert ruling.verdict is Finding.HOLDS
    assert ruling.effects[0].value == pytest.approx(np.polyfit(relevant, gains, 1)[0])
    curves = {curve.name: dict(curve.points) for curve in ruling.curves}
    assert list(curves) == ["a set"]
    assert curves["a set"] == pytest.approx({n: gains[relevant == n].mean() for n in range(1, 6)}, rel=1e-5)
    falling = nnn.judge_n20({"a set": {"relevant": relevant.tolist(), "gains": (20 - gains).tolist()}})
    assert falling.verdict is Finding.REFUTED
