"""Vote buttons: thumbs and "the right one", for the open document and for the rows of a set."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from dashboard.services import feedback
from dashboard.services.source import Loaded
from dashboard.session.answers import Answer, query_of
from dashboard.session.query import Question
from dashboard.widgets import confirm
from engine import feedback as orag
from engine.errors import FrontierError

UP, DOWN, RIGHT = "up", "down", "right"
LABELS = {
    UP: ("Good", ":material/thumb_up:", "Moves the document towards this query, so that it ranks higher."),
    DOWN: ("Bad", ":material/thumb_down:", "Moves the document away from this query, so that it ranks lower."),
    RIGHT: (
        "The right one",
        ":material/check_circle:",
        "Moves the document towards this query, and the others of its list away from it.",
    ),
}
GIVEN = ":material/radio_button_checked:"
"""In place of a row's thumb that has been given."""
OUT = "It is in no list that is shown here: a thumb can still be given."
COLUMN_WIDTH, VOTES_WIDTH = 34, 330
"""In pixels, of a column of thumbs and of the three buttons."""


def votes_given(loaded: Loaded, question: Question) -> dict[tuple[int, str], str]:
    """This person's votes on a question that count: (row, kind) → the event's id. Raises FrontierError."""
    if not feedback.count(loaded):
        return {}
    now, me = feedback.session(loaded), feedback.person()
    events = [event for event in now.events if event.person == me]
    if not events:
        return {}
    resolved = now.resolve_query(query_of(loaded, question))
    mine = [e for e in events if e.query.key == resolved.key and now.status(e.id) == "counts"]
    return {(e.item, _kind(e)): e.id for e in mine}


def _kind(event: orag.Event) -> str:
    return RIGHT if event.kind == "right_one" else UP if event.good else DOWN


def buttons(loaded: Loaded, question: Question, row: int, answers: Mapping[str, Answer], source: str) -> None:
    """The three buttons of the document that is read; one that was pressed takes its vote back.

    source: from which decoder's set it was opened, "" for none.
    """
    feedback.prepare(loaded)
    shown = _shown(row, answers, source)
    mine = _mine(loaded, question)
    with st.container(horizontal=True, gap="xsmall", horizontal_alignment="right", width=VOTES_WIDTH, key="votes"):
        for kind, (label, icon, help_) in LABELS.items():
            lacking = kind == RIGHT and not shown
            st.button(
                label,
                icon=icon,
                key=f"vote.{kind}",
                type="primary" if (row, kind) in mine else "secondary",
                disabled=lacking,
                help=OUT if lacking else f"{help_} Again: takes it back.",
                on_click=vote,
                args=(loaded, question, row, kind, shown),
            )


def row_columns(
    loaded: Loaded, question: Question, rows: Sequence[int], answer: Answer, baseline: Answer, key: str
) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Two columns of buttons for a set's rows, and how they are shown: a thumb up, a thumb down.

    rows: of the corpus, as the table has them, what was dropped of the baseline's at its end.
    """
    feedback.prepare(loaded)
    mine = _mine(loaded, question)
    columns, config = {}, {}
    for kind in (UP, DOWN):
        _, icon, help_ = LABELS[kind]
        columns[kind] = [GIVEN if (row, kind) in mine else icon for row in rows]
        column_key = f"{key}.{kind}"
        config[kind] = st.column_config.ButtonColumn(
            "",
            width=COLUMN_WIDTH,
            help=help_,
            type="tertiary",
            key=column_key,
            on_click=partial(_on_row, column_key, loaded, question, tuple(rows), kind, answer, baseline),
        )
    return columns, config


def _on_row(
    key: str, loaded: Loaded, question: Question, rows: Sequence[int], kind: str, answer: Answer, baseline: Answer
) -> None:
    click = st.session_state[key]
    if click is None or click.row >= len(rows):
        return
    row = rows[click.row]
    vote(loaded, question, row, kind, _shown(row, {"own": answer, "baseline": baseline}, "own"))


def vote(loaded: Loaded, question: Question, row: int, kind: str, shown: Sequence[int]) -> None:
    """Take a vote, or take it back where it was given; from now on this session sees what feedback does, or why not.

    shown: the list in which the document was seen, () for none.
    """
    query, me = query_of(loaded, question), feedback.person()

    def event(now: orag.Session) -> orag.Event:
        if kind == RIGHT:
            return orag.right_one(now, query, shown, row, person=me)
        return orag.thumb(now, query, row, up=kind == UP, person=me, shown=shown)

    def step() -> None:
        if (row, kind) in votes_given(loaded, question):
            _take_back_all(loaded, question, row, kind)
        else:
            feedback.add(loaded, event)

    confirm.act(step)
    feedback.turn_on()


def _take_back_all(loaded: Loaded, question: Question, row: int, kind: str) -> None:
    """Undo this person's thumbs on a document for a question, or the choices of it as the right one.

    Undoing the newest thumb brings back the one that it had replaced, which is taken back too: none of them counts.
    """
    same = (RIGHT,) if kind == RIGHT else (UP, DOWN)
    while left := [
        id_ for (item, vote_kind), id_ in votes_given(loaded, question).items() if item == row and vote_kind in same
    ]:
        for event_id in left:
            feedback.log_of(loaded).undo(event_id)


def _mine(loaded: Loaded, question: Question) -> dict[tuple[int, str], str]:
    try:
        return votes_given(loaded, question)
    except FrontierError:
        return {}  # the sidebar says why, and a vote would


def _shown(row: int, answers: Mapping[str, Answer], source: str) -> tuple[int, ...]:
    """The list in which a document stands, that of `source` first."""
    order = sorted(answers, key=lambda name: name != source)
    lists = (tuple(answers[name].ranking.rows()) for name in order)
    return next((rows for rows in lists if row in rows), ())
