"""Append-only list of log records, indexed by event, vote and row.

A session is a prefix of a journal: sessions that follow each other share one journal, and one that is continued twice
gets a copy for its second future.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from engine.feedback.events import Event, Vote


@dataclass(frozen=True)
class Undone:
    """Undo and redo of events."""

    ids: tuple[str, ...] = ()  # events that no longer count
    back: tuple[str, ...] = ()  # events that count again
    whole: bool = False  # whether all were undone at once
    content: ClassVar[str] = "Undone"  # the name of such records in digests of sessions

    @property
    def id(self) -> str:
        """The record as text."""
        return f"undone {self.ids!r} back {self.back!r}{' whole' * self.whole}"


@dataclass(frozen=True, eq=False)
class CorpusChange:
    """Documents that came or went.

    came, went: rows.
    drift: row → (d,) how far a newcomer starts from its first vector.
    """

    came: tuple[int, ...] = ()
    went: tuple[int, ...] = ()
    drift: Mapping[int, np.ndarray] = field(default_factory=dict)
    content: ClassVar[str] = "Changed"

    @property
    def id(self) -> str:
        """The record as text."""
        drift = " ".join(f"{row}:{vector.tobytes().hex()}" for row, vector in self.drift.items())
        return f"came {self.came} went {self.went} from {drift}"


@dataclass(frozen=True)
class Marked:
    """A snapshot: a named position of the log."""

    name: str
    content: ClassVar[str] = "Marked"

    @property
    def id(self) -> str:
        """The record as text."""
        return f"named {self.name!r}"


Record = Event | Undone | CorpusChange | Marked
Move = Event | CorpusChange
"""A record that moves documents."""
Status = Literal["counts", "undone", "replaced"]


class Journal:
    """Records with their indexes; `length` is the number of records of the session that reads.

    by_rows: whether `touching` will be asked for.
    """

    def __init__(self, by_rows: bool, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = []
        self._by_rows = by_rows
        self._growing = threading.Lock()
        self._events: dict[str, tuple[int, Event]] = {}
        self._toggles: dict[str, list[int]] = {}
        self._votes: dict[Vote, list[tuple[int, Event]]] = {}
        self._moves: dict[int, list[tuple[int, Move]]] = defaultdict(list)
        self._resets: list[int] = []
        self._marks: list[tuple[int, str]] = []
        for record in records:
            self._append(record)

    def extended(self, length: int, records: Iterable[Record]) -> Journal:
        """A journal of the first `length` records and these: this one, unless it has gone on otherwise."""
        with self._growing:
            if len(self.records) == length:
                for record in records:
                    self._append(record)
                return self
        return Journal(self._by_rows, [*self.records[:length], *records])

    def _append(self, record: Record) -> None:
        position = len(self.records)
        match record:
            case Event():
                self._events[record.id] = position, record
                if (vote := record.vote) is not None:
                    self._votes.setdefault(vote, []).append((position, record))
                for row in record.items if self._by_rows else ():
                    self._moves[row].append((position, record))
            case Undone():
                for event_id in (*record.ids, *record.back):
                    self._toggles.setdefault(event_id, []).append(position)
                if record.whole:
                    self._resets.append(position)
            case CorpusChange():
                for row in record.drift:
                    self._moves[row].append((position, record))
            case Marked():
                self._marks.append((position, record.name))
        # Last: whoever counts the records finds them in the indexes.
        self.records.append(record)

    def find(self, event_id: str, length: int) -> tuple[int, Event] | None:
        """An event and its position among the first `length` records; None where it is not among them."""
        entry = self._events.get(event_id)
        return entry if entry is not None and entry[0] < length else None

    def undone(self, event_id: str, length: int) -> bool:
        """Whether an event is undone."""
        toggles = self._toggles.get(event_id)
        return toggles is not None and bisect_left(toggles, length) % 2 == 1

    def status(self, event: Event, length: int) -> Status:
        """Whether an event moves anything: "counts", or is "undone", or a newer vote has "replaced" it."""
        if self.undone(event.id, length):
            return "undone"
        if (vote := event.vote) is None:
            return "counts"
        since, _ = self._events[event.id]
        newer = (other for position, other in self._votes[vote] if since < position < length)
        return "counts" if all(self.undone(other.id, length) for other in newer) else "replaced"

    def rivals(self, event: Event, length: int) -> tuple[Event, ...]:
        """The votes of which only the newest counts, the event among them."""
        if (vote := event.vote) is None:
            return (event,)
        return tuple(other for position, other in self._votes.get(vote, ()) if position < length) or (event,)

    def touching(self, row: int, length: int) -> Iterator[Move]:
        """The records that move a row, in order."""
        reset = self._reset_before(length)
        for position, record in self._moves.get(row, ()):
            if position >= length:
                return
            if self.status(record, length) == "counts" if isinstance(record, Event) else position >= reset:
                yield record

    def moving(self, stop: int, start: int, length: int) -> Iterator[Move]:
        """The records from start to stop that move any row, or take it away, in order."""
        reset = self._reset_before(length)
        for position in range(start, stop):
            record = self.records[position]
            if isinstance(record, Event):
                if self.status(record, length) == "counts":
                    yield record
            elif isinstance(record, CorpusChange):
                yield record if position >= reset else CorpusChange(record.came, record.went)

    def names(self, length: int) -> dict[str, int]:
        """Session length at each snapshot by its name, oldest name first; the newest use of a name holds."""
        return {name: position + 1 for position, name in self._marks if position < length}

    def _reset_before(self, length: int) -> int:
        """Number of records up to the last reset; 0 where there was none."""
        count = bisect_left(self._resets, length)
        return self._resets[count - 1] + 1 if count else 0

    def rows(self, length: int) -> list[int]:
        """The rows that any record has touched, rising."""
        return sorted(row for row, moves in list(self._moves.items()) if moves and moves[0][0] < length)
