"""Density of a map's documents on a grid: a Gaussian kernel density estimate, for contours."""

from dataclasses import dataclass

import numpy as np

GRID_CELLS = 96
"""Cells of the grid along its longer side."""
KERNEL_WIDTH = 1 / 36
"""Standard deviation of the kernel, as a share of the longer side."""
_TRUNCATE = 4.0  # standard deviations beyond which the kernel is 0


@dataclass(frozen=True, eq=False)
class Density:
    """Density of a map's documents over a grid.

    x: (a,) and y: (b,) the middles of its cells; height: (b, a) in [0, 1], 1 at the highest.
    """

    x: np.ndarray
    y: np.ndarray
    height: np.ndarray


def estimate_density(points: np.ndarray) -> Density:
    """Estimate the density of a map's (m, 2) points on a grid; it extends beyond them to where it is 0."""
    from scipy.ndimage import gaussian_filter

    minimum, maximum = points.min(0).astype(np.float64), points.max(0).astype(np.float64)
    longer = float((maximum - minimum).max()) or 1.0
    # The kernel is cut off at this distance, so that the density is 0 beyond it.
    padding = _TRUNCATE * KERNEL_WIDTH * longer
    cell_size = (longer + 2 * padding) / GRID_CELLS
    n_cells = np.ceil((maximum - minimum + 2 * padding) / cell_size).astype(int)
    grid_start = (minimum + maximum - n_cells * cell_size) / 2
    # Equal cells on both axes: one kernel, in cells, smooths both.
    edges = [grid_start[axis] + cell_size * np.arange(n_cells[axis] + 1) for axis in (0, 1)]
    histogram, *_edges = np.histogram2d(points[:, 0], points[:, 1], bins=edges)
    smooth = gaussian_filter(histogram.T, KERNEL_WIDTH * longer / cell_size, mode="constant", truncate=_TRUNCATE)
    x, y = ((edge[:-1] + edge[1:]) / 2 for edge in edges)
    return Density(x, y, smooth / smooth.max())
