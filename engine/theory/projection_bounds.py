"""How many dimensions keep the order of inner products under a random projection (sparse-dense paper, §2.1).

k: the projection's dimension; margin: ε, the normalised margin ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|) of Definition 2.1; error:
β, the probability that the projection turns a pair round. Rademacher (±1/√k) or Gaussian (variance 1/k) projections.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.errors import ParamError
from engine.params import Whole

DIMENSION = Whole(768, "k", 1, comfortable=(32, 4096), name="k", help="Dimensions of the projection.")
RANK = Whole(10, "r₀", 1, name="rank", help="Within how many results the document is wanted.")

DOCUMENTS = Whole(1000, "|D|", 1, name="documents", help="How many documents there are beside the best one.")


def rate(margin: Any) -> Any:
    """ε²/2 − ε³/3 of a number or an array: how fast, per half dimension, the bound falls; its inverse is what the
    dimension that is needed grows with."""
    return margin**2 / 2 - margin**3 / 3


def pair_error_bound(k: int, margin: float) -> float:
    """4 exp(−k/2 (ε²/2 − ε³/3)): what a pair of this margin is turned round by at most (Lemma 1). No use from 1 on.

    k: in [1, ∞); margin: in (0, 1]. Raises ParamError.
    """
    k, margin = DIMENSION.check(k), inside("margin (ε)", margin, closed=True)
    return 4 * math.exp(-k / 2 * rate(margin))


def sufficient_dimension(margin: float, error: float) -> int:
    """The smallest k with k ≥ 2 (ε²/2 − ε³/3)⁻¹ ln(4/β): enough to keep a pair's order (eq. 2).

    margin: in (0, 1]; error: in (0, 1). Raises ParamError.
    """
    margin, error = inside("margin (ε)", margin, closed=True), inside("error (β)", error)
    return math.ceil(_finite(2 * _nats(error), rate(margin), margin))


def recall_loss_bound(k: int, margin: float, documents: int, rank: int = 1) -> float:
    """4 (|D| − r₀ + 1) exp(−k/2 (ε²/2 − ε³/3)): how often at most a projection ranks the best document behind `rank`
    others or more (Lemma 2). No use from 1 on.

    margin: ε, the rank-th smallest of the best document over the others, in (0, 1]; documents: |D|, how many others
    there are; rank: r₀ ≤ |D|. Raises ParamError.
    """
    rank = _rank(rank, documents)
    return (documents - rank + 1) * pair_error_bound(k, margin)


def recall_dimension(margin: float, error: float, documents: int, rank: int = 1) -> int:
    """The smallest k with k ≥ 2 (ε²/2 − ε³/3)⁻¹ ln(4 (|D| − r₀ + 1)/β): enough to keep the best document in the first
    `rank` (eq. 3).

    error: β, in (0, 1); the others as in `recall_loss_bound`. Raises ParamError.
    """
    rank = _rank(rank, documents)
    margin, error = inside("margin (ε)", margin, closed=True), inside("error (β)", error)
    return math.ceil(_finite(2 * (_nats(error) + math.log(documents - rank + 1)), rate(margin), margin))


def _rank(rank: int, documents: int) -> int:
    """r₀, checked against |D|."""
    documents = DOCUMENTS.check(documents)
    if RANK.check(rank) > documents:
        raise ParamError(f"rank (r₀) must be at most documents, {documents}; got {rank}")
    return RANK.check(rank)


def simple_dimension(margin: float, error: float) -> int:
    """The smallest k with k > 12 ε⁻² ln(4/β): looser than `sufficient_dimension`, and quadratic (Corollary 1).

    margin: in (0, 1]; error: in (0, 1). Raises ParamError.
    """
    margin, error = inside("margin (ε)", margin, closed=True), inside("error (β)", error)
    return math.floor(_finite(12 * _nats(error), margin**2, margin)) + 1


def kept_dimension(ks: Sequence[int], kept: Sequence[bool] | np.ndarray) -> int | None:
    """The smallest of some k, ascending, from which on everything is kept; None where not even the last keeps it."""
    lost = np.flatnonzero(~np.asarray(kept, dtype=bool))
    first = lost[-1] + 1 if len(lost) else 0
    return ks[first] if first < len(ks) else None


def _nats(error: float) -> float:
    """ln(4/β); of two logarithms, because a quotient by a tiny β has no double."""
    return math.log(4) - math.log(error)


def _finite(needed: float, rate: float, margin: float) -> float:
    """needed/rate; a margin whose square is too small for a double asks for more dimensions than can be written."""
    found = needed / rate if rate > 0 else math.inf
    if found == math.inf:
        raise ParamError(
            f"margin (ε) must be a number in [1e-150, 1]: below, the dimension it needs has no double; got {margin!r}"
        )
    return found


def inside(name: str, value: Any, closed: bool = False) -> float:
    """A number in (0, 1), or (0, 1] where closed."""
    number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not number or not (0 < value < 1 or (closed and value == 1)):
        raise ParamError(f"{name} must be a number in (0, 1{']' if closed else ')'}; got {value!r}")
    return float(value)
