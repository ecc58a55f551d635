"""A simulation on the page: asked for, started, stopped, gone on with, shown when it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import streamlit as st

from dashboard import jobs
from dashboard.drift import example, form, progress
from dashboard.drift.request import Outcome, Request, kept, run
from dashboard.drift.story import Story, played
from dashboard.explore import setting
from dashboard.jobs import Job
from dashboard.parts import POLL
from dashboard.state import Loaded
from engine.errors import FrontierError
from engine.progress import spoken
from engine.values import showable

PURPOSE = "drift.simulation"
STARTED, OUTCOMES, PACE = "drift.started", "drift.outcomes", "drift.pace"
WRITING = 5.0
"""Seconds that a stopped simulation is given to end."""


@dataclass(frozen=True, eq=False)
class Started:
    """What was started last, and on which corpus."""

    request: Request
    corpus: str


def story(loaded: Loaded) -> Story | None:
    """The form with what it would take, and the simulation made last."""
    job, started = _job(loaded)
    outcomes: dict[str, Outcome] = st.session_state.setdefault(OUTCOMES, {})
    # Asked before the result: it may come between the two.
    going = job is not None and job.running and not job.stop.is_set()
    if job is not None and job.result is not None:
        outcomes[_corpus(loaded)] = job.result
        job = None
    last = outcomes.get(_corpus(loaded))
    with st.expander("Simulation", expanded=last is None and not going, icon=":material/science:"):
        waiting = jobs.busy(PURPOSE) is not None
        # A form that cannot be started yet finds out when it can.
        st.fragment(_form, run_every=POLL if waiting else None)(loaded, waiting)
    if job is not None and started is not None and going:
        progress.running(job, "simulation", started.request)
        return None
    if job is not None and started is not None:
        progress.stopped(
            job, "simulation", started.request, jobs.busy(PURPOSE), partial(_start, loaded, started.request)
        )
        st.button(
            "Dismiss", key="drift.simulation.dismiss", on_click=_dismiss, help="What was simulated stays kept on disk."
        )
        return None
    if last is None:
        _teach()
        return None
    return played(last)


def _teach() -> None:
    st.text(
        "A simulation plays feedback from judgements: queries come one after the other, a document is drawn for each "
        "by its score, the judgements say whether it was right, and the document moves. It shows what a deployment "
        "would gain, what lies and floods of one query would do to it, and what drift they leave."
    )


def _form(loaded: Loaded, waiting: bool) -> None:
    if waiting and jobs.busy(PURPOSE) is None:
        st.rerun()
    request = form.ask(loaded)
    what, start = st.columns([5, 1], vertical_alignment="center")
    problem, on = False, False
    with what:
        try:
            for decoder in request.decoders:
                setting.usable(decoder, loaded.space)
            told = _foretold(loaded, request)
            on = kept(request, loaded) is not None
            st.text(told + (" It was stopped once, and goes on from there." if on else ""))
        except FrontierError as error:
            problem = True
            st.error("This cannot be simulated as it is asked.", icon=":material/error:")
            st.text(showable(str(error)))
    job, _ = _job(loaded)
    going = job is not None and job.running and not job.stop.is_set()
    other = jobs.busy(PURPOSE)
    if start.button(
        "Go on" if on else "Start",
        type="primary",
        key="drift.simulate.start",
        disabled=bool(problem or going or other),
        help=f"{other.title} is still running: one piece of long work at a time." if other else None,
        width="stretch",
    ):
        _start(loaded, request)
        st.rerun()


def _foretold(loaded: Loaded, request: Request) -> str:
    """What a start would do, and how long that takes where another run has shown the pace."""
    found = request.forecast(loaded)
    left = f" {found.left_out:,} without a right document take no part." if found.left_out else ""
    pace = _pace(loaded)
    about = (
        " The time left is shown once it runs."
        if pace is None
        else f" About {spoken(max(1.0, found.seconds(pace.seconds, pace.forecast.passes)))}."
    )
    count = len(request.decoders)
    return (
        f"{found.rounds:,} pieces of feedback on {found.learned:,} queries, {found.held_out:,} held out; {count} "
        f"{'decoder' if count == 1 else 'decoders'} measured {found.checkpoints:,} times.{left}{about}"
    )


def _pace(loaded: Loaded) -> Outcome | None:
    """A run on this corpus that was not stopped, the last one or the example."""
    last = st.session_state.get(OUTCOMES, {}).get(_corpus(loaded))
    worked = example.found(loaded)
    runs = (last, worked and worked[0].result)
    return next((run_ for run_ in runs if run_ is not None and run_.seconds is not None), None)


def _corpus(loaded: Loaded) -> str:
    return f"{loaded.space.embeddings.digest} {loaded.space.corpus.digest}"


def _job(loaded: Loaded) -> tuple[Job | None, Started | None]:
    """The job, if it is about this corpus."""
    started: Started | None = st.session_state.get(STARTED)
    job = jobs.mine().get(PURPOSE)
    if job is None or started is None or started.corpus != _corpus(loaded):
        return None, None
    return job, started


def _start(loaded: Loaded, request: Request) -> None:
    before = jobs.mine().get(PURPOSE)
    if before is not None:
        # It may still be writing the file from which this one goes on.
        before.cancel()
        before.join(WRITING)
    st.session_state[STARTED] = Started(request, _corpus(loaded))
    jobs.start(PURPOSE, "simulating feedback", partial(run, request, loaded))


def _dismiss() -> None:
    jobs.mine().pop(PURPOSE, None)
