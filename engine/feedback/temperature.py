"""τ from the data: so sharp that a draw typically decides among a handful of documents.

An extension of ours. With τ = 1, as printed, the softmax of unit vectors is nearly uniform over the whole corpus.
"""

import numpy as np

from engine.decoder import QueryLike, query_batch
from engine.feedback.embedding_state import StartVectors
from engine.feedback.presets import MIN_TEMPERATURE

MAX_SAMPLE_QUERIES = 64
"""Queries that the temperature is set by."""
SCORE_BLOCK_SIZE = 4096
"""Documents scored at a time."""


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis, in float64; −∞ gives 0."""
    exponentials: np.ndarray = logits - logits.max(axis=-1, keepdims=True)
    np.exp(exponentials, out=exponentials)
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return exponentials


def perplexity(scores: np.ndarray, temperature: float) -> np.ndarray:
    """(B,) exp of the entropies of softmax(scores / τ): among how many documents each query decides."""
    return np.exp(
        [_softmax_entropy(query_scores - query_scores.max(), temperature) for query_scores in np.atleast_2d(scores)]
    )


def by_perplexity(scores: np.ndarray, target: float) -> float:
    """The τ at which the median perplexity is `target`; scores: (B, n) float64, −∞ for documents out.

    A corpus too small for the target gets half its size. By bracketing in log τ, in which the median only rises.
    """
    is_finite = np.isfinite(scores)
    target = min(target, (int(is_finite.sum(axis=-1).min()) + 1) / 2)
    score_gaps = [gaps[is_present] - gaps.max() for gaps, is_present in zip(scores, is_finite, strict=True)]
    spread = -float(np.median([gaps.min() for gaps in score_gaps]))
    if spread <= 0:
        return 1.0

    def excess(log_temperature: float) -> float:
        return float(
            np.median([_softmax_entropy(gaps, np.exp(log_temperature)) for gaps in score_gaps]) - np.log(target)
        )

    from scipy.optimize import brentq

    # Where every document but the best has no chance, and where all have nearly the same.
    log_low, log_high = np.log(1e-6 * spread), np.log(1e3 * spread)
    if excess(log_low) >= 0:
        return float(np.exp(log_low))
    return float(np.exp(brentq(excess, log_low, log_high, xtol=1e-10, rtol=1e-12)))


def fit_temperature(start_vectors: StartVectors, queries: QueryLike | None, target: float) -> float:
    """The τ of a perplexity for a sample of queries; without any, documents stand in for them."""
    if queries is None and len(start_vectors) == 1:
        return 1.0
    query_vectors = (
        start_vectors.vectors if queries is None else query_batch(start_vectors.space, queries).vectors.cpu().numpy()
    )
    sample_rows = np.unique(np.linspace(0, len(query_vectors) - 1, MAX_SAMPLE_QUERIES).astype(int))
    sample_vectors = query_vectors[sample_rows].astype(np.float64)
    document_blocks = (
        start_vectors.vectors[block_start : block_start + SCORE_BLOCK_SIZE].astype(np.float64)
        for block_start in range(0, len(start_vectors), SCORE_BLOCK_SIZE)
    )
    scores = np.concatenate([sample_vectors @ document_block.T for document_block in document_blocks], axis=1)
    if queries is None:
        # A document is its own best answer; a query is no document.
        scores[np.arange(len(sample_rows)), sample_rows] = -np.inf
    return max(MIN_TEMPERATURE, by_perplexity(scores, target))


def _softmax_entropy(score_gaps: np.ndarray, temperature: float) -> float:
    """Of softmax(below / τ), in nats; score_gaps: (n,) scores less the largest."""
    scaled_gaps = score_gaps / temperature
    weights = np.exp(scaled_gaps)
    total_weight = weights.sum()
    # Σ p (log Σ e^z − z), without the 0 · ∞ of documents that are out.
    scaled_gaps[weights == 0] = 0.0
    return float(np.log(total_weight) - weights @ scaled_gaps / total_weight)
