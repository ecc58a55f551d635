"""Rounds of a simulated session: the session's own draws and folds, without its log.

A run's documents are, bit by bit, those of a session that was fed the same events.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from engine.feedback import Draw, Event, Query, Reranker, Session, ask, full_information, outcome
from engine.feedback.dynamic_corpus import build_change
from engine.feedback.embedding_state import MatrixState, SparseState
from engine.feedback.policy import MIN_PROPENSITY
from engine.feedback.records import CorpusChange, MovingRecord
from engine.feedback.session import empty_session as empty
from engine.simulation.feedback_model import Arrivals
from engine.simulation.variants import Deployment, Inventory

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
    loss: np.ndarray  # the mean of −log p over the right rows that are there, NaN where none is
    oracle: np.ndarray  # the loss of the full-information oracle in that round, NaN where none ran
    top: np.ndarray  # the row that would be shown if nothing were explored, −1 where that is not known

    @classmethod
    def of(cls, length: int) -> "RoundLog":
        """An empty one, to be filled in place."""
        empty = {**dict.fromkeys(("query", "item", "top"), NOBODY), **dict.fromkeys(("good", "right"), False)}
        return cls(**{column.name: np.full(length, empty.get(column.name, np.nan)) for column in fields(cls)})

    def __len__(self) -> int:
        return len(self.query)


def arrays_of(session: Session) -> dict[str, np.ndarray]:
    """The arrays from which a session's state can be made again."""
    state = session.state
    if isinstance(state, SparseState):
        rows = state.moved_rows()
        moved = np.array([session.row(row) for row in rows]).reshape(len(rows), session.start.dimension)
        return {"rows": np.array(rows, np.int64), "moved": moved}
    arrays = {"now": state.current, "steps": np.array(state.n_steps)}
    moments = {"first": state.first_moment, "second": state.second_moment}
    arrays |= {name: moment for name, moment in moments.items() if moment is not None}
    if state.pending_events:
        arrays["rounds"] = np.array([event.round for event in state.pending_events])
        # Where documents came meanwhile the later feedback is on more of them: the shorter rows end in −1.
        longest = max(len(event.items) for event in state.pending_events)
        items, coefficients = (
            np.full((len(state.pending_events), longest), NOBODY),
            np.zeros((len(state.pending_events), longest)),
        )
        for row, event in enumerate(state.pending_events):
            items[row, : len(event.items)], coefficients[row, : len(event.items)] = event.items, event.coefficients
        arrays |= {"items": items, "coefficients": coefficients}
    return arrays


