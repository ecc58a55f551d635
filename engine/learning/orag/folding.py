"""What is done with feedback: fed, undone, brought back, replayed, looked back at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from engine.errors import DataError, ParamError
from engine.learning.orag.events import Event
from engine.learning.orag.journal import Changed, Journal, Marked, Record, Undone
from engine.learning.orag.session import Session, begun
from engine.learning.orag.states import Rows, Whole

STRIDE = 64
"""Of a state that is a matrix every so many records one is kept, to fold on from."""
MOST_KEPT, KEPT_BYTES = 16, 1 << 28
"""At most so many of them, and of so many bytes together."""


def feed(session: Session, event: Event) -> Session:
    """The session after one piece of feedback; feedback that it knows already, by its id, changes nothing.

    Raises ParamError or DataError for feedback on other documents.
    """
    at = session.position
    if session.journal.position(event.id, at) is not None:
        return session
    _refuse_foreign(session, event)
    journal = session.journal.extended(at, (event,))
    state, kept = session.state, session.kept
    rivals = journal.rivals(event, at + 1)
    if isinstance(state, Rows):
        if len(rivals) > 1:
            state = state.refolded(session.start, session.preset, journal, at + 1, _items(rivals))
        else:
            state = state.fed(session.start, session.preset, event)
    else:
        state, kept = _whole(session, journal, at + 1, (event,))
    return Session(
        session.start, session.preset, session.temperature, journal, at + 1, session.round + 1, state,
        session.available, session.writer, kept,
    )  # fmt: skip


def undo(session: Session, event_id: str) -> Session:
    """The session as if an event had not been: the fold without it, bit by bit. What is undone already stays so.

    Raises ParamError where there is no such event.
    """
    counts = not session.journal.undone(session.event(event_id).id, session.position)
    return recorded(session, Undone((event_id,))) if counts else session


def redo(session: Session, event_id: str) -> Session:
    """The session with an undone event back in its place. Raises ParamError where there is no such event."""
    counts = not session.journal.undone(session.event(event_id).id, session.position)
    return session if counts else recorded(session, Undone(back=(event_id,)))


def reset(session: Session) -> Session:
    """The session with nothing that happened: Θ₁, bit by bit. Single events can be brought back with `redo`."""
    return recorded(session, Undone(tuple(event.id for event in session.events), whole=True))


def replay(session: Session, events: Iterable[Event]) -> Session:
    """The session after many pieces of feedback: the same as feeding them one by one, and faster.

    Raises ParamError or DataError for feedback on other documents.
    """
    new = {}
    for event in events:
        if event.id not in new and session.journal.position(event.id, session.position) is None:
            _refuse_foreign(session, event)
            new[event.id] = event
    return recorded(session, *new.values())


def snapshot(session: Session, name: str) -> Session:
    """The session with a name for this moment, which `at` and `restore` take; used again, it names the newer one.

    Raises ParamError for a name that is no text.
    """
    if not isinstance(name, str) or not name.strip():
        raise ParamError(f"name must be some text; got {name!r}")
    return recorded(session, Marked(name))


def at(session: Session, t: int | str) -> Session:
    """The session as it was after its first t records, 0 ≤ t ≤ position, or at the snapshot of that name.

    Raises ParamError.
    """
    then = _position(session, t)
    begin = begun(session.start, session.preset, session.temperature, session.writer)
    # Whatever touched the past before a state that was kept has dropped it since.
    kept = tuple((position, state) for position, state in session.kept if position <= then)
    return recorded(replace(begin, journal=session.journal, kept=kept), *session.journal.records[:then])


def restore(session: Session, t: int | str) -> Session:
    """The session with the feedback that counted at t, or at the snapshot of that name, and no other.

    What is left out can be brought back with `redo`. Documents that came or went since stay as they are. Raises
    ParamError.
    """
    then, journal = _position(session, t), session.journal
    ids = [event.id for event in session.history]
    was = {i for i in ids if journal.position(i, then) is not None and not journal.undone(i, then)}
    now = {i for i in ids if not journal.undone(i, session.position)}
    undone, back = (tuple(i for i in ids if i in some) for some in (now - was, was - now))
    return recorded(session, Undone(undone, back)) if undone or back else session


def recorded(session: Session, *records: Record) -> Session:
    """The session after several records at once, each taken as it stands. Raises DataError for one that cannot be."""
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
            case Changed():
                available = np.ones(len(session), dtype=bool) if available is None else available.copy()
                available[list(record.came)], available[list(record.went)] = True, False
                available.flags.writeable = False
            case Undone() if unknown := [i for i in (*record.ids, *record.back) if journal.position(i, end) is None]:
                raise DataError(f"feedback is undone that was never given ({unknown[0]!r})")
    kept: tuple[tuple[int, Whole], ...] = ()
    if isinstance(session.state, Whole):
        state, kept = _whole(session, journal, end, records)
    else:
        rows = _touched(journal, end, records)
        state = session.state.refolded(session.start, session.preset, journal, end, rows)
    return replace(session, journal=journal, position=end, round=rounds, available=available, state=state, kept=kept)


def _whole(
    session: Session, journal: Journal, end: int, records: Sequence[Record]
) -> tuple[Whole, tuple[tuple[int, Whole], ...]]:
    """A state that is a matrix after more records, and the states kept: folded on from the last that still holds."""
    first = min((_reaches(journal, end, record) for record in records), default=end)
    kept = [(at, earlier) for at, earlier in session.kept if at <= first]
    begin = [(session.position, session.state)] if session.position <= first else [(0, Whole.of(session.start))]
    position, state = max([*begin, *kept], key=lambda known: known[0])
    start, preset = session.start, session.preset
    while position < end:
        stop = min(end, position - position % STRIDE + STRIDE)
        state = state.folded(start, preset, journal.moving(stop, position, end))
        position = stop
        if stop % STRIDE == 0 and (not kept or kept[-1][0] < stop):
            kept.append((stop, state))
    most = min(MOST_KEPT, KEPT_BYTES // (3 * state.now.nbytes))
    return state, tuple(kept if len(kept) <= most else kept[1::2] if most > 1 else ())


def _reaches(journal: Journal, end: int, record: Record) -> int:
    """From which record on the past is another."""
    match record:
        case Event():
            return min(journal.position(event.id, end) for event in journal.rivals(record, end))
        case Undone(whole=True):
            return 0
        case Undone():
            events = (journal.records[journal.position(i, end)] for i in (*record.ids, *record.back))
            return min((_reaches(journal, end, event) for event in events), default=end)
    return end


def _touched(journal: Journal, end: int, records: Sequence[Record]) -> list[int]:
    """The rows that records move, or move back; rising."""
    touched: set[int] = set()
    for record in records:
        match record:
            case Event():
                touched.update(_items(journal.rivals(record, end)))
            case Changed():
                touched.update(record.drift)
            case Undone(whole=True):
                return journal.rows(end)
            case Undone():
                for event in (*record.ids, *record.back):
                    known = journal.records[journal.position(event, end)]
                    touched.update(_items(journal.rivals(known, end)))
    return sorted(touched)


def _items(events: Iterable[Event]) -> list[int]:
    return sorted({row for event in events for row in event.items})


def _position(session: Session, t: int | str) -> int:
    if isinstance(t, str):
        if t not in session.snapshots:
            there = ", ".join(map(repr, session.snapshots)) or "none"
            raise ParamError(f"snapshot must be one that was taken ({there}); got {t!r}")
        return session.snapshots[t]
    if isinstance(t, bool) or not hasattr(t, "__index__") or not 0 <= t <= session.position:
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
