"""Below the frontier: wins and losses, types of queries, and all settings against the baseline."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Cells, Sweep
from dashboard.session.tradeoff import KINDS, VIEW, VIEWS, WINS
from dashboard.tradeoff import by_query
from dashboard.tradeoff.verdict import interval, open_row
from dashboard.widgets.buttons import download_button
from dashboard.widgets.choices import choose
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.decoder import Decoder
from engine.evaluation import tables
from engine.evaluation.frontier import TIME, Frontier, FrontierPoint, best_of_each
from engine.evaluation.metrics import title_of
from engine.evaluation.runs import RankedRun
from engine.evaluation.statistics import Comparison, summary
from engine.evaluation.verdict import Rows
from engine.values import digest_of

MOST_ROWS = 14


def show(
    loaded: Loaded,
    sweep: Sweep,
    cells: Cells,
    curves: Frontier,
    base: FrontierPoint,
    share: float,
    rows: Rows,
    systems: Mapping[str, Decoder | RankedRun],
    opened: str,
) -> None:
    """One of three views of the same comparison.

    systems: label → what is compared; opened: the label of the open one.
    """
    view = choose("View", VIEWS, VIEW)
    best = best_of_each(curves, base.point.label, share)
    if view == WINS:
        by_query.wins_and_losses(loaded, sweep, curves, base, best[1:], systems, opened)
    elif view == KINDS:
        by_query.kinds(loaded, sweep, curves, base, best)
    else:
        _settings(sweep, cells, curves, base, rows)


def _settings(sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint, rows: Rows) -> None:
    compared = max((row.comparisons for of in rows.values() for row in of.values()), default=0)
    with st.container(horizontal=True, vertical_alignment="center"):
        for metric in rows:
            st.text(summary(list(rows[metric].values())))
        _downloads(sweep, cells, curves, base)
    shown = sorted(curves.points, key=lambda p: (p is not base, -curves.direction * p.x, -p.y))
    _table(shown, rows, curves, base)
    st.caption(
        f"Against {base.name} · ↑ ↓ = significant",
        help=f"p < 0.05 in a paired randomisation test after Holm's correction over all {compared:,} settings, and a "
        "95% interval (paired bootstrap) without 0. Choose a setting on other queries than you report on: Tune does.",
    )


def _table(shown: list[FrontierPoint], rows: Rows, curves: Frontier, base: FrontierPoint) -> None:
    """A row a setting; a click opens its sets above."""
    names = [f"{style_of(p.point.method).sign} {p.name}" for p in shown]
    columns: dict[str, tuple[list[Any], Any]] = {"Decoder": (names, text_column(270))}
    more: dict[str, tuple[list[Any], Any]] = {}
    if curves.x == TIME:
        columns["ms a query"] = [p.x for p in shown], number_column("%.2f", 90, "Median of single calls")
    number = number_column("%.3f", 90)
    for metric in rows:
        title = title_of(metric)
        comparisons = [rows[metric].get(p.point.label) for p in shown]
        base_mean = next((r.baseline_mean for r in rows[metric].values()), None)
        means = [base_mean if p is base else r and r.mean for p, r in zip(shown, comparisons, strict=True)]
        wins = ["" if r is None else " · ".join(map(str, r.wins)) for r in comparisons]
        columns[f"{title}@{curves.k}"] = means, number
        columns[f"Δ {title} (95% CI)"] = [_difference(r) for r in comparisons], None
        more[f"p, {title}"] = (
            [r and r.p_holm for r in comparisons],
            number_column("%.3f", 80, "After Holm's correction"),
        )
        more[f"{title}: W·T·L"] = wins, None
    labels = [p.point.label for p in shown]
    # Another list is another widget: a selection is a place, and must not outlive its list.
    key = f"tradeoff.table.{digest_of(labels)[:12]}"
    draw_columns(
        columns | more,
        key=key,
        most=MOST_ROWS,
        on_select=partial(open_row, key, labels),
        selection_mode="single-cell",
        placeholder="",
    )


def _difference(row: Comparison | None) -> str:
    if row is None:
        return ""
    arrow = (" ↑" if row.difference > 0 else " ↓") if row.significant else ""
    return interval(row) + arrow


def _downloads(sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint) -> None:
    """Downloads of the measurements, made on request."""
    points, k, names = list(cells.points), curves.k, {p.name for p in curves.points}
    metrics = list(dict.fromkeys([*curves.metrics, *sweep.metrics]))

    def results() -> tables.Results:
        whole = tables.results(points, metrics, base.point, k)
        kept = [row[0] in names for row in whole.rows]
        return replace(whole, rows=tuple(compress(whole.rows, kept)), marks=tuple(compress(whole.marks, kept)))

    def parquet() -> Any:
        return tables.frame(points).to_parquet(index=False)

    files = (
        ("All settings, CSV", "csv", "text/csv", lambda: tables.as_csv(tables.frame(points))),
        ("All settings, Parquet", "parquet", "application/vnd.apache.parquet", parquet),
        ("Every query, CSV", "queries.csv", "text/csv", lambda: tables.as_csv(tables.per_query(points))),
        ("This table, Markdown", "md", "text/markdown", lambda: tables.markdown(results())),
        ("This table, LaTeX", "tex", "application/x-tex", lambda: tables.latex(results())),
    )
    with st.popover("Download", icon=":material/download:"):
        for label, suffix, mime, make in files:
            download_button(label, make, f"tradeoff.{suffix}", mime, f"tradeoff.file.{suffix}")
