"""DriftHistory: the data behind every Drift view, from a feedback log or a simulation."""

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
MEMORY, SPACES_TABLE = "drift.memory", "drift.spaces"
REMEMBERED, SPACES = 24, 4
"""Results of views that a session keeps, and spaces, which are as large as a corpus."""
QUICK = 0.3
"""Seconds that a page waits for a job that may end at once."""
DIRECT = 32_000_000
"""Work over more numbers than this, about half a second of it, is a job's."""
RECORDS, ROUNDS = "records", "rounds"
HELP = {
    RECORDS: "A record of the log is a vote, an undo or a snapshot.",
    ROUNDS: "A round is one query and one vote.",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class DriftHistory:
    """Documents on their way from Θ₁ to Θ_t, by people's feedback or in a simulation."""

    key: str  # names all of it
    loaded: Loaded  # the corpus as it was embedded
    steps: tuple[int, ...]  # at which the documents can be looked at, rising, 0 first
    unit: str  # what a step counts, records or rounds
    vectors: Callable[[int], np.ndarray] = field(repr=False)  # the documents at a step, (n, d)
    temperature: float  # of the softmax over documents
    drifts: tuple[Drift, ...]  # measured by now
    checkpoints: tuple[RoundMetrics, ...] = ()  # measured by now
    queries: Embeddings | None = None  # whose answers are followed
    qrels: Qrels | None = None  # what is right for them
    decoders: tuple[Decoder, ...] = ()  # of the checkpoints
    k: int = 10  # of the checkpoints
    session: orag.Session | None = None  # the feedback, where it can be replayed
    simulated: Simulated | None = None  # the simulation, None for people's feedback
    known_origin: DriftBaseline | None = None  # what drift is measured against, where it is known
    log_digests: Mapping[int, str] = field(default_factory=dict)  # step → what names the log up to there
    note: str = ""  # what to know of it first
    request: SimulationRequest | None = None  # what was simulated, None for people's feedback

    @property
    def space(self) -> Space:
        """Θ₁."""
        return self.loaded.space

    @property
    def feedback(self) -> orag.Session:
        """The session. Raises ValueError where the feedback cannot be replayed."""
        if self.session is None:
            raise ValueError("this simulation cannot be replayed as feedback")
        return self.session

    @property
    def live(self) -> bool:
        """Whether it is people's feedback, which goes on and can be undone."""
        return self.simulated is None

    def describe(self, step: int) -> str:
        """A step in words."""
        return f"after {self.unit.removesuffix('s')} {step:,}" if step else "at the start"

    @property
    def last(self) -> int:
        """The step that is now."""
        return self.steps[-1]

    def drift_at(self, step: int) -> Drift | None:
        """The drift at a step; None where it is not measured yet."""
        return next((drift for drift in self.drifts if drift.step == step), None)

    def start_at(self, step: int) -> Space:
        """The documents that are there at a step, with their first vectors."""
        return self.space if self.simulated is None else self.simulated.stock(step).space

    def space_at(self, step: int) -> Space:
        """The documents that are there at a step, as they are then."""

        def make() -> Space:
            rows = None if self.simulated is None else self.simulated.stock(step).rows
            vectors = self.vectors(step)
            return adapted(self.start_at(step), vectors if rows is None else vectors[rows])

        return get_or_compute(SPACES_TABLE, ("space", self.key, step), make, SPACES)

    @cached_property
    def unexplored(self) -> Mapping[str, tuple[float | None, ...]]:
        """Measures as they would be were nothing explored, one value a measured step."""
        if self.simulated is None:
            return {}
        return {"success": top_success(self.simulated, [drift.step for drift in self.drifts])}

    @cached_property
    def price(self) -> tuple[str, ...]:
        """What exploring costs, in sentences."""
        return () if self.simulated is None else exploration(self.simulated).sentences

    @cached_property
    def origin(self) -> DriftBaseline:
        """The origin that answers are compared with."""
        if self.known_origin is not None:
            return self.known_origin
        right: Any = None
        if self.queries is not None and self.qrels is not None:
            right = right_rows(self.qrels, self.queries.ids, self.space.corpus.position)
        return origin(self.vectors(0), self.queries, right=right, temperature=self.temperature)


class States(Sequence[tuple[int, np.ndarray]]):
    """The steps of a history with the documents at each, made on access: all of them together may be large."""

    def __init__(self, history: DriftHistory) -> None:
        self._history = history

    def __len__(self) -> int:
        return len(self._history.steps)

    def __getitem__(self, index: Any) -> Any:
        step = self._history.steps[index]
        return step, self._history.vectors(step)


def of_simulation(outcome: SimulationOutcome, note: str = "") -> DriftHistory:
    """The history of a simulation."""
    simulated, request = outcome.simulated, outcome.request
    snapshots = {snapshot.step: snapshot for snapshot in simulated.snapshots}
    start = simulated.begun
    replayable = simulated.replayable
    return DriftHistory(
        key=outcome.key,
        loaded=outcome.loaded,
        steps=tuple(snapshots),
        unit=ROUNDS,
        vectors=lambda step: snapshots[step].vectors(start.origin),
        temperature=start.temperature,
        drifts=tuple(checkpoint.drift for checkpoint in simulated.checkpoints),
        checkpoints=simulated.checkpoints,
        queries=outcome.queries,
        qrels=outcome.qrels,
        decoders=request.decoders,
        k=request.k,
        session=get_or_compute(MEMORY, ("session", outcome.key), simulated.session) if replayable else None,
        simulated=simulated,
        note=note,
        request=request,
    )


def worked_out(
    key: Hashable,
    purpose: str,
    title: str,
    work: Callable[..., T],
    effort: int,
    table: str = MEMORY,
    entries: int = REMEMBERED,
) -> T | None:
    """What `work` makes, kept in a table of the session; None while a job makes it, which draws how far it is.

    purpose, title: of that job
    work: takes `progress` and `stop`
    effort: about how many numbers it goes over; up to DIRECT of them no job is needed
    """
    memo = session_memo(table, entries)
    if key in memo or effort <= DIRECT:
        return get_or_compute(table, key, work, entries)
    return JobPanel(
        purpose=purpose,
        key=key,
        title=title,
        work=lambda job: work(progress=job.report, stop=job.stop),
        resume_label="Run",
        wait_seconds=QUICK,
        memo=memo,
    ).result()


def step_of(history: DriftHistory) -> int:
    """Draw the slider over the steps, the last one first; returns the step."""
    if len(history.steps) < 2:
        return history.last
    key = step_key(history)
    # Set here and not by its default: playing sets it too.
    if st.session_state.get(key) not in history.steps:
        st.session_state[key] = history.last
    how: dict[str, Any] = {"help": HELP[history.unit], "format_func": "{:,}".format, "persist_state": "session"}
    label = history.unit.removesuffix("s").capitalize()
    step: int = st.select_slider(label, list(history.steps), key=key, **how)
    return step


def step_key(history: DriftHistory) -> str:
    """The session key of the slider."""
    return f"drift.step.{history.key[:16]}"


def names(shown: Sequence[Decoder]) -> dict[str, tuple[str, str]]:
    """A decoder's label → its selector, and what people call it."""
    return {decoder.label: (decoder.select.spec.name, decoders.format_title(decoder)) for decoder in shown}
