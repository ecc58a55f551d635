"""Θ_t as the fold of a log over Θ₁, in float64 and in order (Algorithm 1, lines 5 and 6; appendix B.2).

Two forms. `SparseState`: every event moves its own few documents, and the others are never looked at. `MatrixState`: a
matrix, for steps that move all documents, gather several rounds or remember earlier steps (AdamW: Loshchilov & Hutter
2019, with the paper's defaults).

Every step ends within trust region and ball. The trust region comes first: a step back onto the ball cannot leave it,
as the region's centre lies in the ball. The ball's radius is 1, or the length of the document's first vector where that
is longer: so a document that has not moved is always inside, and a step of 0 changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt

import numpy as np

from engine.feedback.presets import Preset
from engine.feedback.records import FEW, CorpusChange, Event, Journal, Move
from engine.space import Space

DECAY, BETAS, TINY = 0.01, (0.9, 0.999), 1e-8
"""AdamW's defaults in PyTorch."""
BLOCK = 1 << 15
"""Numbers that are worked on at a time (256 KiB)."""
STRIDE = 64
"""Every so many records a matrix state is cached in the session, to fold on from."""
MOST_KEPT, KEPT_BYTES = 16, 1 << 28
"""Cached states a session: at most 16, at most 256 MiB."""

Moved = dict[int, np.ndarray]
"""Row → (d,) float64, of documents that are not where they began."""


class StartVectors:
    """Θ₁: the vectors of a space, (n, d), in their own precision; shared by all its sessions."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.vectors: np.ndarray = space.matrix.on_cpu.detach().numpy().view()
        self.vectors.flags.writeable = False
        self._scoring = threading.RLock()
        self._reflected: Moved = {}

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    def row(self, row: int) -> np.ndarray:
        """(d,) float64 first vector of a document."""
        vector: np.ndarray = self.vectors[row].astype(np.float64)
        return vector

    @cached_property
    def exact(self) -> np.ndarray:
        """(n, d) float64, read-only."""
        rows = self.vectors.astype(np.float64)
        rows.flags.writeable = False
        return rows

    @contextmanager
    def reflecting(self, moved: Moved) -> Iterator[np.ndarray]:
        """(n, d) float64 with the moved rows in place of the first vectors; only while the context lasts.

        One matrix serves all sessions: between two of them only the rows in which they differ are written.
        """
        with self._scoring:
            for row in self._reflected.keys() - moved.keys():
                self._matrix[row] = self.vectors[row]
            for row, vector in moved.items():
                if self._reflected.get(row) is not vector:
                    self._matrix[row] = vector
            self._reflected = moved
            yield self._matrix

    @cached_property
    def _matrix(self) -> np.ndarray:
        return self.vectors.astype(np.float64)


@dataclass(frozen=True, eq=False)
class SparseState:
    """The documents that moved; the map is never changed once it is here."""

    changed: Moved = field(default_factory=dict)
    touched: int = 0  # number of rows computed to get here

    def fed(self, start: StartVectors, preset: Preset, record: Move) -> SparseState:
        """The state after one record more."""
        changed = self.changed
        rows: Sequence[int] = tuple(record.drift) if isinstance(record, CorpusChange) else record.items
        for row in rows:
            first, now = start.row(row), changed.get(row)
            now = first if now is None else now
            new = _after(now, first, row, preset, record)
            if new is not now:
                # A copy takes 5 µs at 500 rows and 0.3 ms at 20,000.
                changed = dict(changed) if changed is self.changed else changed
                changed[row] = new
        return SparseState(changed, self.touched + len(rows))

    def refolded(
        self, start: StartVectors, preset: Preset, journal: Journal, length: int, rows: Iterable[int]
    ) -> SparseState:
        """The state with some rows folded again from the journal's first records."""
        changed, touched = dict(self.changed), self.touched
        for row in rows:
            first = now = start.row(row)
            for record in journal.touching(row, length):
                now = _after(now, first, row, preset, record)
                touched += 1
            if now is first:
                changed.pop(row, None)
            else:
                changed[row] = now
        return SparseState(changed, touched)

    @contextmanager
    def matrix(self, start: StartVectors) -> Iterator[np.ndarray]:
        """(n, d) float64 Θ_t, not to be written to nor kept."""
        with start.reflecting(self.changed) as matrix:
            yield matrix

    def row(self, start: StartVectors, row: int) -> np.ndarray:
        """(d,) float64 of one document."""
        now = self.changed.get(row)
        return start.row(row) if now is None else now

    def moved(self) -> list[int]:
        """The rows that may differ from Θ₁, rising."""
        return sorted(self.changed)


