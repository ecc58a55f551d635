"""How often random projections lose a query's best document, beside Lemma 2's bound (sparse-dense paper, §2.1.1)."""

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
from engine.theory.projection_bounds import DIMENSION, RANK, recall_loss_bound
from engine.theory.random_projections import DRAWS, PROJECTION, random_entries
from engine.theory.text_vectors import SEED, VECTORS, against_best, inner, text_vectors
from engine.values import Corpus

DIMENSIONS = (256, 1024, 4096)
LEVEL = 0.975
"""Of the lower end of a share's interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallLoss:
    """One query at one dimension."""

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
        """The share lost."""
        return self.lost / self.draws

    @property
    def violated(self) -> bool:
        """Whether the share is above the bound by more than chance: by Lemma 2 it never is."""
        return self.bound < 1 and self.low > self.bound


@without_autocast
def recall_losses(
    space: Space | Corpus,
    queries: Any,
    vectors: str = VECTORS.default,
    *,
    projection: str = PROJECTION.default,
    dimensions: Sequence[int] = DIMENSIONS,
    rank: int = 1,
    draws: int = DRAWS.default,
    seed: int = SEED.default,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> tuple[RecallLoss, ...]:
    """Pr(R ≥ r₀) of each query's best document, R being how many others score as much or more after the projection.

    space, queries, vectors: as in `margins`; rank: r₀; draws: of the projection, whose first k rows serve every k. The
    lemma wants every margin above 0, so documents that tie with the best one are no part of D; it also wants the r₀-th
    margin to be one document's alone "for simplicity". Rows query by query, k by k. Raises ParamError, DataError where
    no query has so many documents below its best one, and Cancelled.
    """
    projection, vectors, rank = PROJECTION.check(projection), VECTORS.check(vectors), RANK.check(rank)
    draws, seed, report = DRAWS.check(draws), SEED.check(seed), with_cancellation(progress, stop)
    if isinstance(dimensions, int) or not len(dimensions):
        raise ParamError(f"dimensions must be a list of whole numbers in [1, ∞); got {dimensions!r}")
    ks = sorted({DIMENSION.check(k) for k in dimensions})
    data = text_vectors(space, queries, vectors)
    parts = list(against_best(data.documents, data.queries))
    best, margins = np.concatenate([part[1] for part in parts]), np.concatenate([part[3] for part in parts])
    below = np.nan_to_num(margins) > 0
    asked = np.flatnonzero((best >= 0) & (below.sum(1) >= rank))
    if not len(asked):
        raise DataError(f"no query has {rank} documents that score less than its best one; give others")
    below, own, rng = below[asked], best[asked], np.random.default_rng(seed)
    lost = np.zeros((len(asked), len(ks)), dtype=int)
    documents, points = data.documents, data.queries[asked]
    if sparse.issparse(documents) and sparse.issparse(points):
        used = np.union1d(documents.indices, points.indices)
        documents, points = documents[:, used].astype(np.float32), points[:, used].astype(np.float32)
    for draw in range(draws):
        report(draw, draws, "projecting")
        # Scores lack the factor 1/k, which changes no order.
        score = np.zeros(below.shape)
        for column, (start, end) in enumerate(zip([0, *ks], ks, strict=False)):
            entries = random_entries(rng, (documents.shape[1], end - start), projection)
            score += inner(points @ entries, documents @ entries)
            ahead = below & (score >= score[np.arange(len(own)), own][:, None])
            lost[:, column] += ahead.sum(1) >= rank
    rows = []
    for at, query in enumerate(asked.tolist()):
        ascending = np.sort(margins[query][below[at]])
        rows += [_loss(query, k, ascending, rank, int(lost[at, column]), draws) for column, k in enumerate(ks)]
    return tuple(rows)


def _loss(query: int, k: int, margins: np.ndarray, rank: int, lost: int, draws: int) -> RecallLoss:
    """One row; margins: ascending, of the documents that score less."""
    margin = min(1.0, float(margins[rank - 1]))
    low = float(betaincinv(lost, draws - lost + 1, 1 - LEVEL)) if lost else 0.0
    return RecallLoss(
        query=query, k=k, documents=len(margins), margin=margin, lost=lost, draws=draws, low=low,
        bound=recall_loss_bound(k, margin, len(margins), rank),
    )  # fmt: skip
