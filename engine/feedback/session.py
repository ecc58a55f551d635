"""Sessions: frozen values, each the fold of feedback over the vectors it began with (Algorithm 1).

Operations give new sessions: feed, undo, redo, reset, replay, snapshot, restore, look back.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from engine.decoder import QueryLike, query_batch
from engine.errors import DataError, ParamError
from engine.feedback.embedding_state import CachedStates, MatrixState, SparseState, StartVectors
from engine.feedback.presets import Preset, resolve_preset
from engine.feedback.records import (
    CorpusChange,
    Event,
    EventStatus,
    Journal,
    Query,
    Record,
    SnapshotMark,
    Undone,
    is_whole,
)
from engine.feedback.temperature import fit_temperature
from engine.space import Elsewhere, Space
from engine.values import Embeddings, Queries, digest_of


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
    kept: CachedStates = ()

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
            exact_vectors = matrix.copy()
        exact_vectors.flags.writeable = False
        return exact_vectors

    @cached_property
    def vectors(self) -> np.ndarray:
        """(n, d) Θ_t in the precision of Θ₁, read-only; Θ₁ itself where nothing moved."""
        moved_rows: slice | list[int] = slice(None)
        if isinstance(self.state, MatrixState):
            vectors = self.state.current.astype(self.origin.dtype)
        else:
            vectors, moved_rows = self.origin.copy(), self.state.moved_rows()
            for row_index in moved_rows:
                vectors[row_index] = self.row(row_index)
        bits_dtype = f"i{vectors.itemsize}"
        if np.array_equal(vectors[moved_rows].view(bits_dtype), self.origin[moved_rows].view(bits_dtype)):
            return self.origin
        vectors.flags.writeable = False
        return vectors

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
        start_embeddings = self.space.embeddings
        if self.vectors is self.origin:
            return start_embeddings
        return Embeddings(
            start_embeddings.ids,
            torch.from_numpy(self.vectors.copy()),
            start_embeddings.encoder,
            start_embeddings.texts,
        )

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The feedback that is not undone, oldest first; votes that newer ones replaced are among it."""
        return tuple(event for event in self.history if not self.journal.is_undone(event.id, self.position))

    @cached_property
    def effective_events(self) -> tuple[Event, ...]:
        """The feedback that counts: not undone, and not replaced by a newer vote; oldest first."""
        return tuple(event for event in self.events if self.status(event.id) == "counts")

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
        return self.journal.snapshot_positions(self.position)

    def event(self, event_id: str) -> Event:
        """An event by its id. Raises ParamError where there is none."""
        entry = self.journal.find_event(event_id, self.position)
        if entry is None:
            raise ParamError(f"event must be one of this session's {self.round}; got {event_id!r}")
        return entry[1]

    def status(self, event_id: str) -> EventStatus:
        """Whether an event "counts", is "undone", or "replaced" by a newer vote of the same person."""
        return self.journal.event_status(self.event(event_id), self.position)

    @cached_property
    def digest(self) -> str:
        """Digest of corpus, first vectors, preset, temperature and all records."""
        record_texts = [record_text for record in self.records for record_text in (record.id, record.content)]
        settings = repr((self.preset, self.temperature))
        return digest_of([self.space.corpus.digest, self.space.embeddings.digest, settings, *record_texts])

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
            if (row_index := self.space.corpus.position.get(item)) is None:
                raise ParamError(f"item must be an id of the corpus or a row; got {item!r}")
        elif not is_whole(item) or not 0 <= item < len(self):
            raise ParamError(f"item must be an id of the corpus or a row in [0, {len(self)}); got {item!r}")
        else:
            row_index = int(item)
        if self.available is not None and not self.available[row_index]:
            raise ParamError(f"item must be available; {self.space.corpus.ids[row_index]!r} is not")
        return row_index

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
            query_text = None
        else:
            batch = query_batch(self.space, query)
            if len(batch) != 1:
                raise DataError(f"query must be one question; got {len(batch)}")
            vector = batch.vectors[0].cpu().numpy().copy()
            query_text = batch.texts[0] if batch.texts else None
        vector.flags.writeable = False
        return Query(vector, query_text)


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
    if isinstance(space, Elsewhere):
        raise space.refuse("feedback that moves the documents")
    if not isinstance(space, Space):
        raise ParamError(f"space must be an engine.Space; got {space!r}")
    preset = resolve_preset(preset, overrides)
    start_vectors, temperature = StartVectors(space), preset.temperature
    return empty_session(
        start_vectors,
        preset,
        fit_temperature(start_vectors, queries, preset.perplexity) if temperature is None else temperature,
    )


