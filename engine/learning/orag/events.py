"""Feedback as values: what was asked, what was said about which documents, and how that counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

Kind = Literal["sampled", "thumb", "right_one", "full"]
KINDS: tuple[Kind, ...] = ("sampled", "thumb", "right_one", "full")
VOTES: tuple[Kind, ...] = ("thumb", "right_one")
"""What a person says once about a query: said again, the newer counts in the older's place."""


@dataclass(frozen=True, eq=False)
class Query:
    """What was asked: its vector, (d,) in the precision of the corpus, and its text where it has one."""

    vector: np.ndarray
    text: str | None = None

    @cached_property
    def key(self) -> str:
        """Equal exactly for equal questions: by their words, or their vectors where there are no words."""
        return f"text:{self.text}" if self.text is not None else f"vector:{self.digest}"

    @cached_property
    def digest(self) -> str:
        return blake2b(self.vector.tobytes(), digest_size=16).hexdigest()

    @cached_property
    def exact(self) -> np.ndarray:
        """(d,) float64."""
        return self.vector.astype(np.float64)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and (self.text, self.digest) == (other.text, other.digest)

    def __hash__(self) -> int:
        return hash((self.text, self.digest))


@dataclass(frozen=True, eq=False)
class Event:
    """One piece of feedback.

    round: of the session in which it was given; items: the rows that it moves; coefficients: of the gradient, one an
    item, so that an item moves by −η · coefficient · query; item: the row that it is about; good: what was said of it;
    propensity: the chance with which the item was shown, None where it was not drawn; mode: of the session; shown: the
    rows that the person saw, where known; person: who said it, None for somebody unknown; writer: tells apart writers
    of one log. Equal by its id.
    """

    round: int
    kind: Kind
    query: Query
    items: Sequence[int]
    coefficients: Sequence[float]
    item: int
    good: bool
    propensity: float | None = None
    mode: str = "chosen"
    shown: tuple[int, ...] = ()
    person: str | None = None
    writer: str = ""

    @cached_property
    def id(self) -> str:
        """A digest of everything else: the same feedback given twice has the same."""
        coefficients = np.asarray(self.coefficients, dtype="<f8").tobytes()
        items = np.asarray(self.items, dtype="<i8").tobytes()
        rest = (
            self.round, self.kind, self.query.text, self.query.digest, self.item, self.good, self.propensity, self.mode,
            self.shown, self.person, self.writer,
        )  # fmt: skip
        return blake2b(repr(rest).encode("utf-8", "surrogatepass") + items + coefficients, digest_size=8).hexdigest()

    @property
    def vote(self) -> tuple[Any, ...] | None:
        """What a person says once: the newest event with an equal key counts, alone. None where all count."""
        if self.person is None or self.kind not in VOTES:
            return None
        return (self.query.key, self.item if self.kind == "thumb" else None, self.person)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)
