"""Named moments of a log: take one, compare two, go back to one."""

from __future__ import annotations

import streamlit as st

from dashboard.drift import movers, told
from dashboard.drift.layout import pair
from dashboard.drift.people import split_of
from dashboard.drift.story import DIRECT, Story, remembered, worked
from dashboard.feedback import live
from engine import orag
from engine.values import showable
from engine.views.drift import Between, between, conclusions

START, NOW = "the start", "now"
NAME = "drift.snapshot.name"
EFFORT = 20
"""So many times a comparison goes over all documents, about: it looks for neighbours and answers in both."""


def show(story: Story) -> None:
    """Take, compare, restore."""
    session = story.session
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.text_input("Name", key=NAME, max_chars=80, placeholder="before the campaign", width=320)
        st.button(
            "Take a snapshot",
            icon=":material/bookmark:",
            key="drift.snapshot",
            disabled=not name.strip(),
            on_click=_take,
            args=(story,),
        )
    told.wrong()
    places = {START: 0, **{showable(n): at for n, at in session.snapshots.items()}, NOW: session.position}
    names = list(places)
    if len(names) == 2:
        st.caption(
            "A snapshot is a name for this moment of the log. It costs nothing, and stays through undo and reset."
        )
    left, right, back = st.columns([2, 2, 3], vertical_alignment="bottom")
    one = left.selectbox("Compare", names, len(names) - 2, key=f"drift.one.{len(names)}")
    other = right.selectbox("with", names, len(names) - 1, key=f"drift.other.{len(names)}")
    with back, st.container(horizontal=True, vertical_alignment="center"):
        told.ask(
            "restore",
            "Go back to the first",
            "Have only that feedback count that counted then? What is left out can be brought back.",
            one == NOW,
            lambda: live.restore(story.loaded, places[one]),
        )
    _compared(story, places[one], places[other])


def _take(story: Story) -> None:
    name = st.session_state[NAME].strip()
    told.act(lambda: live.snapshot(story.loaded, name))
    st.session_state[NAME] = ""


def _compared(story: Story, one: int, other: int) -> None:
    session = story.session
    key = ("between", session.digest, one, other, story.probes is not None)
    if story.space.vectors.numel() <= DIRECT // EFFORT:
        ready = remembered(key, lambda: _between(story, one, other))
    else:
        ready = worked(key, "drift.between", "comparing two moments", lambda job: _between(story, one, other))
    if ready is None:
        return
    found, votes = ready
    if found.same:
        st.text("The documents are the same at both, bit by bit.")
        return
    st.text("\n".join(conclusions(found.drift)))
    came, went = len(votes.added), len(votes.removed)
    st.text(f"Feedback that counts in the second only: {came:,}; in the first only: {went:,}.")
    left, right = pair("drift-between")
    with left:
        st.markdown("**Documents that moved most**")
        movers.documents_table(f"drift.between.{one}.{other}", found.movers)
    with right:
        st.markdown("**Queries whose answers changed most**")
        if story.probes is None:
            st.caption("No queries are followed yet.")
        else:
            caption = f"Of {len(story.probes):,} queries that are followed, from the first to the second."
            movers.queries_table(story.loaded, f"drift.between.queries.{one}.{other}", found.queries, caption)


def _between(story: Story, one: int, other: int) -> tuple[Between, orag.Diff]:
    session = story.session
    first, second = (orag.at(session, step) for step in (one, other))
    found = between(
        story.space,
        first.vectors,
        second.vectors,
        story.probes,
        qrels=story.qrels if split_of(story.loaded) else None,
        temperature=session.temperature,
        ball=session.preset.ball,
    )
    return found, orag.diff(first, second)
