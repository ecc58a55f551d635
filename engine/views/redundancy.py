"""How alike the documents of a set are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engine.candidates import exactly
from engine.evaluation.metrics import REDUNDANT
from engine.space import Space
from engine.values import Ranking, showable
from engine.views.decision import kept


@dataclass(frozen=True, eq=False)
class Redundancy:
    """A set, best first, and how alike its documents are.

    rows: their positions in the corpus; ids, titles; similarity: (m, m) inner products, float64; mean, most: over the
    pairs, None where there is none; pairs: how many there are; close: how many reach `threshold`; nearest: for each
    document the place in the set, from 0, of the most similar one ranked above it, None for the first.
    """

    rows: tuple[int, ...]
    ids: tuple[str, ...]
    titles: tuple[str, ...]
    similarity: np.ndarray
    mean: float | None
    most: float | None
    pairs: int
    close: int
    threshold: float
    nearest: tuple[int | None, ...]

    def rank(self, row: int) -> int | None:
        """The rank of a document of the corpus in the set, from 1; None for out."""
        return self.rows.index(row) + 1 if row in self.rows else None

    @property
    def closest(self) -> tuple[int, int] | None:
        """The two most similar documents, the better ranked first, as positions in the corpus."""
        if not self.pairs:
            return None
        i, j = np.triu_indices(len(self.rows), 1)
        at = int(self.similarity[i, j].argmax())
        return self.rows[i[at]], self.rows[j[at]]


@exactly
def similarities(space: Space, rows: Sequence[int]) -> np.ndarray:
    """(m, m) inner products of the documents at `rows` with one another, in float64; cosines where vectors are unit."""
    vectors = space.vectors[torch.as_tensor(rows, dtype=torch.int64, device=space.device)].double()
    return (vectors @ vectors.T).cpu().numpy()


def redundancy(space: Space, ranking: Ranking, threshold: float = REDUNDANT) -> Redundancy:
    """The similarities in one query's set; threshold: a pair as similar as this counts as close."""
    rows = kept(ranking)
    found = similarities(space, rows)
    above = found[np.tril_indices(len(rows), -1)]
    return Redundancy(
        tuple(rows),
        tuple(showable(space.corpus.ids[row]) for row in rows),
        tuple(showable(space.corpus.titles[row]) for row in rows),
        found,
        float(above.mean()) if len(above) else None,
        float(above.max()) if len(above) else None,
        len(above),
        int((above >= threshold).sum()),
        threshold,
        tuple(int(found[at, :at].argmax()) if at else None for at in range(len(rows))),
    )
