"""Steps of documents within trust region and ball (Algorithm 1, lines 5 and 6; appendix B.2).

Everything is float64. The trust region comes first: a step back onto the ball cannot leave it, as the region's centre
lies in the ball. The ball's radius is 1, or the length of the document's first vector where that is longer: so a
document that has not moved is always inside, and a step of 0 changes nothing.
"""

from math import sqrt

import numpy as np


def factor(coefficient: float, rate: float, cap: float | None) -> float:
    """How much of the query is added to a document: −rate · coefficient, within ± cap."""
    k = -rate * coefficient
    return k if cap is None else max(-cap, min(cap, k))


def moved(
    row: np.ndarray, origin: np.ndarray, query: np.ndarray, k: float, trust: float | None, ball: bool
) -> np.ndarray:
    """(d,) a document after a step of k · query; origin: its first vector. Nothing given is written to."""
    if k == 0.0:
        return row
    new = k * query
    new += row
    if trust is not None:
        gone = new - origin
        far = sqrt(gone.dot(gone))
        if far > trust:
            gone *= trust / far
            new = origin + gone
    if ball:
        length = sqrt(new.dot(new))
        if length > 1.0:
            radius = max(1.0, sqrt(origin.dot(origin)))
            if length > radius:
                new *= radius / length
    return new


def bound(rows: np.ndarray, origin: np.ndarray, trust: float | None, ball: bool) -> None:
    """Bring (m, d) documents back within their bounds, in place; origin: (m, d)."""
    if trust is not None:
        gone = rows - origin
        far = _lengths(gone)
        beyond = np.flatnonzero(far > trust)
        rows[beyond] = origin[beyond] + gone[beyond] * (trust / far[beyond])[:, None]
    if ball:
        length, radius = _lengths(rows), np.maximum(1.0, _lengths(origin))
        beyond = np.flatnonzero(length > radius)
        rows[beyond] *= (radius[beyond] / length[beyond])[:, None]


def _lengths(rows: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths
