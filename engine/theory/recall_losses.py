"""Share of random projections that lose a query's best document, beside Lemma 2 (sparse-dense paper, §2.1.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import betaincinv

from engine.candidates import without_autocast
from engine.errors import DataError, ParamError
from engine.progress import Progress, Stop, with_cancellation
from engine.space import Space
from engine.theory.projection_bounds import PROJECTION_DIMENSION, RESULT_RANK, recall_loss_bound
from engine.theory.random_projections import N_DRAWS, PROJECTION, random_entries
from engine.theory.text_vectors import SEED, VECTORS, inner_products, iterate_best_margins, text_vectors
from engine.values import Corpus

LOSS_DIMENSIONS = (256, 1024, 4096)
LOWER_END_CONFIDENCE = 0.975
"""Confidence of an interval's lower end alone: both ends make 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallLoss:
    """One query at one dimension k: how often random projections lose its best document, and the bound."""

    query: int  # its row
    k: int
    documents: int  # |D|: those that score less than the best one
    margin: float  # ε, the rank-th smallest
    lost: int  # number of projections that rank it behind `rank` others or more
    draws: int
    low: float  # lower end of the 95% Clopper–Pearson interval of the share lost
    bound: float  # Lemma 2's; says nothing from 1 on

    @property
    def share(self) -> float:
        """The share of the random projections that lose the query's best document."""
        return self.lost / self.draws

    @property
    def violated(self) -> bool:
        """True if the best document is lost significantly more often than its bound allows.

        It would contradict Lemma 2 of the sparse-dense paper, which the bound comes from; from 1 on the bound says
        nothing.
        """
        return self.bound < 1 and self.low > self.bound


@without_autocast
def recall_losses(
    space: Space | Corpus,
    queries: Any,
    vectors: str = VECTORS.default,
    *,
    projection: str = PROJECTION.default,
    dimensions: Sequence[int] = LOSS_DIMENSIONS,
    rank: int = 1,
    draws: int = N_DRAWS.default,
    seed: int = SEED.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> tuple[RecallLoss, ...]:
    """Measure how often a random projection lets r₀ or more documents overtake each query's best one.

    The best one is then lost from the first r₀ results. Return one result for each query and dimension, with the bound
    on the chance of a loss by Lemma 2 of the sparse-dense paper. space, queries, vectors: as in `margins`; rank: r₀;
    draws: the number of projections, each of which serves every dimension k by its first k rows. The lemma wants every
    margin above 0, so documents that tie with the best one are no part of its corpus D; it also wants the r₀-th margin
    to be one document's alone "for simplicity". Raises ParamError, DataError where no query has so many documents below
    its best one, and Cancelled.
    """
    projection, vectors, rank = PROJECTION.check(projection), VECTORS.check(vectors), RESULT_RANK.check(rank)
    draws, seed, report = N_DRAWS.check(draws), SEED.check(seed), with_cancellation(progress, stop)
    if isinstance(dimensions, int) or not len(dimensions):
        raise ParamError(f"dimensions must be a list of whole numbers in [1, ∞); got {dimensions!r}")
    ks = sorted(set(map(PROJECTION_DIMENSION.check, dimensions)))
    data = text_vectors(space, queries, vectors)
    _slices, best_columns, _scores, margin_parts = zip(*iterate_best_margins(data.documents, data.queries), strict=True)
    best_rows, margins = np.concatenate(best_columns), np.concatenate(margin_parts)
    # Documents that tie with the best one (margin 0) or repeat it (NaN) are no part of the lemma's D.
    is_below = np.nan_to_num(margins) > 0
    query_rows = np.flatnonzero((best_rows >= 0) & (is_below.sum(1) >= rank))
    if not len(query_rows):
        raise DataError(f"no query has {rank} documents that score less than its best one; give others")
    is_below, best_rows, rng = is_below[query_rows], best_rows[query_rows], np.random.default_rng(seed)
    n_lost = np.zeros((len(query_rows), len(ks)), dtype=int)
    documents, points = data.documents, data.queries[query_rows]
    if sparse.issparse(documents) and sparse.issparse(points):
        used_columns = np.union1d(documents.indices, points.indices)
        documents, points = documents[:, used_columns].astype(np.float32), points[:, used_columns].astype(np.float32)
    for draw in range(draws):
        report(draw, draws, "projecting")
        # Scores lack the factor 1/k, which changes no order.
        scores = np.zeros(is_below.shape)
        for column, (start, end) in enumerate(zip([0, *ks], ks, strict=False)):
            entries = random_entries(rng, (documents.shape[1], end - start), projection)
            scores += inner_products(points @ entries, documents @ entries)
            # A tie after the projection counts as overtaken.
            is_ahead = is_below & (scores >= scores[np.arange(len(best_rows)), best_rows][:, None])
            n_lost[:, column] += is_ahead.sum(1) >= rank
    losses = []
    for index, query in enumerate(query_rows.tolist()):
        ascending = np.sort(margins[query][is_below[index]])
        for column, k in enumerate(ks):
            losses.append(_make_loss(query, k, ascending, rank, int(n_lost[index, column]), draws))
    return tuple(losses)


def _make_loss(query: int, k: int, margins: np.ndarray, rank: int, n_lost: int, n_draws: int) -> RecallLoss:
    """Build the record of how often projections to k dimensions lost a query's best document.

    Beside it stands the bound on that chance by Lemma 2 of the sparse-dense paper. margins: of the best document d₀
    over each document d that scores less, ⟨q, d₀ − d⟩ / (|q||d₀ − d|), ascending; rank: the number of these documents
    that must overtake the best one for a loss; n_lost: projections that lose it, of n_draws
    """
    # For a loss at least `rank` documents overtake the best one, so one of them has the rank-th smallest margin or a
    # larger.
    margin = min(1.0, float(margins[rank - 1]))
    # The exact binomial lower limit on the chance of a loss.
    low_share = float(betaincinv(n_lost, n_draws - n_lost + 1, 1 - LOWER_END_CONFIDENCE)) if n_lost else 0.0
    return RecallLoss(
        query=query, k=k, documents=len(margins), margin=margin, lost=n_lost, draws=n_draws, low=low_share,
        bound=recall_loss_bound(k, margin, len(margins), rank),
    )  # fmt: skip
