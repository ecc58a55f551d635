"""Facts that a vector engine states of its documents, and the documents that it returned for one point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.values import ByDigest, digest_of

CHANGED = "changed while asked"


def is_unit(deviation: float) -> bool | None:
    """Return True if vectors count as unit, because no length differs from 1 by more than `deviation`.

    A deviation up to the rounding of stored unit rows is allowed. None close to that limit, where lengths measured in
    float32, as `Matrix.unit` measures them, may fall on either side of it.
    """
    # Unit rows that were rounded to float32 are off by up to 8 ε; near that limit the way of measuring decides.
    eps = float(np.finfo(np.float32).eps)
    return None if 7 * eps < deviation < 9 * eps else deviation <= 8 * eps


@dataclass(frozen=True, eq=False, kw_only=True)
class StoreRef(ByDigest):
    """Identity of the documents of a store; it holds no secret.

    snapshot: what changes whenever documents may have changed; "" for a store that cannot say
    """

    kind: str
    collection: str  # "name/collection", as `engine.attach` takes it
    count: int  # documents, of those that `where` lets through
    dimension: int
    snapshot: str = ""
    where: str = ""  # the filter as JSON
    content: str = ""  # identity of ids and vectors, whatever else the store holds; "" if not all were read
    longest: float | None = None  # no vector is longer; None if not all were read
    unit: bool | None = None  # True if every vector has length 1, None as above

    @cached_property
    def digest(self) -> str:
        """Digest that tells one state of a collection from another, as a key of cached results.

        It covers the documents' contents if all of them were read, else the database's name for its snapshot.
        """
        state = self.content or self.snapshot
        fields = (self.kind, self.collection, self.count, self.dimension, state, self.where)
        return digest_of(map(str, fields))


@dataclass(frozen=True, eq=False)
class Hits:
    """Results of an engine for one point, as it returned them.

    ids: best first; vectors: (m, d) float32; scores: (m,) the engine's inner products with the point, None where it
    says none; places: (m,) of each document in the store's own order, which ties go by, None where it has none; slack:
    by how much the driver raised all scores, because its engine may have ranked documents wrongly by twice that
    """

    ids: Sequence[str]
    vectors: np.ndarray
    scores: np.ndarray | None = None
    places: np.ndarray | None = None
    slack: float = 0.0

    def first(self, n_best: int) -> Hits:
        """Return the `n_best` hits with the highest scores, or all if there are fewer."""
        if len(self.ids) <= n_best:
            return self
        scores, places = (None if values is None else values[:n_best] for values in (self.scores, self.places))
        return Hits(self.ids[:n_best], self.vectors[:n_best], scores, places, self.slack)
