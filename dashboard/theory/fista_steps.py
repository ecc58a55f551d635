"""FISTA's distance from the minimiser after the paper's number of steps: bound and measurement."""

import streamlit as st

from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.answers import answer
from dashboard.session.parameters import stage_of
from dashboard.session.query import Question
from dashboard.widgets import weights
from engine.decoder import Decoder
from engine.stages import methods
from engine.views.theory import weighing


def show(loaded: Loaded, question: Question | None) -> None:
    """The comparison at the λ₁ and λ₂ that Explore is set to."""
    st.caption(
        "The paper stops FISTA after 50 steps. Frontier solves exactly, with a certificate. How far apart are the two "
        "on this corpus, at Explore's λ₁ and λ₂?"
    )
    if question is None:
        st.info("Pick a query: the guarantee is about its weights.")
        return
    spec = methods("selector")[weighing()]
    decoder = Decoder(stage_of(spec, decoders.PREFIX), depth=question.depth)
    stage, result = decoder.select, answer(loaded, question, spec.name, decoder)
    l1 = result.ranking.info[0]["l1"]
    lowest = min(weights.SHOWN[0], l1) if l1 > 0 else weights.SHOWN[0]
    with st.spinner("Following the path"):
        path = weights.path_at(loaded, question, stage, lowest)
    st.text(f"λ₁ = {l1:.3g}, λ₂ = {path.l2:g}")
    weights.solver(loaded, question, stage, max(l1, lowest), path)
