"""What a vector engine is to a decoder: it returns the documents that score highest, and bounds all others."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from engine.errors import DataError
from engine.values import ByDigest, EncoderRef, digest_of

Where = Mapping[str, Collection[str]]
"""Column → the values that a document may have there; all columns must fit."""
CHANGED = "changed while asked"
NOTE_KEY = "frontier"
"""Key of the note that `frontier store load` leaves: encoder, digest of the documents, whether all are loaded."""


def where_text(where: Where | None) -> str:
    """A filter as JSON, "" for none."""
    return json.dumps({c: sorted(v) for c, v in where.items()}, sort_keys=True) if where else ""


class ShortResultError(DataError):
    """Fewer documents came back than were asked for and match."""


def is_unit(off: float) -> bool | None:
    """Whether rows are unit that are `off` from length 1 at most, up to the rounding of stored unit rows.

    None where that hangs on how lengths are rounded: `Matrix.unit` measures them in float32.
    """
    eps = float(np.finfo(np.float32).eps)
    return None if 7 * eps < off < 9 * eps else off <= 8 * eps


@dataclass(frozen=True, eq=False, kw_only=True)
class StoreRef(ByDigest):
    """What names the documents of a store; it holds no secret.

    snapshot: what changes whenever documents may have changed; "" for a store that cannot say
    """

    kind: str
    collection: str  # "name/collection", as `engine.attach` takes it
    count: int  # documents, of those that `where` lets through
    dimension: int
    snapshot: str = ""
    where: str = ""  # the filter as JSON
    content: str = ""  # what names ids and vectors whatever else the store holds; "" where nobody looked at them all
    longest: float | None = None  # no vector is longer; None where nobody has looked at all of them
    unit: bool | None = None  # whether every vector has length 1, None likewise

    @cached_property
    def digest(self) -> str:
        state = self.content or self.snapshot
        fields = (self.kind, self.collection, self.count, self.dimension, state, self.where)
        return digest_of(map(str, fields))


@dataclass(frozen=True, eq=False)
class Hits:
    """What an engine itself says of one point.

    ids: best first; vectors: (m, d) float32; scores: (m,) the engine's inner products with the point, None where it
    says none; places: (m,) of each document in the store's own order, which ties go by, None where it has none
    """

    ids: Sequence[str]
    vectors: np.ndarray
    scores: np.ndarray | None = None
    places: np.ndarray | None = None

    def first(self, n: int) -> Hits:
        """The n best."""
        if len(self.ids) <= n:
            return self
        scores, places = (None if values is None else values[:n] for values in (self.scores, self.places))
        return Hits(self.ids[:n], self.vectors[:n], scores, places)


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

    def only(self, at: int) -> SearchResult:
        """What came back for one of the points."""
        own = slice(at, at + 1)
        parts = {name: getattr(self, name)[own] for name in ("ids", "scores", "vectors", "floor", "places")}
        return SearchResult(**parts, plan=self.plan, exact=self.exact)


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
    """What made the vectors, and embeds queries; None where that is not known."""

    @property
    @abstractmethod
    def ref(self) -> StoreRef:
        """What names the documents, as they are now."""

    def ref_of(self, where: Where | None) -> StoreRef:
        """The same of the documents that a filter lets through."""
        ref = self.ref
        if not where or where_text(where) == ref.where:
            return ref
        # Of some of the documents only what holds of all is known.
        known = {"longest": ref.longest, "unit": True} if ref.unit else {"longest": None, "unit": None}
        return replace(ref, count=self.count(where), where=where_text(where), **known)

    @abstractmethod
    def _search(
        self, points: np.ndarray, sizes: Sequence[int], exact: bool, where: Where | None
    ) -> tuple[list[Hits], str, bool]:
        """Documents for each unit point, (B, d) float32, in one round trip; the plan; whether it was exact.

        Scores are sums in float32 or better of the very vectors that come back: what rounds more raises them by it.

        sizes: how many for each; more may come. A DataError where exact is asked for and cannot be had.
        """

    @abstractmethod
    def count(self, where: Where | None = None) -> int:
        """How many documents match."""

    @abstractmethod
    def texts(self, ids: Sequence[str]) -> list[str]:
        """The documents' texts, "" where there are none; DataError for an id that the store does not have."""

    @abstractmethod
    def sample(self, n: int, seed: int = 0) -> tuple[tuple[str, ...], np.ndarray]:
        """Ids and (m, d) float32 vectors of at most n documents at random."""

    @abstractmethod
    def scan(self, size: int) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
        """All documents, in the store's order, `size` at a time: ids and (m, d) float32 vectors."""

    @contextmanager
    def snapshot(self) -> Iterator[str]:
        """Inside, all questions of this thread see one state, whose name it gives; else DataError(CHANGED) at the end
        where the documents' count is another than at the beginning."""
        before = self.ref
        yield before.snapshot
        if (after := self.ref) != before:
            raise DataError(
                f"{before.collection} {CHANGED}: {before.count:,} documents before, {after.count:,} after; ask again"
            )

    def close(self) -> None:  # noqa: B027
        """Let go of connections, where there are any."""

    def search(
        self,
        points: Any,
        n: int | Sequence[int],
        exact: bool = False,
        where: Where | None = None,
        described: StoreRef | None = None,
    ) -> SearchResult:
        """The n documents with the largest inner products for each point, and a bound on all others.

        points: (B, d), of any length; n: for each, or one for all; exact: whether the engine must look at all
        documents; described: what `ref_of` says of the documents, asked for where None. Raises DataError for points
        that do not fit, and where fewer than min(n, matching) came back.
        """
        rows = np.atleast_2d(np.asarray(points, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.dimension or not np.isfinite(rows).all():
            raise DataError(
                f"points must be finite and have the store's dimension, {self.dimension}; got shape {rows.shape}"
            )
        lengths = np.linalg.norm(rows, axis=1)
        unit = (rows / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)
        sizes = [n] * len(rows) if isinstance(n, int) else list(n)
        hits, plan, looked_at_all = self._search(unit, sizes, exact, where)
        short = [(len(h.ids), size) for h, size in zip(hits, sizes, strict=True) if len(h.ids) < size]
        if short:
            matching = self.count(where) if described is None else described.count
            fewest, most = min(short, key=lambda pair: pair[0] - min(pair[1], matching))
            if fewest < min(most, matching):
                raise ShortResultError(
                    f"{self.ref.collection} returned {fewest:,} of {most:,} documents asked for, and {matching:,} "
                    f"match; its index gave up early ({plan}): ask exactly, or let the index look further"
                )
        longest = (self.ref_of(where) if described is None else described).longest
        floors, scores = [], []
        hits = [h.first(size) for h, size in zip(hits, sizes, strict=True)]
        for point, sent, h, size in zip(rows, unit, hits, sizes, strict=True):
            own, floor = self._bounded(point, sent, h, longest)
            scores.append(own)
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

    def _bounded(self, point: np.ndarray, sent: np.ndarray, h: Hits, longest: float | None) -> tuple[np.ndarray, float]:
        """Our scores of what came back, and no other document's score is larger, by the engine's own order."""
        vectors = h.vectors.astype(np.float64)
        if not np.isfinite(vectors).all():
            raise DataError(f"{self.ref.collection} returned a vector that is not finite")
        scores = vectors @ point
        length = float(np.linalg.norm(point))
        if not len(h.ids) or length == 0:
            return scores, 0.0
        ours = vectors @ sent.astype(np.float64)
        theirs = ours if h.scores is None else np.asarray(h.scores, dtype=np.float64)
        # What the engine did not return stood no higher in its own order than what it did. Its numbers are off by no
        # more than float32 sums can be, or than they were seen to be; and it was sent the point rounded to float32.
        norm = longest if longest is not None else float(np.linalg.norm(vectors, axis=1).max())
        gamma = (len(point) + 4) * 2.0**-24
        off = gamma / (1 - gamma) * norm * float(np.linalg.norm(sent)) + float(np.abs(theirs - ours).max())
        off += len(point) * float(np.finfo(np.float32).tiny)  # what products too small for float32 may lose
        sent_off = float(np.linalg.norm(point / length - sent)) * norm
        return scores, length * (float(theirs.min()) + off * (2 if h.scores is None else 1) + sent_off)


def note_in(comment: str | None) -> dict[str, Any]:
    """Parse Frontier's note from a comment; empty for a comment of another program."""
    try:
        noted = json.loads(comment or "{}")
    except ValueError:
        return {}
    own = noted.get(NOTE_KEY) if isinstance(noted, dict) else None
    return own if isinstance(own, dict) else {}


def comment_of(encoder: EncoderRef | None, digest: str, complete: bool) -> str:
    """The comment that says so, as JSON."""
    own = {"encoder": asdict(encoder) if encoder else None, "digest": digest, "complete": complete}
    return json.dumps({NOTE_KEY: own}, sort_keys=True)


def encoder_of(note: Mapping[str, Any]) -> EncoderRef | None:
    """The encoder that a note names."""
    own = note.get("encoder")
    return EncoderRef(**own) if own else None


def check_loaded(note: Mapping[str, Any], name: str) -> None:
    """Raise a DataError where loading has begun and not ended."""
    if note.get("complete") is False:
        raise DataError(f"{name} is not loaded to its end: run `frontier store load {name} …` again, it goes on")
