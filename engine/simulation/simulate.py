"""Simulated deployment: queries come, documents are drawn, judgements answer, embeddings move.

Online-Optimized RAG, §4 and App. C. Everything is drawn by the preset's seed and the number of the round, so that a
simulation that was stopped goes on as if it had not been. Its size can be told beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE, Decoder, QueryLike, query_batch
from engine.drift.measures import DriftBaseline, drift, origin, smoothed
from engine.drift.round_metrics import (
    HELD_OUT,
    STREAM,
    Part,
    RoundMetrics,
    adapted,
    cells,
    rare_rows,
    right_counts,
    sampled,
)
from engine.errors import Cancelled, ParamError
from engine.feedback import Event, Preset, Query, Session, replay
from engine.feedback import session as begin
from engine.feedback.presets import preset_of
from engine.params import Choice, Declared, Flag, Real, Whole, declare, values_of
from engine.progress import Progress, Stop
from engine.simulation.feedback_model import Arrivals, Stream, arrivals, divided, rounds_of
from engine.simulation.file import History, SimulationFile
from engine.simulation.regret import Hindsight, RegretBounds, Rounds, bounds, doubts, hindsight
from engine.simulation.rounds import RoundLog, Run, Snapshot, events
from engine.space import Space
from engine.stages import make
from engine.values import Embeddings, Qrels

SIMULATING = "simulating"
BLOCK, LARGE = 32, 50_000
"""Progress is reported every BLOCK rounds, and every round of a corpus of more than LARGE documents."""


@dataclass(frozen=True)
class Plan(Declared):
    """What is learned from, and what is measured on the way. Raises ParamError."""

    learner: str = declare(
        Choice("feedback", "learner", ("feedback", "oracle"), source="§5"),
        "Learn from feedback on what is drawn, or from the whole truth: the best that feedback could do.",
    )
    held_out: float = declare(
        Real(0.2, "held out", 0.0, 0.9),
        "Share of the queries that are never learned from, where no split of its own is given.",
    )
    checkpoints: int = declare(Whole(10, "checkpoints", 1, 1000, comfortable=(1, 50)), "How often to measure.")
    measured: int | None = declare(
        Whole(1000, "measured", 1, comfortable=(100, 5000), unset="all"),
        "At most so many queries are measured, a seeded sample of the held-out ones and of the stream's.",
    )
    regret: str = declare(
        Choice("oracle", "regret", ("none", "oracle", "hindsight"), source="Theorem 5.1"),
        "Against the full-information oracle of the same step, and against the best embeddings in hindsight.",
    )
    sizes: bool = declare(
        Flag(False, "|S| known"), "How many documents are right is known, and feedback is weighted by 1/|S|."
    )


@dataclass(frozen=True, eq=False)
class Regret:
    """Cumulative regret by round, in nats, each (T,) or None where the plan leaves it out."""

    oracle: np.ndarray | None  # the loss beyond the full-information oracle's of the same step
    best: np.ndarray | None  # the loss beyond the best embeddings in hindsight
    bounds: RegretBounds | None  # what theory promises of the latter
    doubts: tuple[str, ...]  # why that does not bind this run, none where it does


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class _Setup:
    """A simulation, checked: all that decides what it finds.

    begun: the session before the first round.
    queries, right: the stream's queries and the right rows of each.
    parts: the queries that are measured, the probes first.
    right_of_probes: the right rows of each probe.
    left_out: queries without a right document in the corpus, which take no part.
    digests: of queries and judgements, by name.
    """

    begun: Session
    stream: Stream
    plan: Plan
    decoders: tuple[Decoder, ...]
    k: int
    queries: tuple[Query, ...]
    right: tuple[np.ndarray, ...]
    arrivals: Arrivals
    parts: tuple[Part, ...]
    right_of_probes: tuple[np.ndarray, ...]
    left_out: int
    digests: Mapping[str, str]

    @cached_property
    def baseline(self) -> DriftBaseline:
        begun, probes = self.begun, self.parts[0].queries
        return origin(
            begun.origin, probes, right=self.right_of_probes, temperature=begun.temperature, seed=begun.preset.seed
        )

    def measured(self, t: int, now: np.ndarray, trail: RoundLog) -> RoundMetrics:
        """Decoders and drift after t rounds; now: (n, d) Θ_t."""
        space = self.begun.space
        success = smoothed(trail.good[:t]) if self.plan.learner == "feedback" else None
        reached = cells(self.parts, self.decoders, space, adapted(space, now), self.k)
        return RoundMetrics(t, reached, drift(self.baseline, now, t, success=success, ball=self.begun.preset.ball))

    def rounds(self, trail: RoundLog) -> Rounds:
        """The different queries of the rounds, for the search of the best embeddings in hindsight."""
        queries, times = np.unique(trail.query, return_counts=True)
        points = np.stack([self.queries[q].exact for q in queries])
        right = tuple(self.right[q] for q in queries)
        return Rounds(points, right, times.astype(float), self.begun.temperature)

    def settings(self) -> dict[str, Any]:
        """All that decides what a simulation finds, as plain JSON values."""
        space = self.begun.space
        return {
            "corpus": space.corpus.digest,
            "embeddings": space.embeddings.digest,
            **self.digests,
            "preset": self.begun.preset.as_json(),
            "stream": values_of(self.stream),
            "plan": {**values_of(self.plan), "regret": self.plan.regret != "none"},
            "decoders": [decoder.label for decoder in self.decoders],
            "k": self.k,
        }


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Simulated(_Setup):
    """Results of a simulation.

    checkpoints: from round 0 to the last.
    trail: round by round.
    final: (n, d) float64 Θ_T.
    snapshots: Θ_t at the checkpoints, of every second one where they are too large to keep.
    """

    checkpoints: tuple[RoundMetrics, ...]
    trail: RoundLog
    final: np.ndarray
    snapshots: tuple[Snapshot, ...]
    hindsight: Hindsight | None

    def embeddings(self) -> Embeddings:
        """The adapted documents as embeddings like any other."""
        return adapted(self.begun.space, self.final.astype(self.begun.origin.dtype)).embeddings

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The feedback as events. Raises ParamError where an event moves more than the document shown."""
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
        trail, preset = self.trail, self.begun.preset
        oracle = None if self.plan.regret == "none" else np.cumsum(trail.loss - trail.oracle)
        if self.hindsight is None:
            return Regret(oracle, None, None, ())
        queries, position = np.unique(trail.query, return_inverse=True)
        best = np.cumsum(trail.loss - self.hindsight.losses[position])
        right = [self.right[q] for q in queries]
        moved = ((self.hindsight.vectors - self.begun.start.exact) ** 2).sum(1)
        reasons = doubts(
            right,
            preset,
            capped=preset.cap is not None and self.plan.learner == "feedback",
            honest=self.stream.flips == self.stream.adversary == self.stream.popularity == 0,
            left=preset.trust is not None and bool(np.sqrt(moved.max()) > preset.trust),
        )
        promised = None
        if preset.rate > 0 and all(len(rows) == 1 for rows in right):
            squares = np.array([self.queries[q].exact @ self.queries[q].exact for q in queries])[position]
            full = preset.mode == "full"
            promised = bounds(float(moved.sum()), trail.chance, squares, preset.rate, self.begun.temperature, full)
        return Regret(oracle, best, promised, reasons)


