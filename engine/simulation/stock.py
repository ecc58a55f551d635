"""Stock of documents at a moment: those that have come, as a space of their own to search and to measure drift in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.drift.measures import Drift, DriftBaseline, Mover, origin
from engine.feedback import Session
from engine.space import Space
from engine.values import Corpus, Embeddings


@dataclass(frozen=True, eq=False)
class Stock:
    """The documents that are there: a space of them, what their drift is measured against, and their rows.

    rows: None for all of the corpus.
    """

    space: Space
    baseline: DriftBaseline
    rows: np.ndarray | None

    @classmethod
    def of(cls, begun: Session, rows: np.ndarray | None, probes: Embeddings, right: Sequence[np.ndarray]) -> Stock:
        """probes: queries that are followed; right: the right rows of each."""
        space, vectors = begun.space, begun.origin
        if rows is not None:
            place = np.full(len(space), -1)
            place[rows] = np.arange(len(rows))
            right = [(found := place[of_probe])[found >= 0] for of_probe in right]
            space, vectors = part_of(space, rows.tolist()), vectors[rows]
        given: dict[str, Any] = {"temperature": begun.temperature, "seed": begun.preset.seed}
        return cls(space, origin(vectors, probes, right=right, **given), rows)

    def whole(self, measured: Drift) -> Drift:
        """The drift of these documents with the rows of the whole corpus."""
        if self.rows is None:
            return measured
        movers = tuple(Mover(int(self.rows[row]), distance) for row, distance in measured.movers)
        return replace(measured, movers=movers)


def part_of(space: Space, rows: Sequence[int]) -> Space:
    """A space of some of the documents; several vectors a document are not taken along, as where documents move."""
    corpus = space.corpus
    columns = {name: tuple(values[row] for row in rows) for name, values in corpus.metadata.items()}
    ids, texts, titles = (tuple(column[row] for row in rows) for column in (corpus.ids, corpus.texts, corpus.titles))
    part = Corpus(ids, texts, titles, corpus.name, columns)
    return Space(part, space.embeddings.take(list(rows)), space.device, adapt=space.adapt)
