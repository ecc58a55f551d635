"""A matrix in memory, or a file that is mapped, asked as a vector engine is: always exact."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from engine.data.stores.store import Hits, StoreRef, VectorStore, Where, is_unit, where_text
from engine.errors import DataError
from engine.values import digest_of

BLOCK = 1 << 22
"""Numbers of the matrix that are looked at together."""


class ArrayStore(VectorStore):
    """Documents of an (n, d) float32 array or memory map.

    version: the name of its state; whoever changes the array changes it too
    """

    kind: ClassVar[str] = "arrays"
    snapshots: bool = True

    def __init__(
        self,
        ids: Sequence[str],
        vectors: np.ndarray,
        texts: Sequence[str] | None = None,
        name: str = "arrays/corpus",
        columns: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        if vectors.ndim != 2 or len(ids) != len(vectors) or 0 in vectors.shape:
            raise DataError(f"vectors must have one row per id: {len(ids)} ids, shape {vectors.shape}")
        self.ids, self.vectors, self.name = ids, vectors, name
        self.dimension = vectors.shape[1]
        self._texts, self._columns = texts, columns or {}
        self.version = ""
        self._measured: dict[tuple[int, str, str], tuple[float, bool | None]] = {}

    @cached_property
    def position(self) -> dict[str, int]:
        """The row of an id."""
        return {name: row for row, name in enumerate(self.ids)}

    @property
    def ref(self) -> StoreRef:
        return self.ref_of(None)

    def ref_of(self, where: Where | None) -> StoreRef:
        rows, dimension = self.vectors.shape
        snapshot = self.version or digest_of([self.name, str(rows)])[:12]
        key = (id(self.vectors), self.version, where_text(where))
        if key not in self._measured:
            self._measured[key] = self._lengths(where)
        longest, unit = self._measured[key]
        ref = StoreRef(kind=self.kind, collection=self.name, count=rows, dimension=dimension, snapshot=snapshot)
        return replace(ref, count=self.count(where), where=where_text(where), longest=longest, unit=unit)

    def _lengths(self, where: Where | None) -> tuple[float, bool | None]:
        """The longest length of what matches, widened by rounding, and whether all are 1."""
        fits, start, longest, off = self._matching(where), 0, 0.0, 0.0
        for part in self._parts():
            rows = part if fits is None else part[fits[start : start + len(part)]]
            start += len(part)
            if len(rows):
                # Squared in float64: in float32 tiny rows would have no length.
                lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
                longest, off = float(np.maximum(longest, lengths.max())), max(off, float(np.abs(lengths - 1).max()))
        return longest * (1 + 1e-6), is_unit(off)

    def _parts(self) -> Iterator[np.ndarray]:
        step = max(1, BLOCK // self.vectors.shape[1])
        return (self.vectors[start : start + step] for start in range(0, len(self.vectors), step))

    def _matching(self, where: Where | None) -> np.ndarray | None:
        """(n,) whether each document matches; None where all do."""
        if not where:
            return None
        if unknown := [column for column in where if column not in self._columns]:
            raise DataError(f"where= names a column that {self.name} does not have: {unknown[0]!r}")
        fits = np.ones(len(self.vectors), bool)
        for column, values in where.items():
            fits &= np.isin(np.array(self._columns[column]), list(values))
        return fits

    def count(self, where: Where | None = None) -> int:
        matching = self._matching(where)
        return len(self.vectors) if matching is None else int(matching.sum())

    def _search(
        self, points: np.ndarray, sizes: Sequence[int], exact: bool, where: Where | None
    ) -> tuple[list[Hits], str, bool]:
        scores = np.concatenate([points @ part.T for part in self._parts()], axis=1)
        matching = self._matching(where)
        if matching is not None:
            scores[:, ~matching] = -np.inf
        matches = self.count(where)
        hits = []
        for row, size in zip(scores, sizes, strict=True):
            most = min(size, matches)
            best = np.argpartition(-row, most - 1)[:most] if 0 < most < len(row) else np.flatnonzero(row > -np.inf)
            best = best[np.lexsort((best, -row[best]))][:most]
            ids = [self.ids[at] for at in best]
            hits.append(Hits(ids, np.array(self.vectors[best]), row[best].astype(np.float64), best))
        return hits, "exact scan", True

    def texts(self, ids: Sequence[str]) -> list[str]:
        if unknown := [name for name in ids if name not in self.position]:
            raise DataError(f"{self.name} has no document {unknown[0]!r}")
        return ["" if self._texts is None else self._texts[self.position[name]] for name in ids]

    def sample(self, n: int, seed: int = 0) -> tuple[tuple[str, ...], np.ndarray]:
        count = min(n, len(self.vectors))
        rows = np.sort(np.random.default_rng(seed).choice(len(self.vectors), count, replace=False))
        return tuple(self.ids[row] for row in rows), np.array(self.vectors[rows])

    def scan(self, size: int) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        for start in range(0, len(self.vectors), size):
            yield tuple(self.ids[start : start + size]), np.array(self.vectors[start : start + size])
