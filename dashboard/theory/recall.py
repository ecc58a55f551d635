"""The smallest dimension in which the best document stays among the first ten, by the documents' length."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

import engine
from dashboard.charts.theory import recall_figure
from dashboard.components.live_plot import plot
from dashboard.jobs import Job
from dashboard.theory import questions
from dashboard.theory.measured import measured
from engine.theory.bounds import RANK
from engine.theory.dimensions import DIMENSIONS, LengthDimension, reached
from engine.values import Queries

TITLE = f"Recall@{RANK.default}, by length"
Found = tuple[int, tuple[LengthDimension, ...]]


def show(choice: questions.Choice, weighting: str, projection: str, target: float) -> None:
    """Chart and table of the dimensions that reach the target; another target is read off what was measured."""
    found: Found | None = measured(
        ("recall", choice.key, weighting, projection),
        "Projecting documents of every length",
        partial(_work, choice, weighting, projection),
        by_itself=choice.small,
    )
    if found is not None:
        _shown(*found, weighting, target)


def _work(choice: questions.Choice, weighting: str, projection: str, job: Job) -> Found:
    queries: Queries = choice.task()[0]
    space = choice.loaded.space
    rows = engine.recall_dimensions(space, queries, weighting, reduction=projection, progress=job.report, stop=job.stop)
    return len(queries), rows


def _shown(count: int, rows: Sequence[LengthDimension], weighting: str, target: float) -> None:
    if not any(row.queries for row in rows):
        st.info("No query shares a word with a document: there is no best document to keep.")
        return
    smallest = [reached(row.recall, target) for row in rows]
    dark = st.context.theme.type == "dark"
    figure = recall_figure(rows, smallest, DIMENSIONS, target, dark)
    plot(figure, "theory.recall", file="recall-dimension", label="Smallest dimension by length of document")
    st.caption(
        f"{count:,} queries. In each bin, of equally many documents, the k from which on a random projection of "
        f"{weighting} keeps the best document among the first {RANK.default} in at least {target:.0%} of the cases "
        f"(sparse-dense paper, Fig. 3b). Open, at the top: more than {DIMENSIONS[-1]:,}. Below: the share of queries "
        "and projections that keep it, for every k that was tried."
    )
    tried = [k for k in DIMENSIONS if any(k in row.recall for row in rows)]
    st.dataframe(
        pd.DataFrame(
            {
                "Words": [f"{row.least:,} to {row.most:,}" for row in rows],
                "Queries": [row.queries for row in rows],
                "Smallest k": ["–" if not r.queries else _number(k) for r, k in zip(rows, smallest, strict=True)],
                **{f"k = {k:,}": [row.recall.get(k) for row in rows] for k in tried},
            }
        ),
        hide_index=True,
        column_config={f"k = {k:,}": st.column_config.NumberColumn(format="percent") for k in tried},
    )


def _number(k: int | None) -> str:
    return f"> {DIMENSIONS[-1]:,}" if k is None else f"{'≤ ' if k == DIMENSIONS[0] else ''}{k:,}"
