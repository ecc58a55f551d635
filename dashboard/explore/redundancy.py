"""The Redundancy view: similarity within each set, and any two documents side by side."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from dashboard.charts.redundancy import redundancy_figure
from dashboard.components import live_plot
from dashboard.explore import document_panel
from dashboard.services.jobs import page_turn
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from dashboard.widgets.common import draw_method_heading
from dashboard.widgets.tables import (
    CLICKABLE,
    ROW_HEIGHT,
    draw_columns,
    find_click,
    make_columns,
    number_column,
    text_column,
)
from engine.values import Ranking
from engine.views.decision import similarities
from engine.views.redundancy import Redundancy, redundancy

PAIR_HEIGHT, TEXT_HEIGHT = 216, 130
MOST_ROWS, MOST_COMPARED = 12, 60
MOST_BESIDE = 3
"""Sets that fit beside each other at 1440 pixels, the baseline's among them."""
KEY, BESIDE = "redundancy.pair", "redundancy.beside"


def options(answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw the choice of the sets that are shown next to the baseline's, where not all fit."""
    others = [name for name in answers if name != baseline]
    if len(others) < MOST_BESIDE:
        return
    st.session_state[BESIDE] = _beside(answers, baseline)[1:]
    label = f"Beside {answers[baseline].title}"
    st.multiselect(
        label,
        others,
        max_selections=MOST_BESIDE - 1,
        key=BESIDE,
        persist_state="session",
        format_func=lambda name: answers[name].title,
        label_visibility="collapsed",
        placeholder=label,
        width=320,
    )


def _beside(answers: Mapping[str, Answer], baseline: str) -> list[str]:
    """The baseline and those shown next to it: what was picked, else the first that fit."""
    others = [name for name in answers if name != baseline]
    if len(others) < MOST_BESIDE:
        return [baseline, *others]
    # What is no longer compared cannot stay picked.
    picked = st.session_state.get(BESIDE, others[: MOST_BESIDE - 1])
    return [baseline, *(name for name in others if name in picked)]


def show(loaded: Loaded, question: Question, answers: Mapping[str, Answer], baseline: str) -> None:
    """Draw a heat map for each set, its statistics, and the two documents that were clicked.

    answers: by selector, the baseline's among them, in the order they are shown.
    """
    with page_turn():
        sets = {}
        for name in _beside(answers, baseline):
            ranking = answers[name].ranking
            top = Ranking(ranking.index[:, :MOST_COMPARED], ranking.gain[:, :MOST_COMPARED], ranking.info)
            sets[name] = redundancy(loaded.space, top)
    heat_maps = [(answers[name].name, answers[name].title, values) for name, values in sets.items() if values.pairs]
    if not heat_maps:
        st.info("Fewer than two documents in every set: there is nothing to compare.")
        return
    picked = live_plot.plot(redundancy_figure(heat_maps, live_plot.is_dark()), "redundancy.map", file="redundancy")
    _open_clicked(loaded, question, picked)
    for name, column in zip(sets, st.columns(len(sets), gap="small"), strict=True):
        own = sets[name]
        said = "fewer than two documents"
        if own.pairs:
            said = f"mean {own.mean:.3f}, highest {own.most:.3f}, {own.close} of {own.pairs:,} pairs "
            said += f"at {own.threshold:g} or more"
        column.caption(f"{answers[name].title}: {said}")
    if question.k > MOST_COMPARED:
        st.caption(f"The first {MOST_COMPARED} documents of each set.")
    panel = st.container()
    for name, column in zip(sets, make_columns(len(sets), "redundancy-sets"), strict=True):
        with column:
            _set_table(loaded, question, name, answers[name], sets[name])
    with panel:
        _pair(loaded, question, answers, sets)


def _set_table(loaded: Loaded, question: Question, name: str, answer: Answer, redundancy: Redundancy) -> None:
    """Draw the documents of a set, each with the most similar one ranked above it."""
    if not redundancy.pairs:
        return
    draw_method_heading(answer.stage.spec.name, answer.title)
    nearest = redundancy.nearest
    names = [title or ident for title, ident in zip(redundancy.titles, redundancy.ids, strict=True)]
    similarities = [None if n is None else redundancy.similarity[row, n] for row, n in enumerate(nearest)]
    above = [None if n is None else f"#{n + 1} {names[n]}" for n in nearest]
    event = draw_columns(
        {
            "#": (range(1, len(nearest) + 1), number_column(width=32)),
            "Document": (names, text_column(130)),
            "Similarity": (similarities, number_column("%.3f", 76)),
            "Nearest already chosen": (above, text_column(140, "The most similar document ranked above it")),
        },
        key=f"near.{name}",
        max_rows=MOST_ROWS,
        **CLICKABLE,
        placeholder="–",
    )
    row = find_click(f"near.{name}", event, len(nearest))
    if row is not None and (other := nearest[row]) is not None:
        _open_pair(loaded, question, redundancy.rows[row], redundancy.rows[other])


def _open_clicked(loaded: Loaded, question: Question, picked: live_plot.Picked) -> None:
    """Open the pair of a cell that was clicked in this run."""
    if picked.clicks != st.session_state.get(f"{KEY}.clicks", 0):
        st.session_state[f"{KEY}.clicks"] = picked.clicks
        # A browser may still send rows of the corpus before.
        parts = (picked.clicked or "").split(":")
        rows = [int(part) for part in parts if part.isdecimal() and int(part) < len(loaded.space)]
        if len(rows) == 2:
            _open_pair(loaded, question, *rows)


def _open_pair(loaded: Loaded, question: Question, one: int, other: int) -> None:
    st.session_state[KEY] = (loaded.space.corpus.digest, question.text, one, other)


def _current_pair(loaded: Loaded, question: Question, sets: Mapping[str, Redundancy]) -> tuple[int, int]:
    """The pair clicked last for this query, else the most similar pair of all sets."""
    corpus, query, one, other = st.session_state.get(KEY, ("", "", 0, 0))
    if (corpus, query) == (loaded.space.corpus.digest, question.text):
        return one, other
    pairs = [(s.most, s.closest) for s in sets.values() if s.most is not None and s.closest is not None]
    return max(pairs, key=lambda pair: pair[0])[1]


def _pair(loaded: Loaded, question: Question, answers: Mapping[str, Answer], sets: Mapping[str, Redundancy]) -> None:
    """Draw two documents side by side, their similarity, and their ranks in every set."""
    pair = _current_pair(loaded, question, sets)
    with page_turn():
        similarity = similarities(loaded.space, pair)[0, 1]
    with st.container(border=True, height=PAIR_HEIGHT, key="redundancy.panel"):
        *texts, ranks = st.columns([5, 5, 4], gap="small")
        for row, column, letter in zip(pair, texts, "AB", strict=True):
            with column, st.container(gap="xxsmall"):
                st.caption(letter)
                document_panel.heading(loaded, row)
                with st.container(height=TEXT_HEIGHT, border=False, key=f"redundancy.text.{letter}"):
                    st.text(document_panel.body(loaded, row))
        with ranks:
            st.caption(f"similarity of A and B: {similarity:.4f}")
            rank = number_column(width=60, help="Its rank in the decoder's set")
            ranked = [pd.array([own.rank(row) for own in sets.values()], dtype="Int64") for row in pair]
            draw_columns(
                {
                    "Decoder": ([answers[name].title for name in sets], text_column(110)),
                    "A": (ranked[0], rank),
                    "B": (ranked[1], rank),
                },
                key="redundancy.made",
                row_height=ROW_HEIGHT,
                placeholder="out",
            )