@without_autocast
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
    seen: Callable[[RoundMetrics], None] | None = None,
    **overrides: Any,
) -> Simulated:
    """Let a session learn from a stream of judged queries, and measure it on the way.

    queries: all that the judgements name; qrels: the stream's; held_out: judgements of queries that are only measured,
    by default a seeded share of the stream's; decoders: which are measured, by default the most relevant documents;
    k: at which; preset, overrides: as `orag.session` takes them; file: kept up to date, so that a simulation that was
    stopped goes on from there. progress(done, total, label): every few rounds; stop: every round; seen: called with
    every checkpoint, those of the file first. Raises ParamError, DataError, Cancelled.
    """
    setup = _setup(
        space, queries, qrels, held_out, preset_of(preset, overrides), stream, plan,
        tuple(dict.fromkeys(decoders)) or (Decoder(make("top_k")),), SET_SIZE.check(k),
    )  # fmt: skip
    begun = setup.begun
    store = SimulationFile(None if file is None else Path(file), setup.settings())
    done, history, arrays = store.load(len(setup.arrivals))
    run = Run(
        begun, setup.queries, setup.right, setup.arrivals, whole_truth=plan.learner == "oracle",
        shadow=plan.regret != "none", sizes=plan.sizes, arrays=arrays,
    )  # fmt: skip
    seen = seen or (lambda checkpoint: None)
    for checkpoint in history.checkpoints:
        seen(checkpoint)
    history = _played(setup, run, store, done, history, progress, stop, seen)
    best = None
    if plan.regret == "hindsight":
        best = hindsight(begun.start.exact, setup.rounds(history.trail), progress=progress, stop=stop)
    given = {each.name: getattr(setup, each.name) for each in fields(setup)}
    return Simulated(
        **given, checkpoints=history.checkpoints, trail=history.trail, snapshots=history.snapshots,
        final=run.vectors().copy(), hindsight=best,
    )  # fmt: skip


