"""Documents and queries as bags of words: sparse vectors whose inner product is BM25, or how many words they share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from engine.errors import DataError
from engine.params import Choice
from engine.values import Corpus, Queries

WORD = re.compile(r"\w+")
WEIGHTING = Choice(
    default="bm25",
    options=("bm25", "boolean"),
    symbol="weighting",
    name="weighting",
    help="bm25: the inner product is the BM25 score; boolean: the number of words in common.",
)
K1, B = 1.5, 0.75
"""BM25's parameters (saturation of counts, weight of the length), with Lucene's idf ln(1 + (N − df + ½)/(df + ½))."""


def words_of(text: str) -> list[str]:
    """The words of a text, lower case, in order."""
    return WORD.findall(text.lower())


@dataclass(frozen=True, eq=False)
class Bags:
    """documents: (n, v) and queries: (B, v), CSR float64, over the corpus's words; lengths: (n,) words a document, with
    repetitions. A query's words that no document has carry no dimension; a word counts once in a query."""

    documents: sparse.csr_array
    queries: sparse.csr_array
    lengths: np.ndarray


def bags(corpus: Corpus, queries: Queries | Sequence[str], weighting: str = WEIGHTING.default) -> Bags:
    """A corpus and queries as bags of words, titles included (§2.1.2, §2.1.3). Raises ParamError or DataError."""
    weighting = WEIGHTING.check(weighting)
    counts, once, _ = tf_idf(corpus, queries)
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    if weighting == "boolean":
        return Bags(_with(counts, np.ones_like(counts.data)), _with(once, np.ones_like(once.data)), lengths)
    norm = K1 * (1 - B + B * lengths / max(lengths.mean(), 1e-300))
    row = np.repeat(np.arange(len(lengths)), np.diff(counts.indptr))
    return Bags(_with(counts, counts.data / (counts.data + norm[row])), once, lengths)


def tf_idf(
    corpus: Corpus, queries: Queries | Sequence[str]
) -> tuple[sparse.csr_array, sparse.csr_array, dict[str, int]]:
    """How often documents have each word, (n, v); the idf of each query's, (B, v); and the words' columns."""
    if not isinstance(corpus, Corpus):
        raise DataError(f"corpus must be an engine.Corpus; got {type(corpus).__name__}")
    if not len(corpus):
        raise DataError("the corpus must have at least one document; got none")
    named = queries if isinstance(queries, Queries) else Queries.of(queries)
    if not len(named):
        raise DataError("queries must hold at least one query; got none")
    counts, columns = counted(corpus.passages)
    asked, _ = counted(named.texts, columns)
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log1p((len(corpus) - df + 0.5) / (df + 0.5))
    return counts, _with(asked, idf[asked.indices]), columns


def counted(
    texts: Sequence[str | Sequence[str]], known: dict[str, int] | None = None
) -> tuple[sparse.csr_array, dict[str, int]]:
    """(n, v) how often each text, or list of words, has each word, and the words' columns; known: those that count."""
    columns: dict[str, int] = {} if known is None else known
    indices: list[int] = []
    data: list[float] = []
    ends = [0]
    for text in texts:
        for word, count in Counter(words_of(text) if isinstance(text, str) else text).items():
            column = columns.setdefault(word, len(columns)) if known is None else columns.get(word)
            if column is not None:
                indices.append(column)
                data.append(count)
        ends.append(len(indices))
    found = sparse.csr_array(
        (np.array(data, float), np.array(indices, np.int64), np.array(ends, np.int64)), shape=(len(texts), len(columns))
    )
    found.sort_indices()
    return found, columns


def _with(rows: sparse.csr_array, data: np.ndarray) -> sparse.csr_array:
    """The same entries with other values."""
    return sparse.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def length_bins(lengths: np.ndarray, bins: int) -> list[np.ndarray]:
    """Rows in at most so many parts of like size, ± 1, by length, the shortest first, each rising.

    Rows without words are left out. Like sizes, because what is among the 10 best, or the 10th smallest margin,
    depends on how many compete.
    """
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    # The lower row wins a tie, whatever its length.
    return [np.sort(part) for part in np.array_split(order, max(1, min(bins, len(order)))) if len(part)]
