"""Two snapshots beside each other: settings, figures, sets."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.sharing.snapshots import Snapshot, apart, counted, figures_apart, sets_apart, settings_apart

MOST_ROWS, ROW_HEIGHT = 10, 32
COLUMNS = ("Setting", "Decoder", "Metric", "Difference", "Document", "Title", "Where")
"""What a snapshot may be called too: a table's columns must differ."""


def show(*two: Snapshot) -> None:
    """What differs between two snapshots; the older's numbers come first."""
    older, newer = sorted(two, key=lambda s: s.made)
    if told := apart(older, newer):
        st.warning("The two are not of the same corpus and vectors.", icon=":material/warning:")
        st.text(told)
    a, b = older.name, newer.name
    if a in COLUMNS or b in COLUMNS or a == b:
        a, b = f"{a} (older)", f"{b} (newer)"
    settings, figures, sets = st.tabs(["Settings", "Figures", "Sets"])
    with settings:
        rows = settings_apart(older, newer)
        if rows:
            _table(pd.DataFrame(rows, columns=["Setting", a, b]), "compare.settings")
        else:
            st.info("Both have the same settings.")
    with figures:
        rows = figures_apart(older, newer)
        if rows:
            number = st.column_config.NumberColumn(format="%.4f")
            signed = st.column_config.NumberColumn(format="%+.4f", help="Newer minus older")
            frame = pd.DataFrame(rows, columns=["Decoder", "Metric", a, b, "Difference"])
            _table(frame, "compare.figures", {a: number, b: number, "Difference": signed})
        else:
            st.info("Neither has figures: no decoder was chosen.")
    with sets:
        _sets(older, newer, a, b)


def _sets(older: Snapshot, newer: Snapshot, a: str, b: str) -> None:
    if not (older.answers and newer.answers):
        st.info("One of them has no sets: no decoder was chosen.")
        return
    common = next((name for name in reversed(older.answers) if name in newer.answers), None)
    chosen = []
    for place, of, label in zip(st.columns(2), (older, newer), (a, b), strict=True):
        names = list(of.answers)
        with place:
            own = st.selectbox(
                f"Set of {('the older', 'the newer')[len(chosen)]}",
                names,
                names.index(common) if common else 0,
                format_func=lambda n, of=of: of.answers[n].title,
                key=f"compare.set.{len(chosen)}.{of.id}",
            )
            chosen.append(of.answers[own])
            st.text(f"{label}: {of.answers[own].setting}")
    rows = sets_apart(*chosen)
    st.text(counted(rows))
    frame = pd.DataFrame(rows, columns=["Document", "Title", f"# {a}", f"# {b}", "Where"])
    whole = {name: frame[name].astype("Int64") for name in (f"# {a}", f"# {b}")}
    _table(frame.assign(**whole), "compare.sets")


def _table(frame: pd.DataFrame, key: str, columns: dict | None = None) -> None:
    st.dataframe(
        frame,
        key=key,
        hide_index=True,
        height=ROW_HEIGHT * (min(len(frame), MOST_ROWS) + 1) + 2,
        row_height=ROW_HEIGHT,
        placeholder="–",
        column_config=columns,
    )