def with_arrays(session: Session, arrays: Mapping[str, np.ndarray], query_of: Callable[[int], Query]) -> Session:
    """The session in the state of which `arrays_of` gave arrays; query_of: the query of a round."""
    if session.preset.by_rows:
        changed = dict(zip(arrays["rows"].tolist(), arrays["moved"], strict=True))
        return replace(session, state=SparseState(changed))
    gathered = tuple(
        # Of feedback that waits for its step, only what it moves and by how much matters any more.
        Event(
            number, "sampled", query_of(number), tuple(items[items >= 0].tolist()), coefficients[items >= 0],
            int(items[0]), True,
        )
        for number, items, coefficients in zip(
            *(arrays.get(name, ()) for name in ("rounds", "items", "coefficients")), strict=True
        )
    )  # fmt: skip
    state = MatrixState(arrays["now"], arrays.get("first"), arrays.get("second"), int(arrays["steps"]), gathered)
    for array in (state.current, state.first_moment, state.second_moment):
        if array is not None:
            array.flags.writeable = False
    return replace(session, state=state)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Θ_t at a checkpoint: the rows that differ from Θ₁, rising, and their vectors (m, d), as Θ₁'s."""

    step: int
    rows: np.ndarray
    moved: np.ndarray

    @classmethod
    def of(cls, step: int, start: np.ndarray, now: np.ndarray) -> "Snapshot":
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
    variant, inventory: how documents are shown, and when they come.
    done: rounds played before.
    arrays: what `arrays` gave, to go on from there.

    Θ_t moves as the sessions' state; their journals stay empty.
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
        variant: Deployment,
        inventory: Inventory,
        done: int = 0,
        arrays: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    ) -> None:
        self._queries, self._right, self._arrivals = queries, right, arrivals
        self._whole_truth, self._sizes, self._variant, self._inventory = whole_truth, sizes, variant, inventory
        # Full information moves all documents.
        full = empty(begun.start, replace(begun.preset, mode="full"), begun.temperature)
        self._live = {"run": full if whole_truth else begun}
        if shadow and not whole_truth:
            self._live["oracle"] = full
        if arrays is not None:

            def query_of(number: int) -> Query:
                return queries[int(arrivals.queries[number - 1])]

            self._live = {name: with_arrays(live, arrays[name], query_of) for name, live in self._live.items()}
        if (there := inventory.arrived(done)) is not None:
            gone = CorpusChange(went=tuple(np.flatnonzero(~there).tolist()))
            for name, live in self._live.items():
                self._take(name, replace(live, available=there), gone)

    def vectors(self) -> np.ndarray:
        """(n, d) float64 Θ_t, read-only."""
        return self._live["run"].exact

    def round(self, t: int, trail: RoundLog) -> None:
        """Play round number t, from 1 on, and write it into the trail; then those documents come that do after it."""
        index = t - 1
        position = int(self._arrivals.queries[index])
        query, right = self._queries[position], self._right[position]
        trail.query[index] = position
        if self._whole_truth:
            trail.chance[index], trail.loss[index] = self._learn_all("run", index, query, right)
            trail.oracle[index] = trail.loss[index]
        else:
            self._learn(index, query, right, trail)
            if "oracle" in self._live:
                _, trail.oracle[index] = self._learn_all("oracle", index, query, right)
        coming = self._inventory.coming(t)
        for name, live in self._live.items() if coming else ():
            record = build_change(live, came=coming, warm=self._variant.newcomers == "neighbours")
            if record is not None:
                self._take(name, replace(live, available=self._inventory.arrived(t)), record)

    def _learn(self, index: int, query: Query, right: np.ndarray, trail: RoundLog) -> None:
        """Learn a round from feedback on what is drawn."""
        live = replace(self._live["run"], round=index)
        picker = self._variant.picker(right)
        draw = ask(live, query, self._variant.candidates, picker, round=index + 1)
        truth = bool((right == draw.item).any())
        good = self._arrivals.feedback(index, draw.item, truth)
        p = draw.probabilities[_there(live, right)]
        trail.item[index], trail.propensity[index] = draw.item, draw.propensity
        trail.good[index], trail.right[index] = good, truth
        trail.chance[index], trail.loss[index] = p.sum(), _loss(p)
        trail.top[index] = _unexplored(live, draw, self._variant.candidates, picker)
        self._take("run", live, outcome(live, draw, good, relevant=len(right) if self._sizes else 1))

    def _learn_all(self, name: str, index: int, query: Query, right: np.ndarray) -> tuple[float, float]:
        """Learn a round from full information; returns the probability of all right rows before it, and the loss.

        Nothing is learned where no right row has come.
        """
        live = replace(self._live[name], round=index)
        right = _there(live, right)
        if not len(right):
            return 0.0, np.nan
        event = full_information(live, query, right)
        p = np.asarray(event.coefficients)
        if live.available is not None:
            p = np.zeros(len(live))
            p[list(event.items)] = event.coefficients
        p = p[right] + 1.0 / len(right)  # the coefficients are p − 1/|S|
        self._take(name, live, event)
        return float(p.sum()), _loss(p)

    def _take(self, name: str, live: Session, record: MovingRecord) -> None:
        self._live[name] = replace(live, state=live.state.with_record(live.start, live.preset, record))

    def arrays(self) -> dict[str, dict[str, np.ndarray]]:
        """The arrays from which the run can go on."""
        return {name: arrays_of(live) for name, live in self._live.items()}


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


def _there(live: Session, rows: np.ndarray) -> np.ndarray:
    """Those of the rows that are available."""
    return rows if live.available is None else rows[live.available[rows]]


def _unexplored(live: Session, draw: Draw, k: int, picker: Reranker | None) -> int:
    """The row that would be shown if nothing were explored: the best score, or what is picked of the K best."""
    if picker is None:
        return int(np.argmax(draw.probabilities))
    best = np.argsort(-draw.probabilities, kind="stable")[:k]
    pick = picker(live, draw.query, tuple(best[draw.probabilities[best] > 0].tolist()))
    return pick[0] if isinstance(pick, tuple) else pick


def _loss(p: np.ndarray) -> float:
    return float(-np.log(np.maximum(p, MIN_PROPENSITY)).mean()) if len(p) else np.nan
