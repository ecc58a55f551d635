"""Smallest dimension that keeps the best document in the first ten, by length (sparse-dense paper, Fig. 3b)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from engine.candidates import without_autocast
from engine.errors import ParamError
from engine.params import Choice, Real, Whole
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.theory.projection_bounds import DIMENSION, RANK, kept_dimension
from engine.theory.random_projections import PROJECTION, random_entries
from engine.theory.text_vectors import BINS, SEED, VECTORS, Rows, inner, length_bins, text_vectors
from engine.values import Corpus

REDUCTION = Choice(
    default="rademacher",
    options=(*PROJECTION.options, "truncated"),
    symbol="A",
    name="reduction",
    help="A random projection, or the first k dimensions of dense vectors.",
)
DRAWS = Whole(5, "draws", 1, name="draws", help="How many projections are drawn.")
TARGET = Real(0.9, "target", 0.0, 1.0, name="target", help="The recall to reach.")
HELD_NUMBERS = 1 << 21
"""Entries of A, or of a projection of the documents, in memory at a time."""
DIMENSIONS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class LengthDimension:
    """Documents of like length."""

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
    reduction: str = REDUCTION.default,
    dimensions: Sequence[int] = DIMENSIONS,
    target: float = TARGET.default,
    rank: int = RANK.default,
    bins: int = BINS.default,
    draws: int = DRAWS.default,
    seed: int = SEED.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> tuple[LengthDimension, ...]:
    """Dimensions that keep each query's best document in the first `rank`, in bins of documents of like length.

    space, queries, vectors, bins: as in `margins`; reduction: "rademacher", "gaussian", or "truncated", the first k
    dimensions of dense vectors; dimensions: the k to try, when truncated without those beyond the vectors'; draws: of
    the projection. A document that ties with the best one is no rival. Raises ParamError, DataError and Cancelled.
    """
    reduction, vectors, rank = REDUCTION.check(reduction), VECTORS.check(vectors), RANK.check(rank)
    target, bins, draws, seed = TARGET.check(target), BINS.check(bins), DRAWS.check(draws), SEED.check(seed)
    if isinstance(dimensions, int) or not len(dimensions):
        raise ParamError(f"dimensions must be a list of whole numbers in [1, ∞); got {dimensions!r}")
    ks = sorted({DIMENSION.check(k) for k in dimensions})
    truncated = reduction == "truncated"
    if truncated and vectors != "dense":
        raise ParamError(
            f"reduction must be one of {', '.join(map(repr, PROJECTION.options))} for {vectors} vectors, whose columns "
            "have no order; got 'truncated'"
        )
    data = text_vectors(space, queries, vectors)
    width = data.documents.shape[1]
    if truncated and not (ks := [k for k in ks if k <= width]):
        raise ParamError(f"dimensions must have one in [1, {width}], the vectors' dimension; got {list(dimensions)}")
    draws = 1 if truncated else draws
    parts, report = length_bins(data.lengths, bins), with_cancellation(progress, stop)
    rows = []
    for index, part in enumerate(parts):
        case = _rivals(data.queries, data.documents[part])
        hits = np.zeros(len(ks))
        rng = np.random.default_rng([seed, index])
        for draw in range(draws):
            hits += _hits(case, ks, reduction, rank, rng)
            report(index * draws + draw + 1, len(parts) * draws, "projecting")
        count = len(case.best)
        recall = dict(zip(ks, (hits / (draws * count)).tolist(), strict=True)) if count else {}
        lengths = data.lengths[part]
        ends = int(lengths.min()), int(lengths.max())
        rows.append(LengthDimension(*ends, len(part), count, recall, reached(recall, target)))
    return tuple(rows)


def reached(recall: Mapping[int, float], target: float) -> int | None:
    """The smallest k of `recall`, k → share, from which on all reach the target, in [0, 1]; None if no k does."""
    target, ks = TARGET.check(target), sorted(recall)
    return kept_dimension(ks, [recall[k] >= target for k in ks])


@dataclass(frozen=True, eq=False)
class _Rivals:
    """Queries with a best document in a bin."""

    queries: Rows  # (B, v)
    documents: Rows  # (n, v) of the bin
    best: np.ndarray  # (B,) row of the best document
    below: np.ndarray  # (B, n) bool, documents that score less


def _rivals(queries: Rows, documents: Rows) -> _Rivals:
    if sparse.issparse(documents) and sparse.issparse(queries):
        # Columns without an entry need no draw.
        used = np.union1d(documents.indices, queries.indices)
        documents, queries = documents[:, used], queries[:, used]
    scores = inner(queries, documents)
    best = scores.argmax(axis=1)
    answered = np.flatnonzero((scores.max(axis=1) > 0) | (scores.max(axis=1) > scores.min(axis=1)))
    below = scores[answered] < scores[answered, best[answered]][:, None]
    return _Rivals(queries[answered], documents, best[answered], below)


def _hits(case: _Rivals, ks: list[int], reduction: str, rank: int, rng: np.random.Generator) -> np.ndarray:
    """(len(ks),) number of queries whose best document stays in the first `rank` after one projection."""
    queries, documents = case.queries, case.documents
    score, hits, rows = np.zeros(case.below.shape), np.empty(len(ks)), np.arange(len(case.best))
    width = max(1, HELD_NUMBERS // max(documents.shape))
    if sparse.issparse(documents) and reduction != "truncated":
        queries, documents = queries.astype(np.float32), documents.astype(np.float32)
    for index, (start, stop) in enumerate(zip([0, *ks], ks, strict=False)):
        for first in range(start, stop, width):
            last = min(first + width, stop)
            if reduction == "truncated":
                q, d = queries[:, first:last], documents[:, first:last]
            else:
                projection = random_entries(rng, (documents.shape[1], last - first), reduction)
                q, d = queries @ projection, documents @ projection
            score += inner(q, d)
        ahead = (case.below & (score >= score[rows, case.best][:, None])).sum(axis=1)
        hits[index] = (ahead < rank).sum()
    return hits
