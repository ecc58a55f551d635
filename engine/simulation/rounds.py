"""Rounds of a simulated session: its draws and updates, without its log.

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

NO_ROW = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundLog:
    """The log of a simulation, one array of T entries for each fact of a round."""

    query: np.ndarray  # index of the query in the stream's
    item: np.ndarray  # the row shown, −1 where none was drawn
    propensity: np.ndarray  # its probability
    good: np.ndarray  # its feedback
    right: np.ndarray  # True if it is right
    chance: np.ndarray  # the probability of all right rows
    loss: np.ndarray  # the mean of −log p over the right rows that are there, NaN where none is
    oracle: np.ndarray  # the loss of the full-information oracle in that round, NaN where none ran
    top: np.ndarray  # the row that would be shown if nothing were explored, −1 where that is not known

    @classmethod
    def allocate(cls, n_rounds: int) -> "RoundLog":
        """Allocate an empty log of that many rounds, to be filled in place.

        Columns of rows are filled with NO_ROW, flags with False, all other numbers with NaN.
        """
        fill_values = {**dict.fromkeys(("query", "item", "top"), NO_ROW), **dict.fromkeys(("good", "right"), False)}
        return cls(**{column.name: np.full(n_rounds, fill_values.get(column.name, np.nan)) for column in fields(cls)})

    def __len__(self) -> int:
        return len(self.query)


def state_to_arrays(session: Session) -> dict[str, np.ndarray]:
    """Convert a feedback session's learning state to named arrays for a file; `restore_state` reads them.

    If the state stores moved rows only, they are returned; else all vectors, the optimiser's moments and pending
    feedback.
    """
    state = session.state
    if isinstance(state, SparseState):
        moved_rows = state.moved_rows()
        # The shape is given for the case that no row moved.
        moved = np.array(list(map(session.row, moved_rows))).reshape(len(moved_rows), session.start.dimension)
        return {"rows": np.array(moved_rows, np.int64), "moved": moved}
    arrays = {"now": state.current, "steps": np.array(state.n_steps)}
    # AdamW's moments exist after the first step only.
    if state.first_moment is not None and state.second_moment is not None:
        arrays |= {"first": state.first_moment, "second": state.second_moment}
    if state.pending_events:
        # Feedback is on all available documents. Where some arrived meanwhile, the earlier rows are shorter: −1 pads
        # them.
        max_items = max(len(event.items) for event in state.pending_events)
        shape = len(state.pending_events), max_items
        rounds, items, coefficients = np.zeros(len(state.pending_events), int), np.full(shape, NO_ROW), np.zeros(shape)
        for i, event in enumerate(state.pending_events):
            rounds[i] = event.round
            items[i, : len(event.items)], coefficients[i, : len(event.items)] = event.items, event.coefficients
        arrays |= {"rounds": rounds, "items": items, "coefficients": coefficients}
    return arrays


def restore_state(session: Session, arrays: Mapping[str, np.ndarray], query_of: Callable[[int], Query]) -> Session:
    """Return a feedback session with its learning state read from arrays that `state_to_arrays` made.

    The state has the moved documents alone, or all vectors with the optimiser's moments and the pending feedback, which
    waits for its batch to fill. query_of: round → its query, for the pending feedback
    """
    if session.preset.by_rows:
        moved_rows = dict(zip(arrays["rows"].tolist(), arrays["moved"], strict=True))
        return replace(session, state=SparseState(moved_rows))
    pending: list[Event] = []
    if "rounds" in arrays:
        # Pending feedback matters only by the rows that it moves and their coefficients.
        for number, items, coefficients in zip(arrays["rounds"], arrays["items"], arrays["coefficients"], strict=True):
            # Rows of feedback on fewer documents are padded with −1.
            item_rows, steps = tuple(items[items >= 0].tolist()), coefficients[items >= 0]
            # Item and good are placeholders: only what moves rows is read of pending feedback.
            pending.append(Event(number, "sampled", query_of(number), item_rows, steps, item=int(items[0]), good=True))
    state = MatrixState(arrays["now"], arrays.get("first"), arrays.get("second"), int(arrays["steps"]), tuple(pending))
    # A session's arrays are read-only, and its states may share them.
    for array in (state.current, state.first_moment, state.second_moment):
        if array is not None:
            array.flags.writeable = False
    return replace(session, state=state)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The embeddings at a checkpoint, stored as the rows that differ from those at the start.

    rows: rising; moved: (m, d) their vectors, in the start's precision
    """

    step: int
    rows: np.ndarray
    moved: np.ndarray

    @classmethod
    def of(cls, step: int, start: np.ndarray, vectors: np.ndarray) -> "Snapshot":
        """Build a snapshot of the embeddings after `step` rounds: the rows that differ from the start's.

        start, vectors: (n, d)
        """
        moved_rows = np.flatnonzero((start != vectors).any(1))
        return cls(step, moved_rows, vectors[moved_rows])

    def vectors(self, start: np.ndarray) -> np.ndarray:
        """Return all vectors at the checkpoint, (n, d): those of `start`, but for the rows that have moved."""
        vectors = np.array(start)
        vectors[self.rows] = self.moved
        return vectors


