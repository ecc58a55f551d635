"""A simulation on the page: its form, its job, its result; and the worked example, for sessions without feedback."""

import streamlit as st

from dashboard.drift import form, timeline
from dashboard.drift.history import DriftHistory, of_simulation
from dashboard.drift.request import SimulationOutcome, SimulationRequest
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.query import find_first_split
from dashboard.widgets.basics import show_failure
from dashboard.widgets.job_panel import JobPanel, SharedPanel, draw_run_button
from engine.decoder import SET_SIZE
from engine.errors import FrontierError
from engine.feedback.presets import Preset
from engine.progress import counted, format_duration
from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan
from engine.wording import visible

PURPOSE = "drift.simulation"
STARTED, OUTCOMES = "drift.started", "drift.outcomes"
"""Where a session keeps the panel of what it started last, and what came of simulations, by their corpus."""
ROUNDS, TIMES, CHECKPOINTS, MEASURED = 240, 3, 6, 60
"""Rounds, passes over the queries, checkpoints, queries measured at each: seconds on a few thousand documents."""
BY_ITSELF = 2_000_000
"""Numbers in the documents' vectors up to which it begins unasked."""
_EXAMPLES: SharedJobs[str] = SharedJobs(3)


def history_of(loaded: Loaded) -> DriftHistory | None:
    """The form with what it would take, and the simulation made last."""
    panel = _started(loaded)
    job = None if panel is None else panel.job
    outcomes: dict[str, SimulationOutcome] = st.session_state.setdefault(OUTCOMES, {})
    going = job is not None and job.is_active  # asked before the result, which may come between the two
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
            decoders.check_decoder(decoder, loaded.space)
        text = _forecast(loaded, request)
        resumes = request.file(loaded).exists()
        st.text(text + (" Resume continues the run that was stopped." if resumes else ""))
    except FrontierError as error:
        problem = True
        show_failure("These settings cannot be simulated.", error)
    panel = _started(loaded)
    going = panel is not None and panel.job is not None and panel.job.is_active
    with st.container(horizontal=True, vertical_alignment="center"):
        if draw_run_button("Resume" if resumes else "Run", "drift.simulate.start", PURPOSE, disabled=problem or going):
            _start(loaded, request)
            st.rerun()


def _forecast(loaded: Loaded, request: SimulationRequest) -> str:
    """The work of a simulation in words, and its time where another simulation has shown the pace."""
    forecast = request.forecast(loaded)
    left = f" {forecast.left_out:,} without a relevant document are left out." if forecast.left_out else ""
    about = ""
    last = st.session_state.get(OUTCOMES, {}).get(loaded.key)
    job = example_job(loaded)
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
        autostart=False,
        **timeline.panel_arguments(request, loaded),
        dismiss_help="Progress stays saved.",
    )
    panel.start_job()


def example_of(loaded: Loaded) -> DriftHistory | None:
    """The example, begun by itself where it takes seconds; until it is there, how far it is."""
    job = example_job(loaded)
    request = example_request(loaded) if job is None else job.key
    panel = SharedPanel(
        purpose="drift.example",
        key=loaded.key,
        job_key=request,
        title="Worked example",
        shared_jobs=_EXAMPLES,
        **timeline.panel_arguments(request, loaded),
    )
    whose = f"{visible(request.learn)} queries" if request.learn else "documents as queries"
    note = f"Simulated feedback: {whose} arrive one by one, each shows one document, and "
    note += "the judgements vote on it." if request.learn else "only the right one gets a good vote."
    if job is not None and job.result is not None:
        return of_simulation(job.result, note)
    st.text(note)
    if job is None and loaded.space.embeddings.vectors.numel() > BY_ITSELF:
        st.button("Run", type="primary", key="drift.example.start", on_click=panel.start_job)
        return None
    outcome = panel.result()
    return None if outcome is None else of_simulation(outcome, note)


def example_job(loaded: Loaded) -> Job | None:
    """The example of this corpus, where somebody has begun it; its key is the request."""
    return _EXAMPLES.get(loaded.key)


def example_request(loaded: Loaded) -> SimulationRequest:
    """A short simulation on the corpus's first judged split, else on documents that ask for themselves."""
    dataset = loaded.dataset
    splits = form.splits_of(loaded)
    usual = find_first_split(dataset)
    return SimulationRequest(
        learn=usual if usual in splits else next(iter(splits), form.OWN),
        report=None,
        stream=Stream(rounds=ROUNDS),
        plan=Plan(checkpoints=CHECKPOINTS, measured=MEASURED),
        preset=Preset(exposure=TIMES),
        decoders=form.chosen_decoders(),
        k=SET_SIZE.default,
    )
