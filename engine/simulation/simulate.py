"""Simulated deployment: queries come, documents are drawn, judgements answer, embeddings move.

Online-Optimized RAG, §4 and App. C. Everything is drawn by the preset's seed and the number of the round, so that a
simulation that was stopped goes on as if it had not been. Its size can be told beforehand.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE, Decoder, QueryLike, query_batch
from engine.drift.measures import drift, smoothed
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
from engine.feedback import Event, Preset, Query, Session, change, replay
from engine.feedback import session as begin
from engine.feedback.presets import resolve_preset
from engine.params import Choice, Declared, Flag, Real, Whole, declare, values_of
from engine.progress import Progress, Stop
from engine.simulation.exploration import Success, by_question, success
from engine.simulation.feedback_model import Arrivals, Stream, arrivals, divided, rounds_of
from engine.simulation.file import History, SimulationFile
from engine.simulation.regret import Hindsight, RegretBounds, Rounds, bounds, doubts, hindsight
from engine.simulation.rounds import RoundLog, Run, Snapshot, events
from engine.simulation.variants import NEWCOMERS, UPDATES, Deployment, Inventory, Stock, exposure_of
from engine.space import Space
from engine.stages import Scorer, make
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
    variant, inventory: how documents are shown, and when they come.
    groups: the stream's queries that come one after the other, as the hops of a question.
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
    variant: Deployment
    inventory: Inventory
    groups: tuple[np.ndarray, ...]

    def measured(self, t: int, now: np.ndarray, trail: RoundLog) -> RoundMetrics:
        """Decoders and drift after t rounds, among the documents that are there; now: (n, d) Θ_t."""
        stock = self.stock(t)
        success = smoothed(trail.good[:t]) if self.plan.learner == "feedback" else None
        there = now if stock.rows is None else now[stock.rows]
        reached = cells(self.parts, self.decoders, stock.space, adapted(stock.space, there), self.k)
        found = drift(stock.baseline, there, t, success=success, ball=self.begun.preset.ball)
        return RoundMetrics(t, reached, stock.whole(found))

    def stock(self, t: int) -> Stock:
        """The documents that are there after t rounds."""
        there = self.inventory.arrived(t)
        rows = None if there is None or there.all() else np.flatnonzero(there)
        size = len(self.begun) if rows is None else len(rows)
        if size not in self._stocks:
            self._stocks[size] = Stock.of(self.begun, rows, self.parts[0].queries, self.right_of_probes)
        return self._stocks[size]

    @cached_property
    def _stocks(self) -> dict[int, Stock]:
        """By size, as documents only come."""
        return {}

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
            **self.variant.settings(),
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

    @property
    def replayable(self) -> bool:
        """Whether `events` and `session` are there: each round moved nothing but the document shown."""
        return replayable(self.plan, self.begun.preset, self.variant)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The feedback as events. Raises ParamError where an event moves more than the document shown."""
        if not self.replayable:
            raise ParamError(
                "events of a simulation are there for learner 'feedback' with mode 'chosen' and no reranker; this one "
                f"has learner {self.plan.learner!r}, mode {self.begun.preset.mode!r}, {self.variant.candidates} drawn"
            )
        return tuple(events(self.begun, self.queries, self.right, self.trail, self.plan.sizes))

    def session(self) -> Session:
        """A session that was fed what the simulation was: its documents are the simulation's, bit by bit."""
        session, begin = self.begun, 0
        if (there := self.inventory.arrived(0)) is not None:
            session = change(session, went=np.flatnonzero(~there).tolist())
        for after, rows in self.inventory.waves:
            if after <= len(self.events):
                session, begin = replay(session, self.events[begin:after]), after
                session = change(session, came=rows.tolist(), warm=self.variant.newcomers == "neighbours")
        return replay(session, self.events[begin:])

    @cached_property
    def success(self) -> Success:
        """Whether each round showed a right document, and would have without exploring."""
        return success(self.trail, self.right)

    @property
    def by_question(self) -> Success | None:
        """The same by question, all hops of it right; None without hops."""
        return by_question(self.success, self.trail.query, self.groups) if self.variant.hops else None

    @cached_property
    def regret(self) -> Regret:
        trail, preset = self.trail, self.begun.preset
        oracle = None if self.plan.regret == "none" else np.nancumsum(trail.loss - trail.oracle)
        if self.hindsight is None:
            return Regret(oracle, None, None, self.variant.doubts)
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
        if preset.rate > 0 and not self.variant.doubts and all(len(rows) == 1 for rows in right):
            squares = np.array([self.queries[q].exact @ self.queries[q].exact for q in queries])[position]
            full = preset.mode == "full"
            promised = bounds(float(moved.sum()), trail.chance, squares, preset.rate, self.begun.temperature, full)
        return Regret(oracle, best, promised, (*reasons, *self.variant.doubts))


