"""Dimensions that keep the order of inner products under a random projection (sparse-dense paper, §2.1).

k: the projection's dimension; margin: ε, the normalised margin ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|) of Definition 2.1; error:
β, the probability that the projection turns a pair round. Rademacher (±1/√k) or Gaussian (variance 1/k) projections.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.errors import ParamError
from engine.params import Whole

PROJECTION_DIMENSION = Whole(768, "k", 1, comfortable=(32, 4096), name="k", help="Dimensions of the projection.")
RESULT_RANK = Whole(10, "r₀", 1, name="rank", help="Within how many results the document is wanted.")

N_DOCUMENTS = Whole(1000, "|D|", 1, name="documents", help="How many documents there are beside the best one.")


def compute_rate(margin: Any) -> Any:
    """Compute ε²/2 − ε³/3 of a number or an array: the bound's rate of decay per half dimension."""
    return margin**2 / 2 - margin**3 / 3


def pair_error_bound(k: int, margin: float) -> float:
    """Compute the bound 4 exp(−k/2 (ε²/2 − ε³/3)) on the chance that a projection reverses a pair.

    It is that of the sparse-dense paper's Lemma 1.

    Parameters
    ----------
    k : int
        The dimension, at least 1.
    margin : float
        The margin ε of the pair, in (0, 1].

    Returns
    -------
    float
        The bound; from 1 on it says nothing.

    Raises
    ------
    ParamError
        If an argument is outside its range.

    Examples
    --------
    >>> import engine
    >>> round(engine.pair_error_bound(1000, 0.2), 4)
    0.0007
    """
    k, margin = PROJECTION_DIMENSION.check(k), check_open_unit("margin (ε)", margin, is_closed=True)
    return 4 * math.exp(-k / 2 * compute_rate(margin))


def sufficient_dimension(margin: float, error: float) -> int:
    """Compute the dimension k ≥ 2 (ε²/2 − ε³/3)⁻¹ ln(4/β) that keeps the order of two documents (eq. 2).

    From k on a random projection reverses it at most with the chance β (sparse-dense paper, Lemma 1).

    Parameters
    ----------
    margin : float
        The margin ε of the pair, in (0, 1].
    error : float
        The allowed chance β of a reversal, in (0, 1).

    Returns
    -------
    int
        The dimension.

    Raises
    ------
    ParamError
        If an argument is outside its range.

    Examples
    --------
    >>> import engine
    >>> engine.sufficient_dimension(0.2, 0.05)
    506
    """
    # Lemma 2 with one other document is Lemma 1: eq. 3 is then eq. 2.
    return recall_dimension(margin, error, documents=1)


def recall_loss_bound(k: int, margin: float, documents: int, rank: int = 1) -> float:
    """Bound the chance that a random projection loses a query's best document.

    The document is lost if the projection ranks it behind `rank` others or more. The bound is 4 (|D| − r₀ + 1) exp(−k/2
    (ε²/2 − ε³/3)), by Lemma 2 of the sparse-dense paper; from 1 on it says nothing. k: the projection's dimension;
    margin: ε, the rank-th smallest of the best document's margins over the others, in (0, 1]; documents: |D|, the
    number of others; rank: r₀ ≤ |D|. Raises ParamError.
    """
    rank = _check_rank(rank, documents)
    return (documents - rank + 1) * pair_error_bound(k, margin)


def recall_dimension(margin: float, error: float, documents: int, rank: int = 1) -> int:
    """Find the dimension that keeps a best document among the first `rank` but for a chance β.

    It is the smallest k with k ≥ 2 (ε²/2 − ε³/3)⁻¹ ln(4 (|D| − r₀ + 1)/β) (sparse-dense paper, eq. 3). margin: ε, the
    rank-th smallest of the best document's margins over the others; a margin is the lead in score ⟨q, d₁ − d₂⟩ divided
    by |q||d₁ − d₂|; error: β, in (0, 1); documents: |D|, the number of others; rank: r₀ ≤ |D|. Raises ParamError.
    """
    rank = _check_rank(rank, documents)
    margin, error = check_open_unit("margin (ε)", margin, is_closed=True), check_open_unit("error (β)", error)
    # The natural logarithm of 4 (|D| − r₀ + 1)/β.
    nats = _compute_nats(error) + math.log(documents - rank + 1)
    return math.ceil(_divide_finite(2 * nats, compute_rate(margin), margin))


def _check_rank(rank: int, documents: int) -> int:
    """Return the rank r₀ as a whole number of at most |D|, the number of documents; else raise ParamError."""
    documents = N_DOCUMENTS.check(documents)
    if RESULT_RANK.check(rank) > documents:
        raise ParamError(f"rank (r₀) must be at most documents, {documents}; got {rank}")
    return RESULT_RANK.check(rank)


def simple_dimension(margin: float, error: float) -> int:
    """Find a dimension that keeps the order of a pair but for a chance β, by a simpler formula.

    It is the smallest k with k > 12 ε⁻² ln(4/β) (sparse-dense paper, Corollary 1), never below that of
    `sufficient_dimension`. margin: ε, in (0, 1]; error: β, in (0, 1). Raises ParamError.
    """
    margin, error = check_open_unit("margin (ε)", margin, is_closed=True), check_open_unit("error (β)", error)
    return math.floor(_divide_finite(12 * _compute_nats(error), margin**2, margin)) + 1


def find_stable_dimension(ks: Sequence[int], is_kept: Sequence[bool] | np.ndarray) -> int | None:
    """Find the smallest dimension that keeps the result as all larger ones do; None if the largest fails.

    ks: the dimensions tried, ascending; is_kept: True for each of them that keeps the result
    """
    # The answer is the dimension after the last one that fails.
    lost_index = np.flatnonzero(~np.asarray(is_kept, dtype=bool))
    first_index = lost_index[-1] + 1 if len(lost_index) else 0
    return ks[first_index] if first_index < len(ks) else None


def _compute_nats(error: float) -> float:
    """Compute ln(4/β), β being the allowed error, as a difference: 4/β overflows for a tiny β."""
    return math.log(4) - math.log(error)


def _divide_finite(numerator: float, rate: float, margin: float) -> float:
    """Compute numerator/rate, a dimension; raise ParamError if the margin is too small for a finite one."""
    quotient = numerator / rate if rate > 0 else math.inf
    if quotient == math.inf:
        raise ParamError(
            f"margin (ε) must be a number in [1e-150, 1]: below, the dimension it needs has no double; got {margin!r}"
        )
    return quotient


def check_open_unit(argument: str, value: Any, is_closed: bool = False) -> float:
    """Return a number in (0, 1), or (0, 1] where is_closed, as a float; raise ParamError otherwise.

    argument: its name in the message
    """
    is_number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not is_number or not (0 < value < 1 or (is_closed and value == 1)):
        raise ParamError(f"{argument} must be a number in (0, 1{']' if is_closed else ')'}; got {value!r}")
    return float(value)
