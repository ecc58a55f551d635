"""What a course came to: the table with its control, what may be said of it, and how to use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

import pandas as pd
import streamlit as st

import engine
from dashboard import state
from dashboard.explore import setting
from dashboard.state import Loaded
from dashboard.training import kept, runs
from dashboard.training.request import Outcome, Stage
from engine.errors import FrontierError
from engine.evaluation.tables import as_csv
from engine.learning.training.comparison import Table, percent
from engine.learning.training.course import checkpoint
from engine.values import showable

WRONG = "train.wrong"
NEVER = "never got better on dev than where it started, so it has the start's weights"
TABLE, GROUPS = "All queries", "By relevant documents"


def table(outcome: Outcome, digest: str) -> None:
    """The comparison; nothing where the course was stopped before it."""
    found = outcome.table
    if found is None:
        return
    st.html(f"<h3>On {found.queries:,} queries of {escape(showable(found.split))}</h3>")
    if verdict := outcome.verdict:
        st.text(verdict)
    if found.split == outcome.request.dev:
        st.warning(
            "The best epochs were chosen by these queries, so they look better on them than on others.",
            icon=":material/warning:",
        )
    view, save = st.columns([5, 1], vertical_alignment="center")
    way = view.segmented_control(
        "Table",
        [TABLE, GROUPS],
        default=TABLE,
        required=True,
        key="train.table",
        persist_state="session",
        label_visibility="collapsed",
    )
    save.download_button(
        "CSV",
        as_csv(pd.DataFrame(found.records)),
        f"training-{digest[:8]}.csv",
        "text/csv",
        key="train.csv",
        icon=":material/download:",
        on_click="ignore",
        width="stretch",
    )
    if way == GROUPS:
        _groups(found)
    else:
        st.dataframe(
            pd.DataFrame(list(found.rows), columns=["System", *found.head[1:]]),
            hide_index=True,
            height=35 * (len(found.rows) + 1) + 3,
        )
        st.caption(
            "Percent ± standard error. “encoder” is the corpus before any training; a name after a comma is a decoder "
            "that was not trained for, with its parameters chosen on dev."
        )
    with st.expander("What can be told, and what cannot", expanded=True):
        st.text("\n".join(map(showable, found.sentences)) or "There is nothing to compare it with.")


def _groups(found: Table) -> None:
    groups = found.groups()
    rows = [
        {"System": name}
        | {f"{group.relevant} relevant ({group.queries:,})": percent(*group.means[name]) for group in groups}
        for name in found.values
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, height=35 * (len(rows) + 1) + 3)
    st.caption(
        "Comp@5 in percent ± standard error, by how many documents are relevant (how many queries have so many)."
    )


def ends(outcome: Outcome) -> None:
    """Why each stage ended, and with which decoder it is measured."""
    rows = [
        {
            "Stage": stage.name,
            "Best epoch": stage.best,
            "Ended": showable(stage.stopped or "in the middle"),
            "Decoder": showable(stage.decoder),
        }
        for stage in outcome.stages
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, height=35 * (len(rows) + 1) + 3)


def unlearnt(stages: Sequence[Stage]) -> None:
    """Which stages ended with the weights that they started from, the last one above all."""
    *others, last = stages
    if last.best < 0:
        st.warning("Training never improved dev: these are the start's weights.", icon=":material/warning:")
    if names := [stage.name for stage in others if stage.best < 0]:
        st.text(f"Nor did that of {', '.join(names)}." if last.best < 0 else f"{', '.join(names)} {NEVER}.")


def use(loaded: Loaded, digest: str, stages: Sequence[Stage]) -> None:
    """Buttons that make a stage's embeddings those of the session's corpus; loaded: of the session."""
    st.subheader("Use these embeddings", anchor=False)
    st.caption(
        "Every page then works on them: the corpus's vectors are the trained ones, and queries are adapted as they "
        "were in training. Explore is set to the decoder that they were trained for. The encoder's own stay a click "
        "away, here and on the Data page."
    )
    with st.container(horizontal=True):
        for stage in stages:
            learnt = stage.best >= 0
            st.button(
                f"Use {stage.name}",
                key=f"train.use.{stage.name}",
                type="primary" if learnt and stage is stages[-1] else "secondary",
                on_click=_use,
                args=(loaded, digest, stage.name),
                help=f"Search with what {stage.name} learnt, at its best epoch."
                if learnt
                else f"{stage.name} {NEVER}.",
            )
    st.text("\n".join(showable(f"{stage.name} is trained for {stage.decoder}") for stage in stages))
    if wrong := st.session_state.pop(WRONG, None):
        st.error("These embeddings cannot be used.", icon=":material/error:")
        st.text(wrong)


def in_use(loaded: Loaded) -> None:
    """Whether the session searches trained embeddings, the decoder that they are for, and the way back."""
    origin = loaded.origin
    if not origin.source.trained:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        what = f"learnt by {origin.training}" if origin.learnt else f"of {origin.training}, which {NEVER}"
        st.text(showable(f"In use now: the embeddings {what}. Trained for {origin.trained_for.label}."))
        st.button(
            "Set Explore to its decoder",
            key="train.decoder",
            on_click=setting.apply,
            args=(origin.trained_for,),
            icon=":material/compare_arrows:",
        )
        st.button(
            "Use the encoder's own",
            key="train.plain",
            on_click=_leave,
            args=(origin,),
            icon=":material/undo:",
        )


def _leave(origin: Loaded) -> None:
    """Back to the encoder's own embeddings, on which a scorer of what was trained would find nothing to score."""
    if not setting.plain(origin.trained_for):
        setting.put_decoder(type(origin.trained_for)(origin.trained_for.select))
    state.use(origin.source.plain)


def _use(loaded: Loaded, digest: str, stage: str) -> None:
    plain = loaded.plain
    try:
        trained = engine.load_trained(checkpoint(runs.folder(digest), stage), plain.space)
        name = kept.keep(trained, stage, plain.space.corpus.name)
    except FrontierError as error:
        st.session_state[WRONG] = showable(str(error))
        return
    state.use(replace(plain.source, trained=name))
    setting.apply(trained.decoder)
    st.toast("In use: Explore now searches these embeddings, with their decoder.", icon=":material/check:")
