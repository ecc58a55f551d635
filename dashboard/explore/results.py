"""The Results, Table and Figures views: ranked lists that follow the tiles, all their documents, and all metrics."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.components import vendor
from dashboard.explore import document_panel
from dashboard.services import feedback
from dashboard.services.jobs import page_turn
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.query import Question, query_key
from dashboard.widgets import confirm, live_feedback, vote_buttons
from dashboard.widgets.tables import (
    CLICKABLE,
    MAX_TABLE_ROWS,
    RELEVANCE_HELP,
    draw_columns,
    draw_table,
    find_click,
    format_document,
    make_relevance_column,
    number_column,
    text_column,
)
from engine.evaluation.metrics import METRICS, title_of
from engine.views.sets import Place, card, merged, missed
from engine.wording import visible

MOST_MISSED = 6
"""Missed relevant documents that are named; of a hundred the others are counted."""
MOST_BESIDE = 3
"""Decoders beside whose columns the documents' need not be pinned."""
FIGURE_SPACE = "\u2007"
"""As wide as a digit: ranks of one and of two digits then sort and align as numbers do."""


def show(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the ranked lists, what they miss, and at the side the open document."""
    document = document_panel.current_document(loaded, question)
    votes = None
    if feedback.is_live():
        feedback.prepare_session(loaded)
        given = vote_buttons.find_own_votes(loaded, question)
        votes = {str(row): kind for row, kind in given if kind != vote_buttons.VOTE_RIGHT}
    opened_row = None if document is None else document.row
    data = {"query": query_key(loaded, question), "opened": opened_row, "votes": votes}
    lists = vote_buttons.list_rankings(answers)

    def opened(told: Mapping[str, Any]) -> None:
        row = told["row"]
        if row is None:
            document_panel.close()
        elif row in range(len(loaded.space)):
            document_panel.open_document(loaded, question, row, str(told["source"]))

    def voted(told: Mapping[str, Any]) -> None:
        row, kind = told["row"], told["kind"]
        if row in range(len(loaded.space)) and kind in (vote_buttons.VOTE_UP, vote_buttons.VOTE_DOWN):
            seen = vote_buttons.find_list(row, lists, str(told["source"]))
            confirm.take_step(vote_buttons.make_toggle(loaded, question, row, kind, seen))

    vendor.view("lists", "explore.lists", data, {"opened": opened, "voted": voted})
    with page_turn():
        rankings = [answer.ranking for answer in answers.values()]
        absent = missed(loaded.space, question.vector, question.id, rankings, question.qrels)
    _list_missed("Missed by all: ", absent)
    _beside(loaded, question, answers)


def show_table(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw one table of all sets, and at the side the open document."""
    _merged_table(loaded, question, answers, baseline)
    _beside(loaded, question, answers)


def show_figures(loaded: Loaded, question: Question, answers: dict[str, Answer], baseline: str) -> None:
    """Draw a row for each decoder, a column for each metric."""
    rows, against = [], answers[baseline].ranking
    for answer in answers.values():
        with page_turn():
            values = card(loaded.space, question.id, answer.ranking, against, question.qrels, question.k)
        recall = {} if values.recall is None else {title_of("recall"): values.recall}
        metrics = {**recall, title_of("ilad"): values.ilad, **values.others}
        at_k = {f"{title}@{question.k}": value for title, value in metrics.items()}
        times = {"Returned": values.returned, "ms": None if answer.seconds is None else 1000 * answer.seconds}
        rows.append({"Decoder": answer.title, **at_k, "Overlap": values.overlap, **times})
    frame = pd.DataFrame(rows)
    shown = frame.columns.difference(["Decoder", "Returned", "ms"])
    draw_table(frame, dict.fromkeys(shown, number_column("%.4f")) | {"ms": number_column("%.2f")})
    with st.expander("What these are"):
        for metric in METRICS.values():
            st.text(f"{metric.title}@k: {metric.formula}")


def _beside(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    document_panel.show(loaded, question, answers)
    confirm.show_error("This feedback was not taken.")
    live_feedback.draw_effect(loaded, question, answers)


def _merged_table(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw every document that any decoder returned, a column for each decoder."""
    rankings = {name: answer.ranking for name, answer in answers.items()}
    with page_turn():
        rows = merged(loaded.space, question.vector, question.id, rankings, baseline, question.qrels)
        relevant_missed = missed(loaded.space, question.vector, question.id, rankings.values(), question.qrels)
    if not rows:
        st.caption("Nothing was retrieved.")
        return
    widest = max((len(str(p.rank)) for r in rows for p in r.places.values() if p.rank), default=1)

    def padded(place: Place) -> str:
        return FIGURE_SPACE * (widest - len(str(place.rank)) if place.rank else 0) + str(place)

    titles = {name: f"{style_of(answer.name).sign} {answer.title}" for name, answer in answers.items()}
    # Scores of several scorers do not share a column: it holds the inner product then, and says so.
    relevance = "Relevance" if all(a.relevance is None for a in answers.values()) else "Inner product"
    pinned = st.column_config.TextColumn(width=280, pinned=len(answers) > MOST_BESIDE + 1)
    ranks = text_column(112, "Rank, and places gained or lost; – for a document in neither set")
    event = draw_columns(
        {
            "Document": ([format_document(r) for r in rows], pinned),
            **{
                tick: (column, text_column(28, "Judged relevant"))
                for tick, column in make_relevance_column(rows).items()
            },
            relevance: ([r.relevance for r in rows], number_column("%.3f", 76, RELEVANCE_HELP)),
            **{title: ([padded(row.places[name]) for row in rows], ranks) for name, title in titles.items()},
            "Sets": ([r.sets for r in rows], number_column(width=48, help="How many of the decoders return it")),
        },
        key="merged",
        max_rows=MAX_TABLE_ROWS,
        **CLICKABLE,
    )
    place = find_click("merged", event, len(rows))
    if place is not None:
        document_panel.open_document(loaded, question, rows[place].row)
    _list_missed("Missed by all: ", relevant_missed)


def _list_missed(heading: str, documents: Sequence[tuple[str, int | None]]) -> None:
    """Name relevant documents that were not returned, the most relevant first."""
    names = [
        f"{doc} ({'not in the corpus' if rank is None else f'relevance rank {rank:,}'})"
        for doc, rank in documents[:MOST_MISSED]
    ]
    if len(documents) > MOST_MISSED:
        names.append(f"and {len(documents) - MOST_MISSED:,} more")
    if names:
        st.text(visible(heading + ", ".join(names)))
