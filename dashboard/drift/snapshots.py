"""Named snapshots of a log: take one, compare two, go back to one."""

import streamlit as st

from dashboard.drift import movers
from dashboard.drift.history import DriftHistory, worked_out
from dashboard.drift.user_feedback import split_of
from dashboard.services import feedback
from dashboard.widgets import confirm
from dashboard.widgets.buttons import step_button
from dashboard.widgets.tables import pair
from engine import feedback as orag
from engine.feedback.session import state_at
from engine.views.drift import Between, between, conclusions
from engine.wording import visible

START, NOW = "the start", "now"
NAME = "drift.snapshot.name"
EFFORT = 20
"""About how often a comparison goes over all documents, for neighbours and answers in both."""


def show(history: DriftHistory) -> None:
    """Draw the forms that take, compare and restore snapshots."""
    session = history.feedback
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name", key=NAME, max_chars=80, placeholder="before the campaign", width=320)
        icon, unnamed = ":material/bookmark:", not name.strip()
        step_button("Take a snapshot", "drift.snapshot", _take, history, icon=icon, disabled=unnamed)
    confirm.show_error()
    named = {visible(name): position for name, position in session.snapshots.items()}
    places = {START: 0, **named, NOW: session.position}
    names = list(places)
    if len(names) == 2:
        st.caption("A snapshot names this moment of the log (orag.snapshot). Undo and reset keep it.")
    left, right, back = st.columns([2, 2, 3], vertical_alignment="bottom")
    one = left.selectbox("Compare", names, len(names) - 2, key=f"drift.one.{len(names)}")
    other = right.selectbox("with", names, len(names) - 1, key=f"drift.other.{len(names)}")
    with back, st.container(horizontal=True, vertical_alignment="center"):
        question = "Restore the votes as they were at this snapshot? Later votes can be brought back."

        def restore() -> None:
            feedback.log_of(history.loaded).restore(places[one])

        confirm.ask("restore", "Restore the first", question, one == NOW, restore)
    _compared(history, places[one], places[other])


def _take(history: DriftHistory) -> None:
    name = st.session_state[NAME].strip()
    confirm.act(lambda: feedback.log_of(history.loaded).snapshot(name))
    st.session_state[NAME] = ""


def _compared(history: DriftHistory, one: int, other: int) -> None:
    session = history.feedback
    key = ("between", session.digest, one, other, history.queries is not None)
    effort = EFFORT * history.space.vectors.numel()
    title = "Comparing two moments"
    ready = worked_out(key, "drift.between", title, lambda **_: _between(history, one, other), effort)
    if ready is None:
        return
    difference, votes = ready
    if difference.same:
        st.text("The documents are identical at both.")
        return
    st.text("\n".join(conclusions(difference.drift)))
    came, went = len(votes.added), len(votes.removed)
    st.text(f"Votes only in the second: {came:,}; only in the first: {went:,}.")
    left, right = pair("drift-between")
    with left:
        movers.documents_table(f"drift.between.{one}.{other}", difference.movers)
    with right:
        table = f"drift.between.queries.{one}.{other}"
        movers.queries_table(history, table, lambda: difference.queries, ", from the first to the second")


def _between(history: DriftHistory, one: int, other: int) -> tuple[Between, orag.Diff]:
    session = history.feedback
    first, second = (state_at(session, step) for step in (one, other))
    difference = between(
        history.space,
        first.vectors,
        second.vectors,
        history.queries,
        qrels=history.qrels if split_of(history.loaded) else None,
        temperature=session.temperature,
        ball=session.preset.ball,
    )
    return difference, orag.diff(first, second)
