"""Two saved views side by side: settings, metrics, result sets."""

from typing import Any

import pandas as pd
import streamlit as st

from dashboard.sharing import snapshots
from dashboard.sharing.snapshots import BOTH, NEWER, OLDER, PageSnapshot
from dashboard.widgets.tables import draw_table, number_column

MOST_ROWS = 10
COLUMNS = ("Setting", "Decoder", "Metric", "Difference", "Document", "Title", "Where")
"""Names that a saved view may have too: a table's columns must differ."""


def show(*pair: PageSnapshot) -> None:
    """Draw the differences of two saved views; the older's numbers come first."""
    older, newer = sorted(pair, key=lambda s: s.made)
    if difference := snapshots.corpus_difference(older, newer):
        st.warning("These views are not of the same corpus and vectors.", icon=":material/warning:")
        st.text(difference)
    a, b = older.name, newer.name
    if a in COLUMNS or b in COLUMNS or a == b:
        a, b = f"{a} (older)", f"{b} (newer)"
    settings_tab, metrics_tab, sets_tab = st.tabs(["Settings", "Metrics", "Results"])
    with settings_tab:
        if settings := snapshots.setting_differences(older, newer):
            _table(pd.DataFrame(settings, columns=["Setting", a, b]), "compare.settings")
        else:
            st.info("Same settings")
    with metrics_tab:
        if metrics := snapshots.metric_differences(older, newer):
            number = number_column("%.3f")
            signed = number_column("%+.3f", help="Newer minus older")
            frame = pd.DataFrame(metrics, columns=["Decoder", "Metric", a, b, "Difference"])
            _table(frame, "compare.figures", {a: number, b: number, "Difference": signed})
        else:
            st.info("No metrics: neither view has a decoder.")
    with sets_tab:
        _sets(older, newer, a, b)


def _sets(older: PageSnapshot, newer: PageSnapshot, a: str, b: str) -> None:
    if not (older.answers and newer.answers):
        st.info("No results to compare: one view has no decoder.")
        return
    common = next((name for name in reversed(list(older.answers)) if name in newer.answers), None)
    chosen = []
    columns = zip(st.columns(2), ("Older", "Newer"), (older, newer), (a, b), strict=True)
    for place, (column, which, snapshot, label) in enumerate(columns):
        titles = {name: answer.title for name, answer in snapshot.answers.items()}
        with column:
            name = st.selectbox(
                f"{which}: decoder",
                list(titles),
                list(titles).index(common) if common else 0,
                format_func=titles.__getitem__,
                key=f"compare.set.{place}.{snapshot.id}",
            )
            chosen.append(snapshot.answers[name])
            st.text(f"{label}: {snapshot.answers[name].setting}")
    rows = snapshots.set_differences(*chosen)
    where = [row[-1] for row in rows]
    st.text(f"{where.count(BOTH)} in both, {where.count(OLDER)} {OLDER}, {where.count(NEWER)} {NEWER}")
    ranks = [f"# {a}", f"# {b}"]
    frame = pd.DataFrame(rows, columns=["Document", "Title", *ranks, "Where"])
    _table(frame.astype(dict.fromkeys(ranks, "Int64")), "compare.sets")


def _table(frame: pd.DataFrame, key: str, columns: dict[str, Any] | None = None) -> None:
    draw_table(frame, columns, key=key, most=MOST_ROWS, placeholder="–")
