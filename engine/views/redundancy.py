"""Redundancy of a set: similarities between its documents."""

from dataclasses import dataclass

import numpy as np

from engine.evaluation.duplicate_threshold import COSINE_TOLERANCE, resolve_duplicate_threshold
from engine.space import Space
from engine.values import Ranking, replace_surrogates
from engine.views.decision import similarities
from engine.views.names import name_document


@dataclass(frozen=True, eq=False, kw_only=True)
class Redundancy:
    """A set, best first, and the similarities between its documents."""

    rows: tuple[int, ...]  # positions in the corpus
    ids: tuple[str, ...]
    names: tuple[str, ...]
    similarity: np.ndarray  # (m, m) cosines, float64
    mean: float | None  # over the pairs, None where there is none
    most: float | None  # of the pairs, None where there is none
    pairs: int  # their number
    close: int  # the number of pairs that reach `threshold`
    threshold: float
    nearest: tuple[int | None, ...]  # index in the set of the most similar one ranked above each, None for the first

    def rank(self, row: int) -> int | None:
        """Return the rank of a document of the corpus in the set, from 1; None for out."""
        return self.rows.index(row) + 1 if row in self.rows else None

    @property
    def closest(self) -> tuple[int, int] | None:
        """The two most similar documents, the better ranked first, as positions in the corpus."""
        if not self.pairs:
            return None
        # Pairs come row by row of the upper triangle, so a tie goes to the pair with the better ranked first document.
        first_index, second_index = np.triu_indices(len(self.rows), 1)
        closest = int(self.similarity[first_index, second_index].argmax())
        return self.rows[first_index[closest]], self.rows[second_index[closest]]


def redundancy(space: Space, ranking: Ranking, threshold: float | None = None) -> Redundancy:
    """Compute the similarities in one query's set.

    threshold: pairs at least as similar count as close; None for the cosine of near-duplicates of the corpus
    """
    rows, threshold = ranking.rows(), resolve_duplicate_threshold(space, threshold)
    similarity = similarities(space, rows)
    # Each pair of documents once: the entries below the diagonal.
    pairs = similarity[np.tril_indices(len(rows), -1)]
    return Redundancy(
        rows=tuple(rows),
        ids=tuple(replace_surrogates(space.corpus.ids[row]) for row in rows),
        names=tuple(name_document(space.corpus, row) for row in rows),
        similarity=similarity,
        mean=float(pairs.mean()) if len(pairs) else None,
        most=float(pairs.max()) if len(pairs) else None,
        pairs=len(pairs),
        close=int((pairs >= threshold - COSINE_TOLERANCE).sum()),
        threshold=threshold,
        # For each document its most similar one among those ranked above it, by position in the set.
        nearest=tuple(
            int(similarity[position, :position].argmax()) if position else None for position in range(len(rows))
        ),
    )
