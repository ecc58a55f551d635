"""A simulation on the page: its form, job and result; and the worked example."""

import streamlit as st

from dashboard.drift import form, timeline
from dashboard.drift.history import DriftHistory, from_simulation
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

SIMULATION_PURPOSE = "drift.simulation"
STARTED_KEY, OUTCOMES_KEY = "drift.started", "drift.outcomes"
"""Session keys: the panel of the last started simulation, and the outcomes by corpus."""
EXAMPLE_ROUNDS, EXAMPLE_PASSES, EXAMPLE_CHECKPOINTS, EXAMPLE_MEASURED = 240, 3, 6, 60
"""Size of the example, which takes seconds on a few thousand documents."""
MAX_UNASKED_NUMBERS = 2_000_000
"""Up to this many numbers in the documents' vectors the example starts without a click."""
_EXAMPLES: SharedJobs[str] = SharedJobs(3)


def draw_simulation(loaded: Loaded) -> DriftHistory | None:
    """Draw the form of a simulation and its job; return the last finished one's history, None without.

    None also while a job runs or if it failed: the job's panel is drawn then.
    """
    panel = _get_panel(loaded)
    job = None if panel is None else panel.job
    outcomes: dict[str, SimulationOutcome] = st.session_state.setdefault(OUTCOMES_KEY, {})
    is_active = job is not None and job.is_active  # asked before the result, which may come between the two
    # A finished job's outcome is stored; from then on the page shows it, as without a job.
    if job is not None and job.result is not None:
        outcomes[loaded.key] = job.result
        job = None
    last_outcome = outcomes.get(loaded.key)
    with st.expander("Simulation", expanded=last_outcome is None and not is_active, icon=":material/science:"):
        st.fragment(_draw_form)(loaded)
    if job is None or panel is None:
        if last_outcome is None:
            st.text(
                "Queries arrive one by one, each shows one document, and the judgements vote on it. See what votes "
                "would gain, what wrong votes and attackers would do, and how far the documents drift."
            )
            return None
        return from_simulation(last_outcome)
    # The job runs or has failed: its panel shows progress or the error.
    panel.draw_until_result()
    return None


def _draw_form(loaded: Loaded) -> None:
    """Draw the form's settings, what the simulation would take, and the button that runs or resumes it."""
    request = form.ask(loaded)
    failed, resumes = False, False
    try:
        for decoder in request.decoders:
            decoders.check_decoder(decoder, loaded.space)
        text = _format_forecast(loaded, request)
        # A stopped simulation leaves its file.
        resumes = request.file(loaded).exists()
        st.text(text + (" Resume continues the run that was stopped." if resumes else ""))
    except FrontierError as error:
        failed = True
        show_failure("These settings cannot be simulated.", error)
    panel = _get_panel(loaded)
    busy = panel is not None and panel.job is not None and panel.job.is_active
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Resume" if resumes else "Run"
        if draw_run_button(label, "drift.simulate.start", SIMULATION_PURPOSE, disabled=failed or busy):
            _start_simulation(loaded, request)
            st.rerun()


def _format_forecast(loaded: Loaded, request: SimulationRequest) -> str:
    """Describe how much work a simulation is, and how long it takes if this machine's pace is known.

    Raises FrontierError for impossible settings.
    """
    forecast = request.forecast(loaded)
    left_text = f" {forecast.left_out:,} without a relevant document are left out." if forecast.left_out else ""
    time_text = ""
    last_outcome = st.session_state.get(OUTCOMES_KEY, {}).get(loaded.key)
    job = find_example_job(loaded)
    # Any finished simulation on this corpus tells the pace of this machine.
    candidates: tuple[SimulationOutcome | None, ...] = (last_outcome, None if job is None else job.result)
    timed = next((outcome for outcome in candidates if outcome is not None and outcome.seconds is not None), None)
    if timed is not None and timed.seconds is not None:
        estimate_s = forecast.estimate_seconds(timed.seconds, timed.forecast.passes)
        time_text = f" About {format_duration(max(1.0, estimate_s))}."
    return (
        f"{counted(forecast.rounds, 'vote')} on {counted(forecast.learned, 'query', 'queries')}, "
        f"{forecast.held_out:,} held out; {counted(len(request.decoders), 'decoder')} measured "
        f"{forecast.checkpoints:,} times.{left_text}{time_text}"
    )


def _get_panel(loaded: Loaded) -> JobPanel[SimulationOutcome] | None:
    """Return the job panel of the simulation that was started last; None if it was of another corpus."""
    panel: JobPanel[SimulationOutcome] | None = st.session_state.get(STARTED_KEY)
    return panel if panel is not None and panel.key == loaded.key else None


def _start_simulation(loaded: Loaded, request: SimulationRequest) -> None:
    """Start the simulation in a job, and store the panel that draws the job in the browser session."""
    panel = st.session_state[STARTED_KEY] = JobPanel(
        purpose=SIMULATION_PURPOSE,
        key=loaded.key,
        title="Simulating votes",
        autostart=False,
        **timeline.panel_arguments(request, loaded),
        dismiss_help="Progress stays saved.",
    )
    panel.start_job()


def draw_example(loaded: Loaded) -> DriftHistory | None:
    """Return the history of a small example simulation of this corpus; until it has run, draw its job.

    All browser sessions share the example. None until it has run.
    """
    job = find_example_job(loaded)
    request = make_example_request(loaded) if job is None else job.key
    panel = SharedPanel(
        purpose="drift.example",
        key=loaded.key,
        job_key=request,
        title="Worked example",
        shared_jobs=_EXAMPLES,
        **timeline.panel_arguments(request, loaded),
    )
    query_text = f"{visible(request.learn)} queries" if request.learn else "documents as queries"
    note = f"Simulated votes: {query_text} arrive one by one, each shows one document, and "
    note += "the judgements vote on it." if request.learn else "only the right one gets a good vote."
    if job is not None and job.result is not None:
        return from_simulation(job.result, note)
    st.text(note)
    # A large corpus is simulated on a click only.
    if job is None and loaded.space.embeddings.vectors.numel() > MAX_UNASKED_NUMBERS:
        st.button("Run", type="primary", key="drift.example.start", on_click=panel.start_job)
        return None
    outcome = panel.draw_until_result()
    return None if outcome is None else from_simulation(outcome, note)


def find_example_job(loaded: Loaded) -> Job | None:
    """Return the job of this corpus's example, if somebody started it; its key is the request."""
    return _EXAMPLES.get(loaded.key)


def make_example_request(loaded: Loaded) -> SimulationRequest:
    """Return the settings of a short simulation: on judged queries, else on documents as queries."""
    dataset = loaded.dataset
    splits = form.list_splits(loaded)
    first_split = find_first_split(dataset)
    return SimulationRequest(
        learn=first_split if first_split in splits else next(iter(splits), form.OWN_QUERIES),
        report=None,
        stream=Stream(rounds=EXAMPLE_ROUNDS),
        plan=Plan(checkpoints=EXAMPLE_CHECKPOINTS, measured=EXAMPLE_MEASURED),
        preset=Preset(exposure=EXAMPLE_PASSES),
        decoders=form.list_decoders(),
        k=SET_SIZE.default,
    )
