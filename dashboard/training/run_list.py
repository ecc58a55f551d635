"""The trainings of a corpus on this machine, and the one that a session shows."""

import streamlit as st

from dashboard.services import training_runs
from dashboard.services.source import Loaded
from dashboard.services.training_request import TrainingRequest
from dashboard.widgets.buttons import step_button
from engine.errors import FrontierError
from engine.training.recipes import RECIPES, declared
from engine.wording import visible

AT, MOST = "train.at", 12


def shown_digest(plain: Loaded) -> str | None:
    """The training that the session shows on these embeddings."""
    shown: dict[str, str | None] = st.session_state.setdefault(AT, {})
    return shown.get(plain.space.embeddings.digest)


def look_at(plain: Loaded, digest: str | None) -> None:
    """Show another training, None for none, from the next run of the page on."""
    st.session_state.setdefault(AT, {})[plain.space.embeddings.digest] = digest


def request_of(plain: Loaded, digest: str) -> TrainingRequest | None:
    """The request of a training, None where it is not there."""
    return next((training.request for training in training_runs.trainings_of(plain) if training.digest == digest), None)


def describe(request: TrainingRequest) -> str:
    """A training in words: its method, what is not at its default, its splits and its seed."""
    params = dict(request.params)
    recipe = RECIPES[request.method]
    changed = [
        f"{p.symbol} = {p.text(params[p.name])}"
        for p in declared(request.method)
        if p.name in params and (params[p.name] != p.default or p.name in recipe.late)
    ]
    where = request.train if request.divide is None else f"parts of {request.divide} (seed {request.parting})"
    return ", ".join([recipe.title, *changed, f"learnt from {where}", f"seed {request.seed}"])


def show(plain: Loaded) -> None:
    """Draw the list of trainings, each with buttons to open and delete it."""
    if not (trainings := training_runs.trainings_of(plain)):
        return
    with st.expander(f"Trainings ({len(trainings):,})"):
        for training in trainings[:MOST]:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                described = f"{describe(training.request)} · {training_runs.status(training)}"
                st.text(visible(described), width="stretch")
                current = training.digest == shown_digest(plain)
                label, digest = "Shown" if current else "Open", training.digest
                step_button(label, f"train.open.{digest}", look_at, plain, digest, disabled=current)
                why = "Deletes its checkpoints. Embeddings in use stay (Data page, Cache)."
                going = training_runs.under_way(digest) is not None
                step_button("Delete", f"train.delete.{digest}", _delete, plain, digest, disabled=going, help=why)


def _delete(plain: Loaded, digest: str) -> None:
    try:
        training_runs.forget(digest)
    except FrontierError as error:
        st.toast(visible(str(error)), icon=":material/error:")
    if shown_digest(plain) == digest:
        look_at(plain, None)