class Run:
    """A session that learns from a stream of queries, and beside it one that is told all answers (oracle).

    begun: the session before the first round. queries, right_rows: the stream's queries and the right rows of each.
    uses_full_truth: the run itself is told all answers, instead of drawing for feedback. shadow: run the oracle too.
    sizes: feedback says how many documents are right. variant, inventory: the way that documents are shown, and the
    rounds after which they come. done: rounds played before. arrays: the result of `arrays`, from which the run
    resumes. The documents move as the sessions' state; their journals stay empty.
    """

    def __init__(
        self, begun: Session, queries: Sequence[Query], right_rows: Sequence[np.ndarray], arrivals: Arrivals, *,
        uses_full_truth: bool, shadow: bool, sizes: bool, variant: Deployment, inventory: Inventory, done: int = 0,
        arrays: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    ) -> None:  # fmt: skip
        """Start or resume the simulation of a feedback session that learns from a stream of queries.

        begun: the session before the first round; queries, right_rows: the stream's queries and the rows judged right
        for each; arrivals: the order of the queries and which feedback is wrong. uses_full_truth: True if the session
        is told all right rows in place of feedback on one document; shadow: True if a second session, the oracle,
        learns beside it, which is told all right rows; sizes: True if praise counts 1/|S| for a query with |S| right
        documents; variant: how documents are shown; inventory: after which rounds documents arrive; done: the number of
        rounds played so far; arrays: the stored states to resume from.
        """
        self._queries, self._right, self._arrivals = queries, right_rows, arrivals
        self._whole_truth, self._sizes, self._variant, self._inventory = uses_full_truth, sizes, variant, inventory
        # Full information moves all documents, in mode "full", whatever the preset says.
        full_session = empty(begun.start, replace(begun.preset, mode="full"), begun.temperature)
        self._live = {"run": full_session if uses_full_truth else begun}
        if shadow and not uses_full_truth:
            self._live["oracle"] = full_session
        if arrays is not None:

            def query_of(number: int) -> Query:
                # Rounds count from 1.
                return queries[int(arrivals.queries[number - 1])]

            self._live = {name: restore_state(session, arrays[name], query_of) for name, session in self._live.items()}
        # Stored states do not say which documents have arrived. In a new run as in a resumed one, those that have not
        # arrived by the round `done` are removed here.
        if (is_available := inventory.find_available(done)) is not None:
            removal = CorpusChange(went=tuple(np.flatnonzero(~is_available).tolist()))
            for name, session in self._live.items():
                self._apply_record(name, replace(session, available=is_available), removal)

    def vectors(self) -> np.ndarray:
        """Return the present document vectors, (n, d) float64, read-only."""
        return self._live["run"].exact

    def play_round(self, t: int, trail: RoundLog) -> None:
        """Play round t, from 1 on: show a document, learn from its feedback, write both to the log.

        A session that is told all right documents learns from these instead of feedback; so does an oracle that learns
        beside the session. Then the documents that arrive after the round are added. trail: the log, filled in place
        """
        round_index = t - 1
        query_index = int(self._arrivals.queries[round_index])
        query, right_rows = self._queries[query_index], self._right[query_index]
        trail.query[round_index] = query_index
        if self._whole_truth:
            trail.chance[round_index], trail.loss[round_index] = self._learn_all("run", round_index, query, right_rows)
            trail.oracle[round_index] = trail.loss[round_index]
        else:
            self._learn(round_index, query, right_rows, trail)
            if "oracle" in self._live:
                _chance, trail.oracle[round_index] = self._learn_all("oracle", round_index, query, right_rows)
        # Newcomers come after the round, so that its feedback does not move them.
        new_rows = self._inventory.list_arrivals(t)
        for name, session in self._live.items() if new_rows else ():
            # Warm: a newcomer's vector is moved as its nearest documents have moved.
            record = build_change(session, came=new_rows, warm=self._variant.newcomers == "neighbours")
            if record is not None:
                self._apply_record(name, replace(session, available=self._inventory.find_available(t)), record)

    def _learn(self, round_index: int, query: Query, right_rows: np.ndarray, trail: RoundLog) -> None:
        """Play a round of feedback: draw a document, take its feedback, learn, and write it all to `trail`.

        round_index: from 0; right_rows: of the documents that are right for the query; trail: the log, with an array
        for each fact of a round, such as the probability of the document that was drawn (propensity)
        """
        session = replace(self._live["run"], round=round_index)
        # The judgements' reranker knows the right rows of this query alone, so it is made anew each round.
        picker = self._variant.make_picker(right_rows)
        draw = ask(session, query, self._variant.candidates, picker, round=round_index + 1)
        is_right = bool((right_rows == draw.item).any())
        is_good = self._arrivals.give_feedback(round_index, draw.item, is_right)
        right_chances = draw.probabilities[_select_available(session, right_rows)]
        trail.item[round_index], trail.propensity[round_index] = draw.item, draw.propensity
        trail.good[round_index], trail.right[round_index] = is_good, is_right
        trail.chance[round_index], trail.loss[round_index] = right_chances.sum(), _compute_loss(right_chances)
        # The document that would have been shown without any random exploration.
        trail.top[round_index] = _find_unexplored(session, draw, self._variant.candidates, picker)
        # Praise is divided by this number.
        n_relevant = len(right_rows) if self._sizes else 1
        self._apply_record("run", session, outcome(session, draw, is_good, relevant=n_relevant))

    def _learn_all(self, name: str, round_index: int, query: Query, right_rows: np.ndarray) -> tuple[float, float]:
        """Let a session learn from all right rows of a round; return their chance before it, and the loss.

        name: "run", the simulated session, or "oracle", the one that learns beside it; chance: the total probability of
        the right rows. Nothing is learned where none of them has arrived in the corpus.
        """
        session = replace(self._live[name], round=round_index)
        right_rows = _select_available(session, right_rows)
        if not len(right_rows):
            return 0.0, np.nan
        event = full_information(session, query, right_rows)
        coefficients = np.asarray(event.coefficients)
        # Coefficients are one per available document; the right rows are rows of the corpus.
        if session.available is not None:
            coefficients = np.zeros(len(session))
            coefficients[list(event.items)] = event.coefficients
        # The coefficient of a right document is p − 1/|S|, of which p is its chance.
        right_chances = coefficients[right_rows] + 1.0 / len(right_rows)
        self._apply_record(name, session, event)
        return float(right_chances.sum()), _compute_loss(right_chances)

    def _apply_record(self, name: str, session: Session, record: MovingRecord) -> None:
        """Apply a feedback event, or a change of the corpus, to a session's vectors; keep the moved session."""
        self._live[name] = replace(session, state=session.state.with_record(session.start, session.preset, record))

    def arrays(self) -> dict[str, dict[str, np.ndarray]]:
        """Return for each session of the run its learning state as arrays, from which the run can resume."""
        return {name: state_to_arrays(session) for name, session in self._live.items()}


