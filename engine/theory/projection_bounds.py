"""How many dimensions keep the order of inner products under a random projection (sparse-dense paper, §2.1).

k: the projection's dimension; margin: ε, the normalised margin ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|) of Definition 2.1; error:
β, the probability that the projection turns a pair round. Rademacher (±1/√k) or Gaussian (variance 1/k) projections.
"""

import math
from typing import Any

import numpy as np

from engine.errors import ParamError
from engine.params import Whole

DIMENSION = Whole(768, "k", 1, comfortable=(32, 4096), name="k", help="Dimensions of the projection.")
DOCUMENTS = Whole(1000, "|D|", 1, name="documents", help="How many documents compete with the one wanted.")
RANK = Whole(10, "r₀", 1, name="rank", help="Within how many results the document is wanted.")
QUERY_WORDS = Whole(10, "L_Q", 1, name="query_words", help="Distinct words of the query.")
DOCUMENT_WORDS = Whole(100, "L_D", 1, name="document_words", help="Distinct words of the longest document.")


def rate(margin: Any) -> Any:
    """ε²/2 − ε³/3 of a number or an array: how fast, per half dimension, the bound falls; its inverse is what the
    dimension that is needed grows with."""
    return margin**2 / 2 - margin**3 / 3


def pair_error_bound(k: int, margin: float) -> float:
    """4 exp(−k/2 (ε²/2 − ε³/3)): what a pair of this margin is turned round by at most (Lemma 1). No use from 1 on.

    k: in [1, ∞); margin: in (0, 1]. Raises ParamError.
    """
    return recall_error_bound(k, margin, 1, 1)


def sufficient_dimension(margin: float, error: float) -> int:
    """The smallest k with k ≥ 2 (ε²/2 − ε³/3)⁻¹ ln(4/β): enough to keep a pair's order (eq. 2).

    margin: in (0, 1]; error: in (0, 1). Raises ParamError.
    """
    return recall_dimension(margin, error, 1, 1)


def recall_error_bound(k: int, margin: float, documents: int, rank: int) -> float:
    """4(|D| − r₀ + 1) exp(−k/2 (ε²/2 − ε³/3)): the best document leaves the top r₀ no more often (Lemma 2).

    margin: the r₀-th smallest of its margins over the others, in (0, 1]; documents: |D|, how many others; rank: r₀, in
    [1, |D|]. From 1 on the bound says nothing. Raises ParamError.
    """
    k, margin = DIMENSION.check(k), inside("margin (ε)", margin, closed=True)
    return 4 * _rivals(documents, rank) * math.exp(-k / 2 * rate(margin))


def recall_dimension(margin: float, error: float, documents: int, rank: int) -> int:
    """The smallest k with k ≥ 2 (ε²/2 − ε³/3)⁻¹ ln(4(|D| − r₀ + 1)/β): keeps the best document in the top r₀ (eq. 3).

    Arguments as in `recall_error_bound`; error: in (0, 1). Raises ParamError.
    """
    margin, error = inside("margin (ε)", margin, closed=True), inside("error (β)", error)
    return math.ceil(_finite(2 * _nats(error, _rivals(documents, rank)), rate(margin), margin))


def simple_dimension(margin: float, error: float) -> int:
    """The smallest k with k > 12 ε⁻² ln(4/β): looser than `sufficient_dimension`, and quadratic (Corollary 1).

    margin: in (0, 1]; error: in (0, 1). Raises ParamError.
    """
    margin, error = inside("margin (ε)", margin, closed=True), inside("error (β)", error)
    return math.floor(_finite(12 * _nats(error), margin**2, margin)) + 1


def boolean_margin(query_words: int, document_words: int) -> float:
    """(2 L_Q L_D)^−½: no two documents that share different numbers of words with the query are closer (§A.4).

    query_words: L_Q, the query's distinct words; document_words: L_D, those of the longest document. Raises ParamError.
    """
    words = 2 * QUERY_WORDS.check(query_words) * DOCUMENT_WORDS.check(document_words)
    return float(words**-0.5)


def boolean_dimension(query_words: int, document_words: int, error: float) -> int:
    """The smallest k with k ≥ 24 L_Q L_D ln(4/β): keeps every pair that shared words tell apart (Corollary 2).

    Arguments as in `boolean_margin`; error: of each pair, in (0, 1). Raises ParamError.
    """
    words = QUERY_WORDS.check(query_words) * DOCUMENT_WORDS.check(document_words)
    return math.ceil(24 * words * _nats(inside("error (β)", error)))


def _rivals(documents: int, rank: int) -> int:
    """|D| − r₀ + 1: those that would all have to stay below."""
    documents, rank = DOCUMENTS.check(documents), RANK.check(rank)
    if rank > documents:
        raise ParamError(f"rank (r₀) must be a whole number in [1, {documents}], the number of documents; got {rank!r}")
    return documents - rank + 1


def _nats(error: float, rivals: int = 1) -> float:
    """ln(4 · rivals/β); of two logarithms, because a quotient by a tiny β has no double."""
    return math.log(4 * rivals) - math.log(error)


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
