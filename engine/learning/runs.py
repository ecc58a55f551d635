"""Rounds of a simulated session: the session's own draws and folds, without its log.

A run's documents are, bit by bit, those of a session that was fed the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.learning.orag import Event, Preset, Query, Session, ask, full_information, outcome
from engine.learning.orag.origin import Origin
from engine.learning.orag.policy import FLOOR
from engine.learning.orag.states import Rows, Whole
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
    """Θ_t of a session's rule, one event after the other, without a log. state: as a session has it."""

    def __init__(
        self,
        start: Origin,
        preset: Preset,
        asked: Callable[[int], Query],
        found: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """asked: the query of a round; found: what `arrays` gave."""
        self._start, self._preset = start, preset
        self.state: Rows | Whole = (Rows if preset.by_rows else Whole).of(start)
        if found is not None:
            self.state = _rows(start, found) if preset.by_rows else _whole(found, asked)

    def take(self, event: Event) -> None:
        """Fold one event more."""
        if isinstance(self.state, Rows):
            self.state = self.state.fed(self._start, self._preset, event)
        else:
            self.state = self.state.folded(self._start, self._preset, (event,))

    def vectors(self) -> np.ndarray:
        """(n, d) float64 Θ_t."""
        with self.state.matrix(self._start) as matrix:
            return matrix.copy()

    def arrays(self) -> dict[str, np.ndarray]:
        """All it takes to go on from here."""
        state = self.state
        if isinstance(state, Rows):
            rows = state.moved()
            moved = [state.row(self._start, row) for row in rows]
            return {
                "rows": np.array(rows, np.int64),
                "moved": np.array(moved).reshape(len(rows), self._start.dimension),
            }
        found = {"now": state.now, "steps": np.array(state.steps)}
        found |= {name: array for name in ("first", "second") if (array := getattr(state, name)) is not None}
        if state.gathered:
            found["rounds"] = np.array([event.round for event in state.gathered])
            found["items"] = np.array([event.items for event in state.gathered])
            found["coefficients"] = np.array([event.coefficients for event in state.gathered])
        return found


def _rows(start: Origin, found: Mapping[str, np.ndarray]) -> Rows:
    changed = Rows.of(start).changed
    for row, vector in zip(found["rows"].tolist(), found["moved"], strict=True):
        changed = changed.set(row, vector)
    return Rows(changed)


def _whole(found: Mapping[str, np.ndarray], asked: Callable[[int], Query]) -> Whole:
    gathered = tuple(
        # Of feedback that waits for its step, only what it moves and by how much matters any more.
        Event(number, "sampled", asked(number), tuple(items.tolist()), coefficients, int(items[0]), True)
        for number, items, coefficients in zip(
            *(found.get(name, ()) for name in ("rounds", "items", "coefficients")), strict=True
        )
    )
    state = Whole(found["now"], found.get("first"), found.get("second"), int(found["steps"]), gathered)
    for array in (state.now, state.first, state.second):
        if array is not None:
            array.flags.writeable = False
    return state


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
        self._begun, self._told = begun, replace(begun, preset=told)

        def asked(number: int) -> Query:
            return queries[int(arrivals.queries[number - 1])]

        self.moving = Moving(begun.start, told if whole_truth else begun.preset, asked, found and found["run"])
        self.shadow: Moving | None = None
        if shadow and not whole_truth:
            self.shadow = Moving(begun.start, told, asked, found and found["oracle"])

    def round(self, t: int, trail: Trail) -> None:
        """The round number t, from 1 on; what happens goes into the trail."""
        at = t - 1
        which = int(self._arrivals.queries[at])
        query, right = self._queries[which], self._right[which]
        trail.query[at] = which
        live = replace(self._told if self._truth else self._begun, round=at, state=self.moving.state)
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
        self.moving.take(event)
        if self.shadow is not None:
            told = full_information(replace(self._told, round=at, state=self.shadow.state), query, right)
            trail.oracle[at] = _loss(_of(told, right))
            self.shadow.take(told)
        elif self._truth:
            trail.oracle[at] = trail.loss[at]

    def arrays(self) -> dict[str, dict[str, np.ndarray]]:
        """All it takes to go on from here."""
        return {"run": self.moving.arrays()} | ({"oracle": self.shadow.arrays()} if self.shadow else {})


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
