"""Density of a map: a kernel density estimate, on a grid that holds every point."""

import numpy as np
import pytest

from engine.maps.density import GRID_CELLS, KERNEL_WIDTH, estimate_density

DRAW = np.random.default_rng(2)


def test_density_is_the_sum_of_kernels_up_to_the_grid():
    points = np.concatenate([DRAW.normal(size=(300, 2)), DRAW.normal(size=(200, 2)) * 0.5 + [6, 2]])
    found = estimate_density(points)
    sigma = KERNEL_WIDTH * np.ptp(points, axis=0).max()
    grid = np.stack(np.meshgrid(found.x, found.y)).reshape(2, -1)
    gap = ((grid.T[:, None] - points[None]) ** 2).sum(2)
    exact = np.exp(-gap / (2 * sigma**2)).sum(1)
    np.testing.assert_allclose(found.height.ravel(), exact / exact.max(), rtol=0, atol=0.12)
    assert np.corrcoef(found.height.ravel(), exact)[0, 1] > 0.995


@pytest.mark.parametrize(
    "points", [[[3, 4]], [[0, 0], [0, 9]], np.zeros((5, 2)), DRAW.normal(size=(40, 2)) * [1e6, 1e-6]]
)
def test_grid_holds_every_point_and_fades_to_nothing(points):
    points = np.asarray(points, dtype=np.float32)
    found = estimate_density(points)
    assert found.height.shape == (len(found.y), len(found.x)) and max(found.height.shape) <= GRID_CELLS + 1
    assert found.height.max() == 1 and np.isfinite(found.height).all()
    for axis, grid in enumerate((found.x, found.y)):
        assert grid[0] < points[:, axis].min() and grid[-1] > points[:, axis].max()
    edge = np.concatenate([found.height[0], found.height[-1], found.height[:, 0], found.height[:, -1]])
    assert edge.max() < 0.01