def _after(now: np.ndarray, first: np.ndarray, row: int, preset: Preset, record: Move) -> np.ndarray:
    """A document after a record that moves it."""
    if isinstance(record, CorpusChange):
        return moved(now, first, record.drift[row], 1.0, preset.trust, preset.ball)
    items = record.items
    coefficient = record.coefficients[0 if items[0] == row else items.index(row)]
    k = factor(coefficient, preset.step(record.round), preset.cap)
    return moved(now, first, record.query.exact, k, preset.trust, preset.ball)


@dataclass(frozen=True, eq=False)
class MatrixState:
    """Θ_t as a matrix, with what its next steps need.

    now: (n, d) float64.
    first, second: AdamW's moments, (n, d), None before the first step.
    steps: number of steps made.
    gathered: the feedback of an unfinished batch.
    away: (n,) bool, the documents that are not available.
    """

    now: np.ndarray
    first: np.ndarray | None = None
    second: np.ndarray | None = None
    steps: int = 0
    gathered: tuple[Event, ...] = ()
    away: np.ndarray | None = None

    @staticmethod
    def of(start: StartVectors) -> MatrixState:
        return MatrixState(start.exact)

    def folded(self, start: StartVectors, preset: Preset, records: Iterable[Move]) -> MatrixState:
        """The state after more records."""
        fold = _MatrixFold(self, start, preset)
        for record in records:
            fold.take(record)
        return fold.frozen()

    def fed(self, start: StartVectors, preset: Preset, record: Move) -> MatrixState:
        """The state after one record more."""
        return self.folded(start, preset, (record,))

    def refolded(
        self, start: StartVectors, preset: Preset, journal: Journal, position: int, first: int, end: int, kept: Kept
    ) -> tuple[MatrixState, Kept]:
        """The state after the journal's first `end` records, and the cached states.

        position: the number of records that this state has folded; first: the record from which on the past has
        changed; kept: earlier states. Folds on from the last of them that is valid.
        """
        valid = [known for known in kept if known[0] <= first]
        begin = (position, self) if position <= first else (0, MatrixState.of(start))
        position, state = max([begin, *valid], key=lambda known: known[0])
        while position < end:
            stop = min(end, position - position % STRIDE + STRIDE)
            state = state.folded(start, preset, journal.moving(stop, position, end))
            position = stop
            if stop % STRIDE == 0 and (not valid or valid[-1][0] < stop):
                valid.append((stop, state))
        most = min(MOST_KEPT, KEPT_BYTES // (3 * state.now.nbytes))
        return state, tuple(valid if len(valid) <= most else valid[1::2] if most > 1 else ())

    @contextmanager
    def matrix(self, start: StartVectors) -> Iterator[np.ndarray]:
        """(n, d) float64 Θ_t, not to be written to."""
        yield self.now

    def row(self, start: StartVectors, row: int) -> np.ndarray:
        """(d,) float64 of one document."""
        vector: np.ndarray = self.now[row]
        return vector

    def moved(self) -> range:
        """Any row may differ from Θ₁."""
        return range(len(self.now))


Kept = tuple[tuple[int, MatrixState], ...]
"""Earlier states by the number of records folded."""


class _MatrixFold:
    """A MatrixState under way; read-only arrays are copied before they are written to."""

    def __init__(self, state: MatrixState, start: StartVectors, preset: Preset) -> None:
        self.now, self.first, self.second, self.away = state.now, state.first, state.second, state.away
        self.steps, self.gathered = state.steps, list(state.gathered)
        self.start, self.preset = start, preset

    def take(self, record: Move) -> None:
        if isinstance(record, CorpusChange):
            self.away = np.zeros(len(self.now), dtype=bool) if self.away is None else self.away.copy()
            self.away[list(record.came)], self.away[list(record.went)] = False, True
            for row, drift in record.drift.items():
                self._move(row, drift, 1.0)
        elif self.preset.optimizer == "sgd" and self.preset.batch == 1:
            self._sgd(record)
        else:
            self._gather(record)

    def _make_writeable(self) -> None:
        if not self.now.flags.writeable:
            self.now = self.now.copy()
            self.first, self.second = (m if m is None else m.copy() for m in (self.first, self.second))

    def _move(self, row: int, query: np.ndarray, k: float) -> None:
        self._make_writeable()
        preset = self.preset
        self.now[row] = moved(self.now[row], self.start.exact[row], query, k, preset.trust, preset.ball)

    def _sgd(self, event: Event) -> None:
        preset, query = self.preset, event.query.exact
        k = _factors(event, preset.step(event.round), preset.cap)
        if len(event.items) <= FEW:
            for row, step in zip(event.items, k.tolist(), strict=True):
                self._move(row, query, step)
            return
        self._make_writeable()
        items = np.asarray(event.items)
        if len(items) < len(self.now):
            rows = items[k != 0]
            self._set(rows, self.now[rows] + np.outer(k[k != 0], query))
            return
        k = k[np.argsort(items)]
        still = np.flatnonzero(k == 0)
        before = self.now[still]
        for block in self._blocks():
            vectors = self.now[block]
            vectors += np.outer(k[block], query)
            bound(vectors, self.start.exact[block], preset.trust, preset.ball)
        self.now[still] = before

    def _set(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        bound(vectors, self.start.exact[rows], self.preset.trust, self.preset.ball)
        self.now[rows] = vectors

    def _blocks(self) -> Iterator[slice]:
        """Rows that fit a cache together."""
        size = max(1, BLOCK // self.now.shape[1])
        return (slice(begin, begin + size) for begin in range(0, len(self.now), size))

    def _gather(self, event: Event) -> None:
        if self.gathered and self._batch_of(event) != self._batch_of(self.gathered[0]):
            self._step()
        self.gathered.append(event)
        if event.round % self.preset.batch == 0:
            self._step()

    def _batch_of(self, event: Event) -> int:
        return (event.round - 1) // self.preset.batch

    def _step(self) -> None:
        preset, rate = self.preset, self.preset.step(self._batch_of(self.gathered[0]) + 1)
        gathered, self.gathered = self.gathered, []
        factors = np.zeros((len(self.now), len(gathered)))
        for column, event in enumerate(gathered):
            # The cap is one event's: it binds before the batch is summed.
            k = _factors(event, rate, preset.cap) if preset.optimizer == "sgd" else np.asarray(event.coefficients)
            factors[np.asarray(event.items), column] = k / preset.batch
        queries = np.stack([event.query.exact for event in gathered])
        self.steps += 1
        self._make_writeable()
        if preset.optimizer == "sgd":
            rows = np.flatnonzero(factors.any(axis=1))
            if self.away is not None:
                rows = rows[~self.away[rows]]
            self._set(rows, self.now[rows] + factors[rows] @ queries)
        elif rate > 0:
            self._adamw(rate, factors, queries)

    def _adamw(self, rate: float, factors: np.ndarray, queries: np.ndarray) -> None:
        """A step along the gradient factors · queries."""
        if self.first is None or self.second is None:
            self.first, self.second = np.zeros_like(self.now), np.zeros_like(self.now)
        (a, b), preset = BETAS, self.preset
        for block in self._blocks():
            gradient = factors[block] @ queries
            first, second = self.first[block], self.second[block]
            first += (1 - a) * (gradient - first)
            second += (1 - b) * (gradient * gradient - second)
            new = self.now[block] * (1 - rate * DECAY)
            new -= rate / (1 - a**self.steps) * first / (np.sqrt(second / (1 - b**self.steps)) + TINY)
            bound(new, self.start.exact[block], preset.trust, preset.ball)
            if self.away is not None:
                away = self.away[block]
                new[away] = self.now[block][away]
            self.now[block] = new

    def frozen(self) -> MatrixState:
        for array in (self.now, self.first, self.second, self.away):
            if array is not None:
                array.flags.writeable = False
        return MatrixState(self.now, self.first, self.second, self.steps, tuple(self.gathered), self.away)


def _factors(event: Event, rate: float, cap: float | None) -> np.ndarray:
    k: np.ndarray = -rate * np.asarray(event.coefficients, dtype=np.float64)
    return k if cap is None else np.clip(k, -cap, cap)


def factor(coefficient: float, rate: float, cap: float | None) -> float:
    """How much of the query is added to a document: −rate · coefficient, within ± cap."""
    k = -rate * coefficient
    return k if cap is None else max(-cap, min(cap, k))


def moved(
    row: np.ndarray, origin: np.ndarray, query: np.ndarray, k: float, trust: float | None, ball: bool
) -> np.ndarray:
    """(d,) a document after a step of k · query; origin: its first vector. Nothing given is written to."""
    if k == 0.0:
        return row
    new = k * query
    new += row
    if trust is not None:
        gone = new - origin
        far = sqrt(gone.dot(gone))
        if far > trust:
            gone *= trust / far
            new = origin + gone
    if ball:
        length = sqrt(new.dot(new))
        if length > 1.0:
            radius = max(1.0, sqrt(origin.dot(origin)))
            if length > radius:
                new *= radius / length
    return new


def bound(rows: np.ndarray, origin: np.ndarray, trust: float | None, ball: bool) -> None:
    """Bring (m, d) documents back within their bounds, in place; origin: (m, d)."""
    if trust is not None:
        gone = rows - origin
        far = _lengths(gone)
        beyond = np.flatnonzero(far > trust)
        rows[beyond] = origin[beyond] + gone[beyond] * (trust / far[beyond])[:, None]
    if ball:
        length, radius = _lengths(rows), np.maximum(1.0, _lengths(origin))
        beyond = np.flatnonzero(length > radius)
        rows[beyond] *= (radius[beyond] / length[beyond])[:, None]


def _lengths(rows: np.ndarray) -> np.ndarray:
    lengths: np.ndarray = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths
