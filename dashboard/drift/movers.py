"""What moved most, and the queries whose answers changed most."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from dashboard.drift.layout import pair
from dashboard.drift.story import Story, remembered, step_of
from dashboard.explore import question
from dashboard.explore.answers import ROW_HEIGHT, clicked
from dashboard.state import Loaded
from engine.views.drift import Changed, Moved, changed, movers

READ, POSED = "drift.read", "drift.posed"
"""Where a session keeps the document that is read, and that the sidebar's question was just set."""
MOST_READ = 20_000
TEXT_HEIGHT = 150


def show(story: Story) -> None:
    """Two tables, and the text of the document or query that was clicked."""
    with st.container(width=520):
        step = step_of(story)
    drift = story.drift(step)
    left, right = pair("drift-movers")
    with left:
        st.markdown("**Documents that moved most**")
        if drift is None:
            st.caption("This moment is not measured yet.")
        else:
            documents_table(f"drift.movers.{story.key[:12]}.{step}", movers(drift, story.space, story.vectors(step)))
            st.caption("Distance: beyond what all documents moved together. Click a row to read the document.")
    with right:
        st.markdown("**Queries whose answers changed most**")
        if story.probes is None:
            st.caption("No queries are followed yet.")
        else:
            now = story.vectors(step)
            key = ("changed", story.key, step)
            queries_table(
                story.loaded,
                f"drift.changed.{story.key[:12]}.{step}",
                remembered(key, lambda: changed(story.origin, now, story.probes)),
                f"Of {len(story.probes):,} queries that are followed.",
            )


def documents_table(key: str, rows: Sequence[Moved]) -> None:
    """Documents with how far they moved; the one clicked is read below."""
    if not rows:
        st.caption("Nothing has moved.")
        return
    event = st.dataframe(
        pd.DataFrame(
            {
                "Document": [row.title or row.id for row in rows],
                "Text": [row.text[:200] for row in rows],
                "Distance": [row.distance for row in rows],
                "Length": [row.length for row in rows],
            }
        ),
        key=key,
        hide_index=True,
        on_select="rerun",
        selection_mode="single-cell",
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (len(rows) + 1) + 2,
        column_config={
            "Document": st.column_config.TextColumn(width=150),
            "Text": st.column_config.TextColumn(width=210),
            "Distance": st.column_config.NumberColumn(format="%.3f", width=72),
            "Length": st.column_config.NumberColumn(format="%.3f", width=64, help="Of its vector now; 1 at the start"),
        },
    )
    at = clicked(key, event, len(rows))
    if at is not None:
        st.session_state[READ] = rows[at].row, key
    row, of = st.session_state.get(READ, (None, None))
    found = next((moved for moved in rows if of == key and moved.row == row), None)
    if found is not None:
        with st.container(border=True, height=TEXT_HEIGHT, gap="xxsmall"):
            st.text(found.id if found.title in ("", found.id) else f"{found.title} · {found.id}")
            st.text(found.text[:MOST_READ] or "(no text)")


def queries_table(loaded: Loaded, key: str, rows: Sequence[Changed], caption: str) -> None:
    """Queries with how much of their answer is kept; the one clicked becomes the sidebar's."""
    if not rows:
        st.caption(f"{caption} No answer changed.")
        return
    st.dataframe(
        pd.DataFrame({"Query": [(row.text or row.id)[:200] for row in rows], "Kept": [row.overlap for row in rows]}),
        key=key,
        hide_index=True,
        on_select=partial(_ask, loaded, key, tuple(rows)),
        selection_mode="single-cell",
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(len(rows), 10) + 1) + 2,
        column_config={
            "Query": st.column_config.TextColumn(width=380),
            "Kept": st.column_config.NumberColumn(
                format="percent", width=64, help="Of its first ten documents at the start"
            ),
        },
    )
    st.caption(f"{caption} Click one to ask it in the sidebar.")
    if st.session_state.pop(POSED, False):
        st.rerun()  # the sidebar is outside of this fragment


def _ask(loaded: Loaded, key: str, rows: Sequence[Changed]) -> None:
    """Have the sidebar ask the query that was clicked."""
    at = clicked(key, st.session_state[key], len(rows))
    if at is None:
        return
    dataset, ident = loaded.dataset, rows[at].id
    split = next((name for name in dataset.qrels if ident in dataset.judged(name).position), None)
    if split is not None:
        question.pose(loaded, question.LABELLED, split, ident)
    elif ident in dataset.corpus.position:
        question.pose(loaded, question.SIMILAR, None, ident)
    st.session_state[POSED] = True
