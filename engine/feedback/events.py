"""Feedback events: the query, the documents with their gradient coefficients, and what was said."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from struct import pack
from typing import Literal, TypeGuard

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


@dataclass(frozen=True, eq=False, slots=True)
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
    _content: str = field(default="", init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self.content)

    @property
    def content(self) -> str:
        """Digest of all but id and time, whatever the id is: feedback carried elsewhere keeps its id."""
        if not self._content:
            object.__setattr__(self, "_content", self._digest())
        return self._content

    def _digest(self) -> str:
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
