"""What the views look at, wherever it comes from: feedback of people, or a simulation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import streamlit as st

from dashboard import jobs
from dashboard.drift.request import Outcome
from dashboard.jobs import Job
from dashboard.parts import watch
from dashboard.state import Loaded
from engine import orag
from engine.decoder import Decoder
from engine.learning.checkpoints import Checkpoint, adapted
from engine.learning.drift import Drift, Origin, origin
from engine.learning.simulation import Simulated
from engine.learning.streams import right_rows
from engine.space import Space
from engine.values import Embeddings, Qrels, showable

T = TypeVar("T")
MEMORY = "drift.memory"
REMEMBERED, SPACES = 24, 4
"""So much of what views work out is remembered in a session, and so many spaces, which are as large as a corpus."""
QUICK = 0.3
"""So many seconds a page waits for a job that may end at once."""
DIRECT = 32_000_000
"""Work over more numbers than this, about half a second of it, is a job's."""
RECORDS, ROUNDS = "records", "rounds"
HELP = {
    RECORDS: "A record of the log is a vote, an undo, or the name of a moment.",
    ROUNDS: "A round is one query and one answer.",
}


@dataclass(frozen=True, eq=False)
class Story:
    """From Θ₁ to Θ_t.

    key: names all of it; loaded: the corpus as it was embedded; steps: at which the documents can be looked at, rising,
    0 first; counted: what a step counts; vectors: the documents at a step, (n, d); drifts, checkpoints: those that are
    known by now; probes, qrels: queries whose answers are followed, and what is right for them; decoders, k: of the
    checkpoints; session: the feedback, where it can be replayed; found: the simulation, if it is one; start: what drift
    is measured against, where it is known; marks: what names each moment of a log; note: what to know of it first.
    """

    key: str
    loaded: Loaded
    steps: tuple[int, ...]
    counted: str
    vectors: Callable[[int], np.ndarray] = field(repr=False)
    temperature: float
    drifts: tuple[Drift, ...]
    checkpoints: tuple[Checkpoint, ...] = ()
    probes: Embeddings | None = None
    qrels: Qrels | None = None
    decoders: tuple[Decoder, ...] = ()
    k: int = 10
    session: orag.Session | None = None
    found: Simulated | None = None
    start: Origin | None = None
    marks: Mapping[int, str] = field(default_factory=dict)
    note: str = ""

    @property
    def space(self) -> Space:
        """Θ₁."""
        return self.loaded.space

    @property
    def live(self) -> bool:
        """Whether it is people's feedback, which goes on and can be undone."""
        return self.found is None

    def said(self, step: int) -> str:
        """A step in words."""
        return f"after {self.counted.removesuffix('s')} {step:,}" if step else "at the start"

    @property
    def last(self) -> int:
        """The step that is now."""
        return self.steps[-1]

    def drift(self, step: int) -> Drift | None:
        """How things stood at a step; None where it is not known yet."""
        return next((found for found in self.drifts if found.step == step), None)

    def at(self, step: int) -> Space:
        """The corpus at a step."""
        key = ("space", self.key, step)
        return remembered(key, lambda: adapted(self.space, self.vectors(step)), "drift.spaces", SPACES)

    @cached_property
    def origin(self) -> Origin:
        """What answers are compared with."""
        if self.start is not None:
            return self.start
        right = None
        if self.probes is not None and self.qrels is not None:
            right = right_rows(self.qrels, self.probes.ids, self.space.corpus.position)
        return origin(self.vectors(0), self.probes, right=right, temperature=self.temperature)


class States(Sequence[tuple[int, np.ndarray]]):
    """A story's steps with the documents at each, made when asked for: all of them together may be large."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def __len__(self) -> int:
        return len(self._story.steps)

    def __getitem__(self, at: Any) -> Any:
        step = self._story.steps[at]
        return step, self._story.vectors(step)


def played(outcome: Outcome, note: str = "") -> Story:
    """A simulation as a story."""
    found, request = outcome.found, outcome.request
    kept = {snapshot.step: snapshot for snapshot in found.snapshots}
    first = found.begun.origin
    replayable = found.plan.learner == "feedback" and found.begun.preset.mode == "chosen"
    return Story(
        outcome.key,
        outcome.loaded,
        tuple(kept),
        ROUNDS,
        lambda step: kept[step].vectors(first),
        found.begun.temperature,
        tuple(checkpoint.drift for checkpoint in found.checkpoints),
        found.checkpoints,
        outcome.probes,
        outcome.qrels,
        request.decoders,
        request.k,
        remembered(("session", outcome.key), found.session) if replayable else None,
        found,
        note=note,
    )


def remembered(key: Hashable, make: Callable[[], T], where: str = MEMORY, most: int = REMEMBERED) -> T:
    """What `make` gives, made once a session; key: names all that it depends on."""
    memory: OrderedDict[Hashable, Any] = st.session_state.setdefault(where, OrderedDict())
    if key not in memory:
        with jobs.turn():
            made = make()
        memory[key] = made
    memory.move_to_end(key)
    while len(memory) > most:
        memory.popitem(last=False)
    return memory[key]


def worked(
    key: Hashable,
    purpose: str,
    title: str,
    work: Callable[[Job], T],
    where: str = MEMORY,
    most: int = REMEMBERED,
) -> T | None:
    """As `remembered`, made by a job; until it has ended how far it is, or why it is not at work, and None.

    key: names all that it depends on; purpose: of the job; title: what it does.
    """
    memory: OrderedDict[Hashable, Any] = st.session_state.setdefault(where, OrderedDict())
    if key in memory:
        return remembered(key, lambda: memory[key], where, most)
    job, own = jobs.mine().get(purpose), f"{purpose}.of"
    if job is not None and st.session_state.get(own) != key:
        job.cancel()
        job = None
    if job is None:
        if other := jobs.busy(purpose):
            st.text(f"What is worked out appears here when this has ended: {other.title}")
            return None
        st.session_state[own] = key
        job = jobs.start(purpose, title, work)
        job.join(QUICK)
    if job.result is not None:
        return remembered(key, lambda: job.result, where, most)
    if job.running:
        watch(job, f"{purpose}.cancel")
        return None
    if job.error:
        st.error("This could not be worked out.", icon=":material/error:")
        st.text(showable(job.error))
    else:
        st.info("Stopped.", icon=":material/pause:")
    st.button("Try again" if job.error else "Go on", key=f"{purpose}.on", on_click=_again, args=(jobs.mine(), purpose))
    return None


def _again(mine: dict[str, Job], purpose: str) -> None:
    mine.pop(purpose, None)


def step_of(story: Story) -> int:
    """Draw the slider over the steps, the last one first; returns the step."""
    if len(story.steps) < 2:
        return story.last
    own = step_key(story)
    # Set here and not by its default: playing sets it too.
    if st.session_state.get(own) not in story.steps:
        st.session_state[own] = story.last
    return st.select_slider(
        f"After so many {story.counted}",
        list(story.steps),
        key=own,
        help=HELP[story.counted],
        format_func=lambda step: f"{step:,}",
        persist_state="session",
    )


def step_key(story: Story) -> str:
    """What the session calls the slider."""
    return f"drift.step.{story.key[:16]}"


def names(decoders: Sequence[Decoder]) -> dict[str, tuple[str, str]]:
    """A decoder's label → its selector, and what people call it."""
    from dashboard.explore import setting

    return {decoder.label: (decoder.select.spec.name, setting.title(decoder)) for decoder in decoders}
