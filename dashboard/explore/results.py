"""The Results view: ranked lists that follow the tiles, or all documents in a table with all metrics below."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.charts.figure import read_column
from dashboard.charts.palette import method_style
from dashboard.components import vendor
from dashboard.explore import document_panel
from dashboard.services import feedback
from dashboard.services.jobs import limit_page_computations
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.query import Question, query_key
from dashboard.widgets import confirm, live_feedback, vote_buttons
from dashboard.widgets.choices import choose
from dashboard.widgets.tables import (
    CLICKABLE,
    MAX_TABLE_ROWS,
    RELEVANCE_HELP,
    draw_columns,
    draw_table,
    find_click,
    make_relevance_column,
    name_metric,
    number_column,
    text_column,
)
from engine.evaluation.metrics import METRICS
from engine.maps.clusters import title_prefix
from engine.progress import shorten
from engine.values import replace_surrogates
from engine.views.decision import read_scores
from engine.views.names import name_document
from engine.views.sets import Place, card, find_missed, merge_rankings
from engine.wording import visible

FORM_KEY, LISTS, TABLE = "results.form", "Lists", "Table"
"""Session key of the form in which sets are drawn, and its values, the default first."""
MAX_MISSED = 6
"""Named missed documents; the remaining ones are counted."""
MAX_MISSED_LENGTH = 60
"""Characters of the name of one."""
MAX_SENT_RELEVANT = 1000
"""Relevant documents that the browser gets; those beyond, the least similar to the query, count as missed."""
NAME_PX, LETTER_PX = (110, 200), 7.5
"""Narrowest and widest column of documents, which leaves room for two ranks on a phone; and a letter's width."""
FIGURE_SPACE = "\u2007"
"""As wide as a digit, so that ranks of one and two digits sort and align as numbers."""


