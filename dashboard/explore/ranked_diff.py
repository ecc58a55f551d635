"""The Ranked diff view: each decoder's set against the baseline's, side by side or in one table."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.explore import document_panel
from dashboard.services import feedback
from dashboard.services.jobs import turn
from dashboard.services.source import Loaded
from dashboard.session import decoders
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from dashboard.widgets import confirm, feedback_effect, vote_buttons
from dashboard.widgets.choices import choose
from dashboard.widgets.common import method_heading
from dashboard.widgets.decoder_picker import MOST_BESIDE, beside, pick_beside
from dashboard.widgets.ranked_lists import MOST_ROWS, RELEVANCE, document_name, judged_column, set_table
from dashboard.widgets.tables import CLICKABLE, clicked, columns, draw_columns, number_column, text_column
from engine.views import Merged, Row, diff, merged, missed

SIDE, ONE = "Side by side", "One table"
LAYOUT, BESIDE = "ranked.layout", "ranked.beside"
NAME_WIDTHS = {1: 420, 2: 250, MOST_BESIDE: 172}
"""Of the documents' column, by the number of sets."""
MOST_MISSED = 6
"""Missed relevant documents that are named; of a hundred the others are counted."""
FIGURE_SPACE = "\u2007"
"""As wide as a digit: ranks of one and of two digits then sort and align as numbers do."""


def options(answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the choice of layout, and of sets where not all fit."""
    layout = choose("Layout", [SIDE, ONE], LAYOUT)
    if layout != ONE:
        pick_beside(answers, baseline, BESIDE)


def show(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the sets, above them the open document.

    answers: by selector, the baseline's among them, in the order they are shown.
    """
    one_table = st.session_state.get(LAYOUT, SIDE) == ONE
    names = list(answers) if one_table else beside(answers, baseline, BESIDE)
    shown = {name: answers[name] for name in names}
    panel = st.container()
    if one_table:
        _merged_table(loaded, question, answers, baseline)
    else:
        for (name, answer), column in zip(shown.items(), columns(len(shown), "ranked-sets"), strict=True):
            with column:
                _set(loaded, question, name, answer, answers[baseline], NAME_WIDTHS[len(shown)])
    with panel:
        document_panel.show(loaded, question, shown)
        confirm.show_error("This feedback was not taken.")
        feedback_effect.show(loaded, question, shown, baseline)


def _set(loaded: Loaded, question: Question, name: str, answer: Answer, baseline: Answer, width: int) -> None:
    """Draw one decoder's set, below it the baseline's documents that it dropped."""
    compared, scores = answer is not baseline, answer.relevance
    query = loaded.space, question.vector, question.id
    with turn():
        retrieved, dropped = diff(*query, answer.ranking, baseline.ranking, question.qrels, scores)
        relevant_missed = missed(*query, answer.ranking, question.qrels, scores)
    method_heading(answer.stage.spec, answer.title)
    by = RELEVANCE if scores is None else f"By {decoders.scorer_of(answer.decoder).spec.title}; blank: not scored"
    key, more, rows = f"set.{name}", None, [*retrieved, *(dropped if compared else [])]
    if feedback.is_on():
        more = vote_buttons.row_columns(loaded, question, [r.row for r in rows], answer, baseline, key)
    event = set_table(key, retrieved, dropped if compared else None, width, by, more)
    if event is not None:
        _open_clicked(loaded, question, key, event, rows, name)
    _list_missed("Relevant, not returned: ", relevant_missed)


def _merged_table(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw every document that any decoder returned, a column for each decoder."""
    rankings = {name: answer.ranking for name, answer in answers.items()}
    with turn():
        rows = merged(loaded.space, question.vector, question.id, rankings, baseline, question.qrels)
        relevant_missed = missed(loaded.space, question.vector, question.id, rankings.values(), question.qrels)
    if not rows:
        st.caption("Nothing was retrieved.")
        return
    widest = max((len(str(p.rank)) for r in rows for p in r.places.values() if p.rank), default=1)
    titles = {name: f"{style_of(answer.name).sign} {answer.title}" for name, answer in answers.items()}
    # Scores of several scorers do not share a column: it holds the inner product then, and says so.
    relevance = "Relevance" if all(a.relevance is None for a in answers.values()) else "Inner product"
    pinned = st.column_config.TextColumn(width=280, pinned=len(answers) > MOST_BESIDE + 1)
    ranks = text_column(112, "Rank, and places gained or lost; – for a document in neither set")
    event = draw_columns(
        {
            "Document": ([document_name(r) for r in rows], pinned),
            **{tick: (column, text_column(28, "Judged relevant")) for tick, column in judged_column(rows).items()},
            relevance: ([r.relevance for r in rows], number_column("%.3f", 76, RELEVANCE)),
            **{title: ([_padded(r, name, widest) for r in rows], ranks) for name, title in titles.items()},
            "Sets": ([r.sets for r in rows], number_column(width=48, help="How many of the decoders return it")),
        },
        key="merged",
        most=MOST_ROWS,
        **CLICKABLE,
    )
    _open_clicked(loaded, question, "merged", event, rows)
    _list_missed("Relevant, in no set: ", relevant_missed)


def _padded(row: Merged, name: str, widest: int) -> str:
    place = row.places[name]
    return FIGURE_SPACE * (widest - len(str(place.rank)) if place.rank else 0) + str(place)


def _open_clicked(
    loaded: Loaded, question: Question, key: str, event: Any, rows: Sequence[Row | Merged], source: str = ""
) -> None:
    """Open the document of a row that was clicked in this run."""
    place = clicked(key, event, len(rows))
    if place is not None:
        document_panel.open_document(loaded, question, rows[place].row, source)


def _list_missed(heading: str, documents: Sequence[tuple[str, int | None]]) -> None:
    """Name relevant documents that were not returned, the most relevant first."""
    names = [
        f"{doc} ({'not in the corpus' if rank is None else f'{rank:,} by relevance'})"
        for doc, rank in documents[:MOST_MISSED]
    ]
    if len(documents) > MOST_MISSED:
        names.append(f"and {len(documents) - MOST_MISSED:,} more")
    if names:
        st.text(heading + ", ".join(names))
