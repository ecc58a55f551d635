"""Rounds of a simulated session, folded in place: what nobody else looks at need not be copied at every step.

A run's documents are, bit by bit, those of a session that was fed the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.learning.orag.events import Event, Query
from engine.learning.orag.feedback import full_information, outcome
from engine.learning.orag.guards import factor, moved
from engine.learning.orag.origin import Origin
from engine.learning.orag.policy import FLOOR, ask
from engine.learning.orag.presets import Preset
from engine.learning.orag.session import Session
from engine.learning.orag.states import Whole, _Work
from engine.learning.streams import Arrivals

NOBODY = -1


@dataclass(frozen=True, eq=False)
class Trail:
    """What happened, round by round, each (T,).

    query: which of the stream's queries; item: the row shown, −1 where none was drawn; propensity: its chance; good:
    what was said of it; right: whether it was; chance: the probability of all right rows; loss: the mean of −log p over
    them; oracle: the loss of the full-information oracle in that round, NaN where none ran.
    """

    query: np.ndarray
    item: np.ndarray
    propensity: np.ndarray
    good: np.ndarray
    right: np.ndarray
    chance: np.ndarray
    loss: np.ndarray
    oracle: np.ndarray

    @classmethod
    def of(cls, length: int) -> Trail:
        """An empty one, to be filled in place."""
        whole, yes = (lambda: np.full(length, NOBODY, np.int64)), (lambda: np.zeros(length, bool))
        real = lambda: np.full(length, np.nan)  # noqa: E731
        return cls(whole(), whole(), real(), yes(), yes(), real(), real(), real())

    def upto(self, length: int) -> Trail:
        """Its first rounds."""
        return Trail(*(column[:length] for column in vars(self).values()))

    def __len__(self) -> int:
        return len(self.query)


class Moving:
    """Θ_t of a session's rule, written in place; stands where a session has its state."""

    def __init__(self, start: Origin, preset: Preset, found: Mapping[str, np.ndarray] | None = None) -> None:
        self._start, self._preset = start, preset
        self._work = None
        if preset.by_rows:
            self.now = start.exact.copy() if found is None else found["now"].copy()
            return
        whole = Whole.of(start)
        if found is not None:
            more = {name: found[name] for name in ("first", "second", "gathered") if name in found}
            whole = Whole(found["now"], steps=int(found["steps"]), batch=int(found["batch"]), **more)
        self._work = _Work(whole, start, preset)

    def take(self, event: Event) -> None:
        """Fold one event more."""
        if self._work is not None:
            self._work.take(event)
            return
        rate, preset = self._preset.step(event.round), self._preset
        for row, coefficient in zip(event.items, event.coefficients, strict=True):
            k = factor(coefficient, rate, preset.cap)
            self.now[row] = moved(
                self.now[row], self._start.exact[row], event.query.exact, k, preset.trust, preset.ball
            )

    @property
    def rows(self) -> np.ndarray:
        """(n, d) float64 Θ_t, not to be written to."""
        return self.now if self._work is None else self._work.now

    @contextmanager
    def matrix(self, origin: Origin) -> Iterator[np.ndarray]:
        """As a session's state has it."""
        yield self.rows

    def row(self, origin: Origin, at: int) -> np.ndarray:
        """(d,) float64 of one document."""
        return self.rows[at]

    def arrays(self) -> dict[str, np.ndarray]:
        """All it takes to go on from here."""
        if self._work is None:
            return {"now": self.now}
        work = self._work
        found = {"now": work.now, "steps": np.array(work.steps), "batch": np.array(work.batch)}
        more = {"first": work.first, "second": work.second, "gathered": work.gathered}
        return found | {name: array for name, array in more.items() if array is not None}


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Θ_t at a checkpoint: rows that differ from Θ₁, ascending, and their vectors (m, d), in the precision of Θ₁."""

    step: int
    rows: np.ndarray
    moved: np.ndarray

    @classmethod
    def of(cls, step: int, start: np.ndarray, now: np.ndarray) -> Snapshot:
        """start: (n, d) Θ₁; now: (n, d) Θ_t in the same precision."""
        rows = np.flatnonzero((start != now).any(1))
        return cls(step, rows, now[rows])

    def vectors(self, start: np.ndarray) -> np.ndarray:
        """(n, d) Θ_t."""
        found = np.array(start)
        found[self.rows] = self.moved
        return found


class Run:
    """A session that learns from a stream of queries, and an oracle beside it that is told the truth.

    begun: the session in which nothing has happened; queries, right: of the stream; whole_truth: learn from full
    information instead of feedback; shadow: run the oracle too; sizes: feedback says how many documents are right.
    """

    def __init__(
        self,
        begun: Session,
        queries: Sequence[Query],
        right: Sequence[np.ndarray],
        arrivals: Arrivals,
        *,
        whole_truth: bool,
        shadow: bool,
        sizes: bool,
        found: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    ) -> None:
        self._queries, self._right, self._arrivals = queries, right, arrivals
        self._truth, self._sizes = whole_truth, sizes
        # The whole truth moves all documents.
        told = replace(begun.preset, mode="full")
        self.state = Moving(begun.start, told if whole_truth else begun.preset, found and found["run"])
        self._live = replace(begun, state=self.state)
        self._oracle: Session | None = None
        self.shadow: Moving | None = None
        if shadow and not whole_truth:
            self.shadow = Moving(begun.start, told, found and found["oracle"])
            self._oracle = replace(begun, preset=told, state=self.shadow)

    def round(self, t: int, trail: Trail) -> None:
        """The round number t, from 1 on; what happens goes into the trail."""
        at = t - 1
        which = int(self._arrivals.queries[at])
        query, right = self._queries[which], self._right[which]
        trail.query[at] = which
        live: Any = replace(self._live, round=at)
        if self._truth:
            event = full_information(live, query, right)
            p = _of(event, right)
        else:
            draw = ask(live, query, round=t)
            truth = bool((right == draw.item).any())
            good = self._arrivals.feedback(at, draw.item, truth)
            event = outcome(live, draw, good, relevant=len(right) if self._sizes else 1)
            p = draw.probabilities[right]
            trail.item[at], trail.propensity[at] = draw.item, draw.propensity
            trail.good[at], trail.right[at] = good, truth
        trail.chance[at], trail.loss[at] = p.sum(), _loss(p)
        self.state.take(event)
        if self._oracle is not None and self.shadow is not None:
            told = full_information(replace(self._oracle, round=at), query, right)
            trail.oracle[at] = _loss(_of(told, right))
            self.shadow.take(told)
        elif self._truth:
            trail.oracle[at] = trail.loss[at]

    def arrays(self) -> dict[str, dict[str, np.ndarray]]:
        """All it takes to go on from here."""
        return {"run": self.state.arrays()} | ({"oracle": self.shadow.arrays()} if self.shadow else {})


def events(begun: Session, queries: Sequence[Query], right: Sequence[np.ndarray], trail: Trail, sizes: bool) -> list:
    """The feedback of a run whose events move one document each, as a session is fed it."""
    mode, writer = begun.preset.mode, begun.writer
    found = []
    for at in range(len(trail)):
        which, item = int(trail.query[at]), int(trail.item[at])
        propensity, good = float(trail.propensity[at]), bool(trail.good[at])
        pull = (1.0 / (propensity * (len(right[which]) if sizes else 1))) if good else 0.0
        told = "sampled", queries[which], (item,), (1.0 - pull,), item, good, propensity, mode, (item,)
        found.append(Event(at + 1, *told, writer=writer))
    return found


def _of(event: Event, right: np.ndarray) -> np.ndarray:
    """The probabilities of the right rows, from the coefficients p − 1/|S| of all rows."""
    return np.asarray(event.coefficients)[right] + 1.0 / len(right)


def _loss(p: np.ndarray) -> float:
    return float(-np.log(np.maximum(p, FLOOR)).mean())
