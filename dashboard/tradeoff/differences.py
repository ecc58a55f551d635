"""Below the frontier: what can be told of the differences to the baseline."""

from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any

import streamlit as st

from dashboard.charts.palette import style_of
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Cells, Sweep
from dashboard.tradeoff import stratified
from dashboard.tradeoff.selection import MEMORY, open_point
from dashboard.widgets.buttons import download_button
from dashboard.widgets.choices import choose
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.evaluation import tables
from engine.evaluation.frontier import SHARE, TIME, Frontier, FrontierPoint, best_of_each
from engine.evaluation.metrics import title_of
from engine.evaluation.statistics import Comparison, compare, statement, summary
from engine.stages import methods
from engine.values import digest_of

DIFFERENCES, QUERIES, KINDS = "Differences", "Queries won and lost", "Kinds of queries"
MOST_ROWS = 14

Rows = dict[str, dict[str, Comparison]]


def show(loaded: Loaded, sweep: Sweep, cells: Cells, curves: Frontier, opened: str) -> None:
    """One of three views of the same comparison."""
    base = next((p for p in curves.points if p.point.label == sweep.baseline.label), None)
    if base is None or len(curves.points) < 2:
        st.info("There is nothing to compare: choose more decoders, or other axes.")
        return
    st.divider()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        view = choose("View", [DIFFERENCES, QUERIES, KINDS], "tradeoff.view")
        whose = methods()[base.point.method].title
        best_x = "least time" if curves.x == TIME else f"most {title_of(curves.x)}"
        share = st.slider(
            f"Best: {best_x} that keeps this share of {whose}'s {title_of(curves.y)}",
            *SHARE.comfortable_range,
            SHARE.default,
            step=0.01,
            key="tradeoff.share",
            persist_state="session",
            format="percent",
            width=420,
        )
    best = best_of_each(curves, base.point.label, share)
    if view == QUERIES:
        stratified.won_and_lost(loaded, sweep, curves, base, best, opened)
    elif view == KINDS:
        stratified.kinds(loaded, sweep, curves, base, best)
    else:
        _differences(sweep, cells, curves, base, best)


def _differences(
    sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint, best: tuple[FrontierPoint, ...]
) -> None:
    def make() -> Rows:
        return {m: {r.label: r for r in compare(cells.points, m, base.point, curves.k)} for m in curves.metrics}

    with st.spinner("Testing the differences"):
        rows = remembered(MEMORY, ("compare", sweep.key, len(cells.points), curves.x, curves.y), make)
    # What the most diverse, or the quickest, of the best gains, and what it pays for that.
    most = max(best[1:], key=lambda p: curves.direction * p.x, default=base)
    with st.container(gap="xxsmall"):
        for metric in reversed(curves.metrics):
            if (row := rows[metric].get(most.point.label)) is not None:
                st.text(statement(row))
        for metric in rows:
            st.text(summary(list(rows[metric].values())))
    with st.container(horizontal=True, vertical_alignment="center"):
        every = st.toggle("All settings", key="tradeoff.every", persist_state="session")
        shown = curves.points if every else best
        _downloads(sweep, cells, curves, base, shown)
    _table(sorted(shown, key=lambda p: (p is not base, -curves.direction * p.x, -p.y)), rows, curves, base)
    if not any(rows.values()):
        return
    compared = max(row.comparisons for comparisons in rows.values() for row in comparisons.values())
    st.caption(
        f"Against {base.name}; ↑ ↓ where a difference can be told: p < .05 in a paired randomisation test after Holm's "
        f"correction over all {compared:,} settings, and the 95 % interval (paired bootstrap) without 0. "
        "The best settings were chosen on these same queries: choose on others than you report on (Tune does)."
    )


def _table(shown: list[FrontierPoint], rows: Rows, curves: Frontier, base: FrontierPoint) -> None:
    """A row a setting; a click opens its sets above."""
    names = [f"{style_of(p.point.method).sign} {p.name}" for p in shown]
    columns: dict[str, tuple[list[Any], Any]] = {"Decoder": (names, text_column(270))}
    more: dict[str, tuple[list[Any], Any]] = {}
    if curves.x == TIME:
        columns["ms a query"] = [p.x for p in shown], number_column("%.2f", 90, "Median of single calls")
    number = number_column("%.4f", 90)
    for metric in rows:
        title = title_of(metric)
        comparisons = [rows[metric].get(p.point.label) for p in shown]
        base_mean = next((r.baseline_mean for r in rows[metric].values()), None)
        means = [base_mean if p is base else r and r.mean for p, r in zip(shown, comparisons, strict=True)]
        intervals = ["" if r is None or r.low is None else _interval(r) for r in comparisons]
        wins = ["" if r is None else " · ".join(map(str, r.wins)) for r in comparisons]
        columns[f"{title}@{curves.k}"] = means, number
        columns[f"Δ {title}"] = [_difference(r) for r in comparisons], None
        more[f"Δ {title}, 95 %"] = intervals, None
        more[f"p, {title}"] = (
            [r and r.p_holm for r in comparisons],
            number_column("%.4f", 80, "After Holm's correction"),
        )
        more[f"{title}: won · tied · lost"] = wins, None
    labels = [p.point.label for p in shown]
    # Another list is another widget: a selection is a place, and must not outlive its list.
    key = f"tradeoff.table.{digest_of(labels)[:12]}"
    draw_columns(
        columns | more,
        key=key,
        most=MOST_ROWS,
        on_select=partial(_open, key, labels),
        selection_mode="single-row",
        placeholder="",
    )


def _open(key: str, labels: list[str]) -> None:
    rows = st.session_state[key].selection.rows
    open_point(labels[rows[0]] if rows else None)


def _difference(row: Comparison | None) -> str:
    if row is None:
        return ""
    arrow = (" ↑" if row.difference > 0 else " ↓") if row.significant else ""
    return f"{row.difference:+.4f}{arrow}".replace("-", "−")


def _interval(row: Comparison) -> str:
    return f"{row.low:+.3f} to {row.high:+.3f}".replace("-", "−")


def _downloads(
    sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint, shown: tuple[FrontierPoint, ...]
) -> None:
    """Downloads of the measurements, made on request."""
    points, k, names = list(cells.points), curves.k, {p.name for p in shown}
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
