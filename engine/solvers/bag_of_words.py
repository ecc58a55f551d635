"""Texts as counts of words: sparse, one column a word, and BM25's two factors of them."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from engine.errors import Cancelled
from engine.progress import watcher
from engine.solvers.lexical import terms
from engine.space import Space

KEPT = "counts of words"
LOOK = 1024
"""So many texts lie between two looks at whether to stop."""


def counted(
    texts: Sequence[str | Sequence[str]], known: dict[str, int] | None = None
) -> tuple[sparse.csr_array, dict[str, int]]:
    """(n, v) float64 how often each text, or list of words, has each word, and the words' columns.

    known: the columns of the words that count; else all do, in alphabetical order, so that the order of the texts does
    not show. Of many texts it tells whoever watches (`engine.progress.watched`), and ends with Cancelled.
    """
    progress, stop = watcher()
    columns: dict[str, int] = {} if known is None else known
    # Numbers only, in arrays: a tuple an entry would take twenty times what the matrix does.
    places, counts, starts = array("i"), array("d"), array("q", [0])
    for at, text in enumerate(texts):
        if at and at % LOOK == 0:
            if stop is not None and stop.is_set():
                raise Cancelled("counting words was stopped")
            if progress is not None:
                progress(at, len(texts), "counting words")
        for word, count in Counter(terms(text) if isinstance(text, str) else text).items():
            place = columns.setdefault(word, len(columns)) if known is None else columns.get(word)
            if place is not None:
                places.append(place)
                counts.append(count)
        starts.append(len(places))
    indices = np.frombuffer(places, np.intc) if places else np.empty(0, np.intc)
    if known is None:
        order = sorted(columns)
        moved = np.empty(len(order), np.intc)
        moved[[columns[word] for word in order]] = np.arange(len(order))
        indices, columns = moved[indices], {word: place for place, word in enumerate(order)}
    else:
        indices = indices.copy()
    data = np.array(counts)
    rows = sparse.csr_array((data, indices, np.array(starts)), (len(starts) - 1, len(columns)))
    rows.sort_indices()
    return rows, columns


def words_of(space: Space) -> tuple[sparse.csr_array, dict[str, int]]:
    """`counted` of a space's documents, titles included; counted once and kept with the space."""
    return space.derived(KEPT, lambda: counted(space.corpus.passages))


def has_words(space: Space) -> bool:
    """Whether `words_of` has only to be looked up."""
    return space.has_derived(KEPT)


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
