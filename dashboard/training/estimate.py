"""The estimate of a training, and its start."""

import streamlit as st

from dashboard.services import jobs, training_runs
from dashboard.services.source import Loaded
from dashboard.services.training_request import LOOK, PURPOSE, TrainingRequest, estimate
from dashboard.training import run_list
from dashboard.widgets.job_panel import JobPanel, run_button
from engine.progress import format_duration
from engine.training.experiment import Foreseen
from engine.training.recipes import RECIPES, declared

LOOKED, OUTCOMES, MINE = "train.looked", "train.outcomes", "train.mine"
"""Where a session keeps estimates, results, and the digest of the training that its job runs."""


def show(plain: Loaded, request: TrainingRequest, digest: str) -> None:
    """Draw the buttons that start and estimate a training, and the estimate."""
    estimates: dict[str, Foreseen] = st.session_state.setdefault(LOOKED, {})
    panel = JobPanel(
        purpose=LOOK,
        key=None,
        title="Timing the first steps",
        work=lambda job: (digest, estimate(request, plain, job)),
        again="",
        by_itself=False,
        failed="The time cannot be estimated.",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        mine = jobs.mine().get(PURPOSE)
        going = training_runs.under_way(digest) is not None or (mine is not None and mine.running)
        if run_button("Run", "train.start", PURPOSE, disabled=going):
            begin(plain, request)
            st.rerun()
        why = "Times the first steps of every stage."
        if st.button("Estimate time", key="train.look", disabled=jobs.busy() is not None, help=why):
            panel.begin()
            st.rerun()
    if (timed := panel.result()) is not None:
        estimates[timed[0]] = timed[1]
    if digest in estimates:
        _figures(estimates[digest], request)


def _figures(estimated: Foreseen, request: TrainingRequest) -> None:
    method = estimated.method
    with st.container(horizontal=True, border=True):
        st.metric("Training queries", f"{method.queries:,}")
        st.metric("Relevant per query", f"{method.mean_relevant:.2f}")
        st.metric("Left out", f"{method.left_out:,}", help="Queries without a relevant document in the corpus.")
        st.metric("Repeated", f"{estimated.repeated:,}", help="Queries left out, as another part has the same text.")
        st.metric("Steps per epoch", f"{method.steps:,}")
        st.metric("Time per epoch", _seconds(estimated.seconds_an_epoch), help="With validation.")
        stages = ", ".join(f"{name} {_seconds(stage.seconds)}" for name, stage in estimated.stages.items())
        every = f"All epochs of every stage: {stages}. Most stop earlier."
        st.metric("Total, at most", _seconds(estimated.seconds), help=every)
    params = dict(request.params)
    late = RECIPES[request.method].late
    if unset := [p.symbol for p in declared(request.method) if p.name in late and p.name not in params]:
        st.caption(f"Choosing {', '.join(unset)} on the validation queries takes extra time.")


def _seconds(seconds: float) -> str:
    return format_duration(seconds) if seconds >= 1 else "< 1 s"


def begin(plain: Loaded, request: TrainingRequest) -> None:
    """Train, go on, or read what is finished; and show it."""
    digest = training_runs.start(plain, request)
    st.session_state.setdefault(OUTCOMES, {}).pop(digest, None)
    st.session_state[MINE] = digest
    run_list.look_at(plain, digest)
