"""Texts as counts of words: sparse, one column a word, and BM25's two factors of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from engine.solvers.lexical import terms


def counted(
    texts: Sequence[str | Sequence[str]], known: dict[str, int] | None = None
) -> tuple[sparse.csr_array, dict[str, int]]:
    """(n, v) float64 how often each text, or list of words, has each word, and the words' columns.

    known: the columns of the words that count; else all do, in alphabetical order, so that the order of the texts does
    not show.
    """
    found = [Counter(terms(text) if isinstance(text, str) else text) for text in texts]
    columns = {word: i for i, word in enumerate(sorted(set().union(*found)))} if known is None else known
    rows = [sorted((columns[word], count) for word, count in one.items() if word in columns) for one in found]
    starts = np.cumsum([0, *map(len, rows)])
    flat = np.array([pair for row in rows for pair in row], dtype=np.int64).reshape(-1, 2)
    return sparse.csr_array((flat[:, 1].astype(float), flat[:, 0], starts), (len(rows), len(columns))), columns


def lengths_of(counts: sparse.csr_array) -> np.ndarray:
    """(n,) words a text, repetitions counted."""
    return np.asarray(counts.sum(axis=1)).ravel()


def rarity(counts: sparse.csr_array) -> np.ndarray:
    """(v,) how much a word's rareness counts, as Lucene has it: ln(1 + (n − df + ½)/(df + ½))."""
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.log1p((counts.shape[0] - df + 0.5) / (df + 0.5))


def saturated(counts: sparse.csr_array, k1: float, b: float) -> sparse.csr_array:
    """(n, v) tf/(tf + k1 (1 − b + b·length/mean length)): BM25 without the words' rarity."""
    length = lengths_of(counts)
    soft = k1 * (1 - b + b * length / (length.mean() or 1.0))
    return filled(counts, counts.data / (counts.data + np.repeat(soft, np.diff(counts.indptr))))


def boolean(counts: sparse.csr_array) -> sparse.csr_array:
    """1 where a word occurs."""
    return filled(counts, np.ones_like(counts.data))


def filled(rows: sparse.csr_array, data: np.ndarray) -> sparse.csr_array:
    """The same entries with other values."""
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
