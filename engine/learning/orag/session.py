"""Sessions: frozen values, each the fold of feedback over the vectors it began with (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from engine.decoder import QueryLike, query_batch
from engine.errors import DataError, ParamError
from engine.learning.orag.events import Event, Query
from engine.learning.orag.journal import Journal, Record
from engine.learning.orag.origin import Origin
from engine.learning.orag.presets import LEAST_TEMPERATURE, Preset, preset_of
from engine.learning.orag.states import Rows, Whole
from engine.learning.orag.temperature import SAMPLE, by_perplexity
from engine.space import Space
from engine.values import Embeddings, Queries, digest_of

BLOCK = 4096
"""So many documents are scored at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class Session:
    """Documents that learn from feedback; every change gives another session, and this one stays as it is.

    preset: how it learns; temperature: τ; position: how many records it has folded, feedback and what was undone;
    round: how many of them were feedback; available: (n,) bool, None where all documents are; writer: tells apart
    those who write to one log; kept: earlier states by position, to fold on from.
    """

    start: Origin
    preset: Preset
    temperature: float
    journal: Journal
    position: int
    round: int
    state: Rows | Whole
    available: np.ndarray | None = None
    writer: str = ""
    kept: tuple[tuple[int, Whole], ...] = ()

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return f"<session {self.preset.name}: {len(self)} documents, {self.round} rounds, τ {self.temperature:.4g}>"

    @property
    def space(self) -> Space:
        """What it began with."""
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
        """(n, d) Θ_t in the precision of Θ₁, float32 as a rule; read-only. Where nothing moved it is Θ₁, bit by bit."""
        moved = self.state.moved()
        if moved is None:
            rows = self.state.now.astype(self.origin.dtype)
            moved = slice(None)
        else:
            rows = self.origin.copy()
            for row in moved:
                rows[row] = self.row(row)
        bits = f"i{rows.itemsize}"
        if np.array_equal(rows[moved].view(bits), self.origin[moved].view(bits)):
            return self.origin
        rows.flags.writeable = False
        return rows

    def row(self, item: int) -> np.ndarray:
        """(d,) float64 Θ_t of one document, read-only."""
        found = self.state.row(self.start, item).view()
        found.flags.writeable = False
        return found

    def embeddings(self) -> Embeddings:
        """The adapted documents as embeddings like any other, for `engine.Space(corpus, …)`; named by their digest."""
        return self._embeddings

    @cached_property
    def _embeddings(self) -> Embeddings:
        own = self.space.embeddings
        if self.vectors is self.origin:
            return own
        return Embeddings(torch.from_numpy(self.vectors.copy()), own.ids, own.encoder, own.texts)

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
        """All that happened, oldest first."""
        return tuple(self.journal.records[: self.position])

    @property
    def snapshots(self) -> dict[str, int]:
        """Positions by the names they were given, oldest first."""
        return self.journal.names(self.position)

    def event(self, event_id: str) -> Event:
        """Feedback by its id. Raises ParamError where there is none."""
        at = self.journal.position(event_id, self.position)
        if at is None:
            raise ParamError(f"event must be one of this session's {self.round}; got {event_id!r}")
        return self.journal.records[at]

    def status(self, event_id: str) -> str:
        """Whether an event "counts", is "undone", or "replaced" by a newer vote of the same person."""
        event = self.event(event_id)
        if self.journal.undone(event.id, self.position):
            return "undone"
        return "replaced" if self.journal.replaced(event, self.position) else "counts"

    @cached_property
    def digest(self) -> str:
        """Of all that the session is: where it began, how it learns, what happened."""
        how = repr((self.preset, self.temperature))
        done = []
        for record in self.records:
            done += (record.id, record.content if isinstance(record, Event) else type(record).__name__)
        return digest_of([self.space.corpus.digest, self.space.embeddings.digest, how, *done])

    def scores(self, query: Any) -> np.ndarray:
        """(n,) float64 inner products of the documents as they are now with a query."""
        asked = self.ask_of(query).exact
        with self.state.matrix(self.start) as matrix:
            return matrix @ asked

    def rows_of(self, items: Iterable[int | str]) -> tuple[int, ...]:
        """Documents, by row or id, as rows. Raises ParamError for one that there is not."""
        return tuple(self.row_of(item) for item in items)

    def row_of(self, item: int | str) -> int:
        """A document, by row or id, as its row. Raises ParamError."""
        if isinstance(item, str):
            if (row := self.space.corpus.position.get(item)) is None:
                raise ParamError(f"item must be an id of the corpus or a row; got {item!r}")
        elif isinstance(item, bool) or not hasattr(item, "__index__") or not 0 <= item < len(self):
            raise ParamError(f"item must be an id of the corpus or a row in [0, {len(self)}); got {item!r}")
        else:
            row = int(item)
        if self.available is not None and not self.available[row]:
            raise ParamError(f"item must be available; {self.space.corpus.ids[row]!r} is not")
        return row

    def ask_of(self, query: Any) -> Query:
        """A question: text (embedded as the corpus was), a (d,) vector, Queries or Embeddings of one, or a Query.

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
                given = query.detach().cpu().numpy() if isinstance(query, torch.Tensor) else query
                vector = np.array(given, dtype=self.origin.dtype)
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


def session(
    space: Space,
    preset: str | Preset = "default",
    *,
    queries: QueryLike | None = None,
    **overrides: Any,
) -> Session:
    """A session over a space in which nothing has happened yet.

    preset: "default", "careful", "paper", or a Preset; overrides: parameters of it, set otherwise; queries: a sample
    of what will be asked, to set the temperature by (without one, documents stand in for queries).
    Raises ParamError or DataError, naming argument, range and value.
    """
    if not isinstance(space, Space):
        raise ParamError(f"space must be an engine.Space; got {space!r}")
    how = preset_of(preset, overrides)
    start = Origin(space)
    temperature = how.temperature if how.temperature is not None else _temperature(start, queries, how.perplexity)
    return begun(start, how, temperature)


def begun(start: Origin, preset: Preset, temperature: float, writer: str = "") -> Session:
    """A session in which nothing has happened, from its parts."""
    state = (Rows if preset.by_rows else Whole).of(start)
    return Session(start, preset, temperature, Journal(preset.by_rows), 0, 0, state, None, writer)


def _temperature(start: Origin, queries: QueryLike | None, target: float) -> float:
    rows = np.unique(np.linspace(0, len(start) - 1, SAMPLE).astype(int))
    if queries is not None:
        found = query_batch(start.space, queries).vectors.cpu().numpy()
        asked = found[np.unique(np.linspace(0, len(found) - 1, SAMPLE).astype(int))]
    elif len(start) == 1:
        return 1.0
    else:
        asked = start.vectors[rows]
    blocks = (start.vectors[at : at + BLOCK].astype(np.float64) for at in range(0, len(start), BLOCK))
    scores = np.concatenate([asked.astype(np.float64) @ block.T for block in blocks], axis=1)
    if queries is None:
        # A document is its own best answer, which no question has.
        scores[np.arange(len(rows)), rows] = -np.inf
    return max(LEAST_TEMPERATURE, by_perplexity(scores, target))
