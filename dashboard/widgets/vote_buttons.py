"""Vote buttons: thumbs and the correct answer, for the open document."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import streamlit as st

from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, query_of
from dashboard.session.query import Question
from dashboard.widgets import confirm
from engine import feedback as orag
from engine.errors import FrontierError
from engine.feedback.policy import VoteKind, find_votes

UP: VoteKind = "up"
DOWN: VoteKind = "down"
RIGHT: VoteKind = "right"
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
                on_click=confirm.act,
                args=(toggle(loaded, question, row, kind, shown),),
            )


def toggle(loaded: Loaded, question: Question, row: int, kind: VoteKind, shown: Sequence[int]) -> Callable[[], None]:
    """Return the step that gives a vote or takes it back; shown: the list in which the document was seen, or ()."""
    return partial(feedback.toggle_vote, loaded, query_of(loaded, question), row, kind, shown)


def given_by_me(loaded: Loaded, question: Question) -> dict[tuple[int, VoteKind], str]:
    """This person's votes on a question, none where the log cannot be read: (row, kind) → the event's id."""
    try:
        # With live feedback on, the page has looked at the file already.
        counting = feedback.counting(loaded) if feedback.is_on() else feedback.session(loaded).effective_events
        return find_votes(counting, orag.Query(question.vector.numpy(), question.text), feedback.person())
    except FrontierError:
        return {}  # the header says why, and a vote would


def lists_of(answers: Mapping[str, Answer]) -> dict[str, tuple[int, ...]]:
    """The rows of each decoder's list."""
    return {name: tuple(answer.ranking.rows()) for name, answer in answers.items()}


def list_of(row: int, lists: Mapping[str, tuple[int, ...]], source: str) -> tuple[int, ...]:
    """The list in which a document stands, that of `source` first, () for none."""
    order = sorted(lists, key=lambda name: name != source)
    return next((lists[name] for name in order if row in lists[name]), ())
