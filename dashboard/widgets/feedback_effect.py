"""The effect of feedback on the question: scores and ranks before and after, and Undo."""

from collections.abc import Mapping

import streamlit as st

from dashboard.services import feedback
from dashboard.services.jobs import turn
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, answer
from dashboard.session.query import Question
from dashboard.widgets import confirm
from dashboard.widgets.tables import draw_table, text_column
from engine.errors import FrontierError
from engine.progress import counted, shorten
from engine.views.drift import SAID
from engine.views.sets import BeforeAfter, before_after
from engine.wording import visible

MOST_ROWS = 3
WORDS = 60


def show(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
    """Draw what changed against the corpus as it was embedded, this person's last event, and Undo.

    answers: those to compare. Nothing where this session has live feedback off, or none
    counts.
    """
    if not feedback.is_on():
        return
    try:
        counting = feedback.counting(loaded)
    except FrontierError:
        return  # the header says why
    if not counting:
        return
    last = next((event for event in reversed(counting) if event.person == feedback.person()), None)
    changes = _changes(loaded, question, answers)
    with st.container(border=True, key="feedback.effect"):
        left, right = st.columns([2, 5], gap="small", vertical_alignment="center")
        with left, st.container(gap="xsmall"):
            st.text(f"{counted(len(counting), 'piece')} of feedback")
            if last is not None:
                document = visible(loaded.space.corpus.ids[last.item])
                st.text(f"Your last: {SAID[last.kind, last.good]}, {shorten(document, WORDS)}")
                st.button(
                    "Undo",
                    key="feedback.undo",
                    icon=":material/undo:",
                    help="As if it had never been said, to the last bit.",
                    on_click=confirm.act,
                    args=(lambda event_id=last.id: feedback.log_of(loaded).undo(event_id),),
                )
        with right:
            if changes:
                _table(changes, {name: shown.title for name, shown in answers.items()})
            else:
                st.caption("Nothing that this query gets has moved: scores and order are as embedded.")


def _changes(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> tuple[BeforeAfter, ...]:
    first = loaded.origin
    if first is loaded:
        return ()
    then = {name: answer(first, question, shown.name, shown.decoder) for name, shown in answers.items()}
    with turn():
        both = {name: (then[name].ranking, shown.ranking) for name, shown in answers.items()}
        return before_after(first.space, loaded.space, question.vector, both)


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def _table(changes: tuple[BeforeAfter, ...], titles: Mapping[str, str]) -> None:
    columns = {
        "Document": [change.title or change.id for change in changes],
        "Score": [f"{change.before:.4f} → {change.after:.4f}" for change in changes],
    }
    for name, title in titles.items():
        ranks = [change.ranks[name] for change in changes]
        columns[title] = [f"{_rank(before)} → {_rank(after)}" for before, after in ranks]
    draw_table(
        columns,
        {
            "Document": text_column(240),
            "Score": text_column(124, "Inner product with the query: as embedded → as feedback has moved the document"),
            **{title: text_column(96, "Rank as embedded → now; – for one that is out") for title in titles.values()},
        },
        key="feedback.changes",
        most=MOST_ROWS,
    )
