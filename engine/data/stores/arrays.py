"""A matrix in memory, or a file that is mapped, asked as a vector engine is: always exact."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from engine.data.stores.results import Hits, StoreRef, is_unit
from engine.data.stores.store import RawResult, VectorStore, Where, where_text
from engine.errors import DataError
from engine.progress import counted
from engine.values import digest_of

BLOCK_NUMBERS = 1 << 22
"""Largest block of the matrix, in numbers."""


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
        """Take the documents' ids and (n, d) vectors, which are searched as they are, without an engine.

        texts: None for documents without; name: of the collection, for errors; columns: metadata for filters. Raises
        DataError if ids and vectors do not fit.
        """
        if vectors.ndim != 2 or len(ids) != len(vectors) or 0 in vectors.shape:
            raise DataError(f"vectors must have one row per id: {counted(len(ids), 'id')}, shape {vectors.shape}")
        self.ids, self.vectors, self.name = ids, vectors, name
        self.dimension = vectors.shape[1]
        self._texts, self._columns = texts, columns or {}
        # Part of the documents' identity: a file's size and time, by which a change is noticed; "" for an array.
        self.version = ""
        # By array, version and filter: the largest length, and True if all have length 1 (None if undecided).
        self._measured: dict[tuple[int, str, str], tuple[float, bool | None]] = {}

    @cached_property
    def position(self) -> dict[str, int]:
        """Row index of each id."""
        return {doc_id: row_index for row_index, doc_id in enumerate(self.ids)}

    @property
    def ref(self) -> StoreRef:
        return self.ref_of(None)

    def ref_of(self, where: Where | None) -> StoreRef:
        """Return the identity of the documents that pass a filter."""
        n_rows, dimension = self.vectors.shape
        snapshot = self.version or digest_of([self.name, str(n_rows)])[:12]
        # Measuring lengths reads the whole matrix, so that it is remembered by array, version and filter.
        state_key = (id(self.vectors), self.version, where_text(where))
        if state_key not in self._measured:
            self._measured[state_key] = self._measure_lengths(where)
        longest, has_unit_rows = self._measured[state_key]
        full_ref = StoreRef(kind=self.kind, collection=self.name, count=n_rows, dimension=dimension, snapshot=snapshot)
        return replace(full_ref, count=self.count(where), where=where_text(where), longest=longest, unit=has_unit_rows)

    def _measure_lengths(self, where: Where | None) -> tuple[float, bool | None]:
        """Return the largest length of the matching rows, and True if all have length 1.

        The length is widened by what rounding can have taken from it. None in place of True or False if the lengths are
        so close to 1 that rounding decides.
        """
        matching, block_start = self._find_matching(where), 0
        max_length, max_deviation = 0.0, 0.0  # the deviation of a length from 1
        for block in self._iterate_blocks():
            block_rows = block if matching is None else block[matching[block_start : block_start + len(block)]]
            block_start += len(block)
            if len(block_rows):
                # Squared in float64: in float32 tiny rows would have no length.
                lengths = np.sqrt(np.einsum("ij,ij->i", block_rows, block_rows, dtype=np.float64))
                max_length = float(np.maximum(max_length, lengths.max()))  # NaN stays NaN, which `max` might drop
                max_deviation = max(max_deviation, float(np.abs(lengths - 1).max()))
        return max_length * (1 + 1e-6), is_unit(max_deviation)

    def _iterate_blocks(self) -> Iterator[np.ndarray]:
        """Yield the (n, d) matrix in blocks of rows, so that a mapped file is read a part at a time."""
        n_block_rows = max(1, BLOCK_NUMBERS // self.vectors.shape[1])
        return (self.vectors[start : start + n_block_rows] for start in range(0, len(self.vectors), n_block_rows))

    def _find_matching(self, where: Where | None) -> np.ndarray | None:
        """Return an (n,) mask of the matching documents; None without a filter."""
        if not where:
            return None
        if unknown_columns := [column for column in where if column not in self._columns]:
            raise DataError(f"where= names a column that {self.name} does not have: {unknown_columns[0]!r}")
        matching = np.ones(len(self.vectors), bool)
        for column, values in where.items():
            matching &= np.isin(np.array(self._columns[column]), list(values))
        return matching

    def count(self, where: Where | None = None) -> int:
        """Count the documents that match a filter."""
        matching = self._find_matching(where)
        return len(self.vectors) if matching is None else int(matching.sum())

    def _search(self, points: np.ndarray, sizes: Sequence[int], exact: bool, where: Where | None) -> RawResult:
        """Score all documents for each unit point, (B, d) float32, by inner products; return the best.

        Returns the hits of each point, a word for the plan, and True, as the search is always exact. sizes: number of
        documents for each point; exact: ignored.
        """
        scores = np.concatenate([points @ block.T for block in self._iterate_blocks()], axis=1)
        matching = self._find_matching(where)
        if matching is not None:
            scores[:, ~matching] = -np.inf
        n_matching = self.count(where)
        hits = []
        for point_scores, n_wanted in zip(scores, sizes, strict=True):
            n_top = min(n_wanted, n_matching)
            # The best ones in any order; all that match if no selection is needed.
            if 0 < n_top < len(point_scores):
                best = np.argpartition(-point_scores, n_top - 1)[:n_top]
            else:
                best = np.flatnonzero(point_scores > -np.inf)
            # Equal scores are ordered by row, as in every other exact search here.
            best = best[np.lexsort((best, -point_scores[best]))][:n_top]
            best_ids = [self.ids[row_index] for row_index in best]
            hits.append(Hits(best_ids, np.array(self.vectors[best]), point_scores[best].astype(np.float64), best))
        return hits, "exact scan", True

    def texts(self, ids: Sequence[str]) -> list[str]:
        """Return the documents' texts, "" if there are none. Raises DataError for an unknown id."""
        if unknown_ids := [doc_id for doc_id in ids if doc_id not in self.position]:
            raise DataError(f"{self.name} has no document {unknown_ids[0]!r}")
        return ["" if self._texts is None else self._texts[self.position[doc_id]] for doc_id in ids]

    def sample(self, n: int, seed: int = 0) -> tuple[tuple[str, ...], np.ndarray]:
        """Return ids and (m, d) vectors of at most n documents, the same for the same seed."""
        n_sampled = min(n, len(self.vectors))
        row_indices = np.sort(np.random.default_rng(seed).choice(len(self.vectors), n_sampled, replace=False))
        return tuple(self.ids[row_index] for row_index in row_indices), np.array(self.vectors[row_indices])

    def scan(self, size: int) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Yield ids and vectors of all documents by row, `size` at a time."""
        for start in range(0, len(self.vectors), size):
            yield tuple(self.ids[start : start + size]), np.array(self.vectors[start : start + size])