def empty_session(start_vectors: StartVectors, preset: Preset, temperature: float, writer: str = "") -> Session:
    """A session without records, from its parts."""
    start_state = SparseState() if preset.moves_rows_singly else MatrixState.from_start(start_vectors)
    return Session(
        start_vectors, preset, temperature, Journal(preset.moves_rows_singly), 0, 0, start_state, None, writer
    )


def feed(session: Session, event: Event) -> Session:
    """The session after one piece of feedback; feedback that it knows already, by its id, changes nothing.

    Raises ParamError or DataError for feedback on other documents.
    """
    if session.journal.find_event(event.id, session.position):
        return session
    _check_event(session, event)
    return append_records(session, event)


def undo(session: Session, event_id: str) -> Session:
    """The session without an event: the fold without it, bit by bit; itself where it is undone already.

    Raises ParamError where there is no such event.
    """
    return session if session.status(event_id) == "undone" else append_records(session, Undone((event_id,)))


def redo(session: Session, event_id: str) -> Session:
    """The session with an undone event back in its place. Raises ParamError where there is no such event."""
    return append_records(session, Undone(back=(event_id,))) if session.status(event_id) == "undone" else session


def reset(session: Session) -> Session:
    """The session without any event: Θ₁, bit by bit. Single events can be brought back with `redo`."""
    return append_records(session, Undone(tuple(event.id for event in session.events), is_reset=True))


def replay(session: Session, events: Iterable[Event]) -> Session:
    """The session after many pieces of feedback: the same as feeding them one by one, and faster.

    Raises ParamError or DataError for feedback on other documents.
    """
    new_events = {}
    for event in events:
        if event.id not in new_events and not session.journal.find_event(event.id, session.position):
            _check_event(session, event)
            new_events[event.id] = event
    return append_records(session, *new_events.values())


def snapshot(session: Session, name: str) -> Session:
    """The session with a name for this position, for `at` and `restore`; the newest use of it holds.

    Raises ParamError for a name that is no text.
    """
    if not isinstance(name, str) or not name.strip():
        raise ParamError(f"name must be some text; got {name!r}")
    return append_records(session, SnapshotMark(name))


def state_at(session: Session, t: int | str) -> Session:
    """The session as it was after its first t records, 0 ≤ t ≤ position, or at the snapshot of that name.

    Raises ParamError.
    """
    target_position = _resolve_position(session, t)
    beginning = empty_session(session.start, session.preset, session.temperature, session.writer)
    # A record that changes the past has already dropped the states that follow it.
    cached_states = tuple((position, state) for position, state in session.kept if position <= target_position)
    return append_records(
        replace(beginning, journal=session.journal, kept=cached_states), *session.journal.records[:target_position]
    )


def restore(session: Session, t: int | str) -> Session:
    """The session with the feedback that counted at t, or at the snapshot of that name, and no other.

    What is left out can be brought back with `redo`. Documents that came or went since stay as they are. Raises
    ParamError.
    """
    target_position, journal = _resolve_position(session, t), session.journal
    all_event_ids = [event.id for event in session.history]
    active_then = {
        event_id
        for event_id in all_event_ids
        if journal.find_event(event_id, target_position) and not journal.is_undone(event_id, target_position)
    }
    active_now = {event.id for event in session.events}
    undone_ids, redone_ids = (
        tuple(event_id for event_id in all_event_ids if event_id in selected_ids)
        for selected_ids in (active_now - active_then, active_then - active_now)
    )
    return append_records(session, Undone(undone_ids, redone_ids)) if undone_ids or redone_ids else session


