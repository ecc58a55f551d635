"""The smallest dimension that keeps the best document among the first ten, by length (sparse-dense paper, Fig. 3b)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from engine.candidates import exactly
from engine.errors import Cancelled, ParamError
from engine.params import Choice, Real, Whole
from engine.progress import Progress, Stop
from engine.space import Space
from engine.theory.bounds import DIMENSION, RANK
from engine.theory.projections import PROJECTION
from engine.theory.represented import BINS, SEED, VECTORS, Rows, inner, represented
from engine.theory.words import length_bins
from engine.values import Corpus

REDUCTION = Choice(
    default="rademacher",
    options=(*PROJECTION.options, "truncated"),
    symbol="A",
    name="reduction",
    help="A random projection, or the first k dimensions of dense vectors.",
)
DRAWS = Whole(default=5, low=1, symbol="draws", name="draws", help="How many projections are drawn.")
TARGET = Real(default=0.9, low=0.0, high=1.0, symbol="target", name="target", help="The recall to reach.")
HELD_NUMBERS = 1 << 21
"""How many entries of A, or of a projection of the documents, are held at a time."""
DIMENSIONS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class LengthDimension:
    """Documents of like length.

    least, most: their words, from and to; documents: how many; queries: how many share a word with one of them, all
    for dense vectors; recall: k → share of (query, projection) cases whose best document stays in the first `rank`;
    dimension: the smallest k from which on that reaches the target, None where none does.
    """

    least: int
    most: int
    documents: int
    queries: int
    recall: Mapping[int, float]
    dimension: int | None


@exactly
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
    """How many dimensions keep each query's best document in the first `rank`, in bins of documents of like length.

    space, queries, vectors, bins: as `margins` takes them; reduction: "rademacher", "gaussian", or "truncated", the
    first k dimensions of dense vectors as they are; dimensions: the k to try, those beyond the vectors' own left out
    where they are truncated; draws: of the projection. A document that ties with the best one is no rival. Raises
    ParamError, DataError and Cancelled.
    """
    reduction, vectors, rank = REDUCTION.check(reduction), VECTORS.check(vectors), RANK.check(rank)
    target, bins, draws, seed = TARGET.check(target), BINS.check(bins), DRAWS.check(draws), SEED.check(seed)
    if isinstance(dimensions, int) or not len(dimensions):
        raise ParamError(f"dimensions must be a list of whole numbers in [1, ∞); got {dimensions!r}")
    ks = sorted({DIMENSION.check(k) for k in dimensions})
    cut = reduction == "truncated"
    if cut and vectors != "dense":
        raise ParamError(
            f"reduction must be one of {', '.join(map(repr, PROJECTION.options))} for {vectors} vectors, whose columns "
            "have no order; got 'truncated'"
        )
    data = represented(space, queries, vectors)
    width = data.documents.shape[1]
    if cut and not (ks := [k for k in ks if k <= width]):
        raise ParamError(f"dimensions must have one in [1, {width}], the vectors' dimension; got {list(dimensions)}")
    draws = 1 if cut else draws
    parts = length_bins(data.lengths, bins)
    rows = []
    for at, part in enumerate(parts):
        documents = data.documents[part]
        asking = data.queries
        if sparse.issparse(documents):
            # Columns without an entry need no draw.
            used = np.union1d(documents.indices, asking.indices)
            documents, asking = documents[:, used], asking[:, used]
        scores = inner(asking, documents)
        best = scores.argmax(axis=1)
        asked = np.flatnonzero((scores.max(axis=1) > 0) | (scores.max(axis=1) > scores.min(axis=1)))
        below = scores[asked] < scores[asked, best[asked]][:, None]
        kept = np.zeros(len(ks))
        rng = np.random.default_rng([seed, at])
        for done in range(draws):
            if stop is not None and stop.is_set():
                raise Cancelled("the measurement was stopped")
            kept += _kept(asking[asked], documents, best[asked], below, ks, reduction, rank, rng)
            if progress:
                progress(at * draws + done + 1, len(parts) * draws, "projecting")
        share = kept / max(1, draws * len(asked))
        ends = int(data.lengths[part].min()), int(data.lengths[part].max())
        recall = dict(zip(ks, share.tolist(), strict=True)) if len(asked) else {}
        rows.append(LengthDimension(*ends, len(part), len(asked), recall, reached(recall, target)))
    return tuple(rows)


def reached(recall: Mapping[int, float], target: float) -> int | None:
    """The smallest k of `recall`, k → share, from which on all reach the target, in [0, 1]; None where none does."""
    target, found = TARGET.check(target), None
    for k in sorted(recall, reverse=True):
        if recall[k] < target:
            break
        found = k
    return found


def _kept(
    queries: Rows,
    documents: Rows,
    best: np.ndarray,
    below: np.ndarray,
    ks: list[int],
    reduction: str,
    rank: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """(len(ks),) for how many queries fewer than `rank` of the documents below the best one come to reach it."""
    score = np.zeros(below.shape)
    found = np.empty(len(ks))
    rows = np.arange(len(best))
    width = max(1, HELD_NUMBERS // max(documents.shape))
    if sparse.issparse(documents) and reduction != "truncated":
        queries, documents = queries.astype(np.float32), documents.astype(np.float32)
    for at, (start, stop) in enumerate(zip([0, *ks], ks, strict=False)):
        for first in range(start, stop, width):
            last = min(first + width, stop)
            size = (documents.shape[1], last - first)
            if reduction == "truncated":
                q, d = queries[:, first:last], documents[:, first:last]
            else:
                if reduction == "gaussian":
                    drawn = rng.standard_normal(size, dtype=np.float32)
                else:
                    drawn = rng.integers(0, 2, size, dtype=np.int8).astype(np.float32) * 2 - 1
                q, d = queries @ drawn, documents @ drawn
            score += q @ d.T
        ahead = (below & (score >= score[rows, best][:, None])).sum(axis=1)
        found[at] = (ahead < rank).sum()
    return found
