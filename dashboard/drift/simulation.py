"""A simulation on the page: asked for, started, stopped, gone on with, shown while it runs and when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from dashboard import jobs
from dashboard.drift import form, timeline
from dashboard.drift.request import Outcome, Request, kept, run
from dashboard.drift.story import ROUNDS, Story, names, played
from dashboard.explore import setting
from dashboard.jobs import Job
from dashboard.parts import POLL, show_progress
from dashboard.state import Loaded
from engine.errors import FrontierError
from engine.learning.orag.presets import Preset
from engine.learning.simulation import Plan
from engine.learning.streams import Stream
from engine.progress import spoken
from engine.values import showable

PURPOSES = {"simulation": "drift.simulation", "example": "drift.example"}
STARTED, OUTCOMES, PACE = "drift.started", "drift.outcomes", "drift.pace"
EXAMPLE_ROUNDS, EXAMPLE_LOOKS, EXAMPLE_MEASURED, EXAMPLE_TIMES = 240, 6, 60, 3
BY_ITSELF = 2_000_000
"""Numbers in the documents' vectors up to which the example begins without being asked."""


@dataclass(frozen=True, eq=False)
class Started:
    """What was started last, and on which corpus."""

    request: Request
    key: str
    corpus: str


def example(loaded: Loaded) -> Request:
    """A short simulation that fits every corpus: on its first judged split, else on documents that ask for
    themselves."""
    dataset = loaded.dataset
    splits = [split for split in dataset.qrels if len(dataset.judged(split))] if form.has_encoder(loaded) else []
    usual = form.first_split(dataset)
    return Request(
        learn=usual if usual in splits else next(iter(splits), form.OWN),
        report=None,
        stream=Stream(rounds=EXAMPLE_ROUNDS),
        plan=Plan(checkpoints=EXAMPLE_LOOKS, measured=EXAMPLE_MEASURED),
        preset=Preset(exposure=EXAMPLE_TIMES),
        decoders=form.decoders(),
        k=form.SET_SIZE.default,
    )


def worked(loaded: Loaded) -> Story | None:
    """The worked example, begun by itself where it takes seconds."""
    request = example(loaded)
    # Other decoders are no reason to throw an example away that is there.
    last = _outcomes("example").get(_corpus(loaded))
    learn = (last.request if last else request).learn
    whose = f"judged queries of {showable(learn)}" if learn else "documents that ask for themselves"
    note = (
        f"Nobody's feedback: {whose} came in a seeded order, a document was drawn for each, and what is judged right "
        "answered instead of a person."
    )
    if last is None:
        small = loaded.space.embeddings.vectors.numel() <= BY_ITSELF
        last = _at_work(loaded, "example", request, by_itself=small)
        if last is None:
            st.text(note)
    return None if last is None else played(last, loaded, note)


def asked(loaded: Loaded) -> Story | None:
    """The form with what it would take, and the simulation made last."""
    last = _outcomes("simulation").get(_corpus(loaded))
    job, started = _job("simulation", loaded)
    going = job is not None and job.running and not job.stop.is_set()
    with st.expander("Simulation", expanded=last is None and not going, icon=":material/science:"):
        _form(loaded)
    if job is None and last is None:
        _teach()
        return None
    if job is not None and started is not None:
        last = _at_work(loaded, "simulation", started.request, by_itself=False) or last
        if job.running or job.result is None:
            return None
    return None if last is None else played(last, loaded)


def _teach() -> None:
    st.text(
        "A simulation plays feedback from judgements: queries come one after the other, a document is drawn for each "
        "by its score, the judgements say whether it was right, and the document moves. It shows what a deployment "
        "would gain, what lies and floods of one query would do to it, and what drift they leave."
    )


@st.fragment
def _form(loaded: Loaded) -> None:
    request = form.ask(loaded)
    what, start = st.columns([5, 1], vertical_alignment="center")
    problem, on = None, False
    with what:
        try:
            for decoder in request.decoders:
                setting.usable(decoder)
            told = _foretold(loaded, request)
            on = kept(request, loaded) is not None
            st.text(told + (" It was stopped once, and goes on from there." if on else ""))
        except FrontierError as error:
            problem = showable(str(error))
            st.error("This cannot be simulated as it is asked.", icon=":material/error:")
            st.text(problem)
    purpose = PURPOSES["simulation"]
    job = jobs.mine().get(purpose)
    going = job is not None and job.running and not job.stop.is_set()
    other = jobs.busy(purpose)
    if start.button(
        "Go on" if on else "Start",
        type="primary",
        key="drift.simulate.start",
        disabled=bool(problem or going or other),
        help=f"{other.title} is still running: one piece of long work at a time." if other else None,
        width="stretch",
    ):
        _start(loaded, "simulation", request)
        st.rerun()


