"""How clearly queries tell documents apart: margins by the documents' length (sparse-dense paper, Fig. 3a)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.candidates import exactly
from engine.errors import Cancelled, DataError, ParamError
from engine.params import Whole
from engine.progress import Progress, Stop
from engine.space import Space
from engine.theory.represented import BINS, BLOCK, VECTORS, against_best, represented
from engine.theory.words import length_bins
from engine.values import Corpus

RANK = Whole(default=1, low=1, symbol="ranks", name="ranks", help="1 is the smallest margin, 10 the tenth smallest.")
RANKS = (1, 10, 100, 1000)
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True, eq=False)
class LengthMargins:
    """The rank-th smallest margins of queries over documents of like length.

    least, most: words of the documents, from and to; documents: how many; rank: 1 is the smallest; queries: how many
    have so many; values: theirs, rising; low, lower, median, upper, high: their 5, 25, 50, 75 and 95 % quantiles, None
    without any.
    """

    least: int
    most: int
    documents: int
    rank: int
    queries: int
    values: np.ndarray
    low: float | None
    lower: float | None
    median: float | None
    upper: float | None
    high: float | None


@dataclass(frozen=True, eq=False)
class Margins:
    """rows: bin by bin, rank by rank; smallest: of all that are above 0, None without any; pairs: of a best document
    with another; tied: how many of them score alike; repeated: how many are the same vector twice, and have no margin;
    unanswered: (query, bin) cases where all documents score 0."""

    vectors: str
    rows: tuple[LengthMargins, ...]
    smallest: float | None
    pairs: int
    tied: int
    repeated: int
    unanswered: int


def margin(query: Any, first: Any, second: Any) -> float:
    """⟨q, d₁ − d₂⟩ / (|q||d₁ − d₂|), in [−1, 1] (sparse-dense paper, Definition 2.1).

    Three vectors of one length. NaN where q is zero or the documents are one vector. Raises DataError.
    """
    q, a, b = (np.asarray(v, dtype=np.float64) for v in (query, first, second))
    if q.ndim != 1 or not q.shape == a.shape == b.shape:
        raise DataError(f"query, first and second must be vectors of one length; got {q.shape}, {a.shape}, {b.shape}")
    lengths = np.linalg.norm(q) * np.linalg.norm(a - b)
    return float(np.clip(q @ (a - b) / lengths, -1, 1)) if lengths > 0 else float("nan")


@exactly
def margins(
    space: Space | Corpus,
    queries: Any,
    vectors: str = VECTORS.default,
    *,
    ranks: Sequence[int] = RANKS,
    bins: int = BINS.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Margins:
    """Margins of each query's best document over the others, in bins of documents of like length.

    space: a corpus, or a Space for vectors="dense"; queries: engine.Queries or plain text, Embeddings with their texts;
    vectors: "bm25", "boolean" or "dense"; ranks: which margins, the smallest being 1; bins: of like size. In every bin
    the best document is the bin's. Pairs that score alike have no order to keep: they are counted and left out, as are
    documents repeated word for word. progress(done, total, label) counts blocks of queries. Raises ParamError,
    DataError and Cancelled.
    """
    if isinstance(ranks, int) or not len(ranks):
        raise ParamError(f"ranks must be a list of whole numbers in [1, ∞); got {ranks!r}")
    wanted, bins = [RANK.check(rank) for rank in ranks], BINS.check(bins)
    data = represented(space, queries, vectors)
    rows: list[LengthMargins] = []
    smallest, pairs, tied, repeated, unanswered = np.inf, 0, 0, 0, 0
    parts = length_bins(data.lengths, bins)
    blocks, done = len(parts) * math.ceil(data.queries.shape[0] / BLOCK), 0
    for part in parts:
        found: list[np.ndarray] = []
        for _, best, _, block in against_best(data.documents[part], data.queries):
            if stop is not None and stop.is_set():
                raise Cancelled("the measurement was stopped")
            there = best >= 0
            unanswered += int((~there).sum())
            pairs += int(there.sum()) * (len(part) - 1)
            tied += int((block[there] <= 0).sum())
            # The best document against itself is no pair.
            repeated += int(np.isnan(block[there]).sum() - there.sum())
            ordered = np.sort(np.where(block > 0, block, np.nan), axis=1)
            smallest = np.fmin(smallest, np.nanmin(ordered, initial=np.inf))
            found.append(ordered[:, [min(rank, len(part)) - 1 for rank in wanted]])
            done += 1
            if progress is not None:
                progress(done, blocks, "margins")
        columns = np.concatenate(found)
        ends = int(data.lengths[part].min()), int(data.lengths[part].max())
        for rank, column in zip(wanted, columns.T, strict=True):
            values = np.sort(column[~np.isnan(column)]) if rank <= len(part) else np.empty(0)
            marks = np.quantile(values, QUANTILES).tolist() if len(values) else [None] * len(QUANTILES)
            rows.append(LengthMargins(*ends, len(part), rank, len(values), values, *marks))
    least = float(smallest) if np.isfinite(smallest) else None
    return Margins(vectors, tuple(rows), least, pairs, tied, repeated, unanswered)
