"""Vote buttons: thumbs and the correct answer, for the open document."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, query_of
from dashboard.session.query import Question
from dashboard.widgets import confirm
from engine import feedback as orag
from engine.errors import FrontierError
from engine.reach import Reach

UP, DOWN, RIGHT = "up", "down", "right"
LABELS = {
    UP: ("More like this", ":material/thumb_up:", "Moves the document towards this query, so that it ranks higher."),
    DOWN: (
        "Less like this",
        ":material/thumb_down:",
        "Moves the document away from this query, so that it ranks lower.",
    ),
    RIGHT: (
        "Correct answer",
        ":material/check_circle:",
        "Moves the document towards this query, and the others of its list away from it.",
    ),
}
OUT = "No list shown here has it. You can still vote it up or down."


def votes_given(counting: Sequence[orag.Event], question: Question) -> dict[tuple[int, str], str]:
    """This person's votes on a question: (row, kind) → the event's id; counting: the events that count."""
    me, key = feedback.person(), orag.Query(question.vector.numpy(), question.text).key
    mine = [event for event in counting if event.person == me and event.query.key == key]
    return {(e.item, RIGHT if e.kind == "right_one" else UP if e.good else DOWN): e.id for e in mine}


def buttons(loaded: Loaded, question: Question, row: int, answers: Mapping[str, Answer], source: str) -> None:
    """The three buttons of the document that is read; one that was pressed takes its vote back.

    source: from which decoder's set it was opened, "" for none.
    """
    feedback.prepare(loaded)
    shown = list_of(row, lists_of(answers), source)
    mine = given_by_me(loaded, question)
    with st.container(horizontal=True, gap="xsmall", horizontal_alignment="left", key="votes"):
        for kind, (label, icon, help_) in LABELS.items():
            lacking = kind == RIGHT and not shown
            st.button(
                label,
                icon=icon,
                key=f"vote.{kind}",
                type="primary" if (row, kind) in mine else "secondary",
                disabled=lacking,
                help=OUT if lacking else f"{help_} Click again to take it back.",
                on_click=vote,
                args=(loaded, question, row, kind, shown),
            )


def _refuse(reach: Reach) -> None:
    raise reach.refuse("feedback that moves the documents")


def vote(loaded: Loaded, question: Question, row: int, kind: str, shown: Sequence[int]) -> None:
    """Take a vote, or take it back where it was given; from now on this session sees what feedback does, or why not.

    shown: the list in which the document was seen, () for none.
    """
    query, me = query_of(loaded, question), feedback.person()
    if loaded.reach is not None:
        confirm.act(partial(_refuse, loaded.reach))
        return

    def step(now: orag.Session) -> orag.Session:
        if (row, kind) in votes_given(now.counting, question):
            return _without_votes(now, question, row, kind)
        if kind == RIGHT:
            event = orag.right_one(now, query, shown, row, person=me)
        else:
            event = orag.thumb(now, query, row, up=kind == UP, person=me, shown=shown)
        return orag.feed(now, replace(event, time=time.time()))

    confirm.act(lambda: feedback.log_of(loaded).write(step))
    feedback.turn_on()


def _without_votes(now: orag.Session, question: Question, row: int, kind: str) -> orag.Session:
    """The session without this person's thumbs on a document for a question, or the choices of it as the right one.

    Undoing the newest thumb brings back the one that it had replaced, which is taken back too: none of them counts.
    """
    same = {(row, RIGHT)} if kind == RIGHT else {(row, UP), (row, DOWN)}
    while left := [event_id for given, event_id in votes_given(now.counting, question).items() if given in same]:
        for event_id in left:
            now = orag.undo(now, event_id)
    return now


def given_by_me(loaded: Loaded, question: Question) -> dict[tuple[int, str], str]:
    """This person's votes on a question, none where the log cannot be read: (row, kind) → the event's id."""
    try:
        # With live feedback on, the page has looked at the file already.
        counting = feedback.counting(loaded) if feedback.is_on() else feedback.session(loaded).counting
        return votes_given(counting, question)
    except FrontierError:
        return {}  # the header says why, and a vote would


def lists_of(answers: Mapping[str, Answer]) -> dict[str, tuple[int, ...]]:
    """The rows of each decoder's list."""
    return {name: tuple(answer.ranking.rows()) for name, answer in answers.items()}


def list_of(row: int, lists: Mapping[str, tuple[int, ...]], source: str) -> tuple[int, ...]:
    """The list in which a document stands, that of `source` first, () for none."""
    order = sorted(lists, key=lambda name: name != source)
    return next((lists[name] for name in order if row in lists[name]), ())
