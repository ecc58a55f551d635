"""The Redundancy tab: how alike the documents of each set are, and any two of them beside each other."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from dashboard.charts.redundancy import redundancy_figure
from dashboard.components import live_plot
from dashboard.explore import reading
from dashboard.explore.answers import ROW_HEIGHT, Answer, beside, clicked, columns, pick_beside
from dashboard.explore.question import Asked
from dashboard.jobs import turn
from dashboard.parts import method_heading
from dashboard.state import Loaded
from engine.values import Ranking
from engine.views import Redundancy, redundancy, similarities

PAIR_HEIGHT, TEXT_HEIGHT = 216, 130
MOST_ROWS, MOST_COMPARED = 12, 60
KEY, BESIDE = "redundancy.pair", "redundancy.beside"


def options(answers: Mapping[str, Answer], baseline: str) -> None:
    """Which sets, where not all fit."""
    pick_beside(answers, baseline, BESIDE)


def show(loaded: Loaded, asked: Asked, answers: Mapping[str, Answer], baseline: str) -> None:
    """A heat-map a set, what it comes to in numbers, and the two documents that were clicked.

    answers: by selector, the baseline's among them, in the order they are shown.
    """
    shown = beside(answers, baseline, BESIDE)
    with turn():
        sets = {name: redundancy(loaded.space, _top(answers[name].ranking)) for name in shown}
    drawn = [(answers[name].name, answers[name].title, found) for name, found in sets.items() if found.pairs]
    if not drawn:
        st.info("Fewer than two documents in every set: there is nothing to compare.")
        return
    dark = st.context.theme.type == "dark"
    picked = live_plot.plot(redundancy_figure(drawn, dark), "redundancy.map", file="redundancy")
    _remember(loaded, asked, picked)
    for name, place in zip(shown, st.columns(len(shown), gap="small"), strict=True):
        place.caption(f"{answers[name].title}: {_figures(sets[name])}")
    if asked.k > MOST_COMPARED:
        st.caption(f"The first {MOST_COMPARED} documents of each set.")
    panel = st.container()
    for name, place in zip(shown, columns(len(shown), "redundancy-sets"), strict=True):
        with place:
            _set(loaded, asked, name, answers[name], sets[name])
    with panel:
        _pair(loaded, asked, answers, sets)


def _set(loaded: Loaded, asked: Asked, name: str, answer: Answer, found: Redundancy) -> None:
    """The nearest already chosen for each document of a set."""
    if not found.pairs:
        return
    method_heading(answer.stage.spec, answer.title)
    near = list(found.nearest)
    names = [title or ident for title, ident in zip(found.titles, found.ids, strict=True)]
    table = {
        "#": range(1, len(near) + 1),
        "Document": names,
        "Similarity": [None if n is None else found.similarity[at, n] for at, n in enumerate(near)],
        "Nearest already chosen": [None if n is None else f"#{n + 1} {names[n]}" for n in near],
    }
    event = st.dataframe(
        pd.DataFrame(table),
        key=f"near.{name}",
        hide_index=True,
        on_select="rerun",
        selection_mode="single-cell",
        height=ROW_HEIGHT * (min(len(near), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="–",
        column_config={
            "#": st.column_config.NumberColumn(width=32),
            "Document": st.column_config.TextColumn(width=130),
            "Similarity": st.column_config.NumberColumn(format="%.3f", width=76),
            "Nearest already chosen": st.column_config.TextColumn(
                width=140, help="The most similar document ranked above it"
            ),
        },
    )
    at = clicked(f"near.{name}", event, len(near))
    if at is not None and near[at] is not None:
        _open(loaded, asked, found.rows[at], found.rows[near[at]])


def _figures(found: Redundancy) -> str:
    """What a set's similarities come to."""
    if not found.pairs:
        return "fewer than two documents"
    return (
        f"mean {found.mean:.3f}, highest {found.most:.3f}, {found.close} of {found.pairs:,} pairs at "
        f"{found.threshold:g} or more"
    )


def _top(ranking: Ranking) -> Ranking:
    """As much of a ranking as a heat-map can show."""
    return Ranking(ranking.index[:, :MOST_COMPARED], ranking.gain[:, :MOST_COMPARED], ranking.info)


def _remember(loaded: Loaded, asked: Asked, picked: live_plot.Picked) -> None:
    """Open the pair of the cell that was clicked, if it was clicked just now."""
    if picked.clicks != st.session_state.get(f"{KEY}.clicks", 0):
        st.session_state[f"{KEY}.clicks"] = picked.clicks
        rows = [int(part) for part in picked.clicked.split(":") if part.isdecimal() and int(part) < len(loaded.space)]
        # What a browser sends may be of a corpus that is gone.
        if len(rows) == 2:
            _open(loaded, asked, *rows)


def _open(loaded: Loaded, asked: Asked, one: int, other: int) -> None:
    st.session_state[KEY] = (loaded.space.corpus.digest, asked.text, one, other)


def _opened(loaded: Loaded, asked: Asked, sets: Mapping[str, Redundancy]) -> tuple[int, int]:
    """The pair that was clicked last for this question, else the most similar pair of all sets."""
    corpus, query, *pair = st.session_state.get(KEY, ("", "", 0, 0))
    if (corpus, query) == (loaded.space.corpus.digest, asked.text):
        return pair[0], pair[1]
    closest = max((found for found in sets.values() if found.pairs), key=lambda found: found.most)
    return closest.closest


def _pair(loaded: Loaded, asked: Asked, answers: Mapping[str, Answer], sets: Mapping[str, Redundancy]) -> None:
    pair = _opened(loaded, asked, sets)
    with turn():
        alike = similarities(loaded.space, pair)[0, 1]
    with st.container(border=True, height=PAIR_HEIGHT, key="redundancy.panel"):
        *texts, made = st.columns([5, 5, 4], gap="small")
        for row, place, letter in zip(pair, texts, "AB", strict=True):
            with place, st.container(gap="xxsmall"):
                st.caption(letter)
                reading.heading(loaded, row)
                with st.container(height=TEXT_HEIGHT, border=False, key=f"redundancy.text.{letter}"):
                    st.text(reading.body(loaded, row))
        with made:
            st.caption(f"similarity of A and B: {alike:.4f}")
            ranks = [[found.rank(row) for found in sets.values()] for row in pair]
            table = pd.DataFrame({"Decoder": [answers[n].title for n in sets], "A": ranks[0], "B": ranks[1]})
            st.dataframe(
                table.astype({"A": "Int64", "B": "Int64"}),
                key="redundancy.made",
                hide_index=True,
                row_height=ROW_HEIGHT,
                placeholder="out",
                column_config={
                    "Decoder": st.column_config.TextColumn(width=110),
                    "A": st.column_config.NumberColumn(width=60, help="Its rank in the decoder's set"),
                    "B": st.column_config.NumberColumn(width=60, help="Its rank in the decoder's set"),
                },
            )