def iterate_events(
    begun: Session, queries: Sequence[Query], right_rows: Sequence[np.ndarray], trail: RoundLog, sizes: bool
) -> Iterator[Event]:
    """Yield a simulation's feedback as events, as the feedback session `begun` would record it.

    Each event moves the one document that was drawn and shown in its round. trail: the log of the rounds; right_rows:
    the right documents of each query; sizes: praise is divided by their number, |S|
    """
    columns = (trail.query, trail.item, trail.propensity, trail.good)
    rounds = zip(*map(np.ndarray.tolist, columns), strict=True)
    for round_number, (query_index, item, propensity, is_good) in enumerate(rounds, 1):
        n_relevant = len(right_rows[query_index]) if sizes else 1
        # Inverse propensity weighting makes the gradient unbiased.
        weight = 1.0 / (propensity * n_relevant) if is_good else 0.0
        yield Event(
            round_number, "sampled", queries[query_index], items=(item,), coefficients=(1.0 - weight,), item=item,
            good=is_good, propensity=propensity, mode=begun.preset.mode, shown=(item,), writer=begun.writer,
        )  # fmt: skip


def _select_available(session: Session, rows: np.ndarray) -> np.ndarray:
    """Return those of the rows whose documents have arrived."""
    return rows if session.available is None else rows[session.available[rows]]


def _find_unexplored(session: Session, draw: Draw, k: int, picker: Reranker | None) -> int:
    """Return the row that a round without random draws would show: the top-scored, or the reranker's pick.

    draw: the round's actual draw, with the probabilities of all documents, which rise with their scores; picker: the
    reranker that picks among the k top-scored documents, None for none
    """
    if picker is None:
        return int(np.argmax(draw.probabilities))
    # Documents that cannot be drawn have probability 0, and are no candidates without exploration either.
    best_rows = np.argsort(-draw.probabilities, kind="stable")[:k]
    picked = picker(session, draw.query, tuple(best_rows[draw.probabilities[best_rows] > 0].tolist()))
    # A reranker may return the chance of its pick too.
    return picked[0] if isinstance(picked, tuple) else picked


def _compute_loss(chances: np.ndarray) -> float:
    """Return the mean −log of the right documents' chances, NaN without a right document."""
    return float(-np.log(np.maximum(chances, MIN_PROPENSITY)).mean()) if len(chances) else np.nan
