"""Log records: feedback events, undo, corpus changes, snapshots; and the journal that indexes them.

A session is a prefix of a journal. Sessions that follow each other share one journal; a session that is continued twice
gets a copy of the journal for its second continuation.
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

from engine.display import OneLine

EventKind = Literal["sampled", "thumb", "right_one", "full"]
EVENT_KINDS: tuple[EventKind, ...] = ("sampled", "thumb", "right_one", "full")
#: Valid pairs of an event's kind and `good`.
KIND_OUTCOMES: frozenset[tuple[EventKind, bool]] = frozenset(
    (kind, good) for kind in EVENT_KINDS for good in (True, False) if good or kind in ("sampled", "thumb")
)
#: Key of a vote: query key, row of the document (None for the right one of a list), person.
VoteKey = tuple[str, int | None, str]
#: Kinds of which a person has one per query: a newer vote replaces the older.
VOTE_KINDS: tuple[EventKind, ...] = ("thumb", "right_one")
#: Up to this size a Python loop over the numbers is faster than NumPy.
MAX_SMALL_ARRAY_SIZE = 32


@dataclass(frozen=True, eq=False)
class Query(OneLine):
    """A query of a session.

    Parameters
    ----------
    vector : ndarray
        (d,) in the precision of the corpus.
    text : str or None
        Its text, if it has one.

    Examples
    --------
    >>> event.query.text
    'how to sort?'
    """

    vector: np.ndarray
    text: str | None = None

    def _describe(self) -> str:
        return f"vector of {len(self.vector)} dimensions" if self.text is None else repr(self.text)

    @cached_property
    def key(self) -> str:
        """Identity of the query: its text, or the digest of its vector if it has no text."""
        return f"text:{self.text}" if self.text is not None else f"vector:{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Digest of vector and text."""
        text_bytes = b"" if self.text is None else b"text:" + self.text.encode("utf-8", "surrogatepass")
        return blake2b(self.vector.tobytes() + text_bytes, digest_size=16).hexdigest()

    @cached_property
    def exact(self) -> np.ndarray:
        """Vector in float64, (d,)."""
        return self.vector.astype(np.float64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, eq=False)
class Event(OneLine):
    """One piece of feedback; equal by its id.

    Parameters
    ----------
    round : int
        Round of the session in which it was given.
    kind : str
        Kind of feedback: a thumb, an outcome of a draw, a click, or a list of right documents.
    query : Query
        The query that it is about.
    items : sequence of int
        Rows that it moves, each once.
    coefficients : sequence of float
        Gradient coefficient of each item: an item moves by −η · coefficient · query.
    item : int
        Row that it is about.
    good : bool
        True for positive feedback on `item`.
    propensity : float or None
        Probability with which the item was shown, None if it was not drawn.
    mode : str
        Update mode of the session.
    shown : tuple of int
        Rows that the person saw, if known.
    person : str or None
        Person who gave it, None if unknown.
    writer : str
        Distinguishes the processes that write to one log.
    time : float or None
        Seconds since 1970 at which a log recorded it.
    id : str
        By default a digest of all but the time: repeated identical feedback is the same event.

    Examples
    --------
    >>> event.item, event.good
    (0, False)
    """

    round: int
    kind: EventKind
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

    def _describe(self) -> str:
        sign = "positive" if self.good else "negative"
        return f"{self.kind} of round {self.round}, {sign} on row {self.item}, query {self.query.text or 'vector'!r}"

    def __post_init__(self) -> None:
        """Set the id of a new event to the digest of its content; an event that was read has its id."""
        if not self.id:
            object.__setattr__(self, "id", self.content)

    @cached_property
    def content(self) -> str:
        """Digest of everything but id and time.

        It differs from the id if the feedback was carried to another corpus, where the id stays as it was.
        """
        # A propensity is positive, so −1 encodes an unknown one.
        known_propensity = -1.0 if self.propensity is None else self.propensity
        lengths = len(self.items), len(self.shown)
        text_fields = f"{self.kind}\n{self.query.digest}\n{self.mode}\n{self.writer}\n{self.person!r}\n{lengths}"
        hasher = blake2b(text_fields.encode("utf-8", "surrogatepass"), digest_size=8)
        # Fixed little-endian fields: two int64, a bool and a float64, equal on every machine.
        hasher.update(pack("<qq?d", self.round, self.item, self.good, known_propensity))
        # Most events move a few rows, for which packing is faster than building arrays.
        if lengths[0] <= MAX_SMALL_ARRAY_SIZE:
            hasher.update(pack(f"<{lengths[0]}q{lengths[0]}d", *self.items, *self.coefficients))
        else:
            hasher.update(np.asarray(self.items, dtype="<i8").tobytes())
            hasher.update(np.asarray(self.coefficients, dtype="<f8").tobytes())
        hasher.update(pack(f"<{lengths[1]}q", *self.shown))
        return hasher.hexdigest()

    @property
    def vote(self) -> VoteKey | None:
        """Key of a vote: query, document and person; None for other feedback.

        Of the events with equal keys only the newest counts. The choice of the right document has None for its
        document, as a person has one such choice per query, and a thumb for each document.
        """
        if self.person is None or self.kind not in VOTE_KINDS:
            return None
        return (self.query.key, self.item if self.kind == "thumb" else None, self.person)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


