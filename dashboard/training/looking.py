"""A run's epochs, stage by stage, while it runs and afterwards."""

from __future__ import annotations

import streamlit as st

from dashboard.charts.training import training_figure
from dashboard.components.live_plot import plot
from dashboard.training.request import Seen
from engine.views.training import best_of, compared_with, curves


def show(seen: Seen, key: str) -> None:
    """The curves of the stage that a person chose, the newest one at first."""
    stages = [name for name, history in seen.histories.items() if history]
    if not stages:
        st.caption("The first look at dev appears here.")
        return
    stage = st.segmented_control(
        "Stage",
        stages,
        default=stages[-1],
        required=True,
        # Where a stage has begun since, it is what people look for.
        key=f"{key}.stage.{len(stages)}",
        persist_state="session",
        help="A course has its start, its control (the start trained on for as long) and the method itself.",
    )
    stage = stage or stages[-1]
    history = seen.histories[stage]
    lines = compared_with(stage, seen.histories, seen.lines)
    found = curves(history, lines)
    dark = st.context.theme.type == "dark"
    plot(training_figure(stage, found, dark), f"{key}.{stage}", file=f"training-{stage}", label=f"Training of {stage}")
    best = best_of(history)
    at = "before the first epoch" if best.epoch < 0 else f"after epoch {best.epoch}"
    st.caption(
        f"Dev is best {at}, and those weights are kept. Epoch −1 is before training."
        + (f" Lines: what {stage} is to be compared with, each at its own best on dev." if lines else "")
    )
