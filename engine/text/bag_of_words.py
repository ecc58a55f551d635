"""Bags of words: sparse term counts of texts, and the two factors of BM25 computed from them."""

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, TypeVar

import numpy as np
from scipy import sparse

from engine.progress import current_reporter, with_cancellation
from engine.text.tokenizer import terms
from engine.values import Corpus

DerivedValue = TypeVar("DerivedValue")
Texts = Sequence[str | Sequence[str]]
"""Texts, or lists of their terms."""
TermCounts = tuple[sparse.csr_array, dict[str, int]]
"""Number of occurrences of each term in each text, (n, v) float64, and the column of each term."""
WORD_COUNTS_KEY = "counts of words"
"""Key of `count_passage_words` among the derived values of a space."""
#: Texts counted between two progress reports.
PROGRESS_STRIDE = 1024


class DocumentSpace(Protocol):
    """Documents that cache values derived from them, such as an `engine.space.Space`."""

    corpus: Corpus

    def derived(self, key: Hashable, make: Callable[[], DerivedValue]) -> DerivedValue: ...

    def has_derived(self, key: Hashable) -> bool: ...


def count_terms(texts: Texts, columns: dict[str, int] | None = None, ngrams: str = "1") -> TermCounts:
    """Count the terms of texts as a sparse matrix, (texts, terms), with the column of each term.

    texts: strings, or lists of terms. columns: column of each term to count; by default all terms, by first occurrence.
    Reports progress on many texts to `engine.progress.report_to`. Raises Cancelled.
    """
    report_progress = with_cancellation(*current_reporter(), "counting words was stopped")
    column_by_term: dict[str, int] = {} if columns is None else columns
    # Arrays of numbers are used, as a tuple per entry would take twenty times the memory of the matrix.
    indices, data, starts = array("i"), array("d"), array("q", [0])
    for text_index, text in enumerate(texts):
        if text_index and text_index % PROGRESS_STRIDE == 0:
            report_progress(text_index, len(texts), "counting words")
        for term, n_occurrences in Counter(terms(text, ngrams) if isinstance(text, str) else text).items():
            if columns is None:
                column_by_term.setdefault(term, len(column_by_term))
            column_index = column_by_term.get(term)
            if column_index is not None:
                indices.append(column_index)
                data.append(n_occurrences)
        starts.append(len(indices))
    shape = (len(starts) - 1, len(column_by_term))
    return sparse.csr_array((np.array(data), np.array(indices), np.array(starts)), shape), column_by_term


def count_words(texts: Texts, columns: dict[str, int] | None = None) -> TermCounts:
    """Count the words of texts as a sparse matrix, (texts, words), with the column of each word.

    columns: column of each word to count; by default all words, in alphabetical order. Unlike those of `count_terms`,
    the columns do not depend on the order of the texts.
    """
    counts, column_by_word = count_terms(texts, columns)
    if columns is None:
        sorted_words = sorted(column_by_word)
        new_position = np.empty(len(sorted_words), counts.indices.dtype)
        # The columns must not depend on the order of the texts: sums over them differ in the last bit otherwise.
        new_position[[column_by_word[word] for word in sorted_words]] = np.arange(len(sorted_words))
        counts.indices = new_position[counts.indices]
        column_by_word = dict(zip(sorted_words, range(len(sorted_words)), strict=True))
    counts.sort_indices()
    return counts, column_by_word


def count_passage_words(space: DocumentSpace) -> TermCounts:
    """Return `count_words` of the passages of a space, titles included; cached by the space."""
    return space.derived(WORD_COUNTS_KEY, lambda: count_words(space.corpus.passages))


def has_words(space: DocumentSpace) -> bool:
    """Return True if a space has its counts of words cached, so that `count_passage_words` is immediate."""
    return space.has_derived(WORD_COUNTS_KEY)


def text_lengths(counts: sparse.csr_array) -> np.ndarray:
    """Return the number of words of each text, repetitions included, (n,)."""
    return np.asarray(counts.sum(axis=1)).ravel()


def idf(counts: sparse.csr_array) -> np.ndarray:
    """Return (v,) Lucene's inverse document frequency of each word, ln(1 + (n − df + ½)/(df + ½)).

    counts: (n, v) occurrences of v words in n texts; df: the number of texts with a word
    """
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.log1p((counts.shape[0] - df + 0.5) / (df + 0.5))


def saturated_tf(counts: sparse.csr_array, k1: float, b: float) -> sparse.csr_array:
    """Return (n, v) BM25's factor for repeated words, tf/(tf + k₁ (1 − b + b·length/mean length)).

    counts: (n, v) occurrences tf of v words in n texts; k1, b: parameters of BM25
    """
    lengths = text_lengths(counts)
    saturation = k1 * (1 - b + b * lengths / (lengths.mean() or 1.0))
    return with_values(counts, counts.data / (counts.data + np.repeat(saturation, np.diff(counts.indptr))))


def binary_counts(counts: sparse.csr_array) -> sparse.csr_array:
    """Return the counts with 1 in place of every number of occurrences, (n, v)."""
    return with_values(counts, np.ones_like(counts.data))


def with_values(pattern: sparse.csr_array, values: np.ndarray) -> sparse.csr_array:
    """Return a sparse matrix with entries where `pattern` has them, and `values`, (nnz,), as numbers."""
    return sparse.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)
