"""DriftHistory: the data of every Drift view, from a feedback log or a simulation."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import streamlit as st

from dashboard.drift.request import SimulationOutcome, SimulationRequest
from dashboard.services.memo import get_or_compute, session_memo
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.widgets.job_panel import JobPanel
from engine import feedback as orag
from engine.decoder import Decoder
from engine.drift.measures import Drift, DriftBaseline, origin
from engine.drift.round_metrics import RoundMetrics, adapted, right_rows
from engine.simulation.simulate import Simulated
from engine.space import Space
from engine.values import Embeddings, Qrels
from engine.views.exploration import exploration, top_success

T = TypeVar("T")
DRIFT_MEMO, SPACES_TABLE = "drift.memory", "drift.spaces"
MAX_DRIFT_RESULTS, MAX_SPACES = 24, 4
"""Cached results of views in a session, and spaces, which are as large as a corpus."""
WAIT_SECONDS = 0.3
"""Seconds that a page waits for a job that may end at once."""
MAX_PAGE_NUMBERS = 32_000_000
"""Work on more numbers, about half a second, runs in a job."""
RECORDS_UNIT, ROUNDS_UNIT = "records", "rounds"
UNIT_HELP = {
    RECORDS_UNIT: "A record of the log is a vote, an undo or a snapshot.",
    ROUNDS_UNIT: "A round is one query and one vote.",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class DriftHistory:
    """Documents' vectors from the start, Θ₁, to step t, Θ_t, moved by people's votes or in a simulation.

    Probes are the fixed queries by whose answers drift is measured; checkpoints are steps at which decoders
    were measured too.
    """

    key: str  # of all its content
    loaded: Loaded  # the corpus as it was embedded
    steps: tuple[int, ...]  # with available vectors, rising, 0 first
    unit: str  # of a step, records or rounds
    vectors: Callable[[int], np.ndarray] = field(repr=False)  # the documents at a step, (n, d)
    temperature: float  # of the softmax over documents
    drifts: tuple[Drift, ...]  # measured by now
    checkpoints: tuple[RoundMetrics, ...] = ()  # measured by now
    queries: Embeddings | None = None  # of the probes
    qrels: Qrels | None = None  # of the probes
    decoders: tuple[Decoder, ...] = ()  # of the checkpoints
    k: int = 10  # of the checkpoints
    session: orag.Session | None = None  # the feedback, if it can be replayed
    simulated: Simulated | None = None  # the simulation, None for people's feedback
    known_origin: DriftBaseline | None = None  # of drift, if computed already
    log_digests: Mapping[int, str] = field(default_factory=dict)  # step → digest of the log up to there
    note: str = ""  # shown in the help of its badges
    request: SimulationRequest | None = None  # of the simulation, None for people's feedback

    @property
    def space(self) -> Space:
        """Corpus with its documents as embedded, before any feedback (Θ₁)."""
        return self.loaded.space

    @property
    def feedback(self) -> orag.Session:
        """Session of feedback: the votes, from which the vectors at every step can be computed again.

        Raises ValueError if a simulation cannot be replayed as one.
        """
        if self.session is None:
            raise ValueError("this simulation cannot be replayed as feedback")
        return self.session

    @property
    def is_live(self) -> bool:
        """True for people's feedback, which continues and can be undone."""
        return self.simulated is None

    def describe(self, step: int) -> str:
        """Describe a step in words."""
        return f"after {self.unit.removesuffix('s')} {step:,}" if step else "at the start"

    @property
    def last_step(self) -> int:
        """Last step, which is now."""
        return self.steps[-1]

    def drift_at(self, step: int) -> Drift | None:
        """Return the drift at a step; None if it is not measured yet."""
        return next((drift for drift in self.drifts if drift.step == step), None)

    def start_at(self, step: int) -> Space:
        """Return the documents that exist at a step, with their vectors before any feedback, as a Space."""
        # In a simulation documents may arrive later.
        return self.space if self.simulated is None else self.simulated.find_stock(step).space

    def space_at(self, step: int) -> Space:
        """Return the documents that exist at a step, with their vectors at that step, as a Space; cached."""

        def build() -> Space:
            """Move the documents to their vectors at the step; rows: those that exist by then."""
            rows = None if self.simulated is None else self.simulated.find_stock(step).rows
            vectors = self.vectors(step)
            return adapted(self.start_at(step), vectors if rows is None else vectors[rows])

        return get_or_compute(SPACES_TABLE, ("space", self.key, step), build, MAX_SPACES)

    @cached_property
    def unexplored(self) -> Mapping[str, tuple[float | None, ...]]:
        """Measure → its value at each measured step if the best document had always been shown.

        {} for people's feedback: nobody knows how they would have voted on other documents.
        """
        if self.simulated is None:
            return {}
        return {"success": top_success(self.simulated, [drift.step for drift in self.drifts])}

    @cached_property
    def exploration_cost(self) -> tuple[str, ...]:
        """Sentences about what it cost a simulation to show documents at random rather than the best one.

        Empty for people's feedback.
        """
        return () if self.simulated is None else exploration(self.simulated).sentences

    @cached_property
    def origin(self) -> DriftBaseline:
        """Embeddings before feedback, and their answers to the probe queries: drift is measured from these.

        Probe queries are the sample of queries whose answers are followed.
        """
        # A job hands over the baseline that it measured with.
        if self.known_origin is not None:
            return self.known_origin
        right: Any = None
        if self.queries is not None and self.qrels is not None:
            right = right_rows(self.qrels, self.queries.ids, self.space.corpus.position)
        return origin(self.vectors(0), self.queries, right=right, temperature=self.temperature)


