"""Θ_t as the fold of what happened over Θ₁, in float64 and in order.

Two forms. `Rows`: every event moves its own few documents, and the others are never looked at. `Whole`: a matrix, for
steps that move all documents, gather several rounds or remember earlier steps (AdamW: Loshchilov & Hutter 2019, with
the paper's defaults).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from engine.learning.orag.events import FEW, Event
from engine.learning.orag.guards import factor, held, moved
from engine.learning.orag.journal import Changed, Journal, Record
from engine.learning.orag.origin import Origin
from engine.learning.orag.presets import Preset
from engine.learning.orag.tree import Tree

DECAY, BETAS, TINY = 0.01, (0.9, 0.999), 1e-8
"""AdamW's defaults in PyTorch."""
BLOCK = 1 << 15
"""So many numbers are worked on at a time (256 KiB)."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The documents that moved: row → (d,) float64. touched: how many rows were computed to get here."""

    changed: Tree
    touched: int = 0

    @staticmethod
    def of(origin: Origin) -> Rows:
        return Rows(Tree.of(len(origin)))

    def fed(self, origin: Origin, preset: Preset, record: Record) -> Rows:
        """The state after one record more."""
        changed, rows = self.changed, _rows(record)
        for row in rows:
            first, now = origin.row(row), changed.get(row)
            now = first if now is None else now
            new = _after(now, first, row, preset, record)
            changed = changed if new is now else changed.set(row, new)
        return Rows(changed, self.touched + len(rows))

    def refolded(self, origin: Origin, preset: Preset, journal: Journal, length: int, rows: Iterable[int]) -> Rows:
        """The state with some rows folded again from the journal's first records."""
        changed, touched = self.changed, self.touched
        for row in rows:
            first = now = origin.row(row)
            for record in journal.touching(row, length):
                now = _after(now, first, row, preset, record)
                touched += 1
            changed = changed.set(row, None if now is first else now)
        return Rows(changed, touched)

    @contextmanager
    def matrix(self, origin: Origin) -> Iterator[np.ndarray]:
        """(n, d) float64 Θ_t, not to be written to nor kept."""
        with origin.reflecting(self.changed) as matrix:
            yield matrix

    def row(self, origin: Origin, at: int) -> np.ndarray:
        """(d,) float64 of one document."""
        now = self.changed.get(at)
        return origin.row(at) if now is None else now

    def moved(self) -> list[int]:
        """The rows that may differ from Θ₁."""
        return [row for row, _ in self.changed.items()]


def _rows(record: Record) -> Sequence[int]:
    return tuple(record.drift) if isinstance(record, Changed) else record.items


def _after(now: np.ndarray, first: np.ndarray, row: int, preset: Preset, record: Record) -> np.ndarray:
    """A document after a record that moves it."""
    if isinstance(record, Changed):
        return moved(now, first, record.drift[row], 1.0, preset.trust, preset.ball)
    items = record.items
    coefficient = record.coefficients[0 if items[0] == row else items.index(row)]
    k = factor(coefficient, preset.step(record.round), preset.cap)
    return moved(now, first, record.query.exact, k, preset.trust, preset.ball)


@dataclass(frozen=True, eq=False)
class Whole:
    """Θ_t as a matrix, (n, d) float64. first, second: AdamW's moments; steps: how many were made; gathered: the
    feedback of an unfinished batch; away: (n,) bool, the documents that are not available."""

    now: np.ndarray
    first: np.ndarray | None = None
    second: np.ndarray | None = None
    steps: int = 0
    gathered: tuple[Event, ...] = ()
    away: np.ndarray | None = None

    @staticmethod
    def of(origin: Origin) -> Whole:
        return Whole(origin.exact)

    def folded(self, origin: Origin, preset: Preset, records: Iterable[Record]) -> Whole:
        """The state after more records."""
        work = _Work(self, origin, preset)
        for record in records:
            work.take(record)
        return work.frozen()

    @contextmanager
    def matrix(self, origin: Origin) -> Iterator[np.ndarray]:
        """(n, d) float64 Θ_t, not to be written to."""
        yield self.now

    def row(self, origin: Origin, at: int) -> np.ndarray:
        """(d,) float64 of one document."""
        return self.now[at]

    def moved(self) -> None:
        """Any row may differ from Θ₁."""
        return None


