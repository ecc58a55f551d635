"""Simulated deployment: queries come, documents are drawn, judgements answer, embeddings move.

Online-Optimized RAG, §4 and App. C. Everything is drawn by the preset's seed and the number of the round, so that a
stopped simulation resumes with the same results. Its size can be forecast.
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
from engine.progress import Progress, Stop, counted
from engine.simulation.exploration import Success, group_by_question, measure_success
from engine.simulation.feedback_model import Arrivals, Stream, count_rounds, divide_queries, draw_arrivals
from engine.simulation.file import History, SimulationFile
from engine.simulation.regret import Hindsight, RegretBounds, Rounds, compute_bounds, find_hindsight, list_doubts
from engine.simulation.rounds import RoundLog, Run, Snapshot, iterate_events
from engine.simulation.variants import N_UPDATES, NEWCOMER_START, Deployment, Inventory, Stock, compute_exposure
from engine.space import Space
from engine.stages import Scorer, make
from engine.values import Embeddings, Qrels

SIMULATING = "simulating"
REPORT_INTERVAL, LARGE_CORPUS_SIZE = 32, 50_000
"""Rounds between reports of progress, and number of documents above which every round is reported."""


@dataclass(frozen=True)
class Plan(Declared):
    """Source of learning, and measurements on the way. Raises ParamError."""

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
    """Cumulative regret by round, in nats: the loss that learning had beyond a better learner's.

    Each (T,), or None where the plan leaves it out.
    """

    oracle: np.ndarray | None  # the loss beyond the full-information oracle's of the same step
    best: np.ndarray | None  # the loss beyond the best embeddings in hindsight
    bounds: RegretBounds | None  # the theory's bounds on the latter
    doubts: tuple[str, ...]  # reasons why these do not bind this run, none where they do


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class _Setup:
    """The checked arguments of a simulation: everything that decides its results.

    begun: the session before the first round.
    queries, right: the stream's queries and the right rows of each.
    parts: the queries that are measured, the probes first.
    right_of_probes: the right rows of each probe.
    left_out: queries without a right document in the corpus, which take no part.
    digests: of queries and judgements, by name.
    variant, inventory: the way that documents are shown, and the rounds after which they come.
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

    def measure_round(self, t: int, vectors: np.ndarray, trail: RoundLog) -> RoundMetrics:
        """Measure decoders and drift after t rounds, among the documents that have arrived by then.

        These documents are the stock. Drift is how far their embeddings have moved since before the first round.
        vectors: (n, d), of all documents; trail: the log of the rounds so far
        """
        stock = self.find_stock(t)
        # Only a learner from feedback is told whether a round succeeded.
        success_rate = smoothed(trail.good[:t]) if self.plan.learner == "feedback" else None
        available = vectors if stock.rows is None else vectors[stock.rows]
        metric_cells = cells(self.parts, self.decoders, stock.space, adapted(stock.space, available), self.k)
        measured_drift = drift(stock.baseline, available, t, success=success_rate, ball=self.begun.preset.ball)
        return RoundMetrics(t, metric_cells, stock.with_corpus_rows(measured_drift))

    def find_stock(self, t: int) -> Stock:
        """Return the stock after t rounds, the documents that have arrived: their space, a baseline for drift."""
        # A stock costs a space and a baseline, so those of each size are built once.
        is_available = self.inventory.find_available(t)
        available_rows = None if is_available is None or is_available.all() else np.flatnonzero(is_available)
        n_available = len(self.begun) if available_rows is None else len(available_rows)
        if n_available not in self._stocks:
            probes = self.parts[0].queries
            self._stocks[n_available] = Stock.build(self.begun, available_rows, probes, self.right_of_probes)
        return self._stocks[n_available]

    @cached_property
    def _stocks(self) -> dict[int, Stock]:
        """Cache of stocks, sets of documents that have arrived, by the number of documents in them.

        Documents arrive and never leave, so that this number identifies a stock.
        """
        return {}

    def collect_rounds(self, trail: RoundLog) -> Rounds:
        """Return the distinct queries of the played rounds with their right documents and counts.

        The best embeddings in hindsight are searched over these.
        """
        queries, times = np.unique(trail.query, return_counts=True)
        points = np.stack([self.queries[query].exact for query in queries])
        right = tuple(self.right[query] for query in queries)
        return Rounds(points, right, times.astype(float), self.begun.temperature)

    def list_settings(self) -> dict[str, Any]:
        """Return everything that decides a simulation's results, as plain JSON values."""
        space = self.begun.space
        return {
            "corpus": space.corpus.digest,
            "embeddings": space.embeddings.digest,
            **self.digests,
            "preset": self.begun.preset.as_json(),
            "stream": values_of(self.stream),
            # Both kinds of regret play the same rounds: the results depend only on whether the oracle runs along.
            "plan": {**values_of(self.plan), "regret": self.plan.regret != "none"},
            "decoders": [decoder.label for decoder in self.decoders],
            "k": self.k,
            **self.variant.list_settings(),
        }


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Simulated(_Setup):
    """Results of a simulated deployment, with all that decided them.

    checkpoints: measurements from round 0 to the last. trail: the log, round by round. final: (n, d) float64 documents
    after the last round. snapshots: documents at the checkpoints, of every second one where they are too large to keep.
    """

    checkpoints: tuple[RoundMetrics, ...]
    trail: RoundLog
    final: np.ndarray
    snapshots: tuple[Snapshot, ...]
    hindsight: Hindsight | None

    def embeddings(self) -> Embeddings:
        """Return the adapted documents as embeddings."""
        return adapted(self.begun.space, self.final.astype(self.begun.origin.dtype)).embeddings

    @property
    def replayable(self) -> bool:
        """True if the feedback can be replayed by `events` and `session`: a round moved one document alone."""
        return is_replayable(self.plan, self.begun.preset, self.variant)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The simulation's feedback as events of a feedback session, each of which moves one document.

        It is the document shown. Raises ParamError if rounds of this simulation move more than one.
        """
        if not self.replayable:
            raise ParamError(
                "events of a simulation are there for learner 'feedback' with mode 'chosen' and no reranker; this one "
                f"has learner {self.plan.learner!r}, mode {self.begun.preset.mode!r}, {self.variant.candidates} drawn"
            )
        return tuple(iterate_events(self.begun, self.queries, self.right, self.trail, self.plan.sizes))

    def session(self) -> Session:
        """Return a new feedback session fed with the simulation's feedback; its embeddings equal the run's.

        They are equal bit by bit. Documents that arrive during the simulation are first removed, and added after the
        rounds after which they came.
        """
        # Feedback is replayed in pieces, as an event cannot move a document that has not arrived.
        session, n_replayed = self.begun, 0
        if (is_available := self.inventory.find_available(0)) is not None:
            session = change(session, went=np.flatnonzero(~is_available).tolist())
        for n_rounds, rows in self.inventory.waves:
            if n_rounds <= len(self.events):
                session, n_replayed = replay(session, self.events[n_replayed:n_rounds]), n_rounds
                # Warm: a newcomer's vector is moved as its nearest documents have moved.
                session = change(session, came=rows.tolist(), warm=self.variant.newcomers == "neighbours")
        return replay(session, self.events[n_replayed:])

    @cached_property
    def success(self) -> Success:
        """Success in each round of the document drawn, and of the one that no exploration would have shown."""
        return measure_success(self.trail, self.right)

    @property
    def by_question(self) -> Success | None:
        """Success by question, which needs all its sub-queries (hops) to succeed; None without hops."""
        return group_by_question(self.success, self.trail.query, self.groups) if self.variant.hops else None

    @cached_property
    def regret(self) -> Regret:
        """The cumulative regret by round, in nats: how much more the simulation lost than two benchmarks.

        The first is the oracle, which learns beside the simulation and is told all right documents. The second is the
        best in hindsight: the document embeddings that have the least loss over all rounds. Theory's bound on the
        second regret is added where it applies, and else the reasons why it does not.
        """
        trail, preset = self.trail, self.begun.preset
        # Rounds in which no right document has arrived have no loss, and add nothing to the sum.
        oracle_regret = None if self.plan.regret == "none" else np.nancumsum(trail.loss - trail.oracle)
        if self.hindsight is None:
            return Regret(oracle_regret, None, None, self.variant.doubts)
        # Hindsight's losses are one for each query; `position` repeats them round by round.
        queries, position = np.unique(trail.query, return_inverse=True)
        best_regret = np.cumsum(trail.loss - self.hindsight.losses[position])
        right_rows = self.collect_rounds(trail).right
        # Squared distances from the start to the best in hindsight, one per document.
        moves = ((self.hindsight.vectors - self.begun.start.exact) ** 2).sum(1)
        reasons = list_doubts(
            right_rows,
            preset,
            is_capped=preset.cap is not None and self.plan.learner == "feedback",
            is_honest=self.stream.flips == self.stream.adversary == self.stream.popularity == 0,
            is_outside=preset.trust is not None and bool(np.sqrt(moves.max()) > preset.trust),
        )
        promised = None
        # Theorem 5.1 of the ORAG paper is on its Algorithm 1 with one right document a query; at rate 0 its bound is
        # infinite.
        has_single_answers = all(len(rows) == 1 for rows in right_rows)
        if preset.rate > 0 and not self.variant.doubts and has_single_answers:
            squares = np.array([self.queries[query].exact @ self.queries[query].exact for query in queries])[position]
            is_full = preset.mode == "full"
            temperature = self.begun.temperature
            promised = compute_bounds(float(moves.sum()), trail.chance, squares, preset.rate, temperature, is_full)
        return Regret(oracle_regret, best_regret, promised, (*reasons, *self.variant.doubts))


def is_replayable(plan: Plan, preset: Preset, variant: Deployment) -> bool:
    """Return True if each round moves only the document shown, as a feedback log records it.

    variant: with a reranker several documents move in a round
    """
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
    newcomers: str = NEWCOMER_START.default,
    hops: Mapping[str, Sequence[str]] | None = None,
    updates: int | None = None,
    **overrides: Any,
) -> Simulated:
    """Let a feedback session learn from a stream of judged queries, and measure it on the way.

    queries: all that the judgements name; qrels: the stream's; held_out: judgements of queries that are only measured,
    by default a seeded share of the stream's; decoders: those measured at k, by default the most relevant documents;
    preset, overrides: as `orag.session` takes them; file: kept up to date, so that a stopped simulation resumes from
    it. progress(done, total, label): called every few rounds; stop: looked at in every round; seen: called with the
    results of every checkpoint, those that the file already has first. Raises ParamError, DataError, Cancelled.

    The others are variants of the ORAG paper. reranker: "cosine", "judgements", a scorer or its name picks what is
    shown among `candidates` drawn documents, by default 10 (its Algorithm 2). arrivals: (share, round) pairs: this
    share of the documents comes only after that round, and is neither drawn, moved nor found before; newcomers:
    "neighbours" starts such a document at its vector moved as its nearest documents have moved, "printed" at its vector
    (Algorithm 3). hops: question → its sub-queries among `queries`, which come one after the other (Algorithm 4).
    updates: the number of learning steps, for which queries come again, in place of exposure and rounds (appendix C.3).
    """
    setup = _check_setup(
        space, queries, qrels, held_out, resolve_preset(preset, overrides), stream, plan,
        tuple(dict.fromkeys(decoders)) or (Decoder(make("top_k")),), SET_SIZE.check(k),
        Deployment.build(reranker, candidates, arrivals, newcomers, hops), updates,
    )  # fmt: skip
    store = SimulationFile(None if file is None else Path(file), setup.list_settings())
    n_done, history, run_arrays = store.load(len(setup.arrivals))
    run = Run(
        setup.begun, setup.queries, setup.right, setup.arrivals, uses_full_truth=plan.learner == "oracle",
        shadow=plan.regret != "none", sizes=plan.sizes, variant=setup.variant, inventory=setup.inventory, done=n_done,
        arrays=run_arrays,
    )  # fmt: skip
    seen = seen or (lambda checkpoint: None)
    for checkpoint in history.checkpoints:
        seen(checkpoint)
    history = _play_rounds(setup, run, store, n_done, history, progress, stop, seen)
    best = None
    if plan.regret == "hindsight":
        rounds = setup.collect_rounds(history.trail)
        best = find_hindsight(setup.begun.start.exact, rounds, progress=progress, stop=stop)
    # The result has all fields of the setup and of the history, beside its own.
    setup_fields = {setup_field.name: getattr(setup, setup_field.name) for setup_field in fields(setup)}
    return Simulated(**setup_fields, **vars(history), final=run.vectors().copy(), hindsight=best)


def _play_rounds(
    setup: _Setup, run: Run, store: SimulationFile, n_done: int, history: History,
    progress: Progress | None, stop: Stop | None, seen: Callable[[RoundMetrics], None],
) -> History:  # fmt: skip
    """Play all rounds from number `n_done` on; return the results, which are stored at every checkpoint.

    setup: the checked arguments; run: the session that learns; store: the file; seen: called with every checkpoint
    """
    start, n_rounds = setup.begun.origin, len(setup.arrivals)
    checkpoint_steps = set(np.rint(np.linspace(0, n_rounds, setup.plan.checkpoints + 1)).astype(int).tolist())
    for t in range(n_done, n_rounds + 1):
        is_reported = t % REPORT_INTERVAL == 0 or t == n_rounds or len(start) > LARGE_CORPUS_SIZE
        if progress is not None and is_reported:
            progress(t, n_rounds, SIMULATING)
        if stop is not None and stop.is_set():
            store.save(t, history, run.arrays())
            raise Cancelled(f"the simulation was stopped after {t:,} of {counted(n_rounds, 'round')}{store.advice}")
        # A resumed simulation begins at a round that may have been measured before it stopped.
        if t in checkpoint_steps and t not in history.steps:
            # Decoders meet the vectors in the corpus's precision, as in a search; learning goes on in float64.
            vectors = run.vectors().astype(start.dtype)
            checkpoint = setup.measure_round(t, vectors, history.trail)
            history = history.with_checkpoint(checkpoint, Snapshot.of(t, start, vectors))
            store.save(t, history, run.arrays())
            seen(checkpoint)
        if t < n_rounds:
            run.play_round(t + 1, history.trail)
    return history


def _check_setup(
    space: Space, queries: QueryLike, qrels: Qrels, held_out: Qrels | None, preset: Preset, stream: Stream, plan: Plan,
    decoders: tuple[Decoder, ...], k: int, variant: Deployment, updates: int | None,
) -> _Setup:  # fmt: skip
    """Check the arguments of a simulation, divide its queries, and draw the order in which they come.

    The stream's queries are learned from; those held out are only measured, and so are the stream's, or a sample.
    updates: the number of learning steps after which the stream ends, None for its own end. Raises ParamError or
    DataError.
    """
    for name, value, kind in (("qrels", qrels, Qrels), ("stream", stream, Stream), ("plan", plan, Plan)):
        if not isinstance(value, kind):
            raise ParamError(f"{name} must be a {kind.__name__}; got {value!r:.80}")
    batch = query_batch(space, queries)
    embedded = Embeddings(batch.ids, batch.vectors.cpu(), space.embeddings.encoder, batch.texts)
    position = dict(zip(embedded.ids, range(len(embedded.ids)), strict=True))
    learned, held_rows, left_out = divide_queries(
        embedded.ids, space.corpus.position, qrels, held_out, share=plan.held_out, seed=preset.seed, owner=variant.owner
    )
    preset, stream = _extend_stream(preset, stream, updates, len(learned))
    inventory = variant.plan_inventory(len(space), preset.seed)
    if inventory.waves and plan.regret == "hindsight":
        raise ParamError("regret must be 'none' or 'oracle' where documents come later; got 'hindsight'")
    right = tuple(learned.values())
    rare = rare_rows(right_counts(right, len(space)))
    parts, right_of_parts = [], []
    measured = qrels if held_out is None else held_out
    # Held-out queries come first where there are any: drift is measured on the queries of the first part.
    for name, right_rows, judgements in ((HELD_OUT, held_rows, measured), (STREAM, learned, qrels)):
        if right_rows:
            ids = sampled(list(right_rows), plan.measured, preset.seed)
            right_of_parts.append(tuple(right_rows[q] for q in ids))
            # The long tail: queries all of whose right documents are rare.
            tail = np.array([rare[rows].all() for rows in right_of_parts[-1]], dtype=bool)
            parts.append(Part(name, embedded.take([position[q] for q in ids]), judgements, tail))
    stream_rows = [position[q] for q in learned]
    groups = variant.group_hops(tuple(learned))
    held_out_digest = "" if held_out is None else held_out.digest
    return _Setup(
        begun=begin(space, preset, queries=embedded.take(stream_rows)),
        stream=stream, plan=plan, decoders=decoders, k=k,
        queries=tuple(_build_query(embedded, row) for row in stream_rows), right=right,
        arrivals=draw_arrivals(stream, right, len(space), preset.seed, preset.exposure, groups),
        parts=tuple(parts), right_of_probes=right_of_parts[0], left_out=left_out,
        digests={"queries": embedded.digest, "qrels": qrels.digest, "held_out": held_out_digest},
        variant=variant, inventory=inventory, groups=tuple(groups),
    )  # fmt: skip


def _extend_stream(preset: Preset, stream: Stream, updates: int | None, n_queries: int) -> tuple[Preset, Stream]:
    """Set the exposure of the preset and the rounds of the stream such that `updates` updates are made.

    Without `updates` both are returned unchanged. exposure: the number of times that every query comes. Raises
    ParamError if rounds are limited too.
    """
    if (updates := N_UPDATES.check(updates)) is None:
        return preset, stream
    if stream.rounds is not None:
        raise ParamError(f"updates and rounds both say when a stream ends; leave one out ({updates}, {stream.rounds})")
    exposure, rounds = compute_exposure(updates, preset, n_queries)
    return replace(preset, exposure=exposure), replace(stream, rounds=rounds)


def _build_query(queries: Embeddings, row: int) -> Query:
    """Return a query as a feedback session takes it: a read-only vector with its text."""
    vector = queries.vectors[row].numpy().copy()
    vector.flags.writeable = False
    return Query(vector, queries.texts[row] if queries.texts else None)


@dataclass(frozen=True)
class Forecast:
    """Forecast size of a simulation.

    rounds: pieces of feedback.
    learned, held_out: queries.
    left_out: queries without a right document in the corpus.
    checkpoints: number of measurements.
    passes: number of times that a query meets all documents.
    """

    rounds: int
    learned: int
    held_out: int
    left_out: int
    checkpoints: int
    passes: int

    def estimate_seconds(self, other_seconds: float, other_passes: int) -> float:
        """Estimate the duration from another run's seconds and passes."""
        return other_seconds / max(1, other_passes) * self.passes


