"""The smallest dimension that keeps the best document among the first ten, by documents' length."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

import engine
from dashboard.charts.theory import recall_figure
from dashboard.components.live_plot import is_dark, plot
from dashboard.services.jobs import Job
from dashboard.theory import query_source
from dashboard.theory.jobs import measure
from dashboard.widgets.tables import draw_table, number_column
from engine.progress import counted
from engine.theory.measured_dimensions import DIMENSIONS, LengthDimension, reached
from engine.theory.projection_bounds import RANK

TITLE = f"Recall@{RANK.default}, by length"
Measured = tuple[int, tuple[LengthDimension, ...]]


def show(choice: query_source.QueryChoice, weighting: str, projection: str, target: float) -> None:
    """Chart and table of the dimensions that reach the target; another target is read off what was measured."""
    measure(
        ("recall", choice.key, weighting, projection),
        "Projecting documents of every length",
        partial(_work, choice, weighting, projection),
        lambda measured: _shown(*measured, weighting, target),
        by_itself=choice.small,
    )


def _work(choice: query_source.QueryChoice, weighting: str, projection: str, job: Job) -> Measured:
    queries, _ = choice.task()
    given = {"reduction": projection, "progress": job.report, "stop": job.stop}
    return len(queries), engine.recall_dimensions(choice.loaded.space, queries, weighting, **given)


def _shown(count: int, rows: Sequence[LengthDimension], weighting: str, target: float) -> None:
    if not any(row.queries for row in rows):
        st.info("No query shares a word with a document.")
        return
    smallest = [reached(row.recall, target) for row in rows]
    figure = recall_figure(rows, smallest, DIMENSIONS, target, is_dark())
    plot(figure, "theory.recall", file="recall-dimension", label="Smallest dimension by length of document")
    st.caption(
        f"{counted(count, 'query', 'queries')} · smallest k at which a random projection of {weighting} keeps the best "
        f"document in the top {RANK.default} in {target:.0%} of cases (sparse-dense paper, Fig. 3b) · open symbol: "
        f"more than {DIMENSIONS[-1]:,} · table: the share of cases at each k"
    )
    tried = [k for k in DIMENSIONS if any(k in row.recall for row in rows)]
    draw_table(
        {
            "Words": [f"{row.least:,} to {row.most:,}" for row in rows],
            "Queries": [row.queries for row in rows],
            "Smallest k": ["–" if not r.queries else _number(k) for r, k in zip(rows, smallest, strict=True)],
            **{f"k = {k:,}": [row.recall.get(k) for row in rows] for k in tried},
        },
        {f"k = {k:,}": number_column("percent") for k in tried},
    )


def _number(k: int | None) -> str:
    return f"> {DIMENSIONS[-1]:,}" if k is None else f"{'≤ ' if k == DIMENSIONS[0] else ''}{k:,}"
