"""What a vector engine is to a decoder: it returns the documents that score highest, and bounds all others."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from engine.data.stores.checks import check_results, guard_method, name_driver_errors
from engine.data.stores.results import CHANGED, Hits, StoreRef
from engine.errors import DataError
from engine.progress import counted
from engine.values import EncoderRef

Where = Mapping[str, Collection[str]]
"""Column → the values that a document may have there; all columns must fit."""
NOTE_KEY = "frontier"
"""Key of the note that `frontier store load` leaves: encoder, digest of the documents, whether all are loaded."""


def where_text(where: Where | None) -> str:
    """Return a filter as JSON, the same for equal filters; "" for none."""
    return json.dumps({column: sorted(values) for column, values in where.items()}, sort_keys=True) if where else ""


GUARDED_METHODS = ("ref", "ref_of", "_search", "count", "texts", "sample", "scan", "snapshot")
"""Methods that drivers implement: their errors are renamed, and their results are checked."""


class ShortResultError(DataError):
    """Fewer documents came back than were asked for and match."""


RawResult = tuple[list[Hits], str, bool]
"""Hits of each point, the engine's plan, and whether it was exact."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchResult:
    """The documents that a store returned for B points, best first.

    ids, places: one sequence a point; scores: (m,) float64 inner products with the point as it was asked, computed
    here from the vectors; vectors: (m, d) float32; floor: (B,) no document that was not returned has a larger inner
    product with the point, −inf where all matching ones were: true of an exact search, of another as far as the
    engine's index found what there is; plan: what the engine did, in its own words; exact: whether it looked at all
    documents
    """

    ids: tuple[tuple[str, ...], ...]
    scores: tuple[np.ndarray, ...]
    vectors: tuple[np.ndarray, ...]
    floor: np.ndarray
    plan: str
    exact: bool
    places: tuple[np.ndarray | None, ...] = ()

    def only(self, point_index: int) -> SearchResult:
        """Return the results of one of the query points alone, by its index."""
        point_slice = slice(point_index, point_index + 1)
        fields = {name: getattr(self, name)[point_slice] for name in ("ids", "scores", "vectors", "floor", "places")}
        return SearchResult(**fields, plan=self.plan, exact=self.exact)


