"""How the paper's number of steps differs from the minimiser: promised by theory, and measured."""

from __future__ import annotations

import streamlit as st

from dashboard.controls import stage_of
from dashboard.explore import setting, weights
from dashboard.explore.answers import answer
from dashboard.explore.question import Asked
from dashboard.state import Loaded
from engine.decoder import Decoder
from engine.stages import methods
from engine.views.theory import weighing


def show(loaded: Loaded, asked: Asked | None) -> None:
    """The comparison at the λ₁ and λ₂ that Explore is set to."""
    st.caption(
        "The paper stops FISTA after a number of steps; the minimiser can be had exactly, with a certificate. This is "
        "how far apart the two are on this corpus, at the λ₁ and λ₂ that Explore is set to. The promise is "
        "for the worst problem with the same L; labelled queries show what it is here."
    )
    if asked is None:
        st.info("Ask something in the sidebar: theory's promise is about its weights.")
        return
    spec = methods("selector")[weighing()]
    decoder = Decoder(stage_of(spec, setting.PREFIX), depth=asked.depth)
    stage, own = decoder.select, answer(loaded, asked, spec.name, decoder)
    l1 = own.ranking.info[0]["l1"]
    lowest = min(weights.SHOWN[0], l1) if l1 > 0 else weights.SHOWN[0]
    with st.spinner("Following the path"):
        path = weights.path_at(loaded, asked, stage, lowest)
    st.text(f"λ₁ = {l1:.3g}, λ₂ = {path.l2:g}")
    weights.solver(loaded, asked, stage, max(l1, lowest), path)