def forecast(
    ids: Sequence[str],
    position: Mapping[str, int],
    qrels: Qrels,
    *,
    preset: Preset,
    stream: Stream,
    plan: Plan,
    held_out: Qrels | None = None,
    n_decoders: int = 1,
    hops: Mapping[str, Sequence[str]] | None = None,
    updates: int | None = None,
) -> Forecast:
    """Return the size of what `simulate` would play and measure with these arguments. Raises DataError.

    ids: of the queries; position: the row of a document; n_decoders: the number of decoders measured.
    """
    division: dict[str, Any] = {"seed": preset.seed, "owner": Deployment.build(hops=hops).owner}
    learned_rows, held_rows, left_out = divide_queries(ids, position, qrels, held_out, share=plan.held_out, **division)
    preset, stream = _extend_stream(preset, stream, updates, len(learned_rows))
    n_rounds = count_rounds(stream, len(learned_rows), preset.exposure)
    max_measured = plan.measured or len(ids)
    n_measured = min(len(learned_rows), max_measured) + min(len(held_rows), max_measured)
    # There is at most one checkpoint after each round; the one before the first round is extra.
    n_checkpoints = min(plan.checkpoints, n_rounds) + 1
    has_shadow = plan.regret != "none" and plan.learner != "oracle"
    # The oracle that regret is measured against meets every round's query too.
    n_passes = n_rounds * (2 if has_shadow else 1) + n_checkpoints * n_measured * n_decoders
    return Forecast(n_rounds, len(learned_rows), len(held_rows), left_out, n_checkpoints, n_passes)
