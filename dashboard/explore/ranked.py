"""The Ranked diff tab: each decoder's set against the baseline's, side by side or in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.charts import style_of
from dashboard.explore import reading, setting
from dashboard.explore.answers import MOST_BESIDE, ROW_HEIGHT, Answer, beside, clicked, columns, pick_beside
from dashboard.explore.question import Asked
from dashboard.feedback import effect, live, votes
from dashboard.jobs import turn
from dashboard.parts import method_heading
from dashboard.state import Loaded
from engine.views import DROPPED, Merged, Row, diff, merged, missed

SIDE, ONE = "Side by side", "One table"
LAYOUT, BESIDE = "ranked.layout", "ranked.beside"
MOST_ROWS = 24
NAME_WIDTHS = {1: 420, 2: 250, MOST_BESIDE: 172}
"""Of the column of documents, by the number of sets."""
MOST_NAMED = 6
"""A class of a hundred relevant documents is counted, not listed."""
RELEVANCE = "Inner product with the query"
FIGURE_SPACE = "\u2007"
"""As wide as a digit: ranks of one and of two digits then sort and stand as numbers do."""


def options(answers: Mapping[str, Answer], baseline: str) -> None:
    """How the sets are laid out, and which of them where not all fit."""
    layout = st.segmented_control(
        "Layout",
        [SIDE, ONE],
        default=SIDE,
        required=True,
        key=LAYOUT,
        persist_state="session",
        label_visibility="collapsed",
    )
    if layout != ONE:
        pick_beside(answers, baseline, BESIDE)


def show(loaded: Loaded, asked: Asked, answers: Mapping[str, Answer], baseline: str) -> None:
    """The sets, above them the document that is being read.

    answers: by selector, the baseline's among them, in the order they are shown.
    """
    layout = st.session_state.get(LAYOUT, SIDE)
    shown = list(answers) if layout == ONE else beside(answers, baseline, BESIDE)
    panel = st.container()
    if layout == ONE:
        _one_table(loaded, asked, answers, baseline)
    else:
        for name, place in zip(shown, columns(len(shown), "ranked-sets"), strict=True):
            with place:
                _set(loaded, asked, name, answers[name], answers[baseline], NAME_WIDTHS[len(shown)])
    with panel:
        seen = {name: answers[name] for name in shown}
        reading.show(loaded, asked, seen)
        votes.wrong()
        effect.show(loaded, asked, seen, baseline)


def _set(loaded: Loaded, asked: Asked, name: str, answer: Answer, baseline: Answer, width: int) -> None:
    """One decoder's set, what it dropped of the baseline's below it."""
    compared = answer is not baseline
    saw = answer.relevance
    with turn():
        kept, dropped = diff(loaded.space, asked.vector, asked.id, answer.ranking, baseline.ranking, asked.qrels, saw)
        lacking = missed(loaded.space, asked.vector, asked.id, answer.ranking, asked.qrels, saw)
    method_heading(answer.stage.spec, answer.title)
    rows = [*kept, *(dropped if compared else [])]
    if not rows:
        st.caption("Nothing was retrieved.")
    else:
        by = RELEVANCE if saw is None else f"By {setting.scorer_of(answer.decoder).spec.title}; blank: not scored"
        key, more = f"set.{name}", None
        if live.on():
            more = votes.row_columns(loaded, asked, [r.row for r in rows], answer, baseline, key)
        event = set_table(key, rows, len(kept), compared, width if compared else width + 78, by, more)
        _opened(loaded, asked, key, event, rows, name)
    _lacking("Relevant, not returned: ", lacking)


def set_table(
    key: str,
    rows: Sequence[Row],
    kept: int,
    compared: bool,
    width: int,
    by: str,
    more: tuple[Mapping[str, Sequence[Any]], Mapping[str, Any]] | None = None,
) -> Any:
    """A set as a table, and below it what it dropped of the baseline's; returns Streamlit's event.

    kept: how many of the rows the set holds; compared: show the changes; width: of the documents' column; by: what
    made the relevance; more: columns in place of the nearest document's, and how they are shown.
    """
    lost = len(rows) - kept
    table = {
        "#": [*(r.rank for r in rows[:kept]), *[None] * lost],
        **(more[0] if more else {}),
        **({"Change": [*(r.mark for r in rows[:kept]), *[DROPPED] * lost]} if compared else {}),
        **_judged(rows),
        "Document": [_named(r) for r in rows],
        "Relevance": [r.relevance for r in rows],
        **({} if more else {"Nearest": [*(r.similarity for r in rows[:kept]), *[None] * lost]}),
    }
    return st.dataframe(
        pd.DataFrame(table),
        key=key,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-cell",
        height=ROW_HEIGHT * (min(len(rows), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="",
        column_config={
            "#": st.column_config.NumberColumn(width=32),
            "Change": st.column_config.TextColumn(width=78, help="Places gained or lost; NEW and DROPPED documents"),
            "✓": st.column_config.TextColumn(width=28, help="Judged relevant"),
            "Document": st.column_config.TextColumn(width=width),
            "Relevance": st.column_config.NumberColumn(format="%.3f", width=76, help=by),
            "Nearest": st.column_config.NumberColumn(
                format="%.3f", width=68, help="Similarity to the most similar document ranked above it"
            ),
            **(more[1] if more else {}),
        },
    )


def _one_table(loaded: Loaded, asked: Asked, answers: Mapping[str, Answer], baseline: str) -> None:
    """Every document that any decoder returned, a column a decoder."""
    rankings = {name: answer.ranking for name, answer in answers.items()}
    with turn():
        rows = merged(loaded.space, asked.vector, asked.id, rankings, baseline, asked.qrels)
        lacking = missed(loaded.space, asked.vector, asked.id, rankings.values(), asked.qrels)
    if not rows:
        st.caption("Nothing was retrieved.")
        return
    widest = max((len(str(p.rank)) for r in rows for p in r.places.values() if p.rank), default=1)
    titles = {name: f"{style_of(answer.name).sign} {answer.title}" for name, answer in answers.items()}
    # Scores of several scorers do not share a column: there it is the inner product, and says so.
    product = "Relevance" if all(a.relevance is None for a in answers.values()) else "Inner product"
    table = {
        "Document": [_named(r) for r in rows],
        **_judged(rows),
        product: [r.relevance for r in rows],
        **{title: [_padded(r, name, widest) for r in rows] for name, title in titles.items()},
        "Sets": [r.sets for r in rows],
    }
    event = st.dataframe(
        pd.DataFrame(table),
        key="merged",
        hide_index=True,
        on_select="rerun",
        selection_mode="single-cell",
        height=ROW_HEIGHT * (min(len(rows), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        column_config={
            "Document": st.column_config.TextColumn(width=280, pinned=len(answers) > MOST_BESIDE + 1),
            "✓": st.column_config.TextColumn(width=28, help="Judged relevant"),
            product: st.column_config.NumberColumn(format="%.3f", width=76, help=RELEVANCE),
            **{
                title: st.column_config.TextColumn(
                    width=112, help="Rank, and places gained or lost; – for a document in neither set"
                )
                for title in titles.values()
            },
            "Sets": st.column_config.NumberColumn(width=48, help="How many of the decoders return it"),
        },
    )
    _opened(loaded, asked, "merged", event, rows)
    _lacking("Relevant, in no set: ", lacking)


def _padded(row: Merged, name: str, widest: int) -> str:
    place = row.places[name]
    return FIGURE_SPACE * (widest - len(str(place.rank)) if place.rank else 0) + str(place)


def _named(row: Row | Merged) -> str:
    return row.title or row.text[:200] or row.id


def _judged(rows: Sequence[Row | Merged]) -> dict[str, list[str]]:
    """The column of ticks, where there are judgements."""
    if all(r.relevant is None for r in rows):
        return {}
    return {"✓": ["✓" if r.relevant else "" for r in rows]}


def _opened(loaded: Loaded, asked: Asked, key: str, event: Any, rows: Sequence[Row | Merged], source: str = "") -> None:
    at = clicked(key, event, len(rows))
    if at is not None:
        reading.read(loaded, asked, rows[at].row, source)


def _lacking(before: str, documents: Sequence[tuple[str, int | None]]) -> None:
    """Name the relevant documents that a set lacks, the most relevant first."""
    if documents:
        named = [f"{doc} ({_place(rank)})" for doc, rank in documents[:MOST_NAMED]]
        more = [f"and {len(documents) - MOST_NAMED:,} more"] if len(documents) > MOST_NAMED else []
        st.text(before + ", ".join([*named, *more]))


def _place(rank: int | None) -> str:
    return "not in the corpus" if rank is None else f"{rank:,} by relevance"
