"""The result of a course: the table with its control, the verdict, and how to use the embeddings."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape

import pandas as pd
import streamlit as st

import engine
from dashboard.charts.figure import read_column
from dashboard.services import trained, training_runs
from dashboard.services.source import Loaded
from dashboard.services.training_request import TrainingOutcome, TrainingStage
from dashboard.session import address, decoders
from dashboard.widgets import confirm
from dashboard.widgets.basics import download_button, step_button
from dashboard.widgets.choices import choose
from dashboard.widgets.tables import draw_table
from engine.decoder import Decoder
from engine.evaluation.paired import format_decoder
from engine.evaluation.tables import format_csv
from engine.progress import counted
from engine.training.comparison import Table, percent
from engine.training.experiment import checkpoint
from engine.wording import visible

NEVER = "never got better on dev than where it started, so it has the start's weights"
TABLE, GROUPS = "All queries", "By relevant documents"


def draw_comparison(outcome: TrainingOutcome, comparison: Table, digest: str) -> None:
    """Draw the table that compares the trained system with its start and control, and the conclusions.

    The control is the start, trained on for as long without the method. comparison: the table; digest: of the training,
    for the file's name
    """
    st.html(f"<h3>On {counted(comparison.queries, 'query', 'queries')} of {escape(visible(comparison.split))}</h3>")
    if verdict := outcome.verdict:
        st.text(verdict)
    # Without test queries the table is of those that chose the best epochs.
    if comparison.split == outcome.request.dev:
        warning = "The best epochs were chosen on these queries, so the figures are flattering."
        st.warning(warning, icon=":material/warning:")
    view_column, save_column = st.columns([5, 1], vertical_alignment="center")
    with view_column:
        view_name = choose("Table", [TABLE, GROUPS], "train.table")
    content, options = format_csv(pd.DataFrame(comparison.records)), {"icon": ":material/download:", "width": "stretch"}
    with save_column:
        download_button("CSV", content, f"training-{digest[:8]}.csv", "text/csv", "train.csv", **options)
    if view_name == GROUPS:
        _draw_groups(comparison)
    else:
        frame = pd.DataFrame(list(comparison.rows), columns=["System", *comparison.head[1:]])
        draw_table(frame, max_rows=len(frame))
        st.caption(
            "Percent ± standard error. “encoder”: before training. A name after a comma: a decoder that it was not "
            "trained for, its parameters chosen on dev."
        )
    with st.expander("Findings", expanded=True):
        st.text("\n".join(map(visible, comparison.sentences)) or "There is nothing to compare it with.")


def _draw_groups(comparison: Table) -> None:
    """Draw the systems' metric by groups of queries with equally many relevant documents, as a table.

    The metric is Comp@5, the share of queries all of whose relevant documents are among the first 5.
    """
    columns = {"System": list(comparison.values)}
    for group in comparison.groups():
        title = f"{group.relevant} relevant ({group.queries:,})"
        columns[title] = [percent(*group.means[name]) for name in comparison.values]
    draw_table(columns, max_rows=len(comparison.values))
    scope = "by how many documents are relevant (how many queries have so many)"
    st.caption(f"Comp@5 in percent ± standard error, {scope}.")


def draw_stage_ends(outcome: TrainingOutcome) -> None:
    """Draw a table of a training's parts (start, control, method): best epoch, why it ended, and decoder."""
    stages = outcome.stages
    # A stage without a reason for its end was interrupted.
    table = {
        "Stage": read_column(stages, "name"),
        "Best epoch": read_column(stages, "best"),
        "Ended": [visible(stage.stopped or "in the middle") for stage in stages],
        "Decoder": [visible(stage.decoder) for stage in stages],
    }
    draw_table(table, max_rows=len(stages))


def warn_of_unlearnt(stages: Sequence[TrainingStage]) -> None:
    """Warn of stages (parts of a training) in which no epoch was better than the start.

    stages: in order, the method's own last; their best epoch is −1 if the start was the best
    """
    *earlier_stages, last_stage = stages
    if last_stage.best < 0:
        st.warning("Training never improved dev: these are the start's weights.", icon=":material/warning:")
    if names := [stage.name for stage in earlier_stages if stage.best < 0]:
        st.text(f"Nor did that of {', '.join(names)}." if last_stage.best < 0 else f"{', '.join(names)} {NEVER}.")


def draw_use_buttons(loaded: Loaded, digest: str, stages: Sequence[TrainingStage]) -> None:
    """Draw a button for each stage of a training, which makes the pages search its embeddings.

    Stages are the start, its control and the method, each with embeddings of its own.
    """
    st.header("Use these embeddings", anchor=False)
    st.caption(
        "All pages then search the trained embeddings, and Explore shows their decoder. Switch back here or on the "
        "Data page."
    )
    with st.container(horizontal=True):
        for stage in stages:
            learnt = stage.best >= 0
            hint = f"Search with what {stage.name} learnt, at its best epoch." if learnt else f"{stage.name} {NEVER}."
            button_type = "primary" if learnt and stage is stages[-1] else "secondary"
            use_stage, widget_key = partial(_use_stage, loaded, digest, stage.name), f"train.use.{stage.name}"
            step_button(f"Use {stage.name}", widget_key, confirm.take_step, use_stage, type=button_type, help=hint)
    st.text("\n".join(visible(f"{stage.name} is trained for {stage.decoder}") for stage in stages))
    confirm.show_error("These embeddings cannot be used.")


def draw_in_use(loaded: Loaded) -> None:
    """Draw which trained embeddings the browser session searches, with the button back to the encoder's.

    Nothing is drawn if it searches the encoder's own.
    """
    origin = loaded.origin
    decoder = origin.trained_for
    if not origin.source.trained or decoder is None:
        return

    def leave() -> None:
        """Go back to the encoder's own embeddings, without scorers that only work on trained ones."""
        # A trained scorer has nothing to score on the encoder's own embeddings.
        if not decoders.has_default_scorers(decoder):
            decoders.put_decoder(Decoder(decoder.select))
        address.switch_source(origin.source.without_training)

    with st.container(horizontal=True, vertical_alignment="center"):
        source = f"learnt by {origin.training}" if origin.learnt else f"of {origin.training}, which {NEVER}"
        st.text(visible(f"In use now: the embeddings {source}. Trained for {format_decoder(decoder)}."))
        compare, undo = ":material/compare_arrows:", ":material/undo:"
        step_button("Use in Explore", "train.decoder", decoders.apply_decoder, decoder, icon=compare)
        step_button("Use the encoder's own", "train.plain", leave, icon=undo)


def _use_stage(loaded: Loaded, digest: str, stage: str) -> None:
    """Make the pages of this browser session search a stage's embeddings, with its decoder.

    digest: of the training; stage: name of its start, its control or its method. Raises FrontierError if the checkpoint
    cannot be read or stored.
    """
    untrained = loaded.without_training
    # Checkpoints are of the encoder's own embeddings, whatever the session searches now.
    learnt = engine.load_trained(checkpoint(training_runs.training_folder(digest), stage), untrained.space)
    name = trained.save_trained(learnt, stage, untrained.space.corpus.name)
    address.switch_source(replace(untrained.source, trained=name))
    decoders.apply_decoder(learnt.decoder)
    st.toast("In use: Explore now searches these embeddings, with their decoder.", icon=":material/check:")
