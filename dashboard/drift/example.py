"""The worked example: a short simulation, one a corpus, for sessions without feedback."""

import streamlit as st

from dashboard.drift import form, timeline
from dashboard.drift.history import DriftHistory, of_simulation
from dashboard.drift.request import SimulationRequest
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.source import Loaded
from dashboard.session.query import first_split
from dashboard.widgets.job_panel import SharedPanel
from engine.decoder import SET_SIZE
from engine.feedback.presets import Preset
from engine.simulation.feedback_model import Stream
from engine.simulation.simulate import Plan
from engine.wording import visible

ROUNDS, TIMES, CHECKPOINTS, MEASURED = 240, 3, 6, 60
"""Rounds, passes over the queries, checkpoints, queries measured at each: seconds on a few thousand documents."""
BY_ITSELF = 2_000_000
"""Numbers in the documents' vectors up to which it begins unasked."""
MOST = 3

_EXAMPLES: SharedJobs[str] = SharedJobs(MOST)


def history_of(loaded: Loaded) -> DriftHistory | None:
    """The example, begun by itself where it takes seconds; until it is there, how far it is."""
    job = job_of(loaded)
    request = example_request(loaded) if job is None else job.key
    panel = SharedPanel(
        purpose="drift.example",
        key=loaded.key,
        about=request,
        title="Worked example",
        shared=_EXAMPLES,
        **timeline.panel_arguments(request, loaded),
    )
    whose = f"{visible(request.learn)} queries" if request.learn else "documents as queries"
    note = f"Simulated feedback: {whose} arrive one by one, each shows one document, and "
    note += "the judgements vote on it." if request.learn else "only the right one gets a good vote."
    if job is not None and job.result is not None:
        return of_simulation(job.result, note)
    st.text(note)
    if job is None and loaded.space.embeddings.vectors.numel() > BY_ITSELF:
        st.button("Run", type="primary", key="drift.example.start", on_click=panel.begin)
        return None
    outcome = panel.result()
    return None if outcome is None else of_simulation(outcome, note)


def job_of(loaded: Loaded) -> Job | None:
    """The example of this corpus, where somebody has begun it; its key is the request."""
    return _EXAMPLES.get(loaded.key)


def example_request(loaded: Loaded) -> SimulationRequest:
    """A short simulation on the corpus's first judged split, else on documents that ask for themselves."""
    dataset = loaded.dataset
    splits = form.splits_of(loaded)
    usual = first_split(dataset)
    return SimulationRequest(
        learn=usual if usual in splits else next(iter(splits), form.OWN),
        report=None,
        stream=Stream(rounds=ROUNDS),
        plan=Plan(checkpoints=CHECKPOINTS, measured=MEASURED),
        preset=Preset(exposure=TIMES),
        decoders=form.chosen_decoders(),
        k=SET_SIZE.default,
    )
