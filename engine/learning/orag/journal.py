"""What happened, in order: feedback, and what was undone of it.

A journal only grows, and a session looks at a beginning of it: sessions that follow each other share one journal, and
one that is continued twice gets a copy for its second future.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from engine.learning.orag.events import Event


@dataclass(frozen=True)
class Undone:
    """Events that no longer count, and events that count again. whole: all were undone at once."""

    ids: tuple[str, ...] = ()
    back: tuple[str, ...] = ()
    whole: bool = False

    @property
    def id(self) -> str:
        """What it does, as text."""
        return f"undone {self.ids!r} back {self.back!r}{' whole' * self.whole}"


@dataclass(frozen=True, eq=False)
class Changed:
    """Documents that came or went. came, went: rows; drift: how far newcomers start from their own vectors."""

    came: tuple[int, ...] = ()
    went: tuple[int, ...] = ()
    drift: Mapping[int, np.ndarray] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """What it does, as text."""
        drift = " ".join(f"{row}:{vector.tobytes().hex()}" for row, vector in self.drift.items())
        return f"came {self.came} went {self.went} from {drift}"


@dataclass(frozen=True)
class Marked:
    """A moment that somebody gave a name."""

    name: str

    @property
    def id(self) -> str:
        """What it does, as text."""
        return f"named {self.name!r}"


Record = Event | Undone | Changed | Marked


class Journal:
    """Records, with what finds them again; whoever reads says how many records there are for them.

    by_rows: whether it will be asked what moved a single row.
    """

    def __init__(self, by_rows: bool, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = []
        self._by_rows = by_rows
        self._growing = threading.Lock()
        self._at: dict[str, int] = {}
        self._toggles: dict[str, list[int]] = {}
        self._votes: dict[tuple, list[int]] = {}
        self._touching: dict[int, list[int]] = defaultdict(list)
        self._resets: list[int] = []
        self._names: list[int] = []
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
        at = len(self.records)
        match record:
            case Event():
                self._at[record.id] = at
                if (vote := record.vote) is not None:
                    self._votes.setdefault(vote, []).append(at)
                for row in record.items if self._by_rows else ():
                    self._touching[row].append(at)
            case Undone():
                for event in (*record.ids, *record.back):
                    self._toggles.setdefault(event, []).append(at)
                if record.whole:
                    self._resets.append(at)
            case Changed():
                for row in record.drift:
                    self._touching[row].append(at)
            case Marked():
                self._names.append(at)
        # Last: whoever counts the records finds all that belongs to them.
        self.records.append(record)

    def position(self, event: str, length: int) -> int | None:
        """Where the event of that id stands among the first `length` records; None where it does not."""
        at = self._at.get(event)
        return at if at is not None and at < length else None

    def undone(self, event: str, length: int) -> bool:
        """Whether an event is undone."""
        toggles = self._toggles.get(event)
        return toggles is not None and bisect_left(toggles, length) % 2 == 1

    def replaced(self, event: Event, length: int) -> bool:
        """Whether a newer vote counts in its place."""
        if (vote := event.vote) is None:
            return False
        own = self._at[event.id]
        newer = (self.records[at] for at in self._votes[vote] if own < at < length)
        return any(not self.undone(other.id, length) for other in newer)

    def counts(self, event: Event, length: int) -> bool:
        """Whether an event moves anything: not undone, and no newer vote in its place."""
        return not self.undone(event.id, length) and not self.replaced(event, length)

    def rivals(self, event: Event, length: int) -> tuple[Event, ...]:
        """The votes of which only the newest counts, this one's own among them."""
        if (vote := event.vote) is None:
            return (event,)
        return tuple(self.records[at] for at in self._votes.get(vote, ()) if at < length) or (event,)

    def touching(self, row: int, length: int) -> Iterator[Record]:
        """What moves a row, in order."""
        places = self._touching.get(row, ())
        start = self.reset_before(length)
        for at in places[: bisect_left(places, length)]:
            record = self.records[at]
            if isinstance(record, Changed):
                if at >= start:
                    yield record
            elif self.counts(record, length):
                yield record

    def moving(self, stop: int, start: int, length: int) -> Iterator[Record]:
        """What moves any row, or takes it away, among the records from start to stop, in order."""
        reset = self.reset_before(length)
        for at in range(start, stop):
            record = self.records[at]
            if isinstance(record, Event):
                if self.counts(record, length):
                    yield record
            elif isinstance(record, Changed):
                yield record if at >= reset else Changed(record.came, record.went)

    def names(self, length: int) -> dict[str, int]:
        """How many records there were when each name was given, the oldest name first; the newest use of it holds."""
        return {self.records[at].name: at + 1 for at in self._names if at < length}

    def reset_before(self, length: int) -> int:
        """After which record the last reset left off; 0 where there was none."""
        at = bisect_left(self._resets, length)
        return self._resets[at - 1] + 1 if at else 0

    def rows(self, length: int) -> list[int]:
        """The rows that anything has touched, rising."""
        return sorted(row for row, places in list(self._touching.items()) if places and places[0] < length)
