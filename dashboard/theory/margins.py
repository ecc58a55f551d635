"""How clearly queries tell their relevant documents from the rest, by the documents' length."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from dashboard.charts.theory import margins_figure
from dashboard.components.live_plot import plot
from dashboard.explore.question import Asked
from dashboard.jobs import Job
from dashboard.state import Loaded
from dashboard.theory import questions
from dashboard.theory.measured import measured
from engine.theory.relevant import RelevantMargins, relevant_margins
from engine.theory.represented import VECTORS

Found = tuple[int, dict[str, tuple[RelevantMargins, ...]]]


def show(loaded: Loaded, asked: Asked | None) -> None:
    """The distribution of normalised margins, for words and for the corpus's vectors."""
    st.caption(
        "The normalised margin of a relevant document over another is ⟨q, d₁ − d₂⟩ / (|q| |d₁ − d₂|), between −1 and "
        "1: what a vector of few dimensions has to get right to keep their order. Shown is each relevant document's "
        "smallest margin over the documents that are not relevant, so below 0 one of those scores higher. It assumes "
        "that what is not judged is not relevant."
    )
    if len(loaded.space) < 2:
        st.info("A margin needs two documents, and this corpus has one. Load a larger one on the Data page.")
        return
    choice = questions.choose(loaded)
    found: Found | None = measured(
        ("margins", choice.key), "Measuring margins", partial(_work, choice), by_itself=choice.small
    )
    if found is not None:
        _shown(loaded, choice, *found)


def _work(choice: questions.Choice, job: Job) -> Found:
    queries, qrels = choice.task()
    vectors = choice.vectors(queries, job)
    kinds = [kind for kind in VECTORS.options if kind != "dense" or vectors is not None]
    how = {"progress": job.report, "stop": job.stop}
    found = {
        kind: relevant_margins(choice.loaded.space, vectors if kind == "dense" else queries, qrels, kind, **how)
        for kind in kinds
    }
    return len(queries), found


def _shown(loaded: Loaded, choice: questions.Choice, count: int, found: dict[str, tuple[RelevantMargins, ...]]) -> None:
    if not any(len(row.values) for rows in found.values() for row in rows):
        st.info("No query has a relevant document with another to tell it from: there is no margin to show.")
        return
    dark = st.context.theme.type == "dark"
    plot(margins_figure(found, dark), "theory.margins", file="margins", label="Margins by length of document")
    st.caption(
        f"{count:,} queries. Dot: median; thick: the middle half; thin: 5 to 95 %. Bins hold equally many documents. "
        "Where the margins shrink from left to right, longer documents need more dimensions."
    )
    if "dense" not in found:
        st.caption("This corpus came with its own vectors, and no encoder to put queries beside them: words only.")
    st.dataframe(
        pd.DataFrame(
            [
                {
                    "Vectors": kind,
                    "Words": f"{row.least:,} to {row.most:,}",
                    "Documents": row.documents,
                    "Relevant": len(row.values),
                    "Above 0": row.first,
                    "5 %": row.low,
                    "Median": row.median,
                    "95 %": row.high,
                }
                for kind, rows in found.items()
                for row in rows
            ]
        ),
        hide_index=True,
        column_config={"Above 0": st.column_config.NumberColumn(format="percent")}
        | {name: st.column_config.NumberColumn(format="%.3f") for name in ("5 %", "Median", "95 %")},
    )
