"""The Redundancy view: similarity within each set, and any two documents side by side."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from dashboard.charts.redundancy import plot_redundancy
from dashboard.components import live_plot
from dashboard.explore import document_panel
from dashboard.services.jobs import limit_page_computations
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.duplicates import get_threshold
from dashboard.session.query import Question
from dashboard.widgets.common import draw_method_heading
from dashboard.widgets.decoder_pills import choose_decoders
from dashboard.widgets.tables import (
    CLICKABLE,
    ROW_PX,
    draw_columns,
    find_click,
    make_grid,
    number_column,
    text_column,
)
from engine.values import Ranking
from engine.views.decision import similarities
from engine.views.redundancy import Redundancy, redundancy

PAIR_PX, TEXT_PX = 216, 130
PAIR_CSS = """<style>@media (max-width: 640px) {
  :is(.st-key-redundancy-panel, div:has(> .st-key-redundancy-panel)) {
    height: auto !important; max-height: none !important}}
</style>"""
MAX_SET_ROWS, MAX_COMPARED = 12, 60
MAX_SETS, MAX_TABLES = 4, 3
"""Sets, and tables of them, that fit side by side at 1440 pixels with the baseline's; more are in further rows."""
MAX_BESIDE_PAIR = 2
"""Heat maps that have room for the open pair beside them."""
PAIR_KEY, SETS_KEY = "redundancy.pair", "redundancy.beside"