def draw_options(answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the choice between lists and a table; the arguments, which options of all views take, are not used."""
    choose("Form", (LISTS, TABLE), FORM_KEY)


def draw_results(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the decoders' sets, as ranked lists or in one table, and beside them the open document.

    baseline: name of the answer with which the others are compared
    """
    if st.session_state.get(FORM_KEY) == TABLE:
        _draw_merged(loaded, question, answers, baseline)
        metrics = st.expander("All metrics", key="results.metrics", on_change="rerun")
        # Closed, they cost nothing.
        if metrics.open:
            with metrics:
                _draw_metrics(loaded, question, answers, baseline)
    else:
        _draw_lists(loaded, question, answers)
    _draw_side(loaded, question, answers)


def _draw_lists(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw each decoder's ranked list, and the relevant documents that all missed.

    Clicks and votes in the lists come back as messages of the browser's component.
    """
    document = document_panel.current_document(loaded, question)
    # None instead of {} leaves out the buttons to vote.
    votes = None
    if feedback.is_live():
        feedback.prepare_session(loaded)
        user_votes = vote_buttons.find_own_votes(loaded, question)
        # The lists have buttons for two kinds of votes only.
        votes = {str(row_index): kind for row_index, kind in user_votes if kind != vote_buttons.RIGHT}
    opened_row = None if document is None else document.row
    list_data = {"query": query_key(loaded, question), "opened": opened_row, "votes": votes}
    lists = vote_buttons.list_rankings(answers)

    def on_opened(message: Mapping[str, Any]) -> None:
        """Open the document that was clicked, or close the panel if the message has no row."""
        row_index = message["row"]
        if row_index is None:
            document_panel.close_panel()
        elif row_index in range(len(loaded.space)):
            document_panel.open_document(loaded, question, row_index, str(message["source"]))

    def on_voted(message: Mapping[str, Any]) -> None:
        """Store a person's vote on a document, with the list in which it was seen.

        message: row, kind of vote, and the decoder of the list
        """
        row_index, kind = message["row"], message["kind"]
        if row_index in range(len(loaded.space)) and kind in (vote_buttons.UP, vote_buttons.DOWN):
            seen = vote_buttons.find_list(row_index, lists, str(message["source"]))
            confirm.take_step(vote_buttons.vote_step(loaded, question, row_index, kind, seen))

    list_data |= _list_relevant(loaded, question)
    vendor.draw_view("lists", "explore.lists", list_data, {"opened": on_opened, "voted": on_voted})


def _list_relevant(loaded: Loaded, question: Question) -> dict[str, Any]:
    """List the relevant documents, of which the browser names those that all sets lack while a slider is dragged.

    Each has its row, None for one that is not in the corpus, and its name; the most similar to the query come first.
    """
    if question.qrels is None:
        return {}
    with limit_page_computations():
        relevant = find_missed(loaded.space, question.vector, question.id, (), question.qrels)
    row_of = loaded.space.corpus.position
    rows = {replace_surrogates(doc_id): row_of.get(doc_id) for doc_id in question.qrels.relevant(question.id)}
    named = [[rows[doc_id], _name_missed(loaded, doc_id, rank)] for doc_id, rank in relevant[:MAX_SENT_RELEVANT]]
    n_unsent = len(relevant) - len(named)
    return {"relevant": named, "max_missed": MAX_MISSED, "n_unsent": n_unsent}


def _draw_metrics(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the metrics of each decoder's set as a table, a row per decoder.

    baseline: name of the answer with which the column Overlap compares the others
    """
    rows, baseline_ranking = [], answers[baseline].ranking
    for answer in answers.values():
        with limit_page_computations():
            values = card(loaded.space, question.id, answer.ranking, baseline_ranking, question.qrels, question.k)
        recall = {} if values.recall is None else {name_metric("recall", question.k): values.recall}
        others = {f"{title}@{question.k}": value for title, value in values.others.items()}
        at_k = {**recall, name_metric("ilad", question.k): values.ilad, **others}
        times = {"Returned": values.returned, "ms": None if answer.seconds is None else 1000 * answer.seconds}
        rows.append({"Decoder": answer.title, **at_k, "Overlap": values.overlap, **times})
    frame = pd.DataFrame(rows)
    metric_names = frame.columns.difference(["Decoder", "Returned", "ms"])
    draw_table(frame, dict.fromkeys(metric_names, number_column("%.4f")) | {"ms": number_column("%.2f")})
    with st.expander("What these are"):
        for metric in METRICS.values():
            st.text(f"{metric.title}@k: {metric.formula}")


def _draw_side(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw, beside the results, the open document and what feedback has changed for this query."""
    document_panel.draw_panel(loaded, question, answers)
    confirm.show_error("This vote was not taken.")
    live_feedback.draw_effect(loaded, question, answers)


def _draw_merged(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw all documents that any decoder returned in one table, a column of ranks for each decoder.

    baseline: name of the decoder's answer with whose ranks the others' are compared ("2 places gained")
    """
    rankings = {name: answer.ranking for name, answer in answers.items()}
    with limit_page_computations():
        rows = merge_rankings(loaded.space, question.vector, question.id, rankings, baseline, question.qrels)
        relevant_missed = find_missed(loaded.space, question.vector, question.id, rankings.values(), question.qrels)
    if not rows:
        st.caption("Nothing was retrieved.")
        return
    # Figure spaces pad all ranks to one width, so that texts sort as numbers.
    max_rank = max((entry.rank or 0 for row in rows for entry in row.places.values()), default=0)

    def pad_rank(entry: Place) -> str:
        """Format a rank with leading spaces as wide as digits, so that texts sort as numbers do."""
        return FIGURE_SPACE * (len(str(max_rank)) - len(str(entry.rank)) if entry.rank else 0) + str(entry)

    # Scores of different scorers are not comparable: the column is then the inner product.
    relevance = "Relevance" if all(answer.relevance is None for answer in answers.values()) else "Inner product"
    # The documents stay visible while the table scrolls; what all names begin with tells none from another.
    names = read_column(rows, "name")
    prefix = title_prefix(loaded.space.corpus.titles)
    names = [name.removeprefix(prefix) or name for name in names]
    width = int(min(NAME_PX[1], max(NAME_PX[0], LETTER_PX * max(map(len, names)) + 2 * LETTER_PX)))
    pinned = st.column_config.TextColumn(width=width, pinned=True)
    columns: dict[str, tuple[list[Any], Any]] = {"Document": (names, pinned)}
    ranks = text_column(92, "Rank, and places gained or lost; – for a document in neither set")
    # Ranks come first: they are what a phone has room for.
    for name, answer in answers.items():
        title = f"{method_style(answer.name).sign} {answer.title}"
        columns[title] = [pad_rank(row.places[name]) for row in rows], ranks
    # One column of ticks, none for a query without judgements.
    for heading, ticks in make_relevance_column(rows).items():
        columns[heading] = ticks, text_column(28, "Judged relevant")
    sets_column = number_column(width=64, help="Number of decoders above whose set has this document")
    columns["Found by"] = read_column(rows, "sets"), sets_column
    columns[relevance] = read_column(rows, "relevance"), number_column("%.3f", 76, RELEVANCE_HELP)
    # What a selector used in place of the inner product stands in a column of its own.
    for answer in answers.values():
        if answer.relevance is not None:
            scores = read_scores(answer.relevance, read_column(rows, "row"))
            heading = f"{method_style(answer.name).sign} relevance"
            columns[heading] = scores, number_column("%.3f", 76, f"Relevance as {answer.title} used it")
    event = draw_columns(columns, key="merged", max_rows=MAX_TABLE_ROWS, **CLICKABLE)
    clicked = find_click("merged", event, len(rows))
    if clicked is not None:
        document_panel.open_document(loaded, question, rows[clicked].row)
    _draw_missed(loaded, "Missed by all: ", relevant_missed)


def _draw_missed(loaded: Loaded, heading: str, documents: Sequence[tuple[str, int | None]]) -> None:
    """Draw the names of relevant documents that no decoder returned, the most similar to the query first."""
    names = [_name_missed(loaded, doc_id, rank) for doc_id, rank in documents[:MAX_MISSED]]
    if len(documents) > MAX_MISSED:
        names.append(f"and {len(documents) - MAX_MISSED:,} more")
    if names:
        st.text(heading + ", ".join(names))


def _name_missed(loaded: Loaded, doc_id: str, rank: int | None) -> str:
    """Name a relevant document with its rank by relevance; None for one that is not in the corpus."""
    corpus = loaded.space.corpus
    # An id whose lone surrogates were replaced is not found.
    row_index = corpus.position.get(doc_id)
    name = visible(doc_id) if row_index is None else shorten(name_document(corpus, row_index), MAX_MISSED_LENGTH)
    return f"{name} ({'not in the corpus' if rank is None else f'relevance rank {rank:,}'})"