def _played(
    setup: _Setup, run: Run, store: SimulationFile, done: int, history: History,
    progress: Progress | None, stop: Stop | None, seen: Callable[[RoundMetrics], None],
) -> History:  # fmt: skip
    """Results after all rounds from number `done` on; stored at every checkpoint, and where it is stopped."""
    first, length = setup.begun.origin, len(setup.arrivals)
    steps = set(np.rint(np.linspace(0, length, setup.plan.checkpoints + 1)).astype(int).tolist())
    for t in range(done, length + 1):
        if progress is not None and (t % BLOCK == 0 or t == length or len(first) > LARGE):
            progress(t, length, SIMULATING)
        if stop is not None and stop.is_set():
            store.save(t, history, run.arrays())
            raise Cancelled(f"the simulation was stopped after {t:,} of {length:,} rounds{store.advice}")
        if t in steps and t not in history.steps:
            now = run.vectors().astype(first.dtype)
            checkpoint = setup.measured(t, now, history.trail)
            history = history.after(checkpoint, Snapshot.of(t, first, now))
            store.save(t, history, run.arrays())
            seen(checkpoint)
        if t < length:
            run.round(t + 1, history.trail)
    return history


def _setup(
    space: Space, queries: QueryLike, qrels: Qrels, held_out: Qrels | None, preset: Preset, stream: Stream, plan: Plan,
    decoders: tuple[Decoder, ...], k: int,
) -> _Setup:  # fmt: skip
    for name, value, kind in (("qrels", qrels, Qrels), ("stream", stream, Stream), ("plan", plan, Plan)):
        if not isinstance(value, kind):
            raise ParamError(f"{name} must be a {kind.__name__}; got {value!r:.80}")
    batch = query_batch(space, queries)
    known = Embeddings(batch.ids, batch.vectors.cpu(), space.embeddings.encoder, batch.texts)
    position = {query: row for row, query in enumerate(known.ids)}
    learned, apart, left_out = divided(
        known.ids, space.corpus.position, qrels, held_out, share=plan.held_out, seed=preset.seed
    )
    rare = rare_rows(right_counts(list(learned.values()), len(space)))
    parts, right_of_parts = [], []
    measured = qrels if held_out is None else held_out
    for name, right_rows, judgements in ((HELD_OUT, apart, measured), (STREAM, learned, qrels)):
        if right_rows:
            ids = sampled(list(right_rows), plan.measured, preset.seed)
            right_of_parts.append(tuple(right_rows[q] for q in ids))
            tail = np.array([rare[rows].all() for rows in right_of_parts[-1]], dtype=bool)
            parts.append(Part(name, known.take([position[q] for q in ids]), judgements, tail))
    stream_rows = [position[q] for q in learned]
    right = tuple(learned.values())
    return _Setup(
        begun=begin(space, preset, queries=known.take(stream_rows)),
        stream=stream,
        plan=plan,
        decoders=decoders,
        k=k,
        queries=tuple(_query(known, row) for row in stream_rows),
        right=right,
        arrivals=arrivals(stream, right, len(space), preset.seed, preset.exposure),
        parts=tuple(parts),
        right_of_probes=right_of_parts[0],
        left_out=left_out,
        digests={
            "queries": known.digest,
            "qrels": qrels.digest,
            "held_out": "" if held_out is None else held_out.digest,
        },
    )


def _query(queries: Embeddings, row: int) -> Query:
    vector = queries.vectors[row].numpy().copy()
    vector.flags.writeable = False
    return Query(vector, queries.texts[row] if queries.texts else None)


@dataclass(frozen=True)
class Forecast:
    """Size of a simulation.

    rounds: pieces of feedback.
    learned, held_out: queries.
    left_out: queries without a right document in the corpus.
    checkpoints: number of measurements.
    passes: how often a query meets all documents.
    """

    rounds: int
    learned: int
    held_out: int
    left_out: int
    checkpoints: int
    passes: int

    def seconds(self, taken: float, passes: int) -> float:
        """How long it takes at the pace of another run, which took so many seconds for so many passes."""
        return taken / max(1, passes) * self.passes


def forecast(
    ids: Sequence[str],
    position: Mapping[str, int],
    qrels: Qrels,
    *,
    preset: Preset,
    stream: Stream,
    plan: Plan,
    held_out: Qrels | None = None,
    decoders: int = 1,
) -> Forecast:
    """Size of what `simulate` will do with the same arguments. Raises DataError.

    ids: of the queries; position: the row of a document; decoders: how many are measured.
    """
    learned, apart, left_out = divided(ids, position, qrels, held_out, share=plan.held_out, seed=preset.seed)
    rounds = rounds_of(stream, len(learned), preset.exposure)
    measured = sum(min(len(part), plan.measured or len(part)) for part in (learned, apart))
    looks = min(plan.checkpoints, rounds) + 1
    shadow = plan.regret != "none" and plan.learner != "oracle"
    passes = rounds * (2 if shadow else 1) + looks * measured * decoders
    return Forecast(rounds, len(learned), len(apart), left_out, looks, passes)
