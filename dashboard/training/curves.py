"""Training curves: the epochs of a training, stage by stage."""

import streamlit as st

from dashboard.charts.training import training_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.training_request import TrainingProgress
from dashboard.widgets.choices import choose
from engine.views.training import best_of, compared_with, curves


def show(progress: TrainingProgress, key: str) -> None:
    """The curves of the stage that a person chose, the newest one at first."""
    stages = [name for name, history in progress.histories.items() if history]
    if not stages:
        st.caption("The first validation appears here.")
        return
    why = "The start, its control (the start trained on for as long), and the method."
    # Where a stage has begun since, it is what people look for.
    stage = choose("Stage", stages, f"{key}.stage.{len(stages)}", default=stages[-1], named=True, help=why)
    history = progress.histories[stage]
    lines = compared_with(stage, progress.histories, progress.lines)
    points = curves(history, lines)
    figure = training_figure(stage, points, is_dark())
    plot(figure, f"{key}.{stage}", file=f"training-{stage}", label=f"Training of {stage}")
    best = best_of(history)
    when = "before the first epoch" if best.epoch < 0 else f"after epoch {best.epoch}"
    st.caption(
        f"Best on dev {when}; those weights are kept. Epoch −1 is before training."
        + (f" Lines: what {stage} is compared with, each at its own best on dev." if lines else "")
    )
