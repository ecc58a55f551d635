"""Thumbs and "this is the right one": the buttons of a document that is read, those of a set's rows, what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from dashboard.explore.answers import Answer, query_of
from dashboard.explore.question import Asked
from dashboard.feedback import live
from dashboard.state import Loaded
from engine import orag
from engine.errors import FrontierError
from engine.views.decision import kept

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
WRONG, STALE = "live.wrong", "live.stale"
"""Where a session keeps why the last vote did not count, and that its page shows the documents as they were."""
COLUMN_WIDTH, VOTES_WIDTH = 34, 330
"""In pixels, of a column of thumbs and of the three buttons."""


def given(loaded: Loaded, asked: Asked) -> dict[tuple[int, str], str]:
    """This person's votes on a question that count: (row, kind) → the event's id. Raises FrontierError."""
    if not live.count(loaded):
        return {}
    now, me = live.session(loaded), live.person()
    events = [event for event in now.events if event.person == me]
    if not events:
        return {}
    asked_ = now.ask_of(query_of(loaded, asked))
    mine = [e for e in events if e.query.key == asked_.key and now.status(e.id) == "counts"]
    return {(e.item, _kind(e)): e.id for e in mine}


def _kind(event: orag.Event) -> str:
    return RIGHT if event.kind == "right_one" else UP if event.good else DOWN


def buttons(loaded: Loaded, asked: Asked, row: int, answers: Mapping[str, Answer], source: str) -> None:
    """The three buttons of the document that is read; one that was pressed takes its vote back.

    source: from which decoder's set it was opened, "" for none.
    """
    live.prepare(loaded)
    shown = _shown(row, answers, source)
    mine = _mine(loaded, asked)
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
                args=(loaded, asked, row, kind, shown),
            )


def wrong() -> None:
    """Why the last vote was not taken, if it was not."""
    if why := st.session_state.get(WRONG):
        st.error("This feedback was not taken.", icon=":material/error:")
        st.text(why)


def row_columns(
    loaded: Loaded, asked: Asked, rows: Sequence[int], answer: Answer, baseline: Answer, key: str
) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Two columns of buttons for a set's rows, and how they are shown: a thumb up, a thumb down.

    rows: of the corpus, as the table has them, what was dropped of the baseline's at its end.
    """
    live.prepare(loaded)
    mine = _mine(loaded, asked)
    columns, config = {}, {}
    for kind in (UP, DOWN):
        _, icon, help_ = LABELS[kind]
        columns[kind] = [GIVEN if (row, kind) in mine else icon for row in rows]
        own = f"{key}.{kind}"
        config[kind] = st.column_config.ButtonColumn(
            "",
            width=COLUMN_WIDTH,
            help=help_,
            type="tertiary",
            key=own,
            on_click=partial(_on_row, own, loaded, asked, tuple(rows), kind, answer, baseline),
        )
    return columns, config


def _on_row(
    key: str, loaded: Loaded, asked: Asked, rows: Sequence[int], kind: str, answer: Answer, baseline: Answer
) -> None:
    click = st.session_state[key]
    if click is None or click.row >= len(rows):
        return
    row = rows[click.row]
    vote(loaded, asked, row, kind, _shown(row, {"own": answer, "baseline": baseline}, "own"))


def vote(loaded: Loaded, asked: Asked, row: int, kind: str, shown: Sequence[int]) -> None:
    """Take a vote, or take it back where it was given; from now on this session sees what feedback does, or why not.

    shown: the list in which the document was seen, () for none.
    """
    st.session_state.pop(WRONG, None)
    query, me = query_of(loaded, asked), live.person()

    def made(now: orag.Session) -> orag.Event:
        if kind == RIGHT:
            return orag.right_one(now, query, shown, row, person=me)
        return orag.thumb(now, query, row, up=kind == UP, person=me, shown=shown)

    try:
        if (row, kind) in given(loaded, asked):
            _take_back_all(loaded, asked, row, kind)
        else:
            live.add(loaded, made)
    except FrontierError as error:
        st.session_state[WRONG] = str(error)
    live.turn()
    st.session_state[STALE] = True


def _take_back_all(loaded: Loaded, asked: Asked, row: int, kind: str) -> None:
    """Undo this person's thumbs on a document for a question, or the choices of it as the right one.

    Undoing the newest thumb brings back the one that it had replaced, which is taken back too: none of them counts.
    """
    same = (RIGHT,) if kind == RIGHT else (UP, DOWN)
    while left := [id_ for (item, of), id_ in given(loaded, asked).items() if item == row and of in same]:
        for event_id in left:
            live.undo(loaded, event_id)


def take_back(loaded: Loaded, event_id: str) -> None:
    """Undo a piece of feedback."""
    try:
        live.undo(loaded, event_id)
    except FrontierError as error:
        st.session_state[WRONG] = str(error)
    st.session_state[STALE] = True


def follow() -> None:
    """Draw the whole page anew where a vote has moved documents since; at the beginning of a fragment."""
    if st.session_state.pop(STALE, False):
        st.rerun()


def _mine(loaded: Loaded, asked: Asked) -> dict[tuple[int, str], str]:
    try:
        return given(loaded, asked)
    except FrontierError:
        return {}  # the sidebar says why, and a vote would


def _shown(row: int, answers: Mapping[str, Answer], source: str) -> tuple[int, ...]:
    """The list in which a document stands, that of `source` first."""
    order = sorted(answers, key=lambda name: name != source)
    lists = (tuple(kept(answers[name].ranking)) for name in order)
    return next((rows for rows in lists if row in rows), ())