def draw_options(answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the choice of decoders to compare with the baseline, unless all of them fit in one row.

    baseline: name of the baseline's answer
    """
    other_names = _list_others(answers, baseline)
    if len(other_names) < MAX_SETS:
        return
    # The widget starts from what is compared, without decoders that are gone.
    st.session_state[SETS_KEY] = _list_sets(answers, baseline)[1:]  # without the baseline, the first
    label, titles = f"Beside {answers[baseline].title}", {name: answers[name].title for name in other_names}
    selectors = {name: answers[name].name for name in other_names}
    choose_decoders(label, titles, SETS_KEY, methods=selectors, show_label=False, help=label)


def _list_others(answers: Mapping[str, Answer], baseline: str) -> list[str]:
    """Return the names of all answers but the baseline's."""
    return [name for name in answers if name != baseline]


def _list_sets(answers: Mapping[str, Answer], baseline: str) -> list[str]:
    """Return the names of the answers that are compared, the baseline first: all unless a person has picked some."""
    other_names = _list_others(answers, baseline)
    if len(other_names) < MAX_SETS:
        return [baseline, *other_names]
    # A decoder that is no longer compared cannot stay selected.
    picked_names = st.session_state.get(SETS_KEY, other_names)
    return [baseline, *(name for name in other_names if name in picked_names)]


def draw_redundancy(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw how similar the documents within each set are: heat maps with their figures, and the clicked pair.

    answers: by selector in display order, including the baseline's; baseline: its name.
    """
    with limit_page_computations():
        sets = {}
        for name in _list_sets(answers, baseline):
            ranking = answers[name].ranking
            top = Ranking(ranking.index[:, :MAX_COMPARED], ranking.gain[:, :MAX_COMPARED], ranking.info)
            sets[name] = redundancy(loaded.space, top, get_threshold(loaded))
    heat_maps = [(answers[name].name, answers[name].title, values) for name, values in sets.items() if values.pairs]
    if not heat_maps:
        st.info("Fewer than two documents in every set: there is nothing to compare.")
        return
    # One or two heat maps leave a third of a wide page empty, which has the open pair then.
    is_beside = len(heat_maps) <= MAX_BESIDE_PAIR
    chart_column, pair_column = st.columns([8, 5], gap="medium") if is_beside else (st.container(), None)
    with chart_column:
        picked = live_plot.plot(plot_redundancy(heat_maps, live_plot.is_dark()), "redundancy.map", file="redundancy")
    _open_clicked(loaded, question, picked)
    threshold = next(iter(sets.values())).threshold
    st.caption(f"Above each: near-duplicate pairs (cosine of {threshold:g} or more) of all pairs of the set.")
    for name, values in sets.items():
        if not values.pairs:
            st.caption(f"{answers[name].title}: fewer than two documents")
    # Heat maps of more documents are illegible, and quadratic in size.
    if question.k > MAX_COMPARED:
        st.caption(f"The first {MAX_COMPARED} documents of each set.")
    panel = st.container() if pair_column is None else pair_column
    names = list(sets)
    # The bars beside the ranked lists say as much at a glance.
    with st.expander("The nearest document above each"):
        for first in range(0, len(names), MAX_TABLES):
            row_names = names[first : first + MAX_TABLES]
            row_key = "redundancy-sets" if not first else f"redundancy-sets-{first}"
            for name, column in zip(row_names, make_grid(len(row_names), row_key), strict=True):
                with column:
                    _draw_set(loaded, question, name, answers[name], sets[name])
    with panel:
        _draw_pair(loaded, question, answers, sets, is_beside)


def _draw_set(loaded: Loaded, question: Question, name: str, answer: Answer, redundancy: Redundancy) -> None:
    """Draw a decoder's set as a table, each document with the most similar one ranked above it.

    A click on a row opens both side by side.
    """
    if not redundancy.pairs:
        return
    draw_method_heading(answer.stage.spec.name, answer.title)
    nearest, names = redundancy.nearest, redundancy.names
    # The first document has none above it.
    cosines, above = [], []
    for row_index, nearest_row in enumerate(nearest):
        cosines.append(None if nearest_row is None else redundancy.similarity[row_index, nearest_row])
        above.append(None if nearest_row is None else f"#{nearest_row + 1} {names[nearest_row]}")
    event = draw_columns(
        {
            "#": (range(1, len(nearest) + 1), number_column(width=32)),
            "Document": (names, text_column(130)),
            "Cosine": (cosines, number_column("%.3f", 76)),
            "Nearest already chosen": (above, text_column(140, "The most similar document ranked above it")),
        },
        key=f"near.{name}",
        max_rows=MAX_SET_ROWS,
        **CLICKABLE,
        placeholder="–",
    )
    clicked = find_click(f"near.{name}", event, len(nearest))
    nearest_row = None if clicked is None else nearest[clicked]
    if clicked is not None and nearest_row is not None:
        _open_pair(loaded, question, redundancy.rows[clicked], redundancy.rows[nearest_row])


def _open_clicked(loaded: Loaded, question: Question, picked: live_plot.Picked) -> None:
    """Open the two documents whose similarity was clicked in a heat map since the page was last drawn."""
    if picked.clicks != st.session_state.get(f"{PAIR_KEY}.clicks", 0):
        st.session_state[f"{PAIR_KEY}.clicks"] = picked.clicks
        # A cell's id is "row:row"; a browser may still send rows of the previous corpus.
        parts = (picked.clicked or "").split(":")
        rows = [int(part) for part in parts if part.isdecimal() and int(part) < len(loaded.space)]
        if len(rows) == 2:
            _open_pair(loaded, question, *rows)


def _open_pair(loaded: Loaded, question: Question, first_row: int, second_row: int) -> None:
    """Remember a pair of documents (rows) as the open one for this query."""
    st.session_state[PAIR_KEY] = (loaded.space.corpus.digest, question.text, first_row, second_row)


def _get_pair(loaded: Loaded, question: Question, sets: Mapping[str, Redundancy]) -> tuple[int, int]:
    """Return the corpus rows of the two documents to compare: those clicked last for this query.

    If none were, the most similar two of all sets.
    """
    corpus, query_text, first_row, second_row = st.session_state.get(PAIR_KEY, ("", "", 0, 0))
    if (corpus, query_text) == (loaded.space.corpus.digest, question.text):
        return first_row, second_row
    # The most redundant pair of all sets is the best example to start with.
    # `most` is the highest similarity within a decoder's set, `closest` the pair that has it.
    pairs = [(s.most, s.closest) for s in sets.values() if s.most is not None and s.closest is not None]
    _, closest_pair = max(pairs, key=lambda pair: pair[0])
    return closest_pair


def _draw_pair(
    loaded: Loaded, question: Question, answers: Mapping[str, Answer], sets: Mapping[str, Redundancy], is_beside: bool
) -> None:
    """Draw two documents side by side, how similar they are, and their ranks in every decoder's set.

    is_beside: True beside the heat maps, where the ranks have room only below the documents
    """
    pair = _get_pair(loaded, question, sets)
    with limit_page_computations():
        similarity = similarities(loaded.space, pair)[0, 1]
    st.html(PAIR_CSS)
    with st.container(border=True, height="content" if is_beside else PAIR_PX, key="redundancy.panel"):
        # Two columns of text, and one of ranks.
        if is_beside:
            *texts, ranks = *st.columns(2, gap="small"), st.container()
        else:
            *texts, ranks = st.columns([5, 5, 4], gap="small")
        for row_index, column, letter in zip(pair, texts, "AB", strict=True):
            with column, st.container(gap="xxsmall"):
                st.caption(letter)
                document_panel.draw_heading(loaded, row_index)
                with st.container(height=TEXT_PX, border=False, key=f"redundancy.text.{letter}"):
                    st.text(document_panel.get_body(loaded, row_index))
        with ranks:
            st.caption(f"Cosine of A and B: {similarity:.2f}")
            rank_column = number_column(width=60, help="Its rank in the decoder's set")
            rank_columns = [pd.array([s.rank(row_index) for s in sets.values()], dtype="Int64") for row_index in pair]
            titles = [answers[name].title for name in sets]
            columns = {
                "Decoder": (titles, text_column(110)),
                "A": (rank_columns[0], rank_column),
                "B": (rank_columns[1], rank_column),
            }
            draw_columns(columns, key="redundancy.made", row_height=ROW_PX, placeholder="out")
