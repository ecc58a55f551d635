"""τ from the data: so sharp that a draw typically decides among a handful of documents.

An extension of ours. With τ = 1, as printed, the softmax of unit vectors is nearly uniform over the whole corpus.
"""

from __future__ import annotations

import numpy as np

SAMPLE = 64
"""So many queries decide."""
STEPS = 40


def softmax(z: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis, in float64; −∞ gives 0."""
    shifted = z - z.max(axis=-1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=-1, keepdims=True)
    return shifted


def perplexity(scores: np.ndarray, temperature: float) -> np.ndarray:
    """(B,) exponentials of the entropies of softmax(scores / τ): among how many documents each query decides."""
    p = softmax(scores / temperature)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p), 0.0)
    return np.exp(-terms.sum(axis=-1))


def by_perplexity(scores: np.ndarray, target: float) -> float:
    """The τ at which the median perplexity of the queries is `target`; scores: (B, n) float64, −∞ for documents out.

    A corpus too small for the target gets half its size. Bisection in log τ.
    """
    finite = np.isfinite(scores)
    target = min(target, (int(finite.sum(axis=-1).min()) + 1) / 2)
    best = scores.max(axis=-1)
    spread = float(np.median(best - np.where(finite, scores, np.inf).min(axis=-1)))
    if spread <= 0:
        return 1.0
    low, high = np.log(1e-6 * spread), np.log(1e3 * spread)
    for _ in range(STEPS):
        middle = (low + high) / 2
        if np.median(perplexity(scores, float(np.exp(middle)))) < target:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))