def is_whole(value: object) -> TypeGuard[int]:
    """Return True if a value is an integer of Python or NumPy, and no bool."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


@dataclass(frozen=True)
class Undone:
    """Record of undone and redone events."""

    ids: tuple[str, ...] = ()  # ids of events that no longer count
    back: tuple[str, ...] = ()  # ids of events that count again
    is_reset: bool = False  # True if all events were undone at once
    content: ClassVar[str] = "Undone"  # the name of such records in digests of sessions

    @property
    def id(self) -> str:
        """Text that stands for the record in digests of a log: the events that it undoes and restores."""
        reset_text = " whole" if self.is_reset else ""
        return f"undone {self.ids!r} back {self.back!r}{reset_text}"


@dataclass(frozen=True, eq=False)
class CorpusChange:
    """Record of documents that became available or ceased to be.

    came, went: rows.
    drift: map from the row of a new document to the (d,) displacement of its start from its first vector.
    """

    came: tuple[int, ...] = ()
    went: tuple[int, ...] = ()
    drift: Mapping[int, np.ndarray] = field(default_factory=dict)
    content: ClassVar[str] = "Changed"

    @property
    def id(self) -> str:
        """Text that stands for the record in digests of a log: rows that came and went, and starting drifts."""
        drift_text = " ".join(f"{row_index}:{vector.tobytes().hex()}" for row_index, vector in self.drift.items())
        return f"came {self.came} went {self.went} from {drift_text}"


@dataclass(frozen=True)
class Bookmark:
    """Record of a snapshot: a named position of the log."""

    name: str
    content: ClassVar[str] = "Marked"

    @property
    def id(self) -> str:
        """Text that stands for the record in digests of a log: a snapshot is known by its name."""
        return f"named {self.name!r}"


Record = Event | Undone | CorpusChange | Bookmark
#: A record that moves documents.
MovingRecord = Event | CorpusChange
EventStatus = Literal["counts", "undone", "replaced"]


class Journal:
    """Append-only records with indexes; methods see only the first `length` records, those of one session.

    index_rows: build the index by row, which `iter_row_moves` needs.
    """

    def __init__(self, index_rows: bool, records: Iterable[Record] = ()) -> None:
        """Index the records by event, vote and, if `index_rows`, by the rows that they move.

        The index by rows serves sessions that store single rows; those with the full matrix do without it.
        """
        self.records: list[Record] = []
        self._index_rows = index_rows
        self._append_lock = threading.Lock()
        # Positions count records from 0. Event id → position and event; event id → positions that undo or redo it.
        self._event_entries: dict[str, tuple[int, Event]] = {}
        self._toggle_positions: dict[str, list[int]] = defaultdict(list)
        # Votes that replace one another, and records by the document that they move, in order.
        self._vote_entries: dict[VoteKey, list[tuple[int, Event]]] = defaultdict(list)
        self._row_moves: dict[int, list[tuple[int, MovingRecord]]] = defaultdict(list)
        # Positions of resets, which undo everything, and of named snapshots.
        self._reset_positions: list[int] = []
        self._snapshot_marks: list[tuple[int, str]] = []
        for record in records:
            self._append(record)

    def with_records(self, length: int, records: Iterable[Record]) -> "Journal":
        """Return a journal of the first `length` records of this one, then `records`; itself if possible.

        This journal itself is extended if it ends there; a copy is made if another session has already continued it.
        """
        with self._append_lock:
            if len(self.records) == length:
                for record in records:
                    self._append(record)
                return self
        return Journal(self._index_rows, [*self.records[:length], *records])

    def _append(self, record: Record) -> None:
        """Add a record to the list and to the indexes by event, vote, row and snapshot."""
        position = len(self.records)
        match record:
            case Event():
                self._event_entries[record.id] = position, record
                if (vote_key := record.vote) is not None:
                    self._vote_entries[vote_key].append((position, record))
                for row_index in record.items if self._index_rows else ():
                    self._row_moves[row_index].append((position, record))
            case Undone():
                for event_id in (*record.ids, *record.back):
                    self._toggle_positions[event_id].append(position)
                if record.is_reset:
                    self._reset_positions.append(position)
            case CorpusChange():
                for row_index in record.drift:
                    self._row_moves[row_index].append((position, record))
            case Bookmark():
                self._snapshot_marks.append((position, record.name))
        # The record itself is appended last, so that a concurrent reader finds every counted record in the indexes.
        self.records.append(record)

    def find_event(self, event_id: str, length: int) -> tuple[int, Event] | None:
        """Return the position of an event and the event; None if the first `length` records lack it."""
        entry = self._event_entries.get(event_id)
        return entry if entry is not None and entry[0] < length else None

    def is_undone(self, event_id: str, length: int) -> bool:
        """Return True if an event is undone after the first `length` records."""
        # Undo and redo alternate, so an odd number of them leaves the event undone.
        return bisect_left(self._toggle_positions.get(event_id, ()), length) % 2 == 1

    def event_status(self, event: Event, length: int) -> EventStatus:
        """Return the status of an event after the first `length` records.

        "counts", "undone", or "replaced" if a newer vote of the same person on the same thing replaced the event.
        """
        if self.is_undone(event.id, length):
            return "undone"
        if (vote_key := event.vote) is None:
            return "counts"
        event_position, _ = self._event_entries[event.id]
        for position, newer_vote in self._vote_entries.get(vote_key, ()):
            if event_position < position < length and not self.is_undone(newer_vote.id, length):
                return "replaced"
        return "counts"

    def rival_votes(self, event: Event, length: int) -> tuple[Event, ...]:
        """Return all votes of the event's person that are rivals of the event, itself among them.

        Rivals are thumbs on one document for one query, or choices of the right document for one query. Only the newest
        of them counts. Only the first `length` records are searched. An event that is no vote has no rivals but itself.
        """
        if (vote_key := event.vote) is None:
            return (event,)
        return tuple(rival_vote for position, rival_vote in self._vote_entries.get(vote_key, ()) if position < length)

    def iter_row_moves(self, row_index: int, length: int) -> Iterator[MovingRecord]:
        """Yield the records among the first `length` that still move a document, in order.

        These are events that count, and changes of the corpus after the last reset.
        """
        reset_end = self._last_reset_end(length)
        for position, record in self._row_moves.get(row_index, ()):
            if position >= length:
                return
            # A reset undoes the corpus changes before it, too.
            if isinstance(record, CorpusChange) and position < reset_end:
                continue
            if isinstance(record, CorpusChange) or self.event_status(record, length) == "counts":
                yield record

    def iter_moves(self, stop_position: int, start_position: int, length: int) -> Iterator[MovingRecord]:
        """Yield the records in [start_position, stop_position) that move rows or change the corpus, in order.

        length: number of records of the session, which decides whether an event still counts. A change of the corpus
        before the last reset comes without its drift, because the reset has undone all moves.
        """
        reset_end = self._last_reset_end(length)
        for position in range(start_position, stop_position):
            record = self.records[position]
            if isinstance(record, CorpusChange):
                yield record if position >= reset_end else CorpusChange(record.came, record.went)
            elif isinstance(record, Event) and self.event_status(record, length) == "counts":
                yield record

    def snapshot_positions(self, length: int) -> dict[str, int]:
        """Map each snapshot name, oldest first, to the session length at its newest use."""
        return {snapshot_name: position + 1 for position, snapshot_name in self._snapshot_marks if position < length}

    def _last_reset_end(self, length: int) -> int:
        """Return the number of records up to and including the last reset among the first `length`; 0 without."""
        n_resets = bisect_left(self._reset_positions, length)
        return self._reset_positions[n_resets - 1] + 1 if n_resets else 0

    def touched_rows(self, length: int) -> list[int]:
        """Return the rows that any of the first `length` records has moved, in rising order."""
        return sorted(row_index for row_index, moves in list(self._row_moves.items()) if moves and moves[0][0] < length)