class VectorStore(ABC):
    """A collection of documents in a vector engine.

    Subclasses search with unit points and give back what the engine says; scores, floors and checks are made here.
    Every method may raise DataError: an engine that is gone is named within five seconds.
    """

    kind: ClassVar[str]

    dimension: int

    snapshots: bool = False
    """Inside `snapshot()` all questions see the same documents."""

    encoder: EncoderRef | None = None
    """Encoder of the vectors, which also embeds queries; None if unknown."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Guard a driver's methods, so that none can hand on an error or a result that does not name the store."""
        super().__init_subclass__(**options)
        for method_name in GUARDED_METHODS:
            if method_name in cls.__dict__:
                setattr(cls, method_name, guard_method(method_name, cls.__dict__[method_name]))

    @property
    @abstractmethod
    def ref(self) -> StoreRef:
        """Identity of the documents, as they are now."""

    def ref_of(self, where: Where | None) -> StoreRef:
        """Return the identity of the documents that pass a filter."""
        full_ref = self.ref
        if not where or where_text(where) == full_ref.where:
            return full_ref
        # Of some of the documents only what holds of all is known.
        # If all vectors have length 1, so have these; if not all have, some of them still may.
        inherited = {"longest": full_ref.longest, "unit": True} if full_ref.unit else {"longest": None, "unit": None}
        return replace(full_ref, count=self.count(where), where=where_text(where), **inherited)

    @abstractmethod
    def _search(self, points: np.ndarray, sizes: Sequence[int], exact: bool, where: Where | None) -> RawResult:
        """Ask the engine for the documents of each unit point, (B, d) float32, in one round trip.

        Returns the hits of each point, the engine's plan, and True if it looked at all documents. Scores are sums in
        float32 or better of the very vectors that come back; an engine that rounds more must raise its scores by the
        rounding. sizes: number of documents for each point; more may come. Raises DataError if `exact` is asked for and
        cannot be had.
        """

    @abstractmethod
    def count(self, where: Where | None = None) -> int:
        """Count the documents that match."""

    @abstractmethod
    def texts(self, ids: Sequence[str]) -> list[str]:
        """Return the documents' texts, "" if there are none; DataError for an id that the store does not have."""

    @abstractmethod
    def sample(self, n: int, seed: int = 0) -> tuple[tuple[str, ...], np.ndarray]:
        """Return ids and (m, d) float32 vectors of at most n documents at random."""

    @abstractmethod
    def scan(self, size: int) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """Yield all documents in the store's order, `size` at a time: ids and (m, d) float32 vectors."""

    @contextmanager
    def snapshot(self) -> Iterator[str]:
        """Let all queries of this thread inside the block see one state of the documents; yield its name.

        A store without snapshots raises DataError(CHANGED) at the end if the documents' count has changed.
        """
        start = self.ref
        # Engines without snapshots can only be compared before and after.
        yield start.snapshot
        if (end := self.ref) != start:
            raise DataError(
                f"{start.collection} {CHANGED}: {counted(start.count, 'document')} before, {end.count:,} after; ask "
                "again"
            )

    def close(self) -> None:  # noqa: B027
        """Release connections, if there are any."""

    def search(
        self,
        points: Any,
        n: int | Sequence[int],
        exact: bool = False,
        where: Where | None = None,
        described: StoreRef | None = None,
    ) -> SearchResult:
        """Return the n documents with the largest inner products for each point, and a bound on all others.

        The bound, the floor, is a number that no document which was not returned exceeds. points: (B, d), of any
        length; n: number for each point, or one for all; exact: True if the engine must look at all documents; where:
        filter of the documents, None for the store's own filter, if it has one; described: the documents' identity from
        `ref_of`, read if None. Raises DataError for points that do not fit, and if fewer than min(n, matching)
        documents came back.
        """
        point_rows = np.atleast_2d(np.asarray(points, dtype=np.float64))
        if point_rows.ndim != 2 or point_rows.shape[1] != self.dimension or not np.isfinite(point_rows).all():
            raise DataError(
                f"points must be finite and have the store's dimension, {self.dimension}; got shape {point_rows.shape}"
            )
        point_lengths = np.linalg.norm(point_rows, axis=1)
        # The engine sees unit points in float32; scores below are computed in float64 with the points as asked.
        unit_points = (point_rows / np.where(point_lengths > 0, point_lengths, 1)[:, None]).astype(np.float32)
        sizes = [n] * len(point_rows) if isinstance(n, int) else list(n)
        with name_driver_errors(self):
            hits, plan, looked_at_all = self._search(unit_points, sizes, exact, where)
            ref = self.ref_of(where) if described is None else described
            check_results(hits, unit_points, looked_at_all, ref)
        # Numbers of documents that came and that were wanted, for each point that got fewer.
        short_counts = [(len(h.ids), size) for h, size in zip(hits, sizes, strict=True) if len(h.ids) < size]
        # Fewer documents than wanted are an error unless no more match; the point that lacks most is reported.
        if short_counts:
            n_returned, n_expected = min(short_counts, key=lambda counts: counts[0] - min(counts[1], ref.count))
            if n_returned < min(n_expected, ref.count):
                raise ShortResultError(
                    f"{ref.collection} returned {n_returned:,} of {counted(n_expected, 'document')} asked for, and "
                    f"{ref.count:,} match; its index gave up early ({plan}): ask exactly, or let the index look further"
                )
        floors, scores = [], []
        hits = [h.first(size) for h, size in zip(hits, sizes, strict=True)]
        # The floor bounds documents that were not returned; if all matching ones were, there is none.
        for point, sent_point, h, size in zip(point_rows, unit_points, hits, sizes, strict=True):
            point_scores, floor = self._bound(point, sent_point, h, ref.longest)
            scores.append(point_scores)
            floors.append(floor if len(h.ids) == size else -math.inf)
        return SearchResult(
            ids=tuple(tuple(h.ids) for h in hits),
            scores=tuple(scores),
            vectors=tuple(h.vectors for h in hits),
            floor=np.array(floors),
            plan=plan,
            exact=looked_at_all,
            places=tuple(h.places for h in hits),
        )

    def _bound(
        self, point: np.ndarray, sent: np.ndarray, hits: Hits, longest: float | None
    ) -> tuple[np.ndarray, float]:
        """Return exact scores of a point's hits, and a bound on the score of every document not returned.

        point: as it was asked; sent: as the engine received it, a float32 unit vector; longest: no vector of the store
        is longer, None if unknown. The bound is the worst score in the engine's own order, widened by all that rounding
        may have changed.
        """
        vectors = hits.vectors.astype(np.float64)
        scores = vectors @ point
        point_length = float(np.linalg.norm(point))
        if not len(hits.ids) or point_length == 0:
            return scores, 0.0
        exact_scores = vectors @ sent.astype(np.float64)
        engine_scores = exact_scores if hits.scores is None else np.asarray(hits.scores, dtype=np.float64)
        # By the engine's own scores no document that it left out stands above those that it returned. These scores are
        # off by no more than float32 sums can be, plus the largest error seen among the hits; and they are of the point
        # as it was sent, rounded to float32.
        max_norm = longest if longest is not None else float(np.linalg.norm(vectors, axis=1).max())
        # γ_n of Higham's error analysis: a float32 sum of n products is off by at most γ_n times the lengths.
        gamma = (len(point) + 4) * 2.0**-24
        largest_error = float(np.abs(engine_scores - exact_scores).max())
        error = gamma / (1 - gamma) * max_norm * float(np.linalg.norm(sent)) + largest_error
        error += len(point) * float(np.finfo(np.float32).tiny)  # what products too small for float32 may lose
        point_error = float(np.linalg.norm(point / point_length - sent)) * max_norm
        # Where the engine does not tell its scores, the worst one may be off as well as that of a missing document.
        n_errors = 2 if hits.scores is None else 1
        return scores, point_length * (float(engine_scores.min()) + error * n_errors + point_error)


def note_in(comment: str | None) -> dict[str, Any]:
    """Parse the note of `frontier store load` in a collection's comment; {} for any other comment."""
    try:
        content = json.loads(comment or "{}")
    except ValueError:
        return {}
    store_note = content.get(NOTE_KEY) if isinstance(content, dict) else None
    return store_note if isinstance(store_note, dict) else {}


def comment_of(encoder: EncoderRef | None, digest: str, complete: bool) -> str:
    """Return the note that a load leaves at a collection, as JSON: encoder, digest, completeness.

    digest: of the documents and vectors; complete: False while loading.
    """
    store_note = {"encoder": asdict(encoder) if encoder else None, "digest": digest, "complete": complete}
    return json.dumps({NOTE_KEY: store_note}, sort_keys=True)


def encoder_of(note: Mapping[str, Any]) -> EncoderRef | None:
    """Return the encoder of a collection's vectors, as the note of its load names it; None if it does not."""
    encoder_fields = note.get("encoder")
    return EncoderRef(**encoder_fields) if encoder_fields else None


def check_loaded(note: Mapping[str, Any], name: str) -> None:
    """Raise a DataError if the note of a collection says that its load has begun and not ended."""
    if note.get("complete") is False:
        raise DataError(f"{name} is not loaded to its end: run `frontier store load {name} …` again, it goes on")
