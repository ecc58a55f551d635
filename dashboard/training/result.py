"""The result of a course: the table with its control, the verdict, and how to use the embeddings."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from html import escape

import pandas as pd
import streamlit as st

import engine
from dashboard.services import trained, training_runs
from dashboard.services.source import Loaded
from dashboard.services.training_request import TrainingOutcome, TrainingStage
from dashboard.session import address, decoders
from dashboard.widgets import confirm
from dashboard.widgets.basics import download_button, step_button
from dashboard.widgets.choices import choose
from dashboard.widgets.tables import draw_table
from engine.decoder import Decoder
from engine.evaluation.tables import format_csv
from engine.training.comparison import Table, percent
from engine.training.experiment import checkpoint
from engine.wording import visible

NEVER = "never got better on dev than where it started, so it has the start's weights"
TABLE, GROUPS = "All queries", "By relevant documents"


def table(outcome: TrainingOutcome, comparison: Table, digest: str) -> None:
    """Draw the comparison of a course."""
    st.html(f"<h3>On {comparison.queries:,} queries of {escape(visible(comparison.split))}</h3>")
    if verdict := outcome.verdict:
        st.text(verdict)
    if comparison.split == outcome.request.dev:
        flattered = "The best epochs were chosen on these queries, so the figures are flattering."
        st.warning(flattered, icon=":material/warning:")
    view, save = st.columns([5, 1], vertical_alignment="center")
    with view:
        way = choose("Table", [TABLE, GROUPS], "train.table")
    content, how = format_csv(pd.DataFrame(comparison.records)), {"icon": ":material/download:", "width": "stretch"}
    with save:
        download_button("CSV", content, f"training-{digest[:8]}.csv", "text/csv", "train.csv", **how)
    if way == GROUPS:
        _groups(comparison)
    else:
        frame = pd.DataFrame(list(comparison.rows), columns=["System", *comparison.head[1:]])
        draw_table(frame, max_rows=len(frame))
        st.caption(
            "Percent ± standard error. “encoder”: before training. A name after a comma: a decoder that it was not "
            "trained for, its parameters chosen on dev."
        )
    with st.expander("Findings", expanded=True):
        st.text("\n".join(map(visible, comparison.sentences)) or "There is nothing to compare it with.")


def _groups(comparison: Table) -> None:
    groups = comparison.groups()
    rows = [
        {"System": name}
        | {f"{group.relevant} relevant ({group.queries:,})": percent(*group.means[name]) for group in groups}
        for name in comparison.values
    ]
    draw_table(rows, max_rows=len(rows))
    st.caption(
        "Comp@5 in percent ± standard error, by how many documents are relevant (how many queries have so many)."
    )


def ends(outcome: TrainingOutcome) -> None:
    """Draw why each stage ended, and with which decoder it is measured."""
    stages = outcome.stages
    table = {
        "Stage": [stage.name for stage in stages],
        "Best epoch": [stage.best for stage in stages],
        "Ended": [visible(stage.stopped or "in the middle") for stage in stages],
        "Decoder": [visible(stage.decoder) for stage in stages],
    }
    draw_table(table, max_rows=len(stages))


def warn_of_unlearnt(stages: Sequence[TrainingStage]) -> None:
    """Warn of stages that ended with the weights that they started from."""
    *others, last = stages
    if last.best < 0:
        st.warning("Training never improved dev: these are the start's weights.", icon=":material/warning:")
    if names := [stage.name for stage in others if stage.best < 0]:
        st.text(f"Nor did that of {', '.join(names)}." if last.best < 0 else f"{', '.join(names)} {NEVER}.")


def use_buttons(loaded: Loaded, digest: str, stages: Sequence[TrainingStage]) -> None:
    """Draw the buttons that make a stage's embeddings those of the session's corpus."""
    st.subheader("Use these embeddings", anchor=False)
    st.caption(
        "All pages then search the trained embeddings, and Explore shows their decoder. Switch back here or on the "
        "Data page."
    )
    with st.container(horizontal=True):
        for stage in stages:
            learnt = stage.best >= 0
            why = f"Search with what {stage.name} learnt, at its best epoch." if learnt else f"{stage.name} {NEVER}."
            kind = "primary" if learnt and stage is stages[-1] else "secondary"
            step, key = partial(_use, loaded, digest, stage.name), f"train.use.{stage.name}"
            step_button(f"Use {stage.name}", key, confirm.take_step, step, type=kind, help=why)
    st.text("\n".join(visible(f"{stage.name} is trained for {stage.decoder}") for stage in stages))
    confirm.show_error("These embeddings cannot be used.")


def in_use(loaded: Loaded) -> None:
    """Draw which trained embeddings the session searches, their decoder, and the way back."""
    origin = loaded.origin
    decoder = origin.trained_for
    if not origin.source.trained or decoder is None:
        return

    def leave() -> None:
        # On the encoder's own embeddings a scorer of what was trained would find nothing to score.
        if not decoders.has_default_scorers(decoder):
            decoders.put_decoder(Decoder(decoder.select))
        address.switch_source(origin.source.without_training)

    with st.container(horizontal=True, vertical_alignment="center"):
        source = f"learnt by {origin.training}" if origin.learnt else f"of {origin.training}, which {NEVER}"
        st.text(visible(f"In use now: the embeddings {source}. Trained for {decoder.label}."))
        compare, undo = ":material/compare_arrows:", ":material/undo:"
        step_button("Use in Explore", "train.decoder", decoders.apply_decoder, decoder, icon=compare)
        step_button("Use the encoder's own", "train.plain", leave, icon=undo)


def _use(loaded: Loaded, digest: str, stage: str) -> None:
    """Search with what a stage learnt, with its decoder. Raises FrontierError."""
    plain = loaded.without_training
    learnt = engine.load_trained(checkpoint(training_runs.training_folder(digest), stage), plain.space)
    name = trained.save_trained(learnt, stage, plain.space.corpus.name)
    address.switch_source(replace(plain.source, trained=name))
    decoders.apply_decoder(learnt.decoder)
    st.toast("In use: Explore now searches these embeddings, with their decoder.", icon=":material/check:")
