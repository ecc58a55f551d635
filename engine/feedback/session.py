"""Sessions: frozen values, each the fold of feedback over the vectors it began with (Algorithm 1)."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from engine.decoder import QueryLike, query_batch
from engine.errors import DataError, ParamError
from engine.feedback.embedding_state import MatrixState, SparseState, StartVectors
from engine.feedback.events import Event, Query, is_whole
from engine.feedback.presets import LEAST_TEMPERATURE, Preset, preset_of
from engine.feedback.records import Journal, Record, Status
from engine.feedback.temperature import SAMPLE, by_perplexity
from engine.space import Space
from engine.values import Embeddings, Queries, digest_of

BLOCK = 4096
"""Documents scored at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class Session:
    """Documents that learn from feedback; every change gives another session, and this one stays as it is.

    preset: how it learns.
    temperature: τ.
    position: number of records folded.
    round: how many of them were feedback.
    available: (n,) bool, None where all documents are.
    writer: tells apart those who write to one log.
    kept: earlier states by position, to fold on from.
    """

    start: StartVectors
    preset: Preset
    temperature: float
    journal: Journal
    position: int
    round: int
    state: SparseState | MatrixState
    available: np.ndarray | None = None
    writer: str = ""
    kept: tuple[tuple[int, MatrixState], ...] = ()

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return f"<session {self.preset.name}: {len(self)} documents, {self.round} rounds, τ {self.temperature:.4g}>"

    @property
    def space(self) -> Space:
        """The space that it began with."""
        return self.start.space

    @property
    def origin(self) -> np.ndarray:
        """(n, d) Θ₁, read-only."""
        return self.start.vectors

    @cached_property
    def exact(self) -> np.ndarray:
        """(n, d) float64 Θ_t, read-only."""
        with self.state.matrix(self.start) as matrix:
            rows = matrix.copy()
        rows.flags.writeable = False
        return rows

    @cached_property
    def vectors(self) -> np.ndarray:
        """(n, d) Θ_t in the precision of Θ₁, read-only; Θ₁ itself where nothing moved."""
        moved: slice | list[int] = slice(None)
        if isinstance(self.state, MatrixState):
            rows = self.state.now.astype(self.origin.dtype)
        else:
            rows, moved = self.origin.copy(), self.state.moved()
            for row in moved:
                rows[row] = self.row(row)
        bits = f"i{rows.itemsize}"
        if np.array_equal(rows[moved].view(bits), self.origin[moved].view(bits)):
            return self.origin
        rows.flags.writeable = False
        return rows

    def row(self, item: int) -> np.ndarray:
        """(d,) float64 Θ_t of one document, read-only."""
        vector = self.state.row(self.start, item).view()
        vector.flags.writeable = False
        return vector

    def embeddings(self) -> Embeddings:
        """The adapted documents as embeddings, for `engine.Space(corpus, …)`; named by their digest."""
        return self._embeddings

    @cached_property
    def _embeddings(self) -> Embeddings:
        first = self.space.embeddings
        if self.vectors is self.origin:
            return first
        return Embeddings(torch.from_numpy(self.vectors.copy()), first.ids, first.encoder, first.texts)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The feedback that is not undone, oldest first; votes that newer ones replaced are among it."""
        return tuple(event for event in self.history if not self.journal.undone(event.id, self.position))

    @cached_property
    def history(self) -> tuple[Event, ...]:
        """All feedback ever given, undone or not, oldest first."""
        return tuple(record for record in self.records if isinstance(record, Event))

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, oldest first."""
        return tuple(self.journal.records[: self.position])

    @property
    def snapshots(self) -> dict[str, int]:
        """Positions by snapshot name, oldest first."""
        return self.journal.names(self.position)

    def event(self, event_id: str) -> Event:
        """An event by its id. Raises ParamError where there is none."""
        entry = self.journal.find(event_id, self.position)
        if entry is None:
            raise ParamError(f"event must be one of this session's {self.round}; got {event_id!r}")
        return entry[1]

    def status(self, event_id: str) -> Status:
        """Whether an event "counts", is "undone", or "replaced" by a newer vote of the same person."""
        return self.journal.status(self.event(event_id), self.position)

    @cached_property
    def digest(self) -> str:
        """Digest of corpus, first vectors, preset, temperature and all records."""
        records = [text for record in self.records for text in (record.id, record.content)]
        settings = repr((self.preset, self.temperature))
        return digest_of([self.space.corpus.digest, self.space.embeddings.digest, settings, *records])

    def scores(self, query: Any) -> np.ndarray:
        """(n,) float64 inner products of the documents as they are now with a query."""
        vector = self.resolve_query(query).exact
        with self.state.matrix(self.start) as matrix:
            scores: np.ndarray = matrix @ vector
        return scores

    def resolve_items(self, items: Iterable[int | str]) -> tuple[int, ...]:
        """Rows of documents given by row or id. Raises ParamError for one that is not available."""
        return tuple(self.row_of(item) for item in items)

    def row_of(self, item: int | str) -> int:
        """Row of a document given by row or id. Raises ParamError as `resolve_items`."""
        if isinstance(item, str):
            if (row := self.space.corpus.position.get(item)) is None:
                raise ParamError(f"item must be an id of the corpus or a row; got {item!r}")
        elif not is_whole(item) or not 0 <= item < len(self):
            raise ParamError(f"item must be an id of the corpus or a row in [0, {len(self)}); got {item!r}")
        else:
            row = int(item)
        if self.available is not None and not self.available[row]:
            raise ParamError(f"item must be available; {self.space.corpus.ids[row]!r} is not")
        return row

    def resolve_query(self, query: Any) -> Query:
        """A query from text (embedded as the corpus was), a (d,) vector, one of Queries or Embeddings, a Query.

        Raises DataError, naming what is wrong.
        """
        if isinstance(query, Query):
            if query.vector.shape != (self.start.dimension,):
                raise DataError(
                    f"query must have the corpus's dimension {self.start.dimension}; got {query.vector.shape}"
                )
            return query
        if not isinstance(query, str | Embeddings | Queries):
            try:
                numbers = query.detach().cpu().numpy() if isinstance(query, torch.Tensor) else query
                vector = np.array(numbers, dtype=self.origin.dtype)
            except (TypeError, ValueError):
                raise DataError(f"query must be text, a vector or Embeddings; got {type(query).__name__}") from None
            if vector.shape != (self.start.dimension,) or not np.isfinite(vector).all():
                raise DataError(
                    f"query must be {self.start.dimension} finite numbers, as the corpus's vectors are; got shape "
                    f"{vector.shape}"
                )
            text = None
        else:
            batch = query_batch(self.space, query)
            if len(batch) != 1:
                raise DataError(f"query must be one question; got {len(batch)}")
            vector = batch.vectors[0].cpu().numpy().copy()
            text = batch.texts[0] if batch.texts else None
        vector.flags.writeable = False
        return Query(vector, text)

    ask_of, rows_of = resolve_query, resolve_items
    """Public aliases."""


