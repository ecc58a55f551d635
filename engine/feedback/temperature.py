"""Softmax temperature τ fitted to the data, so that a draw typically decides among a handful of documents.

This extends the ORAG paper, whose equation (1) has τ = 1: then the softmax of unit vectors is nearly uniform.
"""

import numpy as np

from engine.decoder import QueryLike, query_batch
from engine.feedback.embedding_state import StartVectors
from engine.feedback.presets import MIN_TEMPERATURE

#: The temperature is fitted to at most this many queries.
MAX_SAMPLE_QUERIES = 64
#: Documents scored at a time.
SCORE_BLOCK_SIZE = 4096


def softmax(logits: np.ndarray) -> np.ndarray:
    """Compute the softmax along the last axis, in float64; a score of −∞ gets probability 0."""
    # The largest logit is subtracted, so that no exponential overflows.
    exponentials: np.ndarray = logits - logits.max(axis=-1, keepdims=True)
    np.exp(exponentials, out=exponentials)
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return exponentials


def perplexity(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Compute the perplexity of each query: the effective number of documents in its softmax.

    Parameters
    ----------
    scores : ndarray, shape (n_queries, n) or (n,)
        Inner products; −∞ for documents that are excluded.
    temperature : float
        τ of the softmax.

    Returns
    -------
    ndarray, shape (n_queries,)
        Exponential of the entropy of softmax(scores / τ).

    Examples
    --------
    >>> orag.perplexity(np.zeros((1, 4)), 1.0)
    array([4.])
    """
    return np.exp([_softmax_entropy(logits - logits.max(), temperature) for logits in np.atleast_2d(scores)])


def by_perplexity(scores: np.ndarray, target: float) -> float:
    """Find the temperature at which the median perplexity is `target`.

    Parameters
    ----------
    scores : ndarray, shape (n_queries, n)
        Inner products in float64; −∞ for documents that are excluded.
    target : float
        Desired median perplexity; half of the number of documents if the corpus is too small for it.

    Returns
    -------
    float
        The temperature τ.

    Examples
    --------
    >>> tau = orag.by_perplexity(np.array([[0.9, 0.5, 0.1, 0.0]]), 2.0)
    """
    is_finite = np.isfinite(scores)
    # A corpus of few documents cannot reach a high perplexity, so the target is at most about half of them.
    target = min(target, (int(is_finite.sum(axis=-1).min()) + 1) / 2)
    score_gaps = [gaps[is_present] - gaps.max() for gaps, is_present in zip(scores, is_finite, strict=True)]
    spread = -float(np.median([gaps.min() for gaps in score_gaps]))
    # With equal scores every temperature gives the same probabilities.
    if spread <= 0:
        return 1.0

    def excess(log_temperature: float) -> float:
        """Return the median entropy of the queries' softmax less the target's, 0 at the temperature sought."""
        entropies = [_softmax_entropy(gaps, np.exp(log_temperature)) for gaps in score_gaps]
        return float(np.median(entropies) - np.log(target))

    from scipy.optimize import brentq

    # The median entropy rises with log τ, so a bracket suffices: at its low end every document but the best has
    # probability 0, at its high end all are nearly equal.
    log_low, log_high = np.log(1e-6 * spread), np.log(1e3 * spread)
    if excess(log_low) >= 0:
        return float(np.exp(log_low))
    return float(np.exp(brentq(excess, log_low, log_high, xtol=1e-10, rtol=1e-12)))


def fit_temperature(start_vectors: StartVectors, queries: QueryLike | None, target: float) -> float:
    """Fit the softmax temperature at which the median perplexity of the queries is `target`.

    The perplexity is the effective number of documents among which a draw decides. It is taken on a sample of the
    queries. queries: None for documents in place of queries. A single document has no spread, so its temperature is 1.
    """
    if queries is None and len(start_vectors) == 1:
        return 1.0
    if queries is None:
        query_vectors = start_vectors.vectors
    else:
        query_vectors = query_batch(start_vectors.space, queries).vectors.cpu().numpy()
    sample_rows = np.unique(np.linspace(0, len(query_vectors) - 1, MAX_SAMPLE_QUERIES).astype(int))
    sample_vectors = query_vectors[sample_rows].astype(np.float64)
    # In blocks, so that no float64 copy of the full corpus is held.
    starts = range(0, len(start_vectors), SCORE_BLOCK_SIZE)
    blocks = (start_vectors.vectors[start : start + SCORE_BLOCK_SIZE].astype(np.float64) for start in starts)
    scores = np.concatenate([sample_vectors @ block.T for block in blocks], axis=1)
    if queries is None:
        # A document that stands in for a query is its own best match, which no real query is.
        scores[np.arange(len(sample_rows)), sample_rows] = -np.inf
    return max(MIN_TEMPERATURE, by_perplexity(scores, target))


def _softmax_entropy(score_gaps: np.ndarray, temperature: float) -> float:
    """Return the entropy of softmax(score_gaps / τ) in nats; score_gaps: (n,) scores minus the largest."""
    scaled_gaps = score_gaps / temperature
    weights = np.exp(scaled_gaps)
    total_weight = weights.sum()
    # Entropy as Σ p (log Σ e^z − z); terms of excluded documents would be 0 · ∞.
    scaled_gaps[weights == 0] = 0.0
    return float(np.log(total_weight) - weights @ scaled_gaps / total_weight)
