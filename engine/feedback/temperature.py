"""τ from the data: so sharp that a draw typically decides among a handful of documents.

An extension of ours. With τ = 1, as printed, the softmax of unit vectors is nearly uniform over the whole corpus.
"""

import numpy as np

from engine.decoder import QueryLike, query_batch
from engine.feedback.embedding_state import StartVectors
from engine.feedback.presets import LEAST_TEMPERATURE

SAMPLE = 64
"""Queries that the temperature is set by."""
BLOCK = 4096
"""Documents scored at a time."""


def softmax(z: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis, in float64; −∞ gives 0."""
    shifted: np.ndarray = z - z.max(axis=-1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=-1, keepdims=True)
    return shifted


def perplexity(scores: np.ndarray, temperature: float) -> np.ndarray:
    """(B,) exp of the entropies of softmax(scores / τ): among how many documents each query decides."""
    return np.exp([_entropy(row - row.max(), temperature) for row in np.atleast_2d(scores)])


def by_perplexity(scores: np.ndarray, target: float) -> float:
    """The τ at which the median perplexity is `target`; scores: (B, n) float64, −∞ for documents out.

    A corpus too small for the target gets half its size. By bracketing in log τ, in which the median only rises.
    """
    finite = np.isfinite(scores)
    target = min(target, (int(finite.sum(axis=-1).min()) + 1) / 2)
    below = [row[present] - row.max() for row, present in zip(scores, finite, strict=True)]
    spread = -float(np.median([row.min() for row in below]))
    if spread <= 0:
        return 1.0

    def excess(log: float) -> float:
        return float(np.median([_entropy(row, np.exp(log)) for row in below]) - np.log(target))

    from scipy.optimize import brentq

    # Where every document but the best has no chance, and where all have nearly the same.
    low, high = np.log(1e-6 * spread), np.log(1e3 * spread)
    if excess(low) >= 0:
        return float(np.exp(low))
    return float(np.exp(brentq(excess, low, high, xtol=1e-10, rtol=1e-12)))


def by_sample(start: StartVectors, queries: QueryLike | None, target: float) -> float:
    """The τ of a perplexity for a sample of queries; without any, documents stand in for them."""
    if queries is None and len(start) == 1:
        return 1.0
    asked = start.vectors if queries is None else query_batch(start.space, queries).vectors.cpu().numpy()
    rows = np.unique(np.linspace(0, len(asked) - 1, SAMPLE).astype(int))
    points = asked[rows].astype(np.float64)
    blocks = (start.vectors[begin : begin + BLOCK].astype(np.float64) for begin in range(0, len(start), BLOCK))
    scores = np.concatenate([points @ block.T for block in blocks], axis=1)
    if queries is None:
        # A document is its own best answer; a query is no document.
        scores[np.arange(len(rows)), rows] = -np.inf
    return max(LEAST_TEMPERATURE, by_perplexity(scores, target))


def _entropy(below: np.ndarray, temperature: float) -> float:
    """Of softmax(below / τ), in nats; below: (n,) scores less the largest."""
    z = below / temperature
    weights = np.exp(z)
    total = weights.sum()
    # Σ p (log Σ e^z − z), without the 0 · ∞ of documents that are out.
    z[weights == 0] = 0.0
    return float(np.log(total) - weights @ z / total)
