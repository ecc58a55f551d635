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

from engine.learning.orag.events import Event
from engine.learning.orag.guards import factor, held, moved
from engine.learning.orag.journal import Changed, Journal, Record
from engine.learning.orag.origin import Origin
from engine.learning.orag.presets import Preset
from engine.learning.orag.tree import Tree

DECAY, BETAS, TINY = 0.01, (0.9, 0.999), 1e-8
"""AdamW's defaults in PyTorch."""


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
    """Θ_t as a matrix, (n, d) float64. first, second: AdamW's moments; steps: how many were made; gathered: the sum of
    the gradients of an unfinished batch, and of which batch; away: (n,) bool, the documents not available."""

    now: np.ndarray
    first: np.ndarray | None = None
    second: np.ndarray | None = None
    steps: int = 0
    gathered: np.ndarray | None = None
    batch: int = -1
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
    """A Whole while it is folded: its arrays are its own, written in place."""

    def __init__(self, start: Whole, origin: Origin, preset: Preset) -> None:
        self.now, self.steps, self.batch = start.now.copy(), start.steps, start.batch
        self.first, self.second, self.gathered, self.away = (
            None if a is None else a.copy() for a in (start.first, start.second, start.gathered, start.away)
        )
        self.origin, self.preset = origin, preset

    def take(self, record: Record) -> None:
        if isinstance(record, Changed):
            self.away = np.zeros(len(self.now), dtype=bool) if self.away is None else self.away
            self.away[list(record.came)], self.away[list(record.went)] = False, True
            for row, drift in record.drift.items():
                self._move(row, drift, 1.0)
        elif self.preset.optimizer == "sgd" and self.preset.batch == 1:
            self._plain(record)
        else:
            self._gather(record)

    def _move(self, row: int, query: np.ndarray, k: float) -> None:
        preset = self.preset
        self.now[row] = moved(self.now[row], self.origin.exact[row], query, k, preset.trust, preset.ball)

    def _factors(self, record: Event, rate: float) -> np.ndarray:
        k = -rate * np.asarray(record.coefficients, dtype=np.float64)
        return k if self.preset.cap is None else np.clip(k, -self.preset.cap, self.preset.cap)

    def _plain(self, record: Event) -> None:
        preset, query = self.preset, record.query.exact
        k = self._factors(record, preset.step(record.round))
        if len(record.items) <= 32:
            for row, own in zip(record.items, k.tolist(), strict=True):
                self._move(row, query, own)
            return
        everyone = len(record.items) == len(self.now)
        rows = slice(None) if everyone and k.all() else np.asarray(record.items)[k != 0]
        new = self.now[rows] + np.outer(k[k != 0], query)
        held(new, self.origin.exact[rows], preset.trust, preset.ball)
        self.now[rows] = new

    def _gather(self, record: Event) -> None:
        batch = (record.round - 1) // self.preset.batch
        if self.gathered is not None and batch != self.batch:
            self._step()
        if self.gathered is None:
            self.gathered = np.zeros_like(self.now)
        self.batch = batch
        if self.preset.optimizer == "sgd":
            # The cap is one event's: it binds before the batch is summed. The sign makes it a gradient again.
            k = -self._factors(record, self.preset.step(batch + 1))
        else:
            k = np.asarray(record.coefficients, dtype=np.float64)
        # No row occurs twice in an event.
        self.gathered[np.asarray(record.items)] += np.outer(k, record.query.exact)
        if record.round % self.preset.batch == 0:
            self._step()

    def _step(self) -> None:
        preset = self.preset
        gradient, self.gathered = self.gathered / preset.batch, None
        self.steps += 1
        if preset.optimizer == "sgd":
            rows = np.flatnonzero(gradient.any(axis=1))
            new = self.now[rows] - gradient[rows]
            held(new, self.origin.exact[rows], preset.trust, preset.ball)
            self.now[rows] = new
            return
        rate = preset.step(self.batch + 1)
        if rate == 0:
            return
        if self.first is None:
            self.first, self.second = np.zeros_like(self.now), np.zeros_like(self.now)
        a, b = BETAS
        self.first += (1 - a) * (gradient - self.first)
        self.second += (1 - b) * (gradient * gradient - self.second)
        here = slice(None) if self.away is None else ~self.away
        size = np.sqrt(self.second[here] / (1 - b**self.steps)) + TINY
        new = self.now[here] * (1 - rate * DECAY)
        new -= rate / (1 - a**self.steps) * self.first[here] / size
        held(new, self.origin.exact[here], preset.trust, preset.ball)
        self.now[here] = new

    def frozen(self) -> Whole:
        for array in (self.now, self.first, self.second, self.gathered, self.away):
            if array is not None:
                array.flags.writeable = False
        return Whole(self.now, self.first, self.second, self.steps, self.gathered, self.batch, self.away)
