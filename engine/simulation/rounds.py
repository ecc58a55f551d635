"""Rounds of a simulated session: the session's own draws and folds, without its log.

A run's documents are, bit by bit, those of a session that was fed the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from engine.feedback import Event, Preset, Query, Session, ask, full_information, outcome
from engine.feedback.embedding_state import MatrixState, SparseState, StartVectors
from engine.feedback.policy import FLOOR
from engine.simulation.feedback_model import Arrivals

NOBODY = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundLog:
    """What happened, round by round, each (T,)."""

    query: np.ndarray  # index of the query in the stream's
    item: np.ndarray  # the row shown, −1 where none was drawn
    propensity: np.ndarray  # its probability
    good: np.ndarray  # what was said of it
    right: np.ndarray  # whether it is right
    chance: np.ndarray  # the probability of all right rows
    loss: np.ndarray  # the mean of −log p over the right rows
    oracle: np.ndarray  # the loss of the full-information oracle in that round, NaN where none ran

    @classmethod
    def of(cls, length: int) -> RoundLog:
        """An empty one, to be filled in place."""
        empty = {**dict.fromkeys(("query", "item"), NOBODY), **dict.fromkeys(("good", "right"), False)}
        return cls(**{column.name: np.full(length, empty.get(column.name, np.nan)) for column in fields(cls)})

    def __len__(self) -> int:
        return len(self.query)


class EmbeddingState:
    """Θ_t by a session's rule, one event after the other, without a log. state: as a session has it."""

    def __init__(
        self,
        start: StartVectors,
        preset: Preset,
        query_of: Callable[[int], Query],
        arrays: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """query_of: the query of a round; arrays: what `arrays` gave."""
        self._start, self._preset = start, preset
        self.state: SparseState | MatrixState
        if preset.by_rows:
            self.state = SparseState.of(start) if arrays is None else _sparse_state(start, arrays)
        else:
            self.state = MatrixState.of(start) if arrays is None else _matrix_state(arrays, query_of)

    def take(self, event: Event) -> None:
        """Fold one event more."""
        if isinstance(self.state, SparseState):
            self.state = self.state.fed(self._start, self._preset, event)
        else:
            self.state = self.state.folded(self._start, self._preset, (event,))

    def vectors(self) -> np.ndarray:
        """(n, d) float64 Θ_t."""
        with self.state.matrix(self._start) as matrix:
            return matrix.copy()

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays from which the state can be made again."""
        state = self.state
        if isinstance(state, SparseState):
            rows = state.moved()
            moved = [state.row(self._start, row) for row in rows]
            return {
                "rows": np.array(rows, np.int64),
                "moved": np.array(moved).reshape(len(rows), self._start.dimension),
            }
        arrays = {"now": state.now, "steps": np.array(state.steps)}
        arrays |= {name: array for name in ("first", "second") if (array := getattr(state, name)) is not None}
        if state.gathered:
            arrays["rounds"] = np.array([event.round for event in state.gathered])
            arrays["items"] = np.array([event.items for event in state.gathered])
            arrays["coefficients"] = np.array([event.coefficients for event in state.gathered])
        return arrays


def _sparse_state(start: StartVectors, arrays: Mapping[str, np.ndarray]) -> SparseState:
    changed = SparseState.of(start).changed
    for row, vector in zip(arrays["rows"].tolist(), arrays["moved"], strict=True):
        changed = changed.set(row, vector)
    return SparseState(changed)


def _matrix_state(arrays: Mapping[str, np.ndarray], query_of: Callable[[int], Query]) -> MatrixState:
    gathered = tuple(
        # Of feedback that waits for its step, only what it moves and by how much matters any more.
        Event(number, "sampled", query_of(number), tuple(items.tolist()), coefficients, int(items[0]), True)
        for number, items, coefficients in zip(
            *(arrays.get(name, ()) for name in ("rounds", "items", "coefficients")), strict=True
        )
    )
    state = MatrixState(arrays["now"], arrays.get("first"), arrays.get("second"), int(arrays["steps"]), gathered)
    for array in (state.now, state.first, state.second):
        if array is not None:
            array.flags.writeable = False
    return state


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Θ_t at a checkpoint: the rows that differ from Θ₁, rising, and their vectors (m, d), as Θ₁'s."""

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
        vectors = np.array(start)
        vectors[self.rows] = self.moved
        return vectors


class Run:
    """A session that learns from a stream of queries, and a full-information oracle beside it.

    begun: the session before the first round.
    queries, right: the stream's queries and the right rows of each.
    whole_truth: learn from full information instead of feedback.
    shadow: run the oracle too.
    sizes: feedback says how many documents are right.
    arrays: what `arrays` gave, to go on from there.
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
        arrays: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    ) -> None:
        self._queries, self._right, self._arrivals = queries, right, arrivals
        self._whole_truth, self._sizes = whole_truth, sizes
        # Full information moves all documents.
        full = replace(begun.preset, mode="full")
        self._begun, self._begun_full = begun, replace(begun, preset=full)

        def query_of(number: int) -> Query:
            return queries[int(arrivals.queries[number - 1])]

        def state(preset: Preset, name: str) -> EmbeddingState:
            return EmbeddingState(begun.start, preset, query_of, None if arrays is None else arrays[name])

        self.moving = state(full if whole_truth else begun.preset, "run")
        self.shadow = state(full, "oracle") if shadow and not whole_truth else None

    def round(self, t: int, trail: RoundLog) -> None:
        """Play round number t, from 1 on, and write it into the trail."""
        index = t - 1
        position = int(self._arrivals.queries[index])
        query, right = self._queries[position], self._right[position]
        trail.query[index] = position
        live = replace(self._begun_full if self._whole_truth else self._begun, round=index, state=self.moving.state)
        if self._whole_truth:
            event = full_information(live, query, right)
            p = _probabilities(event, right)
        else:
            draw = ask(live, query, round=t)
            truth = bool((right == draw.item).any())
            good = self._arrivals.feedback(index, draw.item, truth)
            event = outcome(live, draw, good, relevant=len(right) if self._sizes else 1)
            p = draw.probabilities[right]
            trail.item[index], trail.propensity[index] = draw.item, draw.propensity
            trail.good[index], trail.right[index] = good, truth
        trail.chance[index], trail.loss[index] = p.sum(), _loss(p)
        self.moving.take(event)
        if self.shadow is not None:
            event = full_information(replace(self._begun_full, round=index, state=self.shadow.state), query, right)
            trail.oracle[index] = _loss(_probabilities(event, right))
            self.shadow.take(event)
        elif self._whole_truth:
            trail.oracle[index] = trail.loss[index]

    def arrays(self) -> dict[str, dict[str, np.ndarray]]:
        """The arrays from which the run can go on."""
        return {"run": self.moving.arrays()} | ({"oracle": self.shadow.arrays()} if self.shadow else {})


def events(
    begun: Session, queries: Sequence[Query], right: Sequence[np.ndarray], trail: RoundLog, sizes: bool
) -> Iterator[Event]:
    """The feedback of a run whose events move one document each, as a session is fed it."""
    mode, writer = begun.preset.mode, begun.writer
    columns = (trail.query, trail.item, trail.propensity, trail.good)
    for t, (query, item, propensity, good) in enumerate(zip(*(c.tolist() for c in columns), strict=True), 1):
        pull = (1.0 / (propensity * (len(right[query]) if sizes else 1))) if good else 0.0
        yield Event(
            t, "sampled", queries[query], (item,), (1.0 - pull,), item, good, propensity, mode, (item,), writer=writer
        )


def _probabilities(event: Event, right: np.ndarray) -> np.ndarray:
    """The probabilities of the right rows, from the coefficients p − 1/|S| of all rows."""
    coefficients = np.asarray(event.coefficients)
    p: np.ndarray = coefficients[right] + 1.0 / len(right)
    return p


def _loss(p: np.ndarray) -> float:
    return float(-np.log(np.maximum(p, FLOOR)).mean())
