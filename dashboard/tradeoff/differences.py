"""Below the frontier: wins and losses by query, types of queries, and all settings against the baseline."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any

import streamlit as st

from dashboard.charts.differences import MIN_GROUP_QUERIES, plot_strata, plot_wins
from dashboard.charts.figure import escape
from dashboard.charts.palette import method_style
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import jobs
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Cells, Sweep
from dashboard.session import decoders
from dashboard.session.tradeoff import KINDS_VIEW, TRADEOFF_VIEW_KEY, TRADEOFF_VIEWS, WINS_VIEW
from dashboard.tradeoff.point_sets import ask
from dashboard.tradeoff.selection import MEMORY, open_point
from dashboard.tradeoff.verdict import interval, open_row
from dashboard.widgets.basics import download_button
from dashboard.widgets.choices import choose
from dashboard.widgets.common import as_label
from dashboard.widgets.tables import draw_columns, number_column, text_column
from engine.decoder import Decoder, decode
from engine.evaluation import tables
from engine.evaluation.frontier import TIME_AXIS, Frontier, FrontierPoint, select_best_per_method
from engine.evaluation.metrics import title_of
from engine.evaluation.paired import QueryDifference, rank_query_differences
from engine.evaluation.runs import RankedRun
from engine.evaluation.statistics import Comparison, summarize_comparisons
from engine.evaluation.stratification import QUERY_COUNT_TITLES as QUERY_KINDS
from engine.evaluation.stratification import collect_query_values, stratify
from engine.evaluation.stratification import count_by_query as kinds_of
from engine.evaluation.verdict import ComparisonsByMetric
from engine.values import digest_of
from engine.wording import signed, visible

MOST_ROWS = 14
MOST_COMPARED = 100_000
"""Documents with which relevant ones are compared while the page is drawn."""
MOST_READ = 500
"""Queries of which both sets are read under the mouse; of more it is the query alone."""
MOST_TITLES = 4
"""Documents that are named of those that only one set has."""


def show(
    loaded: Loaded,
    sweep: Sweep,
    cells: Cells,
    curves: Frontier,
    base: FrontierPoint,
    share: float,
    rows: ComparisonsByMetric,
    systems: Mapping[str, Decoder | RankedRun],
    opened: str,
) -> None:
    """One of three views of the same comparison.

    systems: label → what is compared; opened: the label of the open one.
    """
    view = choose("View", TRADEOFF_VIEWS, TRADEOFF_VIEW_KEY)
    best = select_best_per_method(curves, base.point.label, share)
    if view == WINS_VIEW:
        _wins_and_losses(loaded, sweep, curves, base, best[1:], systems, opened)
    elif view == KINDS_VIEW:
        _kinds(loaded, sweep, curves, base, best)
    else:
        _settings(sweep, cells, curves, base, rows)


def _settings(sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint, rows: ComparisonsByMetric) -> None:
    compared = max((row.comparisons for of in rows.values() for row in of.values()), default=0)
    with st.container(horizontal=True, vertical_alignment="center"):
        for metric in rows:
            st.text(summarize_comparisons(list(rows[metric].values())))
        _downloads(sweep, cells, curves, base)
    shown = sorted(curves.points, key=lambda p: (p is not base, -curves.direction * p.x, -p.y))
    _table(shown, rows, curves, base)
    st.caption(
        f"Against {base.name} · ↑ ↓ = significant",
        help=f"p < 0.05 in a paired randomisation test after Holm's correction over all {compared:,} settings, and a "
        "95% interval (paired bootstrap) without 0. Choose a setting on other queries than you report on: Tune does.",
    )


def _table(shown: list[FrontierPoint], rows: ComparisonsByMetric, curves: Frontier, base: FrontierPoint) -> None:
    """A row a setting; a click opens its sets above."""
    names = [f"{method_style(p.point.method).sign} {p.name}" for p in shown]
    columns: dict[str, tuple[list[Any], Any]] = {"Decoder": (names, text_column(270))}
    more: dict[str, tuple[list[Any], Any]] = {}
    if curves.x == TIME_AXIS:
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
        max_rows=MOST_ROWS,
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

    def results() -> tables.ResultsTable:
        whole = tables.build_results(points, metrics, base.point, k)
        kept = [row[0] in names for row in whole.rows]
        return replace(whole, rows=tuple(compress(whole.rows, kept)), marks=tuple(compress(whole.marks, kept)))

    def parquet() -> Any:
        return tables.build_frame(points).to_parquet(index=False)

    files = (
        ("All settings, CSV", "csv", "text/csv", lambda: tables.format_csv(tables.build_frame(points))),
        ("All settings, Parquet", "parquet", "application/vnd.apache.parquet", parquet),
        (
            "Every query, CSV",
            "queries.csv",
            "text/csv",
            lambda: tables.format_csv(tables.build_per_query_frame(points)),
        ),
        ("This table, Markdown", "md", "text/markdown", lambda: tables.format_markdown(results())),
        ("This table, LaTeX", "tex", "application/x-tex", lambda: tables.format_latex(results())),
    )
    with st.popover("Download", icon=":material/download:"):
        for label, suffix, mime, make in files:
            download_button(label, make, f"tradeoff.{suffix}", mime, f"tradeoff.file.{suffix}")


def ordered(
    sweep: Sweep, curves: Frontier, base: FrontierPoint, label: str, metric: str
) -> tuple[QueryDifference, ...]:
    """The queries from the largest win of a point to its largest loss; none for the baseline, and of one query."""
    point = next((p for p in curves.points if p.point.label == label), base)
    if point is base or not sweep.is_stored or curves.queries < 2:
        return ()
    among = tuple(p.point.label for p in curves.points)
    return get_or_compute(
        MEMORY,
        ("won", sweep.key, among, metric, label),
        lambda: rank_query_differences(
            point.point, base.point, metric, curves.k, other_cells=[p.point for p in curves.points]
        ),
    )


def _wins_and_losses(
    loaded: Loaded,
    sweep: Sweep,
    curves: Frontier,
    base: FrontierPoint,
    best: Sequence[FrontierPoint],
    systems: Mapping[str, Decoder | RankedRun],
    opened: str,
) -> None:
    """A bar a query, sorted, of the open setting or the first of the best; a click asks its query."""
    point = next((p for p in curves.points if p.point.label == opened and p is not base), next(iter(best), None))
    if point is None:
        return
    label, metric = point.point.label, _metric(curves, "tradeoff.won.metric")
    rows = ordered(sweep, curves, base, label, metric)
    won, lost = sum(row.difference > 0 for row in rows), sum(row.difference < 0 for row in rows)
    title = f"{title_of(metric)}@{curves.k}"
    st.text(f"{point.name} vs {base.name}, {title}: {won:,} won · {len(rows) - won - lost:,} tied · {lost:,} lost")
    cards = get_or_compute(
        MEMORY,
        ("cards", sweep.key, label, metric),
        lambda: _cards(loaded, sweep, rows, systems[label], (point.name, base.name)),
    )
    picked = plot(
        plot_wins(rows, cards, point.point.method, title, base.name, is_dark()),
        "tradeoff.wins",
        file=f"wins-{metric}",
    )
    st.caption("Click a bar to open its query above.")
    if picked.clicks != st.session_state.get("tradeoff.wins.clicks", 0) and picked.clicked is not None:
        st.session_state["tradeoff.wins.clicks"] = picked.clicks
        open_point(label)
        ask(loaded, sweep.split, picked.clicked)
        st.rerun()


def _cards(
    loaded: Loaded, sweep: Sweep, rows: Sequence[QueryDifference], system: Decoder | RankedRun, names: tuple[str, str]
) -> Mapping[str, str]:
    """Query → its text, its figures, and what only one of both sets holds, as HTML."""
    texts, position = sweep.queries.texts, sweep.queries.position
    lines = {
        row.query: [
            f"<b>{escape(visible(texts[position[row.query]]), 90)}</b>",
            f"{row.value:.3f} vs {row.baseline:.3f} ({signed(row.difference)})",
        ]
        for row in rows
    }
    vectors = sweep.vectors
    fast = isinstance(system, RankedRun) or decoders.has_default_scorers(system)
    if vectors is not None and len(rows) <= MOST_READ and fast:
        with jobs.page_turn():
            rankings = [
                each.build_ranking(loaded.space, vectors.ids, sweep.k)
                if isinstance(each, RankedRun)
                else decode(each, loaded.space, vectors, k=sweep.k)
                for each in (system, sweep.baseline)
            ]
        corpus = loaded.space.corpus
        sets: list[list[list[int]]] = [ranking.index.tolist() for ranking in rankings]
        for row in rows:
            own, other = (each[position[row.query]] for each in sets)
            for name, mine, theirs in ((names[0], own, other), (names[1], other, own)):
                only = [
                    escape(visible(corpus.titles[document] or corpus.ids[document]), 40)
                    for document in mine
                    if document >= 0 and document not in theirs
                ]
                more = f" and {len(only) - MOST_TITLES} more" if len(only) > MOST_TITLES else ""
                if only:
                    lines[row.query].append(f"Only {escape(name)}: {', '.join(only[:MOST_TITLES])}{more}")
    return {query: "<br>".join(parts) for query, parts in lines.items()}


def _kinds(
    loaded: Loaded, sweep: Sweep, curves: Frontier, base: FrontierPoint, best: tuple[FrontierPoint, ...]
) -> None:
    """The differences by what is relevant, how long it and the query are, how many aspects, and by kept columns."""
    corpus, qrels = loaded.space.corpus, sweep.qrels
    if qrels is None:
        return
    space = loaded.space if len(corpus) <= MOST_COMPARED else None
    counts: dict[str, Any] = get_or_compute(
        MEMORY,
        ("counted", sweep.key),
        lambda: {
            **collect_query_values(corpus, sweep.queries, qrels),
            **kinds_of(corpus, sweep.queries, qrels, loaded.dataset.aspects, space),
        },
    )
    if len(best) < 2 or not counts:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        by = choose(
            "By", counts, "tradeoff.by", show_label=True, format_func=lambda kind: QUERY_KINDS.get(kind, as_label(kind))
        )
        metric = _metric(curves, "tradeoff.kinds.metric")
    points = [p.point for p in best]
    rows = get_or_compute(
        MEMORY,
        ("kinds", sweep.key, tuple(p.label for p in points), metric, by),
        lambda: stratify(points, metric, counts[by], curves.k, against=base.point.label),
    )
    others = [row for row in rows if row.label != base.point.label]
    title = f"{title_of(metric)}@{curves.k}"
    figure = plot_strata(
        others, {p.label: p.method for p in points}, QUERY_KINDS.get(by, by), title, base.name, is_dark()
    )
    plot(figure, "tradeoff.kinds", file=f"kinds-{metric}")
    st.caption(
        "Best setting of each decoder · bar = 95% CI of the mean difference · "
        f"grey = fewer than {MIN_GROUP_QUERIES} queries",
        help="The difference is paired by query; each interval is for its row alone. A group of one query has none.",
    )


def _metric(curves: Frontier, key: str) -> str:
    return choose("Metric", curves.metrics, key, show_label=True, persist=False, format_func=title_of)