def replayable(plan: Plan, preset: Preset, variant: Deployment) -> bool:
    """Whether a simulation's rounds each move the document shown alone, so that a log can hold them."""
    return plan.learner == "feedback" and preset.mode == "chosen" and variant.candidates == 1


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
    reranker: str | Scorer | None = None,
    candidates: int | None = None,
    arrivals: Sequence[tuple[float, int]] = (),
    newcomers: str = NEWCOMERS.default,
    hops: Mapping[str, Sequence[str]] | None = None,
    updates: int | None = None,
    **overrides: Any,
) -> Simulated:
    """Let a session learn from a stream of judged queries, and measure it on the way.

    queries: all that the judgements name; qrels: the stream's; held_out: judgements of queries that are only measured,
    by default a seeded share of the stream's; decoders: which are measured, by default the most relevant documents;
    k: at which; preset, overrides: as `orag.session` takes them; file: kept up to date, so that a simulation that was
    stopped goes on from there. progress(done, total, label): every few rounds; stop: every round; seen: called with
    every checkpoint, those of the file first. Raises ParamError, DataError, Cancelled.

    reranker: "cosine", "judgements", a scorer or its name picks what is shown among `candidates` drawn, by default 10
    (Algorithm 2). arrivals: (share, round) pairs: so many documents come only after that round, and are neither drawn,
    moved nor found before; newcomers: "neighbours" starts one at its vector moved as its nearest have, "printed" at its
    vector (Algorithm 3). hops: question → its sub-queries among `queries`, which come one after the other (Algorithm
    4). updates: queries come again until so many steps were made (appendix C.3), in place of exposure and rounds.
    """
    setup = _setup(
        space, queries, qrels, held_out, resolve_preset(preset, overrides), stream, plan,
        tuple(dict.fromkeys(decoders)) or (Decoder(make("top_k")),), SET_SIZE.check(k),
        Deployment.of(reranker, candidates, arrivals, newcomers, hops), updates,
    )  # fmt: skip
    begun = setup.begun
    store = SimulationFile(None if file is None else Path(file), setup.settings())
    done, history, arrays = store.load(len(setup.arrivals))
    run = Run(
        begun, setup.queries, setup.right, setup.arrivals, whole_truth=plan.learner == "oracle",
        shadow=plan.regret != "none", sizes=plan.sizes, variant=setup.variant, inventory=setup.inventory, done=done,
        arrays=arrays,
    )  # fmt: skip
    seen = seen or (lambda checkpoint: None)
    for checkpoint in history.checkpoints:
        seen(checkpoint)
    history = _played(setup, run, store, done, history, progress, stop, seen)
    best = None
    if plan.regret == "hindsight":
        best = hindsight(begun.start.exact, setup.rounds(history.trail), progress=progress, stop=stop)
    given = {each.name: getattr(setup, each.name) for each in fields(setup)} | vars(history)
    return Simulated(**given, final=run.vectors().copy(), hindsight=best)


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
    decoders: tuple[Decoder, ...], k: int, variant: Deployment, updates: int | None,
) -> _Setup:  # fmt: skip
    for name, value, kind in (("qrels", qrels, Qrels), ("stream", stream, Stream), ("plan", plan, Plan)):
        if not isinstance(value, kind):
            raise ParamError(f"{name} must be a {kind.__name__}; got {value!r:.80}")
    batch = query_batch(space, queries)
    known = Embeddings(batch.ids, batch.vectors.cpu(), space.embeddings.encoder, batch.texts)
    position = {query: row for row, query in enumerate(known.ids)}
    learned, apart, left_out = divided(
        known.ids, space.corpus.position, qrels, held_out, share=plan.held_out, seed=preset.seed, owner=variant.owner
    )
    preset, stream = _lengthened(preset, stream, updates, len(learned))
    inventory = variant.inventory(len(space), preset.seed)
    if inventory.waves and plan.regret == "hindsight":
        raise ParamError("regret must be 'none' or 'oracle' where documents come later; got 'hindsight'")
    right = tuple(learned.values())
    rare = rare_rows(right_counts(right, len(space)))
    parts, right_of_parts = [], []
    measured = qrels if held_out is None else held_out
    for name, right_rows, judgements in ((HELD_OUT, apart, measured), (STREAM, learned, qrels)):
        if right_rows:
            ids = sampled(list(right_rows), plan.measured, preset.seed)
            right_of_parts.append(tuple(right_rows[q] for q in ids))
            tail = np.array([rare[rows].all() for rows in right_of_parts[-1]], dtype=bool)
            parts.append(Part(name, known.take([position[q] for q in ids]), judgements, tail))
    stream_rows = [position[q] for q in learned]
    groups = variant.groups(tuple(learned))
    return _Setup(
        begun=begin(space, preset, queries=known.take(stream_rows)),
        stream=stream,
        plan=plan,
        decoders=decoders,
        k=k,
        queries=tuple(_query(known, row) for row in stream_rows),
        right=right,
        arrivals=arrivals(stream, right, len(space), preset.seed, preset.exposure, groups),
        parts=tuple(parts),
        right_of_probes=right_of_parts[0],
        left_out=left_out,
        digests={
            "queries": known.digest,
            "qrels": qrels.digest,
            "held_out": "" if held_out is None else held_out.digest,
        },
        variant=variant,
        inventory=inventory,
        groups=tuple(groups),
    )


