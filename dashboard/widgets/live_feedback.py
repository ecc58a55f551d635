"""Live feedback: the header's switch with the log's errors, and what it changed for the question, with Undo."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from dashboard.services import feedback
from dashboard.services.jobs import turn
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, answer
from dashboard.session.query import Question
from dashboard.widgets import confirm
from dashboard.widgets.common import corpus_chip
from dashboard.widgets.tables import draw_table, text_column
from engine.errors import FrontierError
from engine.progress import counted, shorten
from engine.views.drift import FEEDBACK_WORDS
from engine.views.sets import BeforeAfter, before_after
from engine.wording import visible

TOLD = "live.told"
"""Where a session keeps what became of a log that could not be used."""
MOST_ROWS = 3
WORDS = 60


def corpus(loaded: Loaded, chip: Any) -> Loaded:
    """The corpus to work on; draws its chip, the switch, and in the main area why feedback cannot be used.

    chip: the container of the header for both.
    """
    shown, trouble, learned = loaded, None, None
    if loaded.reach is not None:
        with chip:
            corpus_chip(loaded)
        return loaded
    if feedback.is_on():
        try:
            shown = feedback.adapted(loaded)
            learned = feedback.count(loaded)
        except FrontierError as error:
            trouble = str(error)
    with chip:
        corpus_chip(shown, learned)
        st.toggle(
            "Live feedback",
            key=feedback.ON,
            persist_state="session",
            help="On: every page works on the documents as feedback has moved them. Off: as they were embedded. A "
            "thumb on a document switches it on.",
        )
    if trouble is not None:
        with st.container(gap="small"):
            st.error("The feedback given on this corpus cannot be used; it is shown as it was embedded.")
            st.text(trouble)
            with st.container(horizontal=True):
                st.button("Keep what still holds", key="live.carry", on_click=_mend, args=(loaded, False))
                st.button("Begin anew", key="live.anew", on_click=_mend, args=(loaded, True))
            st.caption("Neither deletes anything: the log stays in its folder, under this name or another.")
    if messages := st.session_state.get(TOLD):
        for line in messages:
            st.text(f"⚠ {line}")
        st.button("OK", key="live.ok", on_click=st.session_state.pop, args=(TOLD, None))
    return shown


def _mend(loaded: Loaded, anew: bool) -> None:
    """Begin a new log, or carry the one there is over."""
    st.session_state.pop(confirm.WRONG, None)
    try:
        if anew:
            said = [f"A new log has begun; the other one is {feedback.begin_anew(loaded)}"]
        else:
            said = [str(notice) for notice in feedback.carry(loaded)]
        st.session_state[TOLD] = said
    except FrontierError as error:
        st.session_state[TOLD] = [f"This did not work: {error}"]


def show_effect(loaded: Loaded, question: Question, answers: Mapping[str, Answer]) -> None:
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
                st.text(f"Your last: {FEEDBACK_WORDS[last.kind, last.good]}, {shorten(document, WORDS)}")
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
