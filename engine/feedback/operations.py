"""Operations on sessions: feed, undo, redo, replay, snapshot, restore, look back."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from engine.errors import DataError, ParamError
from engine.feedback.embedding_state import MatrixState, SparseState
from engine.feedback.events import Event, is_whole
from engine.feedback.records import CorpusChange, Journal, Marked, Record, Undone
from engine.feedback.session import Session, begun

STRIDE = 64
"""Every so many records a matrix state is cached in the session, to fold on from."""
MOST_KEPT, KEPT_BYTES = 16, 1 << 28
"""Cached states a session: at most 16, at most 256 MiB."""


def feed(session: Session, event: Event) -> Session:
    """The session after one piece of feedback; feedback that it knows already, by its id, changes nothing.

    Raises ParamError or DataError for feedback on other documents.
    """
    position = session.position
    if session.journal.find(event.id, position):
        return session
    _refuse_foreign(session, event)
    journal = session.journal.extended(position, (event,))
    state, kept = session.state, session.kept
    rivals = journal.rivals(event, position + 1)
    if isinstance(state, SparseState):
        if len(rivals) > 1:
            state = state.refolded(session.start, session.preset, journal, position + 1, _items(rivals))
        else:
            state = state.fed(session.start, session.preset, event)
    else:
        state, kept = _folded(session, state, journal, position + 1, (event,))
    return Session(
        session.start, session.preset, session.temperature, journal, position + 1, session.round + 1, state,
        session.available, session.writer, kept,
    )  # fmt: skip


def undo(session: Session, event_id: str) -> Session:
    """The session without an event: the fold without it, bit by bit; itself where it is undone already.

    Raises ParamError where there is no such event.
    """
    counts = not session.journal.undone(session.event(event_id).id, session.position)
    return recorded(session, Undone((event_id,))) if counts else session


def redo(session: Session, event_id: str) -> Session:
    """The session with an undone event back in its place. Raises ParamError where there is no such event."""
    counts = not session.journal.undone(session.event(event_id).id, session.position)
    return session if counts else recorded(session, Undone(back=(event_id,)))


def reset(session: Session) -> Session:
    """The session without any event: Θ₁, bit by bit. Single events can be brought back with `redo`."""
    return recorded(session, Undone(tuple(event.id for event in session.events), whole=True))


def replay(session: Session, events: Iterable[Event]) -> Session:
    """The session after many pieces of feedback: the same as feeding them one by one, and faster.

    Raises ParamError or DataError for feedback on other documents.
    """
    new = {}
    for event in events:
        if event.id not in new and not session.journal.find(event.id, session.position):
            _refuse_foreign(session, event)
            new[event.id] = event
    return recorded(session, *new.values())


def snapshot(session: Session, name: str) -> Session:
    """The session with a name for this position, for `at` and `restore`; the newest use of it holds.

    Raises ParamError for a name that is no text.
    """
    if not isinstance(name, str) or not name.strip():
        raise ParamError(f"name must be some text; got {name!r}")
    return recorded(session, Marked(name))


def state_at(session: Session, t: int | str) -> Session:
    """The session as it was after its first t records, 0 ≤ t ≤ position, or at the snapshot of that name.

    Raises ParamError.
    """
    then = _position(session, t)
    begin = begun(session.start, session.preset, session.temperature, session.writer)
    # A record that changes the past has already dropped the states that follow it.
    kept = tuple((position, state) for position, state in session.kept if position <= then)
    return recorded(replace(begin, journal=session.journal, kept=kept), *session.journal.records[:then])


def restore(session: Session, t: int | str) -> Session:
    """The session with the feedback that counted at t, or at the snapshot of that name, and no other.

    What is left out can be brought back with `redo`. Documents that came or went since stay as they are. Raises
    ParamError.
    """
    then, journal = _position(session, t), session.journal
    ids = [event.id for event in session.history]
    was = {i for i in ids if journal.find(i, then) and not journal.undone(i, then)}
    now = {i for i in ids if not journal.undone(i, session.position)}
    undone, back = (tuple(i for i in ids if i in chosen) for chosen in (now - was, was - now))
    return recorded(session, Undone(undone, back)) if undone or back else session


def recorded(session: Session, *records: Record) -> Session:
    """The session after several records at once. Raises DataError for an impossible one."""
    if not records:
        return session
    begin, end = session.position, session.position + len(records)
    shared = session.journal.records[begin:end]
    same = len(shared) == len(records) and all(a is b for a, b in zip(shared, records, strict=True))
    journal = session.journal if same else session.journal.extended(begin, records)
    rounds, available = session.round, session.available
    for record in records:
        match record:
            case Event():
                rounds += 1
            case CorpusChange():
                available = np.ones(len(session), dtype=bool) if available is None else available.copy()
                available[list(record.came)], available[list(record.went)] = True, False
                available.flags.writeable = False
            case Undone() if unknown := [i for i in (*record.ids, *record.back) if not journal.find(i, end)]:
                raise DataError(f"feedback is undone that was never given ({unknown[0]!r})")
    state: SparseState | MatrixState
    kept: tuple[tuple[int, MatrixState], ...] = ()
    if isinstance(session.state, MatrixState):
        state, kept = _folded(session, session.state, journal, end, records)
    else:
        rows = _touched(journal, end, records)
        state = session.state.refolded(session.start, session.preset, journal, end, rows)
    return replace(session, journal=journal, position=end, round=rounds, available=available, state=state, kept=kept)


def _folded(
    session: Session, state: MatrixState, journal: Journal, end: int, records: Sequence[Record]
) -> tuple[MatrixState, tuple[tuple[int, MatrixState], ...]]:
    """A matrix state after more records, and the cached states; folded on from the last valid one."""
    first = min((_first_change(journal, end, record) for record in records), default=end)
    kept = [(position, earlier) for position, earlier in session.kept if position <= first]
    begin = (session.position, state) if session.position <= first else (0, MatrixState.of(session.start))
    position, state = max([begin, *kept], key=lambda known: known[0])
    start, preset = session.start, session.preset
    while position < end:
        stop = min(end, position - position % STRIDE + STRIDE)
        state = state.folded(start, preset, journal.moving(stop, position, end))
        position = stop
        if stop % STRIDE == 0 and (not kept or kept[-1][0] < stop):
            kept.append((stop, state))
    most = min(MOST_KEPT, KEPT_BYTES // (3 * state.now.nbytes))
    return state, tuple(kept if len(kept) <= most else kept[1::2] if most > 1 else ())


def _first_change(journal: Journal, end: int, record: Record) -> int:
    """The position from which on a record changes the past."""
    if isinstance(record, Undone) and record.whole:
        return 0
    entries = (journal.find(event.id, end) for event in _affected(journal, end, record))
    return min((entry[0] for entry in entries if entry), default=end)


def _touched(journal: Journal, end: int, records: Sequence[Record]) -> list[int]:
    """The rows that records move, or move back; rising."""
    touched: set[int] = set()
    for record in records:
        if isinstance(record, Undone) and record.whole:
            return journal.rows(end)
        if isinstance(record, CorpusChange):
            touched.update(record.drift)
        touched.update(_items(_affected(journal, end, record)))
    return sorted(touched)


def _affected(journal: Journal, end: int, record: Record) -> list[Event]:
    """The events that a record may make count, or cease to."""
    if isinstance(record, Event):
        return list(journal.rivals(record, end))
    ids = (*record.ids, *record.back) if isinstance(record, Undone) else ()
    entries = (journal.find(event_id, end) for event_id in ids)
    return [rival for entry in entries if entry for rival in journal.rivals(entry[1], end)]


def _items(events: Iterable[Event]) -> list[int]:
    return sorted({row for event in events for row in event.items})


def _position(session: Session, t: int | str) -> int:
    if isinstance(t, str):
        if t not in session.snapshots:
            names = ", ".join(map(repr, session.snapshots)) or "none"
            raise ParamError(f"snapshot must be one that was taken ({names}); got {t!r}")
        return session.snapshots[t]
    if not is_whole(t) or not 0 <= t <= session.position:
        raise ParamError(f"t must be a whole number in [0, {session.position}] or the name of a snapshot; got {t!r}")
    return int(t)


def _refuse_foreign(session: Session, event: Event) -> None:
    if len(event.query.vector) != session.start.dimension or event.item >= len(session):
        raise DataError(
            f"event must be about this session's {len(session)} documents of dimension {session.start.dimension}; got "
            f"one about row {event.item}, of dimension {len(event.query.vector)}"
        )
    if session.available is not None and not session.available[list(event.items)].all():
        raise ParamError("event must move documents that are available; one that it moves has gone since")
