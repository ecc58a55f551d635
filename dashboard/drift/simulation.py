"""A simulation on the page: its form, its job, its result."""

from typing import Any

import streamlit as st

from dashboard.drift import example, form, timeline
from dashboard.drift.history import DriftHistory, of_simulation
from dashboard.drift.request import SimulationOutcome, SimulationRequest
from dashboard.services import jobs
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.widgets.failure import show_failure
from dashboard.widgets.job_panel import POLL, JobPanel, blocked_by
from engine.errors import FrontierError
from engine.progress import counted, format_duration

PURPOSE = "drift.simulation"
STARTED, OUTCOMES = "drift.started", "drift.outcomes"
"""Where a session keeps the panel of what it started last, and what came of simulations, by their corpus."""


def history_of(loaded: Loaded) -> DriftHistory | None:
    """The form with what it would take, and the simulation made last."""
    panel = _started(loaded)
    job = None if panel is None else panel.job
    outcomes: dict[str, SimulationOutcome] = st.session_state.setdefault(OUTCOMES, {})
    going = job is not None and job.going  # asked before the result, which may come between the two
    if job is not None and job.result is not None:
        outcomes[loaded.key] = job.result
        job = None
    last = outcomes.get(loaded.key)
    with st.expander("Simulation", expanded=last is None and not going, icon=":material/science:"):
        waiting = jobs.busy(PURPOSE) is not None
        # A form that cannot be started yet finds out when it can.
        st.fragment(_form, run_every=POLL if waiting else None)(loaded, waiting)
    if job is None or panel is None:
        if last is None:
            _teach()
            return None
        return of_simulation(last)
    panel.result()
    return None


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
    summary, start = st.columns([5, 1], vertical_alignment="center")
    problem, resumes = False, False
    with summary:
        try:
            for decoder in request.decoders:
                decoders.checked(decoder, loaded.space)
            text = _forecast(loaded, request)
            resumes = request.file(loaded).exists()
            st.text(text + (" It was stopped once, and goes on from there." if resumes else ""))
        except FrontierError as error:
            problem = True
            show_failure("This cannot be simulated as it is asked.", error)
    panel = _started(loaded)
    going = panel is not None and panel.job is not None and panel.job.going
    waits, label = blocked_by(PURPOSE), "Resume" if resumes else "Run"
    how: dict[str, Any] = {"disabled": bool(problem or going or waits), "help": waits, "width": "stretch"}
    if start.button(label, type="primary", key="drift.simulate.start", **how):
        _start(loaded, request)
        st.rerun()


def _forecast(loaded: Loaded, request: SimulationRequest) -> str:
    """The work of a simulation in words, and its time where another simulation has shown the pace."""
    forecast = request.forecast(loaded)
    left = f" {forecast.left_out:,} without a right document take no part." if forecast.left_out else ""
    about = " The time left is shown once it runs."
    pace = _pace(loaded)
    if pace is not None and pace.seconds is not None:
        about = f" About {format_duration(max(1.0, forecast.seconds(pace.seconds, pace.forecast.passes)))}."
    return (
        f"{forecast.rounds:,} pieces of feedback on {forecast.learned:,} queries, {forecast.held_out:,} held out; "
        f"{counted(len(request.decoders), 'decoder')} measured {forecast.checkpoints:,} times.{left}{about}"
    )


def _pace(loaded: Loaded) -> SimulationOutcome | None:
    """A simulation of this corpus that was not stopped: the last one or the example."""
    last = st.session_state.get(OUTCOMES, {}).get(loaded.key)
    job = example.job_of(loaded)
    candidates: tuple[SimulationOutcome | None, ...] = (last, None if job is None else job.result)
    return next((outcome for outcome in candidates if outcome is not None and outcome.seconds is not None), None)


def _started(loaded: Loaded) -> JobPanel[SimulationOutcome] | None:
    """The panel of what was started last, if that is about this corpus."""
    panel: JobPanel[SimulationOutcome] | None = st.session_state.get(STARTED)
    return panel if panel is not None and panel.key == loaded.key else None


def _start(loaded: Loaded, request: SimulationRequest) -> None:
    panel = st.session_state[STARTED] = JobPanel(
        purpose=PURPOSE,
        key=loaded.key,
        title="simulating feedback",
        by_itself=False,
        **timeline.panel_arguments(request, loaded),
        dismiss="What was simulated stays kept on disk.",
    )
    panel.begin()
