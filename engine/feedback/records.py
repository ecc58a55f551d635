"""Log records: feedback events, undo, corpus changes, snapshots; and the journal that indexes them.

A session is a prefix of a journal: sessions that follow each other share one journal, and one that is continued twice
gets a copy for its second future.
"""

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from struct import pack
from typing import ClassVar, Literal, TypeGuard

import numpy as np

Kind = Literal["sampled", "thumb", "right_one", "full"]
KINDS: tuple[Kind, ...] = ("sampled", "thumb", "right_one", "full")
SAYS: frozenset[tuple[Kind, bool]] = frozenset(
    (kind, good) for kind in KINDS for good in (True, False) if good or kind in ("sampled", "thumb")
)
"""Valid pairs of kind and good."""
Vote = tuple[str, int | None, str]
"""Query key, row of the document (None for the right one of a list), person."""
VOTES: tuple[Kind, ...] = ("thumb", "right_one")
"""Kinds that a person gives once about a query: given again, the newer replaces the older."""
FEW = 32
"""Arrays of at most so many numbers are handled one by one."""


@dataclass(frozen=True, eq=False)
class Query:
    """A query: its vector, (d,) in the precision of the corpus, and its text where it has one."""

    vector: np.ndarray
    text: str | None = None

    @cached_property
    def key(self) -> str:
        """Identity of the query: its text, or the digest of its vector where it has no text."""
        return f"text:{self.text}" if self.text is not None else f"vector:{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Of vector and words."""
        words = b"" if self.text is None else b"text:" + self.text.encode("utf-8", "surrogatepass")
        return blake2b(self.vector.tobytes() + words, digest_size=16).hexdigest()

    @cached_property
    def exact(self) -> np.ndarray:
        """(d,) float64."""
        return self.vector.astype(np.float64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, eq=False)
class Event:
    """One piece of feedback; equal by its id.

    round: of the session in which it was given.
    items: the rows that it moves, each once.
    coefficients: of the gradient, one an item, so that an item moves by −η · coefficient · query.
    item: the row that it is about.
    good: what was said of it.
    propensity: the probability with which the item was shown, None where it was not drawn.
    mode: of the session.
    shown: the rows that the person saw, where known.
    person: who said it, None for somebody unknown.
    writer: tells apart those who write to one log.
    time: seconds since 1970 at which a log took it.
    id: by default a digest of all else but the time, so that the same feedback made twice is the same.
    """

    round: int
    kind: Kind
    query: Query
    items: Sequence[int]
    coefficients: Sequence[float] | np.ndarray
    item: int
    good: bool
    propensity: float | None = None
    mode: str = "chosen"
    shown: tuple[int, ...] = ()
    person: str | None = None
    writer: str = ""
    time: float | None = None
    id: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.content)

    @cached_property
    def content(self) -> str:
        """Digest of all but id and time, whatever the id is: feedback carried elsewhere keeps its id."""
        # The sign of a chance tells one that is unknown.
        chance = -1.0 if self.propensity is None else self.propensity
        counts = len(self.items), len(self.shown)
        words = f"{self.kind}\n{self.query.digest}\n{self.mode}\n{self.writer}\n{self.person!r}\n{counts}"
        h = blake2b(words.encode("utf-8", "surrogatepass"), digest_size=8)
        h.update(pack("<qq?d", self.round, self.item, self.good, chance))
        if counts[0] <= FEW:
            h.update(pack(f"<{counts[0]}q{counts[0]}d", *self.items, *self.coefficients))
        else:
            h.update(np.asarray(self.items, dtype="<i8").tobytes())
            h.update(np.asarray(self.coefficients, dtype="<f8").tobytes())
        h.update(pack(f"<{counts[1]}q", *self.shown))
        return h.hexdigest()

    @property
    def vote(self) -> Vote | None:
        """Key of a vote: of the events with an equal key only the newest counts. None: no vote."""
        if self.person is None or self.kind not in VOTES:
            return None
        return (self.query.key, self.item if self.kind == "thumb" else None, self.person)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number, of Python or NumPy."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


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
        self._toggles: dict[str, list[int]] = defaultdict(list)
        self._votes: dict[Vote, list[tuple[int, Event]]] = defaultdict(list)
        self._moves: dict[int, list[tuple[int, Move]]] = defaultdict(list)
        self._resets: list[int] = []
        self._marks: list[tuple[int, str]] = []
        for record in records:
            self._append(record)

    def extended(self, length: int, records: Iterable[Record]) -> "Journal":
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
                    self._votes[vote].append((position, record))
                for row in record.items if self._by_rows else ():
                    self._moves[row].append((position, record))
            case Undone():
                for event_id in (*record.ids, *record.back):
                    self._toggles[event_id].append(position)
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
        return bisect_left(self._toggles.get(event_id, ()), length) % 2 == 1

    def status(self, event: Event, length: int) -> Status:
        """Whether an event moves anything: "counts", or is "undone", or a newer vote has "replaced" it."""
        if self.undone(event.id, length):
            return "undone"
        if (vote := event.vote) is None:
            return "counts"
        since, _ = self._events[event.id]
        newer = (other for position, other in self._votes.get(vote, ()) if since < position < length)
        return "counts" if all(self.undone(other.id, length) for other in newer) else "replaced"

    def rivals(self, event: Event, length: int) -> tuple[Event, ...]:
        """The votes of which only the newest counts, the event among them."""
        if (vote := event.vote) is None:
            return (event,)
        return tuple(other for position, other in self._votes.get(vote, ()) if position < length)

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
            if isinstance(record, CorpusChange):
                yield record if position >= reset else CorpusChange(record.came, record.went)
            elif isinstance(record, Event) and self.status(record, length) == "counts":
                yield record

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
