"""Document vectors Θ_t: a log folded over Θ₁, in float64 and in order (ORAG, Algorithm 1, lines 5–6; appendix B.2).

There are two forms. In `SparseState` every event moves only its own few documents, and the others are never read.
`MatrixState` holds a matrix, for steps that move all documents, batch several rounds or depend on earlier steps (AdamW:
Loshchilov & Hutter 2019, with its default parameters).

Every step is projected onto the trust region and then onto the ball. In this order the second projection cannot leave
the region, because the region's centre lies in the ball. The ball's radius is 1, or the length of the document's first
vector if that is longer: so a document that has not moved is always inside, and a step of 0 changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from operator import itemgetter

import numpy as np

from engine.feedback.presets import Preset
from engine.feedback.records import MAX_SMALL_ARRAY_SIZE, CorpusChange, Event, Journal, MovingRecord
from engine.space import Space

#: Defaults of torch.optim.AdamW.
ADAMW_WEIGHT_DECAY, ADAMW_BETAS, ADAMW_EPSILON = 0.01, (0.9, 0.999), 1e-8
#: Numbers of a matrix updated at a time: 256 KiB of float64 stay in the processor's cache.
STATE_BLOCK_NUMBERS = 1 << 15
#: Records between two cached matrix states of a session.
CACHED_STATE_STRIDE = 64
#: Limits on the matrix states that a session caches.
MAX_CACHED_STATES, MAX_CACHED_STATE_BYTES = 16, 1 << 28

#: Map from row to (d,) float64 vector, for the documents that have moved.
MovedVectors = dict[int, np.ndarray]


def freeze(array: np.ndarray) -> np.ndarray:
    """Make an array read-only, and return it."""
    array.flags.writeable = False
    return array


class StartVectors:
    """First vectors Θ₁ of a space, (n, d) in their own precision; shared by all its sessions."""

    def __init__(self, space: Space) -> None:
        """Take the vectors of a space, without a copy if they are on the CPU."""
        self.space = space
        self.vectors: np.ndarray = freeze(space.matrix.on_cpu.detach().numpy().view())
        # Sessions share one work matrix; `_overlaid` has the rows that it last held in place of the first vectors.
        self._matrix_lock = threading.RLock()
        self._overlaid: MovedVectors = {}

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    def row(self, row_index: int) -> np.ndarray:
        """Return the first vector of a document, (d,) float64."""
        vector: np.ndarray = self.vectors[row_index].astype(np.float64)
        return vector

    @cached_property
    def exact(self) -> np.ndarray:
        """First vectors as (n, d) float64, read-only."""
        return freeze(self.vectors.astype(np.float64))

    @contextmanager
    def overlay_moved(self, moved_vectors: MovedVectors) -> Iterator[np.ndarray]:
        """Yield an (n, d) float64 matrix of the first vectors in which some rows are replaced.

        So a session that stores only moved rows gets a matrix of all documents without a copy. moved_vectors: map from
        row to the vector that replaces it. The matrix is valid only inside the context.
        """
        # One matrix serves all sessions; from one to the next only the rows in which they differ are written.
        with self._matrix_lock:
            for row_index in self._overlaid.keys() - moved_vectors.keys():
                self._matrix[row_index] = self.vectors[row_index]
            for row_index, vector in moved_vectors.items():
                # Moved vectors are never changed in place, so the same object means the same numbers.
                if self._overlaid.get(row_index) is not vector:
                    self._matrix[row_index] = vector
            self._overlaid = moved_vectors
            yield self._matrix

    @cached_property
    def _matrix(self) -> np.ndarray:
        """Work matrix, (n, d) float64, that `overlay_moved` writes to."""
        return self.vectors.astype(np.float64)


@dataclass(frozen=True, eq=False)
class SparseState:
    """Vectors of a session as the moved documents alone; immutable, so each record gives another state."""

    moved_vectors: MovedVectors = field(default_factory=dict)
    n_computed: int = 0  # number of row updates computed so far

    def with_record(self, start: StartVectors, preset: Preset, record: MovingRecord) -> SparseState:
        """Return the document vectors after one more record, as another state; this one stays as it is.

        The record is an event or a corpus change. Only the rows that it names move. start: the first vectors; preset:
        the parameters by which documents move
        """
        moved_vectors = self.moved_vectors
        row_indices: Sequence[int] = tuple(record.drift) if isinstance(record, CorpusChange) else record.items
        for row_index in row_indices:
            first_vector = start.row(row_index)
            # A document that has not moved yet is still at its first vector.
            old_vector = moved_vectors.get(row_index, first_vector)
            new_vector = _apply_record(old_vector, first_vector, row_index, preset, record)
            # An update without effect returns the same array.
            if new_vector is not old_vector:
                # This state stays as it is: its map is copied before the first change (0.3 ms at 20,000 rows).
                if moved_vectors is self.moved_vectors:
                    moved_vectors = dict(moved_vectors)
                moved_vectors[row_index] = new_vector
        return SparseState(moved_vectors, self.n_computed + len(row_indices))

    def refold_rows(
        self, start: StartVectors, preset: Preset, journal: Journal, length: int, row_indices: Iterable[int]
    ) -> SparseState:
        """Return the state with some rows recomputed from their first vectors, by all records that move them.

        length: number of records of the journal to apply. An undo needs this: no step can be reversed exactly.
        """
        moved_vectors, n_computed = dict(self.moved_vectors), self.n_computed
        for row_index in row_indices:
            first_vector = current_vector = start.row(row_index)
            for record in journal.iter_row_moves(row_index, length):
                current_vector = _apply_record(current_vector, first_vector, row_index, preset, record)
                n_computed += 1
            # No record has moved it: a step of 0 returns the same array.
            if current_vector is first_vector:
                moved_vectors.pop(row_index, None)
            else:
                moved_vectors[row_index] = current_vector
        return SparseState(moved_vectors, n_computed)

    @contextmanager
    def matrix(self, start: StartVectors) -> Iterator[np.ndarray]:
        """Yield the document vectors after feedback, (n, d) float64; read-only, and only inside the context."""
        with start.overlay_moved(self.moved_vectors) as matrix:
            yield matrix

    def row(self, start: StartVectors, row_index: int) -> np.ndarray:
        """Return the vector of one document, (d,) float64."""
        moved_vector = self.moved_vectors.get(row_index)
        return start.row(row_index) if moved_vector is None else moved_vector

    def moved_rows(self) -> list[int]:
        """Return the rows that may differ from Θ₁, in rising order."""
        return sorted(self.moved_vectors)


def _apply_record(vector: np.ndarray, origin: np.ndarray, row: int, preset: Preset, record: MovingRecord) -> np.ndarray:
    """Return the vector of a document after one more record, an event or a corpus change, that moves it.

    vector, origin: (d,) current and first vector; row: row of the document, which must be among those of the record.
    """
    if isinstance(record, CorpusChange):
        return _move_vector(vector, origin, record.drift[row], 1.0, preset)
    items = record.items
    # Most events move a single row, for which no search is needed.
    coefficient = record.coefficients[0 if items[0] == row else items.index(row)]
    factor = -preset.step(record.round) * coefficient
    # The cap limits a single step, so that one wrong answer cannot throw a document far.
    factor = factor if preset.cap is None else max(-preset.cap, min(preset.cap, factor))
    return _move_vector(vector, origin, record.query.exact, factor, preset)


@dataclass(frozen=True, eq=False)
class MatrixState:
    """Vectors of a session as one matrix Θ_t, with the optimizer's state for the next step; immutable.

    Moments are AdamW's running means of the gradient and of its square, by which it scales each step.

    current: (n, d) float64 vectors.
    first_moment, second_moment: (n, d) moments of AdamW, None before the first step.
    n_steps: number of optimizer steps so far.
    pending_events: feedback of an incomplete batch.
    is_unavailable: (n,) bool, True for documents that are not available; None if all are.
    """

    current: np.ndarray
    first_moment: np.ndarray | None = None
    second_moment: np.ndarray | None = None
    n_steps: int = 0
    pending_events: tuple[Event, ...] = ()
    is_unavailable: np.ndarray | None = None

    def fold_records(self, start: StartVectors, preset: Preset, records: Iterable[MovingRecord]) -> MatrixState:
        """Return the document vectors after more records, as another state; this one stays as it is.

        A record moves documents or changes their availability.
        """
        matrix_fold = _MatrixFold(self, start, preset)
        for record in records:
            matrix_fold.add_record(record)
        return matrix_fold.freeze()

    def with_record(self, start: StartVectors, preset: Preset, record: MovingRecord) -> MatrixState:
        """Return the state after one more record."""
        return self.fold_records(start, preset, (record,))

    def refold_records(
        self,
        start: StartVectors,
        preset: Preset,
        journal: Journal,
        position: int,
        first_change: int,
        end: int,
        cached_states: CachedStates,
    ) -> tuple[MatrixState, CachedStates]:
        """Recompute the document vectors after a change to past feedback.

        Returns the state after the first `end` records of the journal (feedback and corpus changes), and the states
        cached on the way. Records are applied again from the latest state that the change leaves valid.

        position: number of records folded into this state; first_change: position of the earliest record whose effect
        has changed; cached_states: earlier states, of which those up to the change are still valid.
        """
        # Go on from the latest state that lies before the change; everything after it is recomputed.
        # A cached state is (number of records folded into it, state).
        valid_states = [cached_state for cached_state in cached_states if cached_state[0] <= first_change]
        begin_state = (position, self) if position <= first_change else (0, MatrixState(start.exact))
        position, state = max([begin_state, *valid_states], key=itemgetter(0))
        while position < end:
            # Stop at the next multiple of the stride, to cache the state there, or at the end.
            stop = min(end, position - position % CACHED_STATE_STRIDE + CACHED_STATE_STRIDE)
            state = state.fold_records(start, preset, journal.iter_moves(stop, position, end))
            position = stop
            if stop % CACHED_STATE_STRIDE == 0 and (not valid_states or valid_states[-1][0] < stop):
                valid_states.append((stop, state))
        # A state may hold three matrices: the vectors and two moments.
        max_states = min(MAX_CACHED_STATES, MAX_CACHED_STATE_BYTES // (3 * state.current.nbytes))
        if len(valid_states) > max_states:
            # Dropping every other state halves the memory and keeps the rest evenly spread over the log.
            valid_states = valid_states[1::2] if max_states > 1 else []
        return state, tuple(valid_states)

    @contextmanager
    def matrix(self, start: StartVectors) -> Iterator[np.ndarray]:
        """Yield the document vectors after feedback, (n, d) float64, which must only be read.

        start: not used here; `SparseState.matrix`, for which this stands in, needs it.
        """
        yield self.current

    def row(self, start: StartVectors, row_index: int) -> np.ndarray:
        """Return the vector of one document, (d,) float64.

        start: not used here; `SparseState.row`, for which this stands in, needs it.
        """
        vector: np.ndarray = self.current[row_index]
        return vector

    def moved_rows(self) -> range:
        """Return all rows, as each may differ from Θ₁."""
        return range(len(self.current))


#: Earlier states, each after the number of records folded into it.
CachedStates = tuple[tuple[int, MatrixState], ...]


class _MatrixFold:
    """Mutable builder that applies records to a MatrixState; read-only arrays are copied before a change."""

    def __init__(self, state: MatrixState, start: StartVectors, preset: Preset) -> None:
        """Start from document vectors, `state`; its arrays are copied when a record first changes them."""
        self.current, self.is_unavailable = state.current, state.is_unavailable
        self.first_moment, self.second_moment = state.first_moment, state.second_moment
        self.n_steps, self.pending_events = state.n_steps, list(state.pending_events)
        self.start, self.preset = start, preset

    def add_record(self, record: MovingRecord) -> None:
        """Apply a corpus change or a piece of feedback to the matrix of all document vectors.

        With a batched preset or AdamW, feedback waits until its batch of rounds is complete and moves documents then.
        """
        if isinstance(record, CorpusChange):
            old_mask = self.is_unavailable
            # The old array may belong to an earlier state, so it is copied.
            self.is_unavailable = np.zeros(len(self.current), dtype=bool) if old_mask is None else old_mask.copy()
            self.is_unavailable[list(record.came)] = False
            self.is_unavailable[list(record.went)] = True
            for row_index, drift in record.drift.items():
                self._move_row(row_index, drift, 1.0)
        # Plain gradient descent on one round at a time has nothing to wait for.
        elif self.preset.optimizer == "sgd" and self.preset.batch == 1:
            self._step_sgd(record)
        else:
            self._add_to_batch(record)

    def _make_writeable(self) -> None:
        """Copy the arrays if they are read-only, so that the MatrixState they come from stays as it is."""
        if not self.current.flags.writeable:
            self.current = self.current.copy()
            if self.first_moment is not None and self.second_moment is not None:
                self.first_moment, self.second_moment = self.first_moment.copy(), self.second_moment.copy()

    def _move_row(self, row_index: int, direction: np.ndarray, factor: float) -> None:
        """Move one document by factor · direction, within its bounds."""
        self._make_writeable()
        origin = self.start.exact[row_index]
        self.current[row_index] = _move_vector(self.current[row_index], origin, direction, factor, self.preset)

    def _step_sgd(self, event: Event) -> None:
        """Move the documents of one event by a plain gradient step, θ ← θ − η·g (ORAG, Algorithm 1, line 6).

        Three ways with one result, chosen for speed: row by row for a few rows, at once for some, in blocks for all.
        """
        preset, query_vector = self.preset, event.query.exact
        factors = _compute_factors(event, preset.step(event.round), preset.cap)
        if len(event.items) <= MAX_SMALL_ARRAY_SIZE:
            for row_index, row_factor in zip(event.items, factors.tolist(), strict=True):
                self._move_row(row_index, query_vector, row_factor)
            return
        self._make_writeable()
        item_rows = np.asarray(event.items)
        moves_all = len(item_rows) == len(self.current)
        if not moves_all:
            moving_rows = item_rows[factors != 0]
            self._set_rows(moving_rows, self.current[moving_rows] + np.outer(factors[factors != 0], query_vector))
            return
        # All documents move: the factors are brought into row order, and the update runs block by block in place.
        # Rows with factor 0 are restored, because a projection could move them in their last bit.
        factors = factors[np.argsort(item_rows)]
        still_rows = np.flatnonzero(factors == 0)
        still_vectors = self.current[still_rows]
        for block_rows in self._iter_blocks():
            block_vectors = self.current[block_rows]
            block_vectors += np.outer(factors[block_rows], query_vector)
            _bound_vectors(block_vectors, self.start.exact[block_rows], preset)
        self.current[still_rows] = still_vectors

    def _set_rows(self, row_indices: np.ndarray, vectors: np.ndarray) -> None:
        """Set some documents to new vectors, projected in place into the preset's trust region and unit ball."""
        _bound_vectors(vectors, self.start.exact[row_indices], self.preset)
        self.current[row_indices] = vectors

    def _iter_blocks(self) -> Iterator[slice]:
        """Yield slices of rows that fit the processor's cache together."""
        block_size = max(1, STATE_BLOCK_NUMBERS // self.current.shape[1])
        for block_start in range(0, len(self.current), block_size):
            yield slice(block_start, block_start + block_size)

    def _add_to_batch(self, event: Event) -> None:
        """Collect an event for a step that several rounds share, and take the step if their batch is complete.

        Batches are consecutive rounds, `preset.batch` of them.
        """
        # A batch ends with its last round, or when an event of another batch arrives.
        if self.pending_events and self._batch_index(event) != self._batch_index(self.pending_events[0]):
            self._step_batch()
        self.pending_events.append(event)
        if event.round % self.preset.batch == 0:
            self._step_batch()

    def _batch_index(self, event: Event) -> int:
        """Return the index of the batch to which an event belongs, from 0; rounds count from 1."""
        return (event.round - 1) // self.preset.batch

    def _step_batch(self) -> None:
        """Move the documents by one optimizer step for all pending events together, and clear these."""
        preset, batch_events, self.pending_events = self.preset, self.pending_events, []
        # Learning rates count steps from 1, batches from 0.
        step_rate = preset.step(self._batch_index(batch_events[0]) + 1)
        factors = np.zeros((len(self.current), len(batch_events)))
        is_sgd = preset.optimizer == "sgd"
        for column, event in enumerate(batch_events):
            # The cap limits a single event, so it is applied before the batch is summed.
            event_factors = _compute_factors(event, step_rate, preset.cap) if is_sgd else np.asarray(event.coefficients)
            # The mean over the batch's size, also if some of its rounds brought no feedback.
            factors[np.asarray(event.items), column] = event_factors / preset.batch
        query_vectors = np.stack([event.query.exact for event in batch_events])
        self.n_steps += 1
        self._make_writeable()
        if is_sgd:
            moving_rows = np.flatnonzero(factors.any(axis=1))
            if self.is_unavailable is not None:
                moving_rows = moving_rows[~self.is_unavailable[moving_rows]]
            self._set_rows(moving_rows, self.current[moving_rows] + factors[moving_rows] @ query_vectors)
        elif step_rate > 0:
            self._step_adamw(step_rate, factors, query_vectors)

    def _step_adamw(self, step_rate: float, factors: np.ndarray, query_vectors: np.ndarray) -> None:
        """Move all available documents by one AdamW step (Loshchilov & Hutter 2019), within their bounds.

        The gradient is `factors @ query_vectors`: factors, (n, m), has the coefficient of each document in each of m
        events.
        """
        if self.first_moment is None or self.second_moment is None:
            self.first_moment, self.second_moment = np.zeros_like(self.current), np.zeros_like(self.current)
        (beta_1, beta_2), preset = ADAMW_BETAS, self.preset
        for block_rows in self._iter_blocks():
            gradient = factors[block_rows] @ query_vectors
            first_moment, second_moment = self.first_moment[block_rows], self.second_moment[block_rows]
            first_moment += (1 - beta_1) * (gradient - first_moment)
            second_moment += (1 - beta_2) * (gradient * gradient - second_moment)
            new_vectors = self.current[block_rows] * (1 - step_rate * ADAMW_WEIGHT_DECAY)
            # The factors 1 − β^t correct the bias of moments that started at 0.
            root = np.sqrt(second_moment / (1 - beta_2**self.n_steps)) + ADAMW_EPSILON
            new_vectors -= step_rate / (1 - beta_1**self.n_steps) * first_moment / root
            _bound_vectors(new_vectors, self.start.exact[block_rows], preset)
            if self.is_unavailable is not None:
                is_unavailable = self.is_unavailable[block_rows]
                new_vectors[is_unavailable] = self.current[block_rows][is_unavailable]
            self.current[block_rows] = new_vectors

    def freeze(self) -> MatrixState:
        """Return the built MatrixState; its arrays become read-only."""
        for array in (self.current, self.first_moment, self.second_moment, self.is_unavailable):
            if array is not None:
                freeze(array)
        pending_events, moments = tuple(self.pending_events), (self.first_moment, self.second_moment)
        return MatrixState(self.current, *moments, self.n_steps, pending_events, self.is_unavailable)


def _compute_factors(event: Event, rate: float, cap: float | None) -> np.ndarray:
    """Return the multiples of the query's vector by which an event moves its documents, float64.

    It is −rate · coefficient, clipped to ± cap, None for no cap.
    """
    factors: np.ndarray = -rate * np.asarray(event.coefficients, dtype=np.float64)
    return factors if cap is None else np.clip(factors, -cap, cap)


def _move_vector(vector: np.ndarray, origin: np.ndarray, step: np.ndarray, factor: float, preset: Preset) -> np.ndarray:
    """Return a (d,) document moved by factor · step, within the bounds around `origin`, its first vector.

    The bounds are the preset's trust region (the largest distance from `origin`), and a ball around 0 of radius 1, or
    of the length of `origin` if that is larger. So a document that has not moved is inside both.
    """
    # A step of 0 returns the same array, by which callers see that the document has not moved.
    if factor == 0.0:
        return vector
    new_vector = factor * step
    new_vector += vector
    if preset.trust is not None:
        displacement = new_vector - origin
        distance = sqrt(displacement.dot(displacement))
        if distance > preset.trust:
            displacement *= preset.trust / distance
            new_vector = origin + displacement
    if preset.ball:
        new_length = sqrt(new_vector.dot(new_vector))
        if new_length > 1.0:
            radius = max(1.0, sqrt(origin.dot(origin)))
            if new_length > radius:
                new_vector *= radius / new_length
    return new_vector


def _bound_vectors(vectors: np.ndarray, origin: np.ndarray, preset: Preset) -> None:
    """Project documents into the trust region around their first vectors, then into the ball, in place.

    vectors, origin: (m, d) current and first vectors.
    """
    if preset.trust is not None:
        displacements = vectors - origin
        distances = _compute_norms(displacements)
        beyond_rows = np.flatnonzero(distances > preset.trust)
        shortening = (preset.trust / distances[beyond_rows])[:, None]
        vectors[beyond_rows] = origin[beyond_rows] + displacements[beyond_rows] * shortening
    if preset.ball:
        lengths, max_lengths = _compute_norms(vectors), np.maximum(1.0, _compute_norms(origin))
        beyond_rows = np.flatnonzero(lengths > max_lengths)
        vectors[beyond_rows] *= (max_lengths[beyond_rows] / lengths[beyond_rows])[:, None]


def _compute_norms(vectors: np.ndarray) -> np.ndarray:
    """Return the Euclidean norm of each row."""
    lengths: np.ndarray = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return lengths
