"""Documents and queries as float64 vectors, bags of words or dense, and margins between them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from engine.decoder import as_queries, query_batch
from engine.errors import DataError
from engine.params import Choice, Whole
from engine.space import Space
from engine.text import bag_of_words, bm25_index
from engine.text.bag_of_words import count_passage_words, count_words
from engine.text.tokenizer import terms
from engine.values import Corpus, Embeddings, Queries

WEIGHTING = Choice(
    default="bm25", options=("bm25", "boolean"), symbol="weighting", name="weighting", title="weights of words",
    help="bm25: the inner product is the BM25 score; boolean: the number of words in common.",
)  # fmt: skip
# BM25's parameters are the scorer's defaults, so that margins are those of the scores that a search returns.
BM25_K1_VALUE, BM25_B_VALUE = bm25_index.BM25_K1.default, bm25_index.BM25_B.default
VECTORS = Choice(
    default="bm25", options=(*WEIGHTING.options, "dense"), symbol="vectors", name="vectors",
    help="bm25 or boolean: bags of words; dense: the space's own vectors.",
)  # fmt: skip
LENGTH_BINS = Whole(4, "bins", 1, 100, name="bins", help="How many groups of documents by length.")
SEED = Whole(0, "seed", 0, name="seed", help="Same seed, same answer.")
# A block holds 64 rows of scores and of margins over the corpus: enough for fast products, little memory.
QUERY_BLOCK = 64
SAME_TOLERANCE = 1e-12
"""Relative rounding error: squared distances below this share of the squared norms count as 0, margins as ties."""

Rows = sparse.csr_array | np.ndarray


@dataclass(frozen=True, eq=False)
class TextVectors:
    """A corpus and queries as vectors with meaningful inner products.

    Bags of words are over the words of the corpus, and a word counts once in a query.
    """

    documents: Rows  # (n, v), CSR or dense float64
    queries: Rows  # (B, v), of the same kind; words that no document has are dropped
    lengths: np.ndarray  # (n,) words per document, with repetitions


def tf_idf(
    space: Space | Corpus, queries: Queries | Sequence[str]
) -> tuple[sparse.csr_array, sparse.csr_array, dict[str, int]]:
    """Return documents' word counts, (n, v), the idf of each query's words, (B, v), and word → column.

    A document's and a query's rows have the inner product Σ tf·idf. Raises DataError for an empty corpus.
    """
    corpus = space.corpus if isinstance(space, Space) else space
    if not isinstance(corpus, Corpus):
        raise DataError(f"corpus must be an engine.Corpus; got {type(corpus).__name__}")
    if not len(corpus):
        raise DataError("the corpus must have at least one document; got none")
    counts, columns = count_passage_words(space) if isinstance(space, Space) else count_words(corpus.passages)
    # Queries are counted over the corpus's columns: a word that no document has cannot change an inner product.
    query_counts, _columns = count_words(as_queries(queries).texts, columns)
    return counts, bag_of_words.with_values(query_counts, bag_of_words.idf(counts)[query_counts.indices]), columns


def make_length_bins(lengths: np.ndarray, n_bins: int) -> list[np.ndarray]:
    """Group documents by length into at most `n_bins` bins of equal size ± 1, the shortest first.

    Returns each bin's rows, ascending; documents without words are left out. lengths: (n,) in words. Sizes are equal
    because membership in the first 10, or the 10th smallest margin, depends on the number of competitors.
    """
    row_order = np.argsort(lengths, kind="stable")
    row_order = row_order[lengths[row_order] > 0]
    bins = np.array_split(row_order, max(1, min(n_bins, len(row_order))))
    # Ascending, so that ties within a bin go to the lower row.
    return [np.sort(bin_rows) for bin_rows in bins if len(bin_rows)]


def text_vectors(space: Space | Corpus, queries: Any, vectors: str) -> TextVectors:
    """Return a corpus and queries as vectors of one kind: "bm25", "boolean" or "dense".

    "dense" needs a Space. Bags of words include titles (sparse-dense paper, §2.1.2, §2.1.3); a space remembers its
    counts. Raises ParamError or DataError.
    """
    vectors = VECTORS.check(vectors)
    if vectors != "dense":
        counts, query_weights, _columns = tf_idf(space, require_texts(queries))
        lengths = bag_of_words.text_lengths(counts)
        if vectors == "boolean":
            return TextVectors(bag_of_words.binary_counts(counts), bag_of_words.binary_counts(query_weights), lengths)
        # BM25 is an inner product: saturated term counts in the document, the words' idf in the query
        # (sparse-dense paper, §2.1.3).
        return TextVectors(bag_of_words.saturated_tf(counts, BM25_K1_VALUE, BM25_B_VALUE), query_weights, lengths)
    if not isinstance(space, Space):
        raise DataError(f"dense vectors need an engine.Space, documents with their vectors; got {type(space).__name__}")
    # Dense vectors have no words: the documents' lengths still come from their texts, so that bins stay comparable.
    lengths = np.array([len(terms(text)) for text in space.corpus.passages])
    points = query_batch(space, queries).vectors
    return TextVectors(space.vectors.double().cpu().numpy(), points.double().cpu().numpy(), lengths)


def require_texts(queries: Any) -> Any:
    """Return queries in a form that words can be counted in. Raises DataError for vectors without texts.

    queries: Embeddings, or texts, which are returned as they are
    """
    if not isinstance(queries, Embeddings):
        return queries
    if queries.texts is None:
        raise DataError("queries must have texts, as engine.Queries or plain text have; these are vectors alone")
    return queries.texts


def compute_squared_norms(rows: Rows) -> np.ndarray:
    """Compute squared Euclidean norms, (n,)."""
    return np.asarray((rows * rows).sum(axis=1)).ravel()


def inner_products(first_rows: Rows, second_rows: Rows) -> np.ndarray:
    """Compute the inner products of all rows, (n, m)."""
    products = first_rows @ second_rows.T
    return products if isinstance(products, np.ndarray) else products.toarray()


def _squared_distances(rows: np.ndarray, documents: Rows, norms: np.ndarray) -> np.ndarray:
    """Compute squared distances of the documents at `rows` to all, (b, n); NaN for equal vectors.

    norms: (n,) squared lengths of the documents
    """
    # |a − b|² = |a|² + |b|² − 2⟨a, b⟩ needs no dense differences, but cancels: a distance within the rounding error of
    # the norms counts as none.
    sums = norms[rows][:, None] + norms
    distances = sums - 2 * inner_products(documents[rows], documents)
    return np.where(distances > SAME_TOLERANCE * sums, distances, np.nan)


def compute_margins_over(
    rows: np.ndarray, scores: np.ndarray, top: np.ndarray, length: Any, documents: Rows, norms: np.ndarray
) -> np.ndarray:
    """Compute the margins of one document for each of b queries over all n documents, (b, n).

    A margin is (score − other score) / (|query| |difference of vectors|), so that lengths do not matter; it is NaN for
    equal vectors. rows: (b,) the one document of each query; top: (b,) their scores; scores: (b, n) or (n,) of all
    documents; length: of the queries; norms: (n,) squared lengths of the documents.
    """
    # A query of length 0 has NaN margins, without a warning. By Cauchy–Schwarz no margin exceeds 1; rounding may.
    with np.errstate(invalid="ignore", divide="ignore"):
        margins: np.ndarray = (top[:, None] - scores) / (length * np.sqrt(_squared_distances(rows, documents, norms)))
    return margins.clip(max=1)


def iterate_best_margins(documents: Rows, queries: Rows) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield, block by block of queries, each query's best document and its margins over all others.

    A block is (slice of b queries, best documents (b,), scores (b, n), margins (b, n)). A margin is the lead in score
    of the best document d₁ over another d₂, ⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|). It is NaN where the two have equal vectors,
    and 0 where they tie. A query that scores all documents alike, and none above 0, has no best document: −1 stands in
    its place, and its margins are NaN.
    """
    norms = compute_squared_norms(documents)
    for block_start in range(0, queries.shape[0], QUERY_BLOCK):
        block_slice = slice(block_start, min(block_start + QUERY_BLOCK, queries.shape[0]))
        block_queries = queries[block_slice]
        scores = inner_products(block_queries, documents)
        best_rows = scores.argmax(axis=1)
        top_scores = scores[np.arange(len(best_rows)), best_rows]
        length = np.sqrt(compute_squared_norms(block_queries))[:, None]
        margins = compute_margins_over(best_rows, scores, top_scores, length, documents, norms)
        # Margins are normalised, so one tolerance tells ties from order for queries of every length.
        margins[np.abs(margins) <= SAME_TOLERANCE] = 0
        has_none = (top_scores <= 0) & (scores.min(axis=1) == top_scores)
        margins[has_none] = np.nan
        yield block_slice, np.where(has_none, -1, best_rows), scores, margins
