"""Smallest dimension that keeps the best document in the first ten, by length (sparse-dense paper, Fig. 3b)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from engine.candidates import without_autocast
from engine.display import OneLine
from engine.errors import ParamError
from engine.params import Choice, Real, Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.theory.projection_bounds import PROJECTION_DIMENSION, RESULT_RANK, find_stable_dimension
from engine.theory.random_projections import PROJECTION, random_entries
from engine.theory.text_vectors import LENGTH_BINS, SEED, VECTORS, Rows, inner_products, make_length_bins, text_vectors
from engine.values import Corpus

DIMENSION_REDUCTION = Choice(
    default="rademacher", options=(*PROJECTION.options, "truncated"), symbol="A", name="reduction",
    help="A random projection, or the first k dimensions of dense vectors.",
)  # fmt: skip
N_PROJECTIONS = Whole(5, "draws", 1, name="draws", help="How many projections are drawn.")
RECALL_TARGET = Real(0.9, "target", 0.0, 1.0, name="target", help="The recall to reach.")
MAX_BLOCK_NUMBERS = 1 << 21
"""Entries of A, or of a projection of the documents, in memory at a time."""
TRIED_DIMENSIONS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class LengthDimension(OneLine):
    """Documents of like length: how well projections to each dimension keep the best one, and k needed."""

    least: int  # least, most: range of their lengths in words
    most: int
    documents: int  # their number
    queries: int  # number of queries that share a word with one of them; all for dense vectors
    recall: Mapping[int, float]  # k → share of (query, projection) cases whose best document stays in the first `rank`
    dimension: int | None  # the smallest k from which on the recall reaches the target, None if no k does


@without_autocast
def recall_dimensions(
    space: Space | Corpus,
    queries: Any,
    vectors: str = VECTORS.default,
    *,
    reduction: str = DIMENSION_REDUCTION.default,
    dimensions: Sequence[int] = TRIED_DIMENSIONS,
    target: float = RECALL_TARGET.default,
    rank: int = RESULT_RANK.default,
    bins: int = LENGTH_BINS.default,
    draws: int = N_PROJECTIONS.default,
    seed: int = SEED.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> tuple[LengthDimension, ...]:
    """Find the dimensions that keep each query's best document in the first `rank`, by document length.

    A document that ties with the best one is not a rival.

    Parameters
    ----------
    space : Space or Corpus
        As in `margins`.
    queries : object
        As in `margins`.
    vectors : str
        As in `margins`.
    reduction : str
        "rademacher", "gaussian", or "truncated": the first k dimensions of dense vectors.
    dimensions : sequence of int
        The dimensions k to try; truncated, only those that the vectors have.
    target : float
        The share of queries whose best document is kept.
    rank : int
        The rank that it must reach.
    bins : int
        As in `margins`.
    draws : int
        The number of projections.
    seed : int
        The seed of the random numbers.
    progress : callable or None
        Called repeatedly as progress(done, total, label).
    stop : callable or None
        The work is cancelled once it returns true.

    Returns
    -------
    tuple of LengthDimension
        The smallest sufficient dimension in each bin.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid or inputs do not belong together.
    Cancelled
        If it is stopped.

    Examples
    --------
    >>> dimensions = engine.recall_dimensions(corpus, ["red apple"])  # doctest: +SKIP
    """
    reduction, vectors, rank = DIMENSION_REDUCTION.check(reduction), VECTORS.check(vectors), RESULT_RANK.check(rank)
    target, bins = RECALL_TARGET.check(target), LENGTH_BINS.check(bins)
    draws, seed = N_PROJECTIONS.check(draws), SEED.check(seed)
    if isinstance(dimensions, int) or not len(dimensions):
        raise ParamError(f"dimensions must be a list of whole numbers in [1, ∞); got {dimensions!r}")
    ks = sorted(set(map(PROJECTION_DIMENSION.check, dimensions)))
    truncated = reduction == "truncated"
    if truncated and vectors != "dense":
        raise ParamError(
            f"reduction must be one of {', '.join(map(repr, PROJECTION.options))} for {vectors} vectors, whose columns "
            "have no order; got 'truncated'"
        )
    data = text_vectors(space, queries, vectors)
    n_columns = data.documents.shape[1]
    if truncated and not (ks := [k for k in ks if k <= n_columns]):
        domain = f"[1, {n_columns}], the vectors' dimension"
        raise ParamError(f"dimensions must have one in {domain}; got {list(dimensions)}")
    # Truncation draws nothing at random, so that one repetition is enough.
    draws = 1 if truncated else draws
    bin_rows, report = make_length_bins(data.lengths, bins), with_cancellation(progress, stop)
    results = []
    for index, bin_part in enumerate(bin_rows):
        rivals = _find_rivals(data.queries, data.documents[bin_part])
        n_hits = np.zeros(len(ks))
        # Each bin has a generator of its own, or the figures of a bin would depend on the number of bins before it.
        rng = np.random.default_rng([seed, index])
        for draw in range(draws):
            n_hits += _count_hits(rivals, ks, reduction, rank, rng)
            report(index * draws + draw + 1, len(bin_rows) * draws, "projecting")
        n_queries = len(rivals.best)
        recall = dict(zip(ks, (n_hits / (draws * n_queries)).tolist(), strict=True)) if n_queries else {}
        lengths = data.lengths[bin_part]
        length_range = int(lengths.min()), int(lengths.max())
        dimension = find_reached_dimension(recall, target)
        results.append(LengthDimension(*length_range, len(bin_part), n_queries, recall, dimension))
    return tuple(results)


def find_reached_dimension(recall: Mapping[int, float], target: float) -> int | None:
    """Find the smallest dimension that reaches the target as all larger ones do; None if none does.

    recall: dimension → share of queries whose best document is kept
    """
    target, ks = RECALL_TARGET.check(target), sorted(recall)
    return find_stable_dimension(ks, [recall[k] >= target for k in ks])


@dataclass(frozen=True, eq=False)
class _Rivals:
    """Queries with a best document in a bin, and the documents that score less than it: its rivals."""

    queries: Rows  # (B, v)
    documents: Rows  # (n, v) of the bin
    best: np.ndarray  # (B,) row of the best document
    below: np.ndarray  # (B, n) bool, documents that score less


def _find_rivals(queries: Rows, documents: Rows) -> _Rivals:
    """Find each query's best document in a bin of documents, and its rivals: those that score less.

    Queries without a best document are dropped; so are vocabulary columns that no document and no query uses.
    """
    if sparse.issparse(documents) and sparse.issparse(queries):
        # Columns without an entry need no draw.
        used_columns = np.union1d(documents.indices, queries.indices)
        documents, queries = documents[:, used_columns], queries[:, used_columns]
    scores = inner_products(queries, documents)
    best_rows = scores.argmax(axis=1)
    # Queries that score every document 0 have no best one; dense vectors may score all below 0 and still have an order.
    answered_rows = np.flatnonzero((scores.max(axis=1) > 0) | (scores.max(axis=1) > scores.min(axis=1)))
    is_below = scores[answered_rows] < scores[answered_rows, best_rows[answered_rows]][:, None]
    return _Rivals(queries[answered_rows], documents, best_rows[answered_rows], is_below)


def _count_hits(rivals: _Rivals, ks: list[int], reduction: str, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Count for each dimension the queries whose best document stays in the first `rank`, (len(ks),).

    One projection is drawn (or the vectors truncated), whose first k rows serve every k of the ascending ks. Only
    rivals, documents that scored less before the projection, can push the best one out.
    """
    queries, documents = rivals.queries, rivals.documents
    scores, n_hits, query_rows = np.zeros(rivals.below.shape), np.empty(len(ks)), np.arange(len(rivals.best))
    block_width = max(1, MAX_BLOCK_NUMBERS // max(documents.shape))
    if sparse.issparse(documents) and reduction != "truncated":
        # Half the memory; the entries of a projection are float32 too, and scores add up in float64.
        queries, documents = queries.astype(np.float32), documents.astype(np.float32)
    # The first k rows of one projection serve every k: from k to the next, only the further rows are multiplied.
    for index, (start, stop) in enumerate(zip([0, *ks], ks, strict=False)):
        for block_start in range(start, stop, block_width):
            block_end = min(block_start + block_width, stop)
            if reduction == "truncated":
                query_block, document_block = queries[:, block_start:block_end], documents[:, block_start:block_end]
            else:
                projection = random_entries(rng, (documents.shape[1], block_end - block_start), reduction)
                query_block, document_block = queries @ projection, documents @ projection
            scores += inner_products(query_block, document_block)
        # `below` has the documents that scored less than the query's best one before.
        n_ahead = (rivals.below & (scores >= scores[query_rows, rivals.best][:, None])).sum(axis=1)
        n_hits[index] = (n_ahead < rank).sum()
    return n_hits
