"""Sessions: frozen values, each the fold of feedback over the vectors it began with (ORAG, Algorithm 1).

Every operation returns a new session: feed, undo, redo, reset, replay, snapshot, restore, state_at.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import is_
from typing import Any, TypeGuard

import numpy as np
import torch

from engine.decoder import QueryLike, query_batch
from engine.errors import DataError, ParamError
from engine.feedback.embedding_state import CachedStates, MatrixState, SparseState, StartVectors, freeze
from engine.feedback.presets import Preset, resolve_preset
from engine.feedback.records import Bookmark, CorpusChange, Event, EventStatus, Journal, Query, Record, Undone, is_whole
from engine.feedback.temperature import fit_temperature
from engine.progress import counted
from engine.space import Elsewhere, Space
from engine.values import Embeddings, Queries, digest_of


@dataclass(frozen=True, eq=False, repr=False)
class Session:
    """Documents that learn from feedback; immutable, so every change returns another session.

    Parameters
    ----------
    start : StartVectors
        Vectors before any feedback, with their space.
    preset : Preset
        Parameters by which it learns.
    temperature : float
        τ of the softmax.
    journal : Journal
        Records that it shares with the sessions it comes from.
    position : int
        Number of records applied.
    round : int
        Number of feedback events among them.
    state : SparseState or MatrixState
        Vectors after these records.
    available : ndarray or None
        (n,) bool, None if all documents are available.
    writer : str
        Distinguishes the processes that write to one log.
    kept : tuple
        Cached earlier states by position.

    Examples
    --------
    >>> orag.session(space)
    <session default: 3 documents, 0 rounds, τ ...>
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
        """Space that the session began with."""
        return self.start.space

    @property
    def origin(self) -> np.ndarray:
        """First vectors Θ₁, (n, d), read-only.

        They are those before any feedback.
        """
        return self.start.vectors

    @cached_property
    def exact(self) -> np.ndarray:
        """Current vectors Θ_t in float64, (n, d), read-only."""
        with self.state.matrix(self.start) as matrix:
            return freeze(matrix.copy())

    @cached_property
    def vectors(self) -> np.ndarray:
        """Current document vectors, (n, d), read-only, in the precision of the first vectors.

        It is the array of the first vectors itself if nothing has moved.
        """
        moved_rows: slice | list[int] = slice(None)
        if isinstance(self.state, MatrixState):
            vectors = self.state.current.astype(self.origin.dtype)
        else:
            vectors, moved_rows = self.origin.copy(), self.state.moved_rows()
            for row_index in moved_rows:
                vectors[row_index] = self.row(row_index)
        # Bits are compared, not values: −0.0 equals 0.0, but gives the embeddings another digest.
        bits_dtype = f"i{vectors.itemsize}"
        if np.array_equal(vectors[moved_rows].view(bits_dtype), self.origin[moved_rows].view(bits_dtype)):
            return self.origin
        return freeze(vectors)

    def row(self, item: int) -> np.ndarray:
        """Return the current vector of one document, (d,) float64, read-only.

        item: its row
        """
        # A view, so that the array of the state itself keeps its flag.
        return freeze(self.state.row(self.start, item).view())

    def embeddings(self) -> Embeddings:
        """Return the adapted documents as embeddings, for `engine.Space(corpus, …)`."""
        return self._embeddings

    @cached_property
    def _embeddings(self) -> Embeddings:
        """Current document vectors as Embeddings, computed once; those of the space if nothing moved."""
        start_embeddings = self.space.embeddings
        if self.vectors is self.origin:
            return start_embeddings
        vectors = torch.from_numpy(self.vectors.copy())
        return Embeddings(start_embeddings.ids, vectors, start_embeddings.encoder, start_embeddings.texts)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Feedback that is not undone, oldest first; includes votes that newer ones replaced."""
        return tuple(event for event in self.history if not self.journal.is_undone(event.id, self.position))

    @cached_property
    def effective_events(self) -> tuple[Event, ...]:
        """Feedback that counts, oldest first: neither undone nor replaced by a newer vote."""
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
        # A position is the number of records that the session had when the snapshot was taken.
        return self.journal.snapshot_positions(self.position)

    def event(self, event_id: str) -> Event:
        """Return an event by its id. Raises ParamError if there is none."""
        entry = self.journal.find_event(event_id, self.position)
        if entry is None:
            raise ParamError(f"event must be one of this session's {self.round}; got {event_id!r}")
        return entry[1]

    def status(self, event_id: str) -> EventStatus:
        """Return "counts", "undone", or "replaced" if a newer vote of the same person replaced the event."""
        return self.journal.event_status(self.event(event_id), self.position)

    @cached_property
    def digest(self) -> str:
        """Digest of corpus, first vectors, preset, temperature and all records."""
        record_texts = [record_text for record in self.records for record_text in (record.id, record.content)]
        settings = repr((self.preset, self.temperature))
        return digest_of([self.space.corpus.digest, self.space.embeddings.digest, settings, *record_texts])

    def scores(self, query: Any) -> np.ndarray:
        """Return the inner products of the current documents with a query, (n,) float64."""
        vector = self.resolve_query(query).exact
        with self.state.matrix(self.start) as matrix:
            scores: np.ndarray = matrix @ vector
        return scores

    def resolve_items(self, items: Iterable[int | str]) -> tuple[int, ...]:
        """Return the rows of documents given by row or id. Raises ParamError for an unavailable one."""
        return tuple(self.row_of(item) for item in items)

    def row_of(self, item: int | str) -> int:
        """Return the row of a document given by row or id. Raises ParamError if it is not available."""
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
        """Return a Query from text, a (d,) vector, Queries or Embeddings with one entry, or a Query.

        Text is embedded by the corpus's encoder. Raises DataError for anything else.
        """
        dimension = self.start.dimension
        if isinstance(query, Query):
            if query.vector.shape != (dimension,):
                raise DataError(f"query must have the corpus's dimension {dimension}; got {query.vector.shape}")
            return query
        if not isinstance(query, str | Embeddings | Queries):
            try:
                numbers = query.detach().cpu().numpy() if isinstance(query, torch.Tensor) else query
                vector = np.array(numbers, dtype=self.origin.dtype)
            except (TypeError, ValueError):
                raise DataError(f"query must be text, a vector or Embeddings; got {type(query).__name__}") from None
            if vector.shape != (dimension,) or not np.isfinite(vector).all():
                domain = f"{dimension} finite numbers, as the corpus's vectors are"
                raise DataError(f"query must be {domain}; got shape {vector.shape}")
            return Query(freeze(vector))
        batch = query_batch(self.space, query)
        if len(batch) != 1:
            raise DataError(f"query must be one question; got {len(batch)}")
        vector = batch.vectors[0].cpu().numpy().copy()
        return Query(freeze(vector), batch.texts[0] if batch.texts else None)


def session(
    space: Space, preset: str | Preset = "default", *, queries: QueryLike | None = None, **overrides: Any
) -> Session:
    """Create a session over a space, without any feedback.

    Parameters
    ----------
    space : Space
        Corpus and embeddings.
    preset : {"default", "careful", "paper"} or Preset
        Parameters by which the session learns.
    queries : str, Queries or Embeddings, optional
        Sample of expected queries that sets the temperature; by default documents stand in for it.
    **overrides
        Parameters of the preset to change, for example `rate=0.01`.

    Returns
    -------
    Session
        A session without records.

    Raises
    ------
    ParamError, DataError
        For an invalid preset, parameter or query.

    Examples
    --------
    >>> session = orag.session(space, "careful", rate=0.005)
    """
    # `Elsewhere` is a corpus in a vector engine, whose documents cannot be moved from here.
    if isinstance(space, Elsewhere):
        raise space.refuse("feedback that moves the documents")
    if not isinstance(space, Space):
        raise ParamError(f"space must be an engine.Space; got {space!r}")
    preset = resolve_preset(preset, overrides)
    start, temperature = StartVectors(space), preset.temperature
    if temperature is None:
        temperature = fit_temperature(start, queries, preset.perplexity)
    return empty_session(start, preset, temperature)


def empty_session(start: StartVectors, preset: Preset, temperature: float, writer: str = "") -> Session:
    """Create a feedback session without records, whose documents are at their first vectors.

    If the preset moves few documents a round, the session stores only those that moved, else the full matrix. writer:
    distinguishes the processes that write to one log.
    """
    # A sparse state recomputes rows one by one, for which the journal indexes its records by row.
    state, journal = SparseState() if preset.by_rows else MatrixState(start.exact), Journal(preset.by_rows)
    return Session(start, preset, temperature, journal, position=0, round=0, state=state, writer=writer)


def feed(session: Session, event: Event) -> Session:
    """Return the session after one piece of feedback.

    Parameters
    ----------
    session : Session
        Stays as it is.
    event : Event
        Feedback; an event whose id the session already has changes nothing.

    Returns
    -------
    Session
        The session after the update (Algorithm 1, lines 5 and 6).

    Raises
    ------
    ParamError, DataError
        For feedback on other or unavailable documents.

    Examples
    --------
    >>> after = orag.feed(session, orag.thumb(session, "how to sort?", "sort"))
    """
    if session.journal.find_event(event.id, session.position):
        return session
    _check_event(session, event)
    return append_records(session, event)


def undo(session: Session, event_id: str) -> Session:
    """Remove an event: the vectors equal, bit for bit, those without it.

    Parameters
    ----------
    session : Session
        Stays as it is.
    event_id : str
        Id of the event.

    Returns
    -------
    Session
        `session` itself if the event is already undone.

    Raises
    ------
    ParamError
        If there is no such event.

    Examples
    --------
    >>> before = orag.undo(after, event.id)
    """
    return session if session.status(event_id) == "undone" else append_records(session, Undone((event_id,)))


def redo(session: Session, event_id: str) -> Session:
    """Restore an undone event at its place in the order.

    Parameters
    ----------
    session : Session
        Stays as it is.
    event_id : str
        Id of the event.

    Returns
    -------
    Session
        `session` itself if the event is not undone.

    Raises
    ------
    ParamError
        If there is no such event.

    Examples
    --------
    >>> again = orag.redo(before, event.id)
    """
    return append_records(session, Undone(back=(event_id,))) if session.status(event_id) == "undone" else session


def reset(session: Session) -> Session:
    """Undo all events: the vectors are those of the beginning, bit for bit.

    Parameters
    ----------
    session : Session
        Stays as it is.

    Returns
    -------
    Session
        Its events can be restored one by one with `redo`.

    Examples
    --------
    >>> start = orag.reset(session)
    """
    return append_records(session, Undone(tuple(event.id for event in session.events), is_reset=True))


def replay(session: Session, events: Iterable[Event]) -> Session:
    """Feed many events at once; faster than one by one, with the same result.

    Parameters
    ----------
    session : Session
        Stays as it is.
    events : iterable of Event
        In the order in which they were given.

    Returns
    -------
    Session
        The session after all events.

    Raises
    ------
    ParamError, DataError
        For feedback on other or unavailable documents.

    Examples
    --------
    >>> again = orag.replay(orag.session(space), session.events)
    """
    new_events = {}
    for event in events:
        if event.id not in new_events and not session.journal.find_event(event.id, session.position):
            _check_event(session, event)
            new_events[event.id] = event
    return append_records(session, *new_events.values())


def snapshot(session: Session, name: str) -> Session:
    """Name the current position, for `at` and `restore`.

    Parameters
    ----------
    session : Session
        Stays as it is.
    name : str
        If it is used again, the newest position has it.

    Returns
    -------
    Session
        The session with the snapshot among its records.

    Raises
    ------
    ParamError
        For an empty name.

    Examples
    --------
    >>> session = orag.snapshot(session, "before the release")
    """
    if not isinstance(name, str) or not name.strip():
        raise ParamError(f"name must be some text; got {name!r}")
    return append_records(session, Bookmark(name))


def state_at(session: Session, t: int | str) -> Session:
    """Return the session as it was at an earlier position.

    Parameters
    ----------
    session : Session
        Stays as it is.
    t : int or str
        Number of records, 0 ≤ t ≤ position, or the name of a snapshot.

    Returns
    -------
    Session
        The earlier session; it shares its records with this one.

    Raises
    ------
    ParamError
        For an unknown position or name.

    Examples
    --------
    >>> start = orag.at(session, 0)
    """
    target = _resolve_position(session, t)
    beginning = empty_session(session.start, session.preset, session.temperature, session.writer)
    # A record that changes the past has already dropped the states that follow it.
    cached_states = tuple((position, state) for position, state in session.kept if position <= target)
    beginning = replace(beginning, journal=session.journal, kept=cached_states)
    return append_records(beginning, *session.journal.records[:target])


def restore(session: Session, t: int | str) -> Session:
    """Undo and redo events until those of an earlier position are active.

    Later events can be restored with `redo`. Documents that came or went since stay as they are.

    Parameters
    ----------
    session : Session
        Stays as it is.
    t : int or str
        Number of records, 0 ≤ t ≤ position, or the name of a snapshot.

    Returns
    -------
    Session
        `session` itself if the active events are the same.

    Raises
    ------
    ParamError
        For an unknown position or name.

    Examples
    --------
    >>> start = orag.restore(session, 0)
    """
    # Only the records and their statuses are asked for, so the earlier vectors are not computed.
    earlier = replace(session, position=_resolve_position(session, t))
    active_then, active_now = set(earlier.events), set(session.events)
    # Ids are listed in the order of the log, so that equal restorations write equal records.
    undone_ids = tuple(event.id for event in session.events if event not in active_then)
    redone_ids = tuple(event.id for event in earlier.events if event not in active_now)
    return append_records(session, Undone(undone_ids, redone_ids)) if undone_ids or redone_ids else session


def append_records(session: Session, *records: Record) -> Session:
    """Return the feedback session after several more records: feedback, undo, corpus changes or snapshots.

    Every operation on sessions ends here. Records that change the past, such as an undo, make document vectors be
    recomputed; others only move them on.

    Raises DataError if a record undoes an unknown event.
    """
    if not records:
        return session
    begin, end = session.position, session.position + len(records)
    # `state_at` rebuilds an earlier session from the journal's own records; then the journal is shared as it is.
    next_records = session.journal.records[begin:end]
    has_records = len(next_records) == len(records) and all(map(is_, next_records, records))
    journal = session.journal if has_records else session.journal.with_records(begin, records)
    n_rounds, available = session.round, session.available
    for record in records:
        match record:
            case Event():
                n_rounds += 1
            case CorpusChange():
                available = np.ones(len(session), dtype=bool) if available is None else available.copy()
                available[list(record.came)], available[list(record.went)] = True, False
                freeze(available)
            case Undone():
                for event_id in (*record.ids, *record.back):
                    if not journal.find_event(event_id, end):
                        raise DataError(f"feedback is undone that was never given ({event_id!r})")
    state, cached_states = _update_vectors(session, journal, records)
    # The constructor is called, because `dataclasses.replace` takes 3 µs longer in a loop of thousands of rounds.
    return Session(
        session.start, session.preset, session.temperature, journal, position=end, round=n_rounds, state=state,
        available=available, writer=session.writer, kept=cached_states,
    )  # fmt: skip


def _update_vectors(
    session: Session, journal: Journal, records: Sequence[Record]
) -> tuple[SparseState | MatrixState, CachedStates]:
    """Return the document vectors after new records, and the earlier states to cache.

    journal: all records, the new ones last.
    """
    start, preset, begin = session.start, session.preset, session.position
    end = begin + len(records)
    # A matrix of all vectors is recomputed from its latest cached state that the records leave valid.
    if isinstance(session.state, MatrixState):
        first_change = min(_find_first_change(journal, end, record) for record in records)
        return session.state.refold_records(start, preset, journal, begin, first_change, end, session.kept)
    # A sparse state moves single rows: by one more step, or recomputed if the records change the past.
    if len(records) == 1 and _only_adds(records[0], journal, end):
        return session.state.with_record(start, preset, records[0]), session.kept
    touched_rows = _find_touched_rows(journal, end, records)
    return session.state.refold_rows(start, preset, journal, end, touched_rows), session.kept


def _only_adds(record: Record, journal: Journal, end: int) -> TypeGuard[Event]:
    """Return True for feedback that replaces no earlier vote, so that vectors need only one more step.

    An earlier vote that it replaces would have to be taken out of the vectors first. end: number of records of the
    session, `record` the last of them.
    """
    # A vote is among its own rivals, so a single rival is the vote itself.
    return isinstance(record, Event) and len(journal.rival_votes(record, end)) == 1


def _find_first_change(journal: Journal, end: int, record: Record) -> int:
    """Return the position of the earliest event whose effect on the vectors a record changes.

    It is `end` if there is none. A record changes the past if it undoes or redoes events, or replaces a vote. States
    cached before this position stay valid. end: number of records of the session, the record among them.
    """
    if isinstance(record, Undone) and record.is_reset:
        return 0
    # An event that is not among the records has no entry.
    entries = (journal.find_event(event.id, end) for event in _find_affected_events(journal, end, record))
    return min((position for position, _event in filter(None, entries)), default=end)


def _find_touched_rows(journal: Journal, end: int, records: Sequence[Record]) -> list[int]:
    """List the rows of documents whose vectors some new records may change, in rising order.

    end: number of records of the session, the new ones among them.
    """
    touched_rows: set[int] = set()
    for record in records:
        if isinstance(record, Undone) and record.is_reset:
            return journal.touched_rows(end)
        if isinstance(record, CorpusChange):
            touched_rows.update(record.drift)
        for event in _find_affected_events(journal, end, record):
            touched_rows.update(event.items)
    return sorted(touched_rows)


def _find_affected_events(journal: Journal, end: int, record: Record) -> list[Event]:
    """Return the events that a record adds, undoes or redoes, and the votes that they replace or restore.

    end: number of records of the session, the record among them.
    """
    events = [record] if isinstance(record, Event) else []
    for event_id in (*record.ids, *record.back) if isinstance(record, Undone) else ():
        if entry := journal.find_event(event_id, end):
            events.append(entry[1])
    # `rival_votes` includes the event itself.
    return [rival_vote for event in events for rival_vote in journal.rival_votes(event, end)]


def _resolve_position(session: Session, t: int | str) -> int:
    """Return the number of records that `t`, a number or the name of a snapshot, stands for.

    Raises ParamError for an unknown position or name.
    """
    if isinstance(t, str):
        if t not in session.snapshots:
            snapshot_names = ", ".join(map(repr, session.snapshots)) or "none"
            raise ParamError(f"snapshot must be one that was taken ({snapshot_names}); got {t!r}")
        return session.snapshots[t]
    if not is_whole(t) or not 0 <= t <= session.position:
        raise ParamError(f"t must be a whole number in [0, {session.position}] or the name of a snapshot; got {t!r}")
    return int(t)


def _check_event(session: Session, event: Event) -> None:
    """Raise DataError for an event about other documents, ParamError if it moves unavailable ones."""
    if len(event.query.vector) != session.start.dimension or event.item >= len(session):
        raise DataError(
            f"event must be about this session's {counted(len(session), 'document')} of dimension "
            f"{session.start.dimension}; got "
            f"one about row {event.item}, of dimension {len(event.query.vector)}"
        )
    if session.available is not None and not session.available[list(event.items)].all():
        raise ParamError("event must move documents that are available; one that it moves has gone since")
