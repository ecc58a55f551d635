"""Density of a map's documents on a grid: a Gaussian kernel density estimate, for contours."""

from dataclasses import dataclass

import numpy as np

CELLS = 96
"""Cells of the grid along its longer side."""
KERNEL = 1 / 36
"""Standard deviation of the kernel, as a share of the longer side."""
_TRUNCATE = 4.0  # standard deviations beyond which the kernel is 0


@dataclass(frozen=True, eq=False)
class Density:
    """Density over a grid: x (a,) and y (b,) the middles of its cells, height (b, a) in [0, 1], 1 at the highest."""

    x: np.ndarray
    y: np.ndarray
    height: np.ndarray


def density(points: np.ndarray) -> Density:
    """The density of (m, 2) points; the grid reaches past the outermost ones to where it is 0."""
    from scipy.ndimage import gaussian_filter

    low, high = points.min(0).astype(np.float64), points.max(0).astype(np.float64)
    longer = float((high - low).max()) or 1.0
    room = _TRUNCATE * KERNEL * longer
    cell = (longer + 2 * room) / CELLS
    counts = np.ceil((high - low + 2 * room) / cell).astype(int)
    start = (low + high - counts * cell) / 2
    # Equal cells on both axes: one kernel, in cells, smooths both.
    edges = [start[axis] + cell * np.arange(counts[axis] + 1) for axis in (0, 1)]
    held, *_ = np.histogram2d(points[:, 0], points[:, 1], bins=edges)
    smooth = gaussian_filter(held.T, KERNEL * longer / cell, mode="constant", truncate=_TRUNCATE)
    x, y = ((edge[:-1] + edge[1:]) / 2 for edge in edges)
    return Density(x, y, smooth / smooth.max())
