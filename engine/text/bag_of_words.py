"""Bags of words: sparse term counts of texts, and BM25's two factors of them."""

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from scipy import sparse

from engine.progress import current_reporter, with_cancellation
from engine.text.tokenizer import terms
from engine.values import Corpus

T = TypeVar("T")
Counts = tuple[sparse.csr_array, dict[str, int]]
"""(n, v) float64 how often each text has each term, and the terms' columns."""
DERIVED = "counts of words"
"""Key of `words_of` among a space's derived values."""
STRIDE = 1024
"""Texts counted between two progress reports."""


class DocumentSpace(Protocol):
    """Documents that remember values derived from them: an `engine.space.Space`."""

    corpus: Corpus

    def derived(self, key: Hashable, make: Callable[[], T]) -> T: ...

    def has_derived(self, key: Hashable) -> bool: ...


def count_terms(
    texts: Sequence[str | Sequence[str]], columns: dict[str, int] | None = None, ngrams: str = "1"
) -> Counts:
    """Term counts of texts, or of lists of terms; columns: of the terms that count, by default all by first occurrence.

    Reports progress on many texts to `engine.progress.report_to`, and ends with Cancelled.
    """
    report = with_cancellation(*current_reporter(), "counting words was stopped")
    places: dict[str, int] = {} if columns is None else columns
    # Numbers only, in arrays: a tuple per entry would take twenty times what the matrix does.
    indices, data, starts = array("i"), array("d"), array("q", [0])
    for row, text in enumerate(texts):
        if row and row % STRIDE == 0:
            report(row, len(texts), "counting words")
        for term, count in Counter(terms(text, ngrams) if isinstance(text, str) else text).items():
            place = places.setdefault(term, len(places)) if columns is None else places.get(term)
            if place is not None:
                indices.append(place)
                data.append(count)
        starts.append(len(indices))
    shape = (len(starts) - 1, len(places))
    return sparse.csr_array((np.array(data), np.array(indices), np.array(starts)), shape), places


def count_words(texts: Sequence[str | Sequence[str]], columns: dict[str, int] | None = None) -> Counts:
    """`count_terms` of words, columns sorted; by default in alphabetical order, whatever the order of the texts."""
    counts, places = count_terms(texts, columns)
    if columns is None:
        order = sorted(places)
        position = np.empty(len(order), counts.indices.dtype)
        position[[places[word] for word in order]] = np.arange(len(order))
        counts.indices, places = position[counts.indices], {word: place for place, word in enumerate(order)}
    counts.sort_indices()
    return counts, places


def words_of(space: DocumentSpace) -> Counts:
    """`count_words` of a space's documents, titles included; counted once and remembered by the space."""
    return space.derived(DERIVED, lambda: count_words(space.corpus.passages))


def has_words(space: DocumentSpace) -> bool:
    """Whether the space remembers `words_of`."""
    return space.has_derived(DERIVED)


def text_lengths(counts: sparse.csr_array) -> np.ndarray:
    """(n,) words per text, repetitions counted."""
    return np.asarray(counts.sum(axis=1)).ravel()


def idf(counts: sparse.csr_array) -> np.ndarray:
    """(v,) inverse document frequency as in Lucene: ln(1 + (n − df + ½)/(df + ½))."""
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.log1p((counts.shape[0] - df + 0.5) / (df + 0.5))


def saturated_tf(counts: sparse.csr_array, k1: float, b: float) -> sparse.csr_array:
    """(n, v) tf/(tf + k₁ (1 − b + b·length/mean length)): BM25 without the idf."""
    length = text_lengths(counts)
    soft = k1 * (1 - b + b * length / (length.mean() or 1.0))
    return with_values(counts, counts.data / (counts.data + np.repeat(soft, np.diff(counts.indptr))))


def binary(counts: sparse.csr_array) -> sparse.csr_array:
    """1 where a word occurs."""
    return with_values(counts, np.ones_like(counts.data))


def with_values(rows: sparse.csr_array, values: np.ndarray) -> sparse.csr_array:
    """The same entries with other values, (nnz,)."""
    return sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
