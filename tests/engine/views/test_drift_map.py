"""Two encoders' drift on one map: a frame that changes no encoder, and agreement that is what it says."""

import numpy as np
import pytest

import engine
from engine.errors import DataError
from engine.views.drift_map import beside, turned
from support.feedback import random_space
from support.instances import unit


def orthogonal(d, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


@pytest.mark.parametrize("d", [4, 8, 12])
def test_a_rotation_is_found_and_keeps_every_inner_product(d):
    rng = np.random.default_rng(1)
    one = unit(rng.standard_normal((30, 8)))
    other = one @ np.linalg.qr(rng.standard_normal((12, 8)))[0].T if d == 12 else unit(rng.standard_normal((30, d)))
    frame = turned(one, other)
    moved = other @ frame
    if d == 12:
        assert np.allclose(moved, one, atol=1e-12)
    else:
        assert np.allclose(moved @ moved.T, other @ other.T, atol=1e-12)
    by_chance = [np.linalg.norm(other @ np.linalg.qr(rng.standard_normal((max(d, 8), max(d, 8))))[0][:d, :8] - one)
                 for _ in range(200)]  # fmt: skip
    assert np.linalg.norm(moved - one) <= min(by_chance) + 1e-9


@pytest.mark.parametrize("method", ["pca", "tsne"])
def test_the_same_encoder_in_another_frame_is_the_same_arrows(method):
    space = random_space(60, 8)
    layout = engine.layout(space, method, cache=False)
    rng = np.random.default_rng(0)
    start = space.vectors.numpy()
    now = start.astype(np.float64)
    now[[3, 9, 40]] += 0.3 * unit(rng.standard_normal((3, 8)))
    frame = orthogonal(8)
    found = beside(layout, space, now, start @ frame, now @ frame)
    assert found.agreement == pytest.approx((1, 1), abs=1e-6)
    assert set(found.rows[:3].tolist()) == {3, 9, 40}
    assert np.allclose(found.points[0, 0], found.points[1, 0], atol=1e-3)
    assert np.allclose(found.points[0, 1] - found.points[0, 0], found.points[1, 1] - found.points[1, 0], atol=1e-3)
    assert found.arrows(1)["row"] == found.rows.tolist() and len(found.arrows(0)["x1"]) == len(found.rows)


def test_agreement_rises_where_both_move_to_the_same_place_and_drift_is_not_turned_away():
    space = random_space(40, 8)
    start, frame = space.vectors.numpy().astype(np.float64), orthogonal(8, 3)
    rng = np.random.default_rng(2)
    other = unit(start + 0.8 * unit(rng.standard_normal(start.shape))) @ frame
    meant = unit(start + 0.5 * unit(rng.standard_normal(start.shape)))
    layout = engine.layout(space, "pca", cache=False)
    towards = beside(layout, space, 0.3 * start + 0.7 * meant, other, 0.3 * other + 0.7 * meant @ frame)
    assert towards.agreement[1] > towards.agreement[0] + 0.1
    still = beside(layout, space, start.astype(np.float32), other, other)
    assert still.agreement[0] == pytest.approx(still.agreement[1]) and not len(still.rows)
    # A rotation of all that one encoder has is drift, not a frame.
    spun = beside(layout, space, start, other, other @ orthogonal(8, 5))
    assert spun.agreement[1] < towards.agreement[0]
    with pytest.raises(DataError, match="the same 40 documents"):
        beside(layout, space, start, other[:5], other[:5])