def append_records(session: Session, *records: Record) -> Session:
    """The session after several records at once. Raises DataError for an impossible one."""
    if not records:
        return session
    begin_position, end_position = session.position, session.position + len(records)
    next_records = session.journal.records[begin_position:end_position]
    is_next = len(next_records) == len(records) and all(
        next_record is new_record for next_record, new_record in zip(next_records, records, strict=True)
    )
    journal = session.journal if is_next else session.journal.with_records(begin_position, records)
    n_rounds, available = session.round, session.available
    for record in records:
        match record:
            case Event():
                n_rounds += 1
            case CorpusChange():
                available = np.ones(len(session), dtype=bool) if available is None else available.copy()
                available[list(record.came)], available[list(record.went)] = True, False
                available.flags.writeable = False
            case Undone() if unknown_ids := [
                event_id for event_id in (*record.ids, *record.back) if not journal.find_event(event_id, end_position)
            ]:
                raise DataError(f"feedback is undone that was never given ({unknown_ids[0]!r})")
    state, cached_states = session.state, session.kept
    start_vectors, preset = session.start, session.preset
    if isinstance(state, MatrixState):
        first_change = min(
            (_find_first_change(journal, end_position, record) for record in records), default=end_position
        )
        state, cached_states = state.refold_records(
            start_vectors, preset, journal, begin_position, first_change, end_position, cached_states
        )
    elif (
        len(records) == 1
        and isinstance(single_event := records[0], Event)
        and len(journal.rival_votes(single_event, end_position)) == 1
    ):
        state = state.with_record(start_vectors, preset, single_event)
    else:
        state = state.refold_rows(
            start_vectors, preset, journal, end_position, _find_touched_rows(journal, end_position, records)
        )
    # `replace` takes 3 µs.
    return Session(
        start_vectors, preset, session.temperature, journal, end_position, n_rounds, state, available, session.writer, cached_states
    )  # fmt: skip


def _find_first_change(journal: Journal, end_position: int, record: Record) -> int:
    """The position from which on a record changes the past."""
    if isinstance(record, Undone) and record.is_reset:
        return 0
    event_entries = (
        journal.find_event(event.id, end_position) for event in _find_affected_events(journal, end_position, record)
    )
    return min((entry[0] for entry in event_entries if entry), default=end_position)


def _find_touched_rows(journal: Journal, end_position: int, records: Sequence[Record]) -> list[int]:
    """The rows that records move, or move back; rising."""
    touched_rows: set[int] = set()
    for record in records:
        if isinstance(record, Undone) and record.is_reset:
            return journal.touched_rows(end_position)
        if isinstance(record, CorpusChange):
            touched_rows.update(record.drift)
        touched_rows.update(
            row_index for event in _find_affected_events(journal, end_position, record) for row_index in event.items
        )
    return sorted(touched_rows)


def _find_affected_events(journal: Journal, end_position: int, record: Record) -> list[Event]:
    """The events that a record may make count, or cease to."""
    event_ids = (*record.ids, *record.back) if isinstance(record, Undone) else ()
    events = (
        [record]
        if isinstance(record, Event)
        else [event_entry[1] for event_id in event_ids if (event_entry := journal.find_event(event_id, end_position))]
    )
    return [rival_vote for event in events for rival_vote in journal.rival_votes(event, end_position)]


def _resolve_position(session: Session, t: int | str) -> int:
    if isinstance(t, str):
        if t not in session.snapshots:
            snapshot_names = ", ".join(map(repr, session.snapshots)) or "none"
            raise ParamError(f"snapshot must be one that was taken ({snapshot_names}); got {t!r}")
        return session.snapshots[t]
    if not is_whole(t) or not 0 <= t <= session.position:
        raise ParamError(f"t must be a whole number in [0, {session.position}] or the name of a snapshot; got {t!r}")
    return int(t)


def _check_event(session: Session, event: Event) -> None:
    if len(event.query.vector) != session.start.dimension or event.item >= len(session):
        raise DataError(
            f"event must be about this session's {len(session)} documents of dimension {session.start.dimension}; got "
            f"one about row {event.item}, of dimension {len(event.query.vector)}"
        )
    if session.available is not None and not session.available[list(event.items)].all():
        raise ParamError("event must move documents that are available; one that it moves has gone since")
