"""Texts as counts of words: sparse, one column a word of the corpus."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix

_WORD = re.compile(r"\w+")
K1, B = 1.2, 0.75
"""What Lucene sets for BM25 where nobody says otherwise."""


def words_of(text: str) -> list[str]:
    r"""The words of a text: its runs of letters, digits and underscores (\w+), in lower case."""
    return _WORD.findall(text.lower())


class BagOfWords:
    """How often each document holds each word.

    counts: (n, v) float64, columns in alphabetical order, so that the order of the documents does not show.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        found = [Counter(words_of(text)) for text in texts]
        self.column = {word: i for i, word in enumerate(sorted(set().union(*found)))}
        self.counts = self._matrix(found)

    def of(self, texts: Sequence[str]) -> csr_matrix:
        """(B, v) counts of the corpus's words in other texts; words that no document holds are left out."""
        return self._matrix([Counter(words_of(text)) for text in texts])

    def bm25(self, k1: float = K1, b: float = B) -> csr_matrix:
        """(n, v) weights whose inner products with the counts of queries are BM25 scores, in Lucene's variant.

        ln(1 + (n − df + ½)/(df + ½)) · tf/(tf + k1 (1 − b + b·length/mean length)).
        """
        n = self.counts.shape[0]
        frequency = np.bincount(self.counts.indices, minlength=self.counts.shape[1])
        rarity = np.log1p((n - frequency + 0.5) / (frequency + 0.5))
        length = np.asarray(self.counts.sum(1)).ravel()
        relative = length / (length.mean() or 1.0)
        tf = self.counts.data
        soft = k1 * (1 - b + b * np.repeat(relative, np.diff(self.counts.indptr)))
        return self._like(self.counts, rarity[self.counts.indices] * tf / (tf + soft))

    @classmethod
    def boolean(cls, counts: csr_matrix) -> csr_matrix:
        """1 where a word occurs."""
        return cls._like(counts, np.ones_like(counts.data))

    @staticmethod
    def _like(counts: csr_matrix, data: np.ndarray) -> csr_matrix:
        return csr_matrix((data, counts.indices, counts.indptr), counts.shape)

    def _matrix(self, found: Sequence[Counter[str]]) -> csr_matrix:
        rows = [
            sorted((self.column[word], count) for word, count in one.items() if word in self.column) for one in found
        ]
        starts = np.cumsum([0, *map(len, rows)])
        flat = np.array([pair for row in rows for pair in row], dtype=np.int64).reshape(-1, 2)
        return csr_matrix((flat[:, 1].astype(float), flat[:, 0], starts), (len(rows), len(self.column)))
