"""A deployment played from judgements: queries come, documents are drawn, judgements answer, embeddings move.

Online-Optimized RAG, §4 and App. C. Everything is drawn by the preset's seed and the number of the round, so that a
simulation that was stopped goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from engine.candidates import exactly
from engine.decoder import SET_SIZE, Decoder, QueryLike, query_batch
from engine.errors import Cancelled, ParamError
from engine.learning.checkpoints import HELD_OUT, STREAM, Checkpoint, Part, adapted, cells, sampled
from engine.learning.drift import drift, origin, smoothed
from engine.learning.orag import Event, Preset, Query, Session, replay
from engine.learning.orag import session as begin
from engine.learning.orag.presets import preset_of
from engine.learning.regret import Bounds, Hindsight, Rounds, bounds, doubts, hindsight
from engine.learning.runs import Run, Snapshot, Trail, events
from engine.learning.saving import Kept
from engine.learning.streams import Arrivals, Stream, arrivals, divided, rare_rows, right_counts
from engine.params import Choice, Flag, Real, Whole, declare, params_of, values_of
from engine.progress import Progress, Stop
from engine.space import Space
from engine.stages import make
from engine.values import Embeddings, Qrels

SIMULATING = "simulating"
BLOCK, LARGE = 32, 50_000
"""Between two words on progress: so many rounds, or one where there are more documents than that."""


@dataclass(frozen=True)
class Plan:
    """What is learned from, and what is looked at on the way. Raises ParamError."""

    learner: str = declare(
        Choice(
            default="feedback",
            options=("feedback", "oracle"),
            symbol="learner",
            help="Learn from feedback on what is drawn, or from the whole truth: the best that feedback could do.",
            source="§5",
        )
    )
    held_out: float = declare(
        Real(
            default=0.2,
            low=0.0,
            high=0.9,
            symbol="held out",
            help="Share of the queries that are never learned from, where no split of its own is given.",
        )
    )
    checkpoints: int = declare(
        Whole(default=10, low=1, high=1000, comfortable=(1, 50), symbol="checkpoints", help="How often to measure.")
    )
    measured: int | None = declare(
        Whole(
            default=1000,
            low=1,
            comfortable=(100, 5000),
            unset="all",
            symbol="measured",
            help="At most so many queries are measured, a seeded sample of the held-out ones and of the stream's.",
        )
    )
    regret: str = declare(
        Choice(
            default="oracle",
            options=("none", "oracle", "hindsight"),
            symbol="regret",
            help="Against the full-information oracle of the same step, and against the best embeddings in hindsight.",
            source="Theorem 5.1",
        )
    )
    sizes: bool = declare(
        Flag(
            default=False,
            symbol="|S| known",
            help="How many documents are right is known, and feedback is weighted by 1/|S|.",
        )
    )

    def __post_init__(self) -> None:
        for param in params_of(self):
            object.__setattr__(self, param.name, param.check(getattr(self, param.name)))


@dataclass(frozen=True, eq=False)
class Regret:
    """What learning cost, added up round by round, in nats, each (T,) or None where it was not asked for.

    oracle: the loss beyond the full-information oracle's of the same step; best: beyond the best embeddings in
    hindsight; bounds: what theory promises of the latter; doubts: why that does not bind this run, none where it does.
    """

    oracle: np.ndarray | None
    best: np.ndarray | None
    bounds: Bounds | None
    doubts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Simulated:
    """What a simulation found.

    begun: the session before the first round; queries, right: of the stream; checkpoints: from round 0 to the last;
    trail: round by round; final: (n, d) float64 Θ_T; snapshots: Θ_t at the checkpoints, none where they are too large
    to keep; left_out: queries without a right document in the corpus, which take no part.
    """

    begun: Session
    stream: Stream
    plan: Plan
    queries: tuple[Query, ...] = field(repr=False)
    right: tuple[np.ndarray, ...] = field(repr=False)
    checkpoints: tuple[Checkpoint, ...] = field(repr=False)
    trail: Trail = field(repr=False)
    final: np.ndarray = field(repr=False)
    snapshots: tuple[Snapshot, ...] = field(repr=False)
    left_out: int = 0
    hindsight: Hindsight | None = field(default=None, repr=False)

    def embeddings(self) -> Embeddings:
        """The adapted documents as embeddings like any other."""
        return adapted(self.begun.space, self.final.astype(self.begun.origin.dtype)).embeddings

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The feedback, as sessions take it. Raises ParamError where an event moves more than the document shown."""
        if self.plan.learner != "feedback" or self.begun.preset.mode != "chosen":
            raise ParamError(
                "events of a simulation are there for learner 'feedback' with mode 'chosen'; this one has learner "
                f"{self.plan.learner!r}, mode {self.begun.preset.mode!r}"
            )
        return tuple(events(self.begun, self.queries, self.right, self.trail, self.plan.sizes))

    def session(self) -> Session:
        """A session that was fed what the simulation was: its documents are the simulation's, bit by bit."""
        return replay(self.begun, self.events)

    @cached_property
    def regret(self) -> Regret:
        trail, how = self.trail, self.begun.preset
        told = None if self.plan.regret == "none" else np.cumsum(trail.loss - trail.oracle)
        if self.hindsight is None:
            return Regret(told, None, None, ())
        seen = np.unique(trail.query)
        at = np.searchsorted(seen, trail.query)
        best = np.cumsum(trail.loss - self.hindsight.losses[at])
        right = [self.right[q] for q in seen]
        honest = self.stream.flips == self.stream.adversary == self.stream.popularity == 0
        cap = how.cap if self.plan.learner == "feedback" else None
        moved = ((self.hindsight.vectors - self.begun.start.exact) ** 2).sum(1)
        left = how.trust is not None and bool(np.sqrt(moved.max()) > how.trust)
        said = doubts(
            right, optimizer=how.optimizer, schedule=how.schedule, batch=how.batch, cap=cap, honest=honest, left=left
        )
        promised = None
        if how.rate > 0 and all(len(rows) == 1 for rows in right):
            far = float(moved.sum())
            squares = np.array([self.queries[q].exact @ self.queries[q].exact for q in seen])[at]
            whole = how.mode == "full"
            promised = bounds(far, trail.chance, squares, how.rate, self.begun.temperature, whole)
        return Regret(told, best, promised, said)


