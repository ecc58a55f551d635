"""The estimate of a training, and its start."""

import streamlit as st

from dashboard.services import training_runs
from dashboard.services.source import Loaded
from dashboard.services.training_request import LOOK, TrainingRequest, estimate
from dashboard.training import run_list
from dashboard.widgets.job_panel import JobPanel, blocked_by
from engine.progress import format_duration
from engine.training.experiment import Foreseen
from engine.training.recipes import RECIPES, declared
from engine.values import replace_surrogates

LOOKED, OUTCOMES, MINE = "train.looked", "train.outcomes", "train.mine"
"""Where a session keeps estimates, results, and the digest of the training that its job runs."""


def show(plain: Loaded, request: TrainingRequest, digest: str) -> None:
    """Draw what training would do, the buttons that estimate and start it, and the estimate."""
    summary, look, train = st.columns([5, 1, 1], vertical_alignment="center")
    recipe, qrels = RECIPES[request.method], request.qrels(plain.dataset)
    with summary:
        st.title("Train")
        parts = [
            f"{len(qrels[request.train]):,} queries of {request.train} to learn from",
            f"{len(qrels[request.dev]):,} of {request.dev} to choose by",
        ]
        if request.test is not None:
            parts.append(f"{len(qrels[request.test]):,} of {request.test} to report on")
        st.text(replace_surrogates(f"{recipe.title}: {', '.join(parts)}."))
        if request.divide is not None:
            whole = f"the {len(plain.dataset.qrels[request.divide]):,} queries of {request.divide}"
            how = f"divided at random with seed {request.parting}: no query is in two parts."
            st.text(replace_surrogates(f"They are {whole}, {how}"))
    estimates: dict[str, Foreseen] = st.session_state.setdefault(LOOKED, {})
    panel = JobPanel(
        purpose=LOOK,
        key=None,
        title="timing the first steps",
        work=lambda job: (digest, estimate(request, plain, job)),
        by_itself=False,
        failed="How long it takes cannot be told.",
    )
    waits = blocked_by(None)
    help_ = waits or "Times the first steps of every stage."
    if look.button("Estimate", key="train.look", disabled=bool(waits), help=help_, width="stretch"):
        panel.begin()
        st.rerun()
    locked = bool(waits) or training_runs.under_way(digest) is not None
    if train.button("Train", type="primary", key="train.start", disabled=locked, help=waits, width="stretch"):
        begin(plain, request)
        st.rerun()
    if (timed := panel.result()) is not None:
        estimates[timed[0]] = timed[1]
    if digest in estimates:
        _figures(estimates[digest], request)


def _figures(estimated: Foreseen, request: TrainingRequest) -> None:
    method = estimated.method
    with st.container(horizontal=True, border=True):
        st.metric("Queries to learn from", f"{method.queries:,}")
        st.metric("Mean |S|", f"{method.mean_relevant:.2f}", help="Relevant documents a query.")
        st.metric("Left out", f"{method.left_out:,}", help="Queries without a relevant document in the corpus.")
        st.metric("Repeated", f"{estimated.repeated:,}", help="Queries left out as another split has the same text.")
        st.metric("Steps an epoch", f"{method.steps:,}")
        st.metric("An epoch", _seconds(estimated.seconds_an_epoch), help="With its look at dev.")
        stages = ", ".join(f"{name} {_seconds(stage.seconds)}" for name, stage in estimated.stages.items())
        every = f"All epochs of every stage: {stages}. Most stop earlier."
        st.metric("At most, in all", _seconds(estimated.seconds), help=every)
    params = dict(request.params)
    late = RECIPES[request.method].late
    if unset := [p.symbol for p in declared(request.method) if p.name in late and p.name not in params]:
        st.caption(f"Choosing {', '.join(unset)} by the data comes on top, where that means trying them on dev.")


def _seconds(seconds: float) -> str:
    return format_duration(seconds) if seconds >= 1 else "< 1 s"


def begin(plain: Loaded, request: TrainingRequest) -> None:
    """Train, go on, or read what is finished; and show it."""
    digest = training_runs.start(plain, request)
    st.session_state.setdefault(OUTCOMES, {}).pop(digest, None)
    st.session_state[MINE] = digest
    run_list.look_at(plain, digest)
