"""What a session starts from: the documents' first vectors, and one float64 matrix to score with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from engine.learning.orag.tree import Tree
from engine.space import Space


class Origin:
    """Θ₁: the vectors of a space, (n, d), in their own precision; shared by all sessions that began with them."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.vectors = space.matrix.host.detach().numpy().view()
        self.vectors.flags.writeable = False
        self._scoring = threading.RLock()
        self._reflects = Tree.of(len(self.vectors))

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    def row(self, at: int) -> np.ndarray:
        """(d,) float64 first vector of a document."""
        return self.vectors[at].astype(np.float64)

    @cached_property
    def exact(self) -> np.ndarray:
        """(n, d) float64, not to be written to."""
        rows = self.vectors.astype(np.float64)
        rows.flags.writeable = False
        return rows

    @contextmanager
    def reflecting(self, rows: Tree) -> Iterator[np.ndarray]:
        """(n, d) float64 with the rows of the map in place of the first vectors; only while the context lasts.

        One matrix serves all sessions: between two of them only the rows in which they differ are written.
        """
        with self._scoring:
            for at, row in rows.changes(self._reflects):
                self._matrix[at] = self.vectors[at] if row is None else row
            self._reflects = rows
            yield self._matrix

    @cached_property
    def _matrix(self) -> np.ndarray:
        return self.vectors.astype(np.float64)
