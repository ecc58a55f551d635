"""A simulation on the page: its form, its job, its result."""

import streamlit as st

from dashboard.drift import example, form, timeline
from dashboard.drift.history import DriftHistory, of_simulation
from dashboard.drift.request import SimulationOutcome, SimulationRequest
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.widgets.failure import show_failure
from dashboard.widgets.job_panel import JobPanel, run_button
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
        st.fragment(_form)(loaded)
    if job is None or panel is None:
        if last is None:
            st.text(
                "Queries arrive one by one, each shows one document, and the judgements vote on it. See what votes "
                "would gain,  what wrong votes and attackers would do, and how far the documents drift."
            )
            return None
        return of_simulation(last)
    panel.result()
    return None


def _form(loaded: Loaded) -> None:
    request = form.ask(loaded)
    problem, resumes = False, False
    try:
        for decoder in request.decoders:
            decoders.checked(decoder, loaded.space)
        text = _forecast(loaded, request)
        resumes = request.file(loaded).exists()
        st.text(text + (" Resume continues the run that was stopped." if resumes else ""))
    except FrontierError as error:
        problem = True
        show_failure("These settings cannot be simulated.", error)
    panel = _started(loaded)
    going = panel is not None and panel.job is not None and panel.job.going
    with st.container(horizontal=True, vertical_alignment="center"):
        if run_button("Resume" if resumes else "Run", "drift.simulate.start", PURPOSE, disabled=problem or going):
            _start(loaded, request)
            st.rerun()


def _forecast(loaded: Loaded, request: SimulationRequest) -> str:
    """The work of a simulation in words, and its time where another simulation has shown the pace."""
    forecast = request.forecast(loaded)
    left = f" {forecast.left_out:,} without a relevant document are left out." if forecast.left_out else ""
    about = ""
    last = st.session_state.get(OUTCOMES, {}).get(loaded.key)
    job = example.job_of(loaded)
    candidates: tuple[SimulationOutcome | None, ...] = (last, None if job is None else job.result)
    pace = next((outcome for outcome in candidates if outcome is not None and outcome.seconds is not None), None)
    if pace is not None and pace.seconds is not None:
        about = f" About {format_duration(max(1.0, forecast.seconds(pace.seconds, pace.forecast.passes)))}."
    return (
        f"{counted(forecast.rounds, 'vote')} on {counted(forecast.learned, 'query', 'queries')}, "
        f"{forecast.held_out:,} held out; {counted(len(request.decoders), 'decoder')} measured "
        f"{forecast.checkpoints:,} times.{left}{about}"
    )


def _started(loaded: Loaded) -> JobPanel[SimulationOutcome] | None:
    """The panel of what was started last, if that is about this corpus."""
    panel: JobPanel[SimulationOutcome] | None = st.session_state.get(STARTED)
    return panel if panel is not None and panel.key == loaded.key else None


def _start(loaded: Loaded, request: SimulationRequest) -> None:
    panel = st.session_state[STARTED] = JobPanel(
        purpose=PURPOSE,
        key=loaded.key,
        title="Simulating feedback",
        by_itself=False,
        **timeline.panel_arguments(request, loaded),
        dismiss="Progress stays saved.",
    )
    panel.begin()