def _foretold(loaded: Loaded, request: Request) -> str:
    """What a start would do, and how long that takes where another run has shown the pace."""
    found = request.forecast(loaded)
    left = f" {found.left_out:,} without a right document take no part." if found.left_out else ""
    pace = st.session_state.get(PACE, {}).get(_corpus(loaded))
    about = f" About {spoken(max(1.0, found.seconds(*pace)))}." if pace else " The time left is shown once it runs."
    counted = f"{len(request.decoders)} {'decoder' if len(request.decoders) == 1 else 'decoders'}"
    return (
        f"{found.rounds:,} pieces of feedback on {found.learned:,} queries, {found.held_out:,} held out; {counted} "
        f"measured {found.checkpoints:,} times.{left}{about}"
    )


def _corpus(loaded: Loaded) -> str:
    return loaded.space.embeddings.digest


def _outcomes(kind: str) -> dict[str, Outcome]:
    """The last result on each corpus."""
    return st.session_state.setdefault(f"{OUTCOMES}.{kind}", {})


def _job(kind: str, loaded: Loaded) -> tuple[Job | None, Started | None]:
    """The job of this kind, if it is about this corpus."""
    started: Started | None = st.session_state.get(f"{STARTED}.{kind}")
    job = jobs.mine().get(PURPOSES[kind])
    if job is None or started is None or started.corpus != _corpus(loaded):
        return None, None
    return job, started


def _start(loaded: Loaded, kind: str, request: Request) -> None:
    title = "simulating feedback" if kind == "simulation" else "the worked example"
    st.session_state[f"{STARTED}.{kind}"] = Started(request, request.digest(loaded), _corpus(loaded))
    jobs.start(PURPOSES[kind], title, partial(run, request, loaded))


def _at_work(loaded: Loaded, kind: str, request: Request, by_itself: bool) -> Outcome | None:
    """The result once it is there; until then how far it is, or the way to start it or to go on."""
    job, _ = _job(kind, loaded)
    other = jobs.busy(PURPOSES[kind])
    if job is None and by_itself and other is None:
        _start(loaded, kind, request)
        job, _ = _job(kind, loaded)
    if job is not None:
        # Asked before the result: it may come between the two.
        going = job.running and not job.stop.is_set()
        if isinstance(job.result, Outcome):
            return _ended(loaded, kind, job.result)
        if going:
            _running(job, kind, names(request.decoders), request.k)
            return None
        if job.error:
            st.error("The simulation ended early.", icon=":material/error:")
            st.text(showable(job.error))
        else:
            st.info("Stopped. What was simulated is kept: going on starts from there.", icon=":material/pause:")
    if other is not None:
        st.text(f"Possible when this has ended: {other.title}")
    with st.container(horizontal=True):
        again = "Go on" if job is not None and not job.error else "Try again" if job is not None else "Run the example"
        if st.button(again, type="primary", key=f"drift.{kind}.on", disabled=other is not None):
            _start(loaded, kind, request)
            st.rerun()
        if job is not None:
            st.button("Dismiss", key=f"drift.{kind}.dismiss", on_click=_dismiss, args=(kind,))
    if job is not None and job.partial:
        so_far(job, names(request.decoders), request.k)
    return None


def _ended(loaded: Loaded, kind: str, outcome: Outcome) -> Outcome:
    _outcomes(kind)[_corpus(loaded)] = outcome
    if outcome.seconds is not None:
        st.session_state.setdefault(PACE, {})[_corpus(loaded)] = (outcome.seconds, outcome.forecast.passes)
    jobs.mine().pop(PURPOSES[kind], None)
    st.session_state.pop(f"{STARTED}.{kind}", None)
    return outcome


def _dismiss(kind: str) -> None:
    jobs.mine().pop(PURPOSES[kind], None)
    st.session_state.pop(f"{STARTED}.{kind}", None)


@st.fragment(run_every=POLL)
def _running(job: Job, kind: str, named: dict[str, tuple[str, str]], k: int) -> None:
    if not job.running or job.stop.is_set():
        st.rerun()
    with st.container(border=True):
        bar, cancel = st.columns([5, 1], vertical_alignment="center")
        with bar:
            show_progress(job)
        cancel.button("Cancel", key=f"drift.{kind}.cancel", on_click=job.cancel, width="stretch")
    so_far(job, named, k)


def so_far(job: Job, named: dict[str, tuple[str, str]], k: int) -> None:
    """What is known until now."""
    found = job.partial or []
    views: dict[str, Callable[[], None]] = {
        "Measures": lambda: timeline.measures([checkpoint.drift for checkpoint in found], ROUNDS),
        "Decoders": lambda: timeline.quality(found, named, k, ROUNDS),
    }
    if not found:
        st.caption("What is measured appears here as it is finished.")
        return
    view = st.segmented_control(
        "So far", list(views), default="Measures", required=True, key="drift.so_far", label_visibility="collapsed"
    )
    views[view or "Measures"]()
