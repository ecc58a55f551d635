"""Documents and queries as bags of words: sparse vectors whose inner product is BM25, or how many words they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from engine.errors import DataError
from engine.params import Choice
from engine.solvers import lexical
from engine.solvers.bag_of_words import boolean, counted, filled, lengths_of, rarity, saturated, words_of
from engine.space import Space
from engine.values import Corpus, Queries

WEIGHTING = Choice(
    default="bm25",
    options=("bm25", "boolean"),
    symbol="weighting",
    name="weighting",
    help="bm25: the inner product is the BM25 score; boolean: the number of words in common.",
)
K1, B = lexical.K1.default, lexical.B.default
"""BM25's parameters here: the scorer's own."""


@dataclass(frozen=True, eq=False)
class Bags:
    """documents: (n, v) and queries: (B, v), CSR float64, over the corpus's words; lengths: (n,) words a document, with
    repetitions. A query's words that no document has carry no dimension; a word counts once in a query."""

    documents: sparse.csr_array
    queries: sparse.csr_array
    lengths: np.ndarray


def bags(space: Space | Corpus, queries: Queries | Sequence[str], weighting: str = WEIGHTING.default) -> Bags:
    """A corpus, or a space's, and queries as bags of words, titles included (§2.1.2, §2.1.3). A space keeps its counts.

    Raises ParamError or DataError.
    """
    weighting = WEIGHTING.check(weighting)
    counts, once, _ = tf_idf(space, queries)
    if weighting == "boolean":
        return Bags(boolean(counts), boolean(once), lengths_of(counts))
    return Bags(saturated(counts, K1, B), once, lengths_of(counts))


def tf_idf(
    space: Space | Corpus, queries: Queries | Sequence[str]
) -> tuple[sparse.csr_array, sparse.csr_array, dict[str, int]]:
    """How often documents have each word, (n, v); the idf of each query's, (B, v); and the words' columns."""
    corpus = space.corpus if isinstance(space, Space) else space
    if not isinstance(corpus, Corpus):
        raise DataError(f"corpus must be an engine.Corpus; got {type(corpus).__name__}")
    if not len(corpus):
        raise DataError("the corpus must have at least one document; got none")
    named = queries if isinstance(queries, Queries) else Queries.of(queries)
    if not len(named):
        raise DataError("queries must hold at least one query; got none")
    counts, columns = words_of(space) if isinstance(space, Space) else counted(corpus.passages)
    asked, _ = counted(named.texts, columns)
    return counts, filled(asked, rarity(counts)[asked.indices]), columns


def length_bins(lengths: np.ndarray, bins: int) -> list[np.ndarray]:
    """Rows in at most so many parts of like size, ± 1, by length, the shortest first, each rising.

    Rows without words are left out. Like sizes, because what is among the 10 best, or the 10th smallest margin,
    depends on how many compete.
    """
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    # The lower row wins a tie, whatever its length.
    return [np.sort(part) for part in np.array_split(order, max(1, min(bins, len(order)))) if len(part)]