class _Work:
    """A Whole while it is folded: what it writes to is its own."""

    def __init__(self, start: Whole, origin: Origin, preset: Preset) -> None:
        self.now, self.first, self.second, self.away = start.now, start.first, start.second, start.away
        self.steps, self.gathered = start.steps, list(start.gathered)
        self.origin, self.preset = origin, preset

    def take(self, record: Record) -> None:
        if isinstance(record, Changed):
            self.away = np.zeros(len(self.now), dtype=bool) if self.away is None else self.away.copy()
            self.away[list(record.came)], self.away[list(record.went)] = False, True
            for row, drift in record.drift.items():
                self._move(row, drift, 1.0)
        elif self.preset.optimizer == "sgd" and self.preset.batch == 1:
            self._plain(record)
        else:
            self._gather(record)

    def _own(self) -> None:
        if not self.now.flags.writeable:
            self.now, self.first, self.second = (
                None if array is None else array.copy() for array in (self.now, self.first, self.second)
            )

    def _move(self, row: int, query: np.ndarray, k: float) -> None:
        self._own()
        preset = self.preset
        self.now[row] = moved(self.now[row], self.origin.exact[row], query, k, preset.trust, preset.ball)

    def _factors(self, record: Event, rate: float) -> np.ndarray:
        k = -rate * np.asarray(record.coefficients, dtype=np.float64)
        return k if self.preset.cap is None else np.clip(k, -self.preset.cap, self.preset.cap)

    def _plain(self, record: Event) -> None:
        preset, query = self.preset, record.query.exact
        k = self._factors(record, preset.step(record.round))
        if len(record.items) <= FEW:
            for row, own in zip(record.items, k.tolist(), strict=True):
                self._move(row, query, own)
            return
        self._own()
        items = np.asarray(record.items)
        if len(items) < len(self.now):
            some = items[k != 0]
            self._settle(some, self.now[some] + np.outer(k[k != 0], query))
            return
        k = k[np.argsort(items)]
        still = np.flatnonzero(k == 0)
        before = self.now[still]
        for rows in self._blocks():
            block = self.now[rows]
            block += np.outer(k[rows], query)
            held(block, self.origin.exact[rows], preset.trust, preset.ball)
        self.now[still] = before

    def _settle(self, rows: np.ndarray, new: np.ndarray) -> None:
        held(new, self.origin.exact[rows], self.preset.trust, self.preset.ball)
        self.now[rows] = new

    def _blocks(self) -> Iterator[slice]:
        """Rows that fit a cache together."""
        size = max(1, BLOCK // self.now.shape[1])
        return (slice(at, at + size) for at in range(0, len(self.now), size))

    def _gather(self, record: Event) -> None:
        batch = (record.round - 1) // self.preset.batch
        if self.gathered and batch != self._batch:
            self._step()
        self.gathered.append(record)
        if record.round % self.preset.batch == 0:
            self._step()

    @property
    def _batch(self) -> int:
        return (self.gathered[0].round - 1) // self.preset.batch

    def _step(self) -> None:
        preset, rate = self.preset, self.preset.step(self._batch + 1)
        gathered, self.gathered = self.gathered, []
        factors = np.zeros((len(self.now), len(gathered)))
        for at, event in enumerate(gathered):
            # The cap is one event's: it binds before the batch is summed.
            k = self._factors(event, rate) if preset.optimizer == "sgd" else np.asarray(event.coefficients)
            factors[np.asarray(event.items), at] = k / preset.batch
        queries = np.stack([event.query.exact for event in gathered])
        self.steps += 1
        self._own()
        if preset.optimizer == "sgd":
            rows = np.flatnonzero(factors.any(axis=1))
            if self.away is not None:
                rows = rows[~self.away[rows]]
            self._settle(rows, self.now[rows] + factors[rows] @ queries)
        elif rate > 0:
            self._adam(rate, factors, queries)

    def _adam(self, rate: float, factors: np.ndarray, queries: np.ndarray) -> None:
        """A step along the gradient factors · queries."""
        if self.first is None:
            self.first, self.second = np.zeros_like(self.now), np.zeros_like(self.now)
        (a, b), preset = BETAS, self.preset
        for rows in self._blocks():
            gradient = factors[rows] @ queries
            first, second = self.first[rows], self.second[rows]
            first += (1 - a) * (gradient - first)
            second += (1 - b) * (gradient * gradient - second)
            new = self.now[rows] * (1 - rate * DECAY)
            new -= rate / (1 - a**self.steps) * first / (np.sqrt(second / (1 - b**self.steps)) + TINY)
            held(new, self.origin.exact[rows], preset.trust, preset.ball)
            if self.away is not None:
                away = self.away[rows]
                new[away] = self.now[rows][away]
            self.now[rows] = new

    def frozen(self) -> Whole:
        for array in (self.now, self.first, self.second, self.away):
            if array is not None:
                array.flags.writeable = False
        return Whole(self.now, self.first, self.second, self.steps, tuple(self.gathered), self.away)
