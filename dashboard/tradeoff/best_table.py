"""Beside the chart: the best setting of each decoder within the budget, what it gains and costs."""

from functools import partial
from typing import Any

import streamlit as st

from dashboard.charts.frontier import method_name
from dashboard.charts.palette import style_of
from dashboard.session.tradeoff import SHARE_KEY
from dashboard.tradeoff.selection import open_point
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.evaluation.frontier import SHARE, TIME, Frontier, FrontierPoint, best_of_each, floor_of
from engine.evaluation.metrics import title_of
from engine.evaluation.statistics import Comparison
from engine.evaluation.verdict import Rows, Verdict
from engine.values import digest_of
from engine.wording import percent, signed

MOST_ROWS = 10


def budget_control(curves: Frontier, base: FrontierPoint) -> None:
    """Draw the budget's slider, which the chart's line moves too."""
    st.session_state.setdefault(SHARE_KEY, SHARE.default)  # the chart sets it too, which a default would contradict
    st.slider(
        f"Keep at least this share of {base.name}'s {title_of(curves.y)}",
        *SHARE.comfortable_range,
        step=0.01,
        key=SHARE_KEY,
        persist_state="session",
        format="percent",
    )


def show(curves: Frontier, found: Verdict, rows: Rows) -> None:
    """A row a decoder, the best first; a click opens its sets."""
    best = best_of_each(curves, found.base.point.label, found.share)
    floor = floor_of(found.base, found.share)
    shown = sorted(best, key=lambda p: (p.y < floor, -curves.direction * p.x))
    columns = _columns(curves, shown, floor, found.share, rows)
    labels = [p.point.label for p in shown]
    # Another list is another widget: a selection is a place, and must not outlive its list.
    key = f"tradeoff.best.{digest_of(labels)[:12]}"
    draw_columns(
        columns,
        key=key,
        most=MOST_ROWS,
        on_select=partial(open_row, key, labels),
        selection_mode="single-cell",
        placeholder="",
    )


def _columns(
    curves: Frontier, shown: list[FrontierPoint], floor: float, share: float, rows: Rows
) -> dict[str, tuple[list[Any], Any]]:
    names = [p.name if p.y >= floor else method_name(p) for p in shown]
    signs = [f"{style_of(p.point.method).sign} {name}" for p, name in zip(shown, names, strict=True)]
    columns: dict[str, tuple[list[Any], Any]] = {"Best setting": (signs, text_column(170))}
    if curves.x == TIME:
        columns["ms"] = [p.x for p in shown], number_column("%.2f", 70, "Median of single calls, a query each")
    else:
        most = max(p.x for p in curves.points)
        bar = st.column_config.ProgressColumn(format="%.3f", min_value=0.0, max_value=max(most, 1e-9), width=90)
        columns[title_of(curves.x)] = [p.x if p.y >= floor else None for p in shown], bar
    costs = [rows.get(curves.y, {}).get(p.point.label) for p in shown]
    said = [
        interval(row) if p.y >= floor else f"no setting keeps {percent(share)}"
        for p, row in zip(shown, costs, strict=True)
    ]
    columns[f"Δ {title_of(curves.y)} (95% CI)"] = said, text_column(165)
    wins = ["" if row is None or row.queries < 2 else "·".join(map(str, row.wins)) for row in costs]
    columns["W·T·L"] = (
        wins,
        text_column(76, f"Queries with more, the same and less {title_of(curves.y)} than the baseline"),
    )
    return columns


def interval(row: Comparison | None) -> str:
    """A difference with its interval; nothing for the baseline."""
    if row is None:
        return ""
    ends = (
        ""
        if row.low is None or row.high is None or row.low == row.high
        else f" ({signed(row.low)} to {signed(row.high)})"
    )
    return signed(row.difference) + ends


def open_row(key: str, labels: list[str]) -> None:
    """Open the setting of the row that was clicked; for a callback."""
    cells = st.session_state[key].selection.cells
    open_point(labels[cells[0][0]] if cells else None)
