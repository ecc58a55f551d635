"""Margins of relevant documents over the rest, by the documents' length."""

from functools import partial

import streamlit as st

from dashboard.charts.theory import margins_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.theory import query_source
from dashboard.theory.jobs import measure
from dashboard.widgets.tables import draw_table, number_column
from engine.progress import counted
from engine.theory.margins import RelevantMargins, relevant_margins
from engine.theory.text_vectors import VECTORS

MarginsByKind = tuple[int, dict[str, tuple[RelevantMargins, ...]]]


def show(loaded: Loaded, question: Question | None) -> None:
    """The distribution of normalised margins, for words and for the corpus's vectors."""
    st.caption(
        "The margin of document 1 over document 2 is ⟨q, d₁ − d₂⟩ / (|q| |d₁ − d₂|), from −1 to 1. The smaller it is, "
        "the more dimensions a vector needs to keep their order. Shown: each relevant document's smallest margin over "
        "the others. Below 0, one of them scores higher. Unjudged documents count as not relevant."
    )
    if len(loaded.space) < 2:
        st.info("A margin needs two documents. Load a larger corpus on the Data page.")
        return
    choice = query_source.choose_queries(loaded)
    measure(("margins", choice.key), "Measuring margins", partial(_work, choice), _shown, by_itself=choice.small)


def _work(choice: query_source.QueryChoice, job: Job) -> MarginsByKind:
    queries, qrels = choice.task()
    vectors = choice.vectors(queries, job)
    asked = {kind: vectors if kind == "dense" else queries for kind in VECTORS.options}
    measure_kind = partial(relevant_margins, choice.loaded.space, progress=job.report, stop=job.stop)
    return len(queries), {kind: measure_kind(own, qrels, kind) for kind, own in asked.items() if own is not None}


def _shown(measured: MarginsByKind) -> None:
    count, margins = measured
    if not any(len(row.values) for rows in margins.values() for row in rows):
        st.info("No margins: no query has both a relevant and another document.")
        return
    plot(margins_figure(margins, is_dark()), "theory.margins", file="margins", label="Margins by length of document")
    st.caption(
        f"{counted(count, 'query', 'queries')} · dot: median · thick: middle half · thin: 5–95% · bins of equally many "
        "documents. Where margins shrink from left to right, longer documents need more dimensions."
    )
    if "dense" not in margins:
        st.caption("Words only: this corpus has its own vectors and no encoder for queries.")
    draw_table(
        [
            {
                "Vectors": kind,
                "Words": f"{row.least:,} to {row.most:,}",
                "Documents": row.documents,
                "Relevant": len(row.values),
                "Above 0": row.first,
                "5%": row.low,
                "Median": row.median,
                "95%": row.high,
            }
            for kind, rows in margins.items()
            for row in rows
        ],
        {"Above 0": number_column("percent")} | dict.fromkeys(("5%", "Median", "95%"), number_column("%.3f")),
    )