def _lengthened(preset: Preset, stream: Stream, updates: int | None, queries: int) -> tuple[Preset, Stream]:
    """Preset and stream with which so many updates are made. Raises ParamError."""
    if (updates := UPDATES.check(updates)) is None:
        return preset, stream
    if stream.rounds is not None:
        raise ParamError(f"updates and rounds both say when a stream ends; leave one out ({updates}, {stream.rounds})")
    exposure, rounds = exposure_of(updates, preset, queries)
    return replace(preset, exposure=exposure), replace(stream, rounds=rounds)


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
    hops: Mapping[str, Sequence[str]] | None = None,
    updates: int | None = None,
) -> Forecast:
    """Size of what `simulate` will do with the same arguments. Raises DataError.

    ids: of the queries; position: the row of a document; decoders: how many are measured.
    """
    owner = Deployment.of(hops=hops).owner
    learned, apart, left_out = divided(
        ids, position, qrels, held_out, share=plan.held_out, seed=preset.seed, owner=owner
    )
    preset, stream = _lengthened(preset, stream, updates, len(learned))
    rounds = rounds_of(stream, len(learned), preset.exposure)
    measured = sum(min(len(part), plan.measured or len(part)) for part in (learned, apart))
    looks = min(plan.checkpoints, rounds) + 1
    shadow = plan.regret != "none" and plan.learner != "oracle"
    passes = rounds * (2 if shadow else 1) + looks * measured * decoders
    return Forecast(rounds, len(learned), len(apart), left_out, looks, passes)