@exactly
def simulate(
    space: Space,
    queries: QueryLike,
    qrels: Qrels,
    *,
    preset: str | Preset = "default",
    stream: Stream = Stream(),  # noqa: B008
    plan: Plan = Plan(),
    held_out: Qrels | None = None,
    decoders: Sequence[Decoder] = (),
    k: int = 10,
    file: str | Path | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
    seen: Callable[[Checkpoint], None] | None = None,
    **overrides: Any,
) -> Simulated:
    """Let a session learn from a stream of judged queries, and measure it on the way.

    queries: all that the judgements name; qrels: the stream's; held_out: judgements of queries that are only measured,
    by default a seeded share of the stream's; decoders: which are measured, by default the most relevant documents;
    k: at which; preset, overrides: as `orag.session` takes them; file: kept up to date, so that a simulation that was
    stopped goes on from there. progress(done, total, label): every few rounds; stop: every round; seen: called with
    every checkpoint, those of the file first. Raises ParamError, DataError, Cancelled.
    """
    k = SET_SIZE.check(k)
    decoders = tuple(dict.fromkeys(decoders)) or (Decoder(make("top_k")),)
    task = _task(space, queries, qrels, held_out, preset_of(preset, overrides), stream, plan)
    begun, length = task.begun, len(task.arrivals)
    kept = Kept(None if file is None else Path(file), _settings(task, stream, plan, decoders, k))
    done, history, found = kept.load(length)
    trail = history.trail
    run = Run(
        begun, task.asked, task.right, task.arrivals, whole_truth=plan.learner == "oracle",
        shadow=plan.regret != "none", sizes=plan.sizes, found=found,
    )  # fmt: skip
    here = origin(
        begun.origin, task.probes.queries, right=task.probed, temperature=begun.temperature, seed=begun.preset.seed
    )
    steps = set(np.rint(np.linspace(0, length, plan.checkpoints + 1)).astype(int).tolist())
    for checkpoint in history.checkpoints if seen is not None else ():
        seen(checkpoint)
    for t in range(done, length + 1):
        if progress is not None and (t % BLOCK == 0 or t == length or len(space) > LARGE):
            progress(t, length, SIMULATING)
        if stop is not None and stop.is_set():
            kept.save(t, history, run.arrays())
            raise Cancelled(f"the simulation was stopped after {t:,} of {length:,} rounds{kept.told}")
        if t in steps and t not in history.steps:
            now = run.moving.vectors().astype(begun.origin.dtype)
            success = smoothed(trail.good[:t]) if plan.learner == "feedback" else None
            reached = cells(task.parts, decoders, space, adapted(space, now), k)
            moved = drift(here, now, t, success=success, ball=begun.preset.ball)
            checkpoint = Checkpoint(t, reached, moved)
            history = history.after(checkpoint, Snapshot.of(t, begun.origin, now))
            kept.save(t, history, run.arrays())
            if seen is not None:
                seen(checkpoint)
        if t < length:
            run.round(t + 1, trail)
    best = None
    if plan.regret == "hindsight":
        every, times = np.unique(trail.query, return_counts=True)
        points = np.stack([task.asked[q].exact for q in every])
        rounds = Rounds(points, tuple(task.right[q] for q in every), times.astype(float), begun.temperature)
        best = hindsight(begun.start.exact, rounds, progress=progress, stop=stop)
    return Simulated(
        begun, stream, plan, task.asked, task.right, history.checkpoints, trail, run.moving.vectors(),
        history.snapshots, task.left_out, best,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Task:
    """A simulation, checked. begun: the session before the first round; asked, right: of the stream; parts: what is
    measured, the probes' first; probed: the probes' right rows."""

    begun: Session
    asked: tuple[Query, ...]
    right: tuple[np.ndarray, ...]
    arrivals: Arrivals
    parts: tuple[Part, ...]
    probed: tuple[np.ndarray, ...]
    left_out: int
    data: dict[str, str]

    @property
    def probes(self) -> Part:
        return self.parts[0]


def _task(
    space: Space, queries: QueryLike, qrels: Qrels, held_out: Qrels | None, preset: Preset, stream: Stream, plan: Plan
) -> _Task:
    for name, value, kind in (("qrels", qrels, Qrels), ("stream", stream, Stream), ("plan", plan, Plan)):
        if not isinstance(value, kind):
            raise ParamError(f"{name} must be a {kind.__name__}; got {value!r:.80}")
    batch = query_batch(space, queries)
    known = Embeddings(batch.vectors.cpu(), batch.ids, space.embeddings.encoder, batch.texts)
    place = {query: row for row, query in enumerate(known.ids)}
    learned, kept, left_out = divided(
        known.ids, space.corpus.position, qrels, held_out, share=plan.held_out, seed=preset.seed
    )
    other = qrels if held_out is None else held_out
    rare = rare_rows(right_counts(list(learned.values()), len(space)))
    parts, rows = [], []
    for name, part_of, judgements in ((HELD_OUT, kept, other), (STREAM, learned, qrels)):
        if part_of:
            few = sampled(list(part_of), plan.measured, preset.seed)
            rows.append(tuple(part_of[q] for q in few))
            tail = np.array([rare[own].all() for own in rows[-1]], dtype=bool)
            parts.append(Part(name, known.take([place[q] for q in few]), judgements, tail))
    stream_rows = [place[q] for q in learned]
    begun = begin(space, preset, queries=known.take(stream_rows))
    right = tuple(learned.values())
    return _Task(
        begun,
        tuple(_question(known, row) for row in stream_rows),
        right,
        arrivals(stream, right, len(space), preset.seed, preset.exposure),
        tuple(parts),
        rows[0],
        left_out,
        {"queries": known.digest, "qrels": qrels.digest, "held_out": "" if held_out is None else held_out.digest},
    )


def _question(queries: Embeddings, row: int) -> Query:
    vector = queries.vectors[row].numpy().copy()
    vector.flags.writeable = False
    return Query(vector, queries.texts[row] if queries.texts else None)


def _settings(task: _Task, stream: Stream, plan: Plan, decoders: Sequence[Decoder], k: int) -> dict[str, Any]:
    """All that decides what a simulation finds, as plain JSON values."""
    space = task.begun.space
    return {
        "corpus": space.corpus.digest,
        "embeddings": space.embeddings.digest,
        **task.data,
        "preset": task.begun.preset.as_json(),
        "stream": values_of(stream),
        "plan": {**values_of(plan), "regret": plan.regret != "none"},
        "decoders": [decoder.label for decoder in decoders],
        "k": k,
    }