class VectorStates(Sequence[tuple[int, np.ndarray]]):
    """Steps of a history with the documents' vectors at each, as a sequence of (step, vectors).

    The vectors are computed on access, as all together may be large.
    """

    def __init__(self, history: DriftHistory) -> None:
        """Wrap a history; no vectors are computed yet."""
        self._history = history

    def __len__(self) -> int:
        return len(self._history.steps)

    def __getitem__(self, index: Any) -> Any:
        """Return a step and the documents' vectors at it."""
        step = self._history.steps[index]
        return step, self._history.vectors(step)


def from_simulation(outcome: SimulationOutcome, note: str = "") -> DriftHistory:
    """Return a finished simulation as the history that the Drift page draws; note: for the badges' help."""
    simulated, request = outcome.simulated, outcome.request
    snapshots = {snapshot.step: snapshot for snapshot in simulated.snapshots}
    start = simulated.begun
    replayable = simulated.replayable
    return DriftHistory(
        key=outcome.key,
        loaded=outcome.loaded,
        steps=tuple(snapshots),
        unit=ROUNDS_UNIT,
        vectors=lambda step: snapshots[step].vectors(start.origin),
        temperature=start.temperature,
        drifts=tuple(checkpoint.drift for checkpoint in simulated.checkpoints),
        checkpoints=simulated.checkpoints,
        queries=outcome.queries,
        qrels=outcome.qrels,
        decoders=request.decoders,
        k=request.k,
        session=get_or_compute(DRIFT_MEMO, ("session", outcome.key), simulated.session) if replayable else None,
        simulated=simulated,
        note=note,
        request=request,
    )


def cached_or_job(
    key: Hashable,
    purpose: str,
    title: str,
    work: Callable[..., T],
    effort: int,
    table_name: str = DRIFT_MEMO,
    max_entries: int = MAX_DRIFT_RESULTS,
) -> T | None:
    """Return a result of the Drift page from the cache, or compute it; None while a job computes it.

    key: everything that the result depends on
    purpose, title: of the job
    work: takes `progress` and `stop`; without a job it is called without them
    effort: about how many numbers the work reads; up to MAX_PAGE_NUMBERS the page computes it at once, without a job
    table_name, max_entries: name and size of the cache in this browser session
    """
    # The panel stores its result in this table too.
    memo = session_memo(table_name, max_entries)
    if key in memo or effort <= MAX_PAGE_NUMBERS:
        return get_or_compute(table_name, key, work, max_entries)
    return JobPanel(
        purpose=purpose,
        key=key,
        title=title,
        work=lambda job: work(progress=job.report, stop=job.stop),
        resume_label="Run",
        wait_seconds=WAIT_SECONDS,
        memo=memo,
    ).draw_until_result()


def find_step(history: DriftHistory) -> int:
    """Return the step that the slider of `draw_step` stands at, by default the last one."""
    step: int = st.session_state.get(step_key(history), history.last_step)
    return step if step in history.steps else history.last_step


def draw_step(history: DriftHistory) -> int:
    """Draw the slider over the steps of a history, records or rounds; return the chosen one.

    By default it is the last step.
    """
    if len(history.steps) < 2:
        return history.last_step
    slider_key = step_key(history)
    # The value is set here, not by the widget's default, as playing sets it too.
    if st.session_state.get(slider_key) not in history.steps:
        st.session_state[slider_key] = history.last_step
    options: dict[str, Any] = {"help": UNIT_HELP[history.unit], "format_func": "{:,}".format}
    label = history.unit.removesuffix("s").capitalize()
    step: int = st.select_slider(label, list(history.steps), key=slider_key, persist_state="session", **options)
    return step


def step_key(history: DriftHistory) -> str:
    """Return the session key of the slider over a history's steps."""
    return f"drift.step.{history.key[:16]}"


def name_decoders(chosen: Sequence[Decoder]) -> dict[str, tuple[str, str]]:
    """Return a decoder's label → its selector, and its display name."""
    return {decoder.label: (decoder.select.spec.name, decoders.format_title(decoder)) for decoder in chosen}
