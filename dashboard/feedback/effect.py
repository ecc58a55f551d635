"""What feedback did to the question at hand: scores and ranks, then and now, and a way back."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from dashboard.explore.answers import ROW_HEIGHT, Answer, answer
from dashboard.explore.question import Asked
from dashboard.feedback import live, votes
from dashboard.jobs import turn
from dashboard.state import Loaded
from engine.errors import FrontierError
from engine.views import BeforeAfter, before_after
from engine.views.drift import Entry, feedback

MOST_ROWS = 3
LATEST = 200
"""Among so many pieces of feedback the last one of this person is looked for."""
WORDS = 60


def show(loaded: Loaded, asked: Asked, answers: Mapping[str, Answer], baseline: str) -> None:
    """A table of what changed against the corpus as it was embedded, the last thing said, and Undo.

    answers: those to compare, the baseline's among them. Nothing where this session has live feedback off, or none
    counts.
    """
    if not live.on():
        return
    try:
        last, count = _last(loaded), live.count(loaded)
    except FrontierError:
        return  # the sidebar says why
    if not count:
        return
    names = list(answers)
    found = _changes(loaded, asked, answers, baseline)
    with st.container(border=True, key="feedback.effect"):
        left, right = st.columns([2, 5], gap="small", vertical_alignment="center")
        with left, st.container(gap="xsmall"):
            st.text(f"{_counted(count, 'piece')} of feedback")
            if last is not None:
                st.text(f"Your last: {last.said}, {_short(last.document)}")
                st.button(
                    "Undo",
                    key="feedback.undo",
                    icon=":material/undo:",
                    help="As if it had never been said, to the last bit.",
                    on_click=votes.take_back,
                    args=(loaded, last.id),
                )
        with right:
            if found:
                _table(found, {name: answers[name].title for name in names})
            else:
                st.caption("Nothing that this query gets has moved: scores and order are as embedded.")


def _last(loaded: Loaded) -> Entry | None:
    """The last piece of feedback of this person that counts."""
    me = live.person()
    said = feedback(live.session(loaded), LATEST)
    return next((entry for entry in said if entry.person == me and entry.status == "counts"), None)


def _changes(loaded: Loaded, asked: Asked, answers: Mapping[str, Answer], baseline: str) -> tuple[BeforeAfter, ...]:
    first = loaded.origin
    if first is loaded:
        return ()
    plain = answer(first, asked, baseline, answers[baseline].decoder)
    then = {name: answer(first, asked, own.name, own.decoder, plain.ranking) for name, own in answers.items()}
    with turn():
        both = {name: (then[name].ranking, own.ranking) for name, own in answers.items()}
        return before_after(first.space, loaded.space, asked.vector, both)


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def _short(text: str) -> str:
    return text if len(text) <= WORDS else text[: WORDS - 1] + "…"


def _table(found: tuple[BeforeAfter, ...], titles: Mapping[str, str]) -> None:
    place = {None: "–"}
    columns = {
        "Document": [one.title or one.id for one in found],
        "Score": [f"{one.before:.4f} → {one.after:.4f}" for one in found],
    }
    for name, title in titles.items():
        ranks = [one.ranks[name] for one in found]
        columns[title] = [f"{place.get(a, a)} → {place.get(b, b)}" for a, b in ranks]
    st.dataframe(
        pd.DataFrame(columns),
        key="feedback.changes",
        hide_index=True,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(len(found), MOST_ROWS) + 1) + 2,
        column_config={
            "Document": st.column_config.TextColumn(width=240),
            "Score": st.column_config.TextColumn(
                width=124, help="Inner product with the query: as embedded → as feedback has moved the document"
            ),
            **{
                title: st.column_config.TextColumn(width=96, help="Rank as embedded → now; – for one that is out")
                for title in titles.values()
            },
        },
    )