def session(
    space: Space,
    preset: str | Preset = "default",
    *,
    queries: QueryLike | None = None,
    **overrides: Any,
) -> Session:
    """A session over a space in which nothing has happened yet.

    preset: "default", "careful", "paper", or a Preset; overrides: parameters of it, set otherwise; queries: a sample
    of the queries to come, to set the temperature by (without one, documents stand in for them).
    Raises ParamError or DataError, naming argument, range and value.
    """
    if not isinstance(space, Space):
        raise ParamError(f"space must be an engine.Space; got {space!r}")
    preset = preset_of(preset, overrides)
    start, temperature = StartVectors(space), preset.temperature
    return begun(start, preset, _temperature(start, queries, preset.perplexity) if temperature is None else temperature)


def begun(start: StartVectors, preset: Preset, temperature: float, writer: str = "") -> Session:
    """A session without records, from its parts."""
    state = SparseState.of(start) if preset.by_rows else MatrixState.of(start)
    return Session(start, preset, temperature, Journal(preset.by_rows), 0, 0, state, None, writer)


def _temperature(start: StartVectors, queries: QueryLike | None, target: float) -> float:
    rows = np.unique(np.linspace(0, len(start) - 1, SAMPLE).astype(int))
    if queries is not None:
        vectors = query_batch(start.space, queries).vectors.cpu().numpy()
        points = vectors[np.unique(np.linspace(0, len(vectors) - 1, SAMPLE).astype(int))]
    elif len(start) == 1:
        return 1.0
    else:
        points = start.vectors[rows]
    blocks = (start.vectors[begin : begin + BLOCK].astype(np.float64) for begin in range(0, len(start), BLOCK))
    scores = np.concatenate([points.astype(np.float64) @ block.T for block in blocks], axis=1)
    if queries is None:
        # A document is its own best answer; a query is no document.
        scores[np.arange(len(rows)), rows] = -np.inf
    return max(LEAST_TEMPERATURE, by_perplexity(scores, target))
