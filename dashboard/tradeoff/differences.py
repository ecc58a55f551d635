"""Below the frontier: wins and losses by query, kinds of queries, and all settings against the baseline."""

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
from dashboard.tradeoff.selection import MEMORY_KEY, open_point
from dashboard.tradeoff.verdict import format_interval, open_row
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

MAX_SETTING_ROWS = 14
MAX_COMPARED_DOCUMENTS = 100_000
"""Up to this many documents, similarities are computed while the page is drawn."""
MAX_HOVER_QUERIES = 500
"""Up to this many queries the hover text has both sets, else only the query."""
MAX_HOVER_TITLES = 4
"""Named documents that only one set has."""


def draw_differences(
    loaded: Loaded,
    sweep: Sweep,
    cells: Cells,
    curves: Frontier,
    baseline: FrontierPoint,
    share: float,
    rows: ComparisonsByMetric,
    systems: Mapping[str, Decoder | RankedRun],
    open_label: str,
) -> None:
    """Draw one of three views of the same comparison.

    systems: label → decoder or run; open_label: of the open one.
    """
    view = choose("View", TRADEOFF_VIEWS, TRADEOFF_VIEW_KEY)
    # All views compare the same best settings.
    best = select_best_per_method(curves, baseline.point.label, share)
    if view == WINS_VIEW:
        _draw_wins(loaded, sweep, curves, baseline, best[1:], systems, open_label)
    elif view == KINDS_VIEW:
        _draw_kinds(loaded, sweep, curves, baseline, best)
    else:
        _draw_settings(sweep, cells, curves, baseline, rows)


def _draw_settings(
    sweep: Sweep, cells: Cells, curves: Frontier, base: FrontierPoint, rows: ComparisonsByMetric
) -> None:
    """Draw all settings against the baseline, and their downloads."""
    n_compared = max((row.comparisons for by_label in rows.values() for row in by_label.values()), default=0)
    with st.container(horizontal=True, vertical_alignment="center"):
        for metric in rows:
            st.text(summarize_comparisons(list(rows[metric].values())))
        _draw_downloads(sweep, cells, curves, base)
    points = sorted(curves.points, key=lambda point: (point is not base, -curves.direction * point.x, -point.y))
    _draw_table(points, rows, curves, base)
    st.caption(
        f"Against {base.name} · ↑ ↓ = significant",
        help=f"p < 0.05 in a paired randomisation test after Holm's correction over all {n_compared:,} settings, and a "
        "95% interval (paired bootstrap) without 0. Choose a setting on other queries than you report on: Tune does.",
    )


def _draw_table(points: list[FrontierPoint], rows: ComparisonsByMetric, curves: Frontier, base: FrontierPoint) -> None:
    """Draw a row per setting; a click opens its sets above."""
    names = [f"{method_style(p.point.method).sign} {p.name}" for p in points]
    columns: dict[str, tuple[list[Any], Any]] = {"Decoder": (names, text_column(270))}
    extra_columns: dict[str, tuple[list[Any], Any]] = {}
    if curves.x == TIME_AXIS:
        columns["ms a query"] = [p.x for p in points], number_column("%.2f", 90, "Median of single calls")
    mean_column = number_column("%.3f", 90)
    for metric in rows:
        title = title_of(metric)
        comparisons = [rows[metric].get(p.point.label) for p in points]
        base_mean = next((row.baseline_mean for row in rows[metric].values()), None)
        means = [base_mean if p is base else row and row.mean for p, row in zip(points, comparisons, strict=True)]
        wins = ["" if row is None else " · ".join(map(str, row.wins)) for row in comparisons]
        columns[f"{title}@{curves.k}"] = means, mean_column
        columns[f"Δ {title} (95% CI)"] = [_format_difference(row) for row in comparisons], None
        extra_columns[f"p, {title}"] = (
            [row and row.p_holm for row in comparisons],
            number_column("%.3f", 80, "After Holm's correction"),
        )
        extra_columns[f"{title}: W·T·L"] = wins, None
    labels = [p.point.label for p in points]
    # Another list is another widget: a selection is a position, and must not outlive its list.
    key = f"tradeoff.table.{digest_of(labels)[:12]}"
    draw_columns(
        columns | extra_columns,
        key=key,
        max_rows=MAX_SETTING_ROWS,
        on_select=partial(open_row, key, labels),
        selection_mode="single-cell",
        placeholder="",
    )


def _format_difference(row: Comparison | None) -> str:
    if row is None:
        return ""
    arrow = (" ↑" if row.difference > 0 else " ↓") if row.significant else ""
    return format_interval(row) + arrow


def _draw_downloads(sweep: Sweep, cells: Cells, curves: Frontier, baseline: FrontierPoint) -> None:
    """Draw downloads of the measurements, built on request."""
    points, k, names = list(cells.points), curves.k, {point.name for point in curves.points}
    metrics = list(dict.fromkeys([*curves.metrics, *sweep.metrics]))

    def build_results() -> tables.ResultsTable:
        table = tables.build_results(points, metrics, baseline.point, k)
        listed = [row[0] in names for row in table.rows]
        return replace(table, rows=tuple(compress(table.rows, listed)), marks=tuple(compress(table.marks, listed)))

    def build_parquet() -> Any:
        return tables.build_frame(points).to_parquet(index=False)

    files = (
        ("All settings, CSV", "csv", "text/csv", lambda: tables.format_csv(tables.build_frame(points))),
        ("All settings, Parquet", "parquet", "application/vnd.apache.parquet", build_parquet),
        (
            "Every query, CSV",
            "queries.csv",
            "text/csv",
            lambda: tables.format_csv(tables.build_per_query_frame(points)),
        ),
        ("This table, Markdown", "md", "text/markdown", lambda: tables.format_markdown(build_results())),
        ("This table, LaTeX", "tex", "application/x-tex", lambda: tables.format_latex(build_results())),
    )
    with st.popover("Download", icon=":material/download:"):
        for label, suffix, mime, build_file in files:
            download_button(label, build_file, f"tradeoff.{suffix}", mime, f"tradeoff.file.{suffix}")


def order_queries(
    sweep: Sweep, curves: Frontier, baseline: FrontierPoint, label: str, metric: str
) -> tuple[QueryDifference, ...]:
    """Order the queries from a point's largest win to its largest loss; () for the baseline or one query."""
    point = next((each for each in curves.points if each.point.label == label), baseline)
    # The baseline has no differences, and one query no order.
    if point is baseline or not sweep.is_stored or curves.queries < 2:
        return ()
    labels = tuple(each.point.label for each in curves.points)
    return get_or_compute(
        MEMORY_KEY,
        ("won", sweep.key, labels, metric, label),
        lambda: rank_query_differences(
            point.point, baseline.point, metric, curves.k, other_cells=[each.point for each in curves.points]
        ),
    )


def _draw_wins(
    loaded: Loaded,
    sweep: Sweep,
    curves: Frontier,
    baseline: FrontierPoint,
    best: Sequence[FrontierPoint],
    systems: Mapping[str, Decoder | RankedRun],
    opened: str,
) -> None:
    """Draw a sorted bar per query for the open or best setting; a click selects its query."""
    point = next((p for p in curves.points if p.point.label == opened and p is not baseline), next(iter(best), None))
    if point is None:
        return
    label, metric = point.point.label, _draw_metric(curves, "tradeoff.won.metric")
    rows = order_queries(sweep, curves, baseline, label, metric)
    won, lost = sum(row.difference > 0 for row in rows), sum(row.difference < 0 for row in rows)
    title = f"{title_of(metric)}@{curves.k}"
    st.text(f"{point.name} vs {baseline.name}, {title}: {won:,} won · {len(rows) - won - lost:,} tied · {lost:,} lost")
    cards = get_or_compute(
        MEMORY_KEY,
        ("cards", sweep.key, label, metric),
        lambda: _build_cards(loaded, sweep, rows, systems[label], (point.name, baseline.name)),
    )
    picked = plot(
        plot_wins(rows, cards, point.point.method, title, baseline.name, is_dark()),
        "tradeoff.wins",
        file=f"wins-{metric}",
    )
    st.caption("Click a bar to open its query above.")
    if picked.clicks != st.session_state.get("tradeoff.wins.clicks", 0) and picked.clicked is not None:
        st.session_state["tradeoff.wins.clicks"] = picked.clicks
        open_point(label)
        ask(loaded, sweep.split, picked.clicked)
        st.rerun()


def _build_cards(
    loaded: Loaded, sweep: Sweep, rows: Sequence[QueryDifference], system: Decoder | RankedRun, names: tuple[str, str]
) -> Mapping[str, str]:
    """Build each query's hover text as HTML: its figures, and the documents that only one set has."""
    texts, position = sweep.queries.texts, sweep.queries.position
    lines = {
        row.query: [
            f"<b>{escape(visible(texts[position[row.query]]), 90)}</b>",
            f"{row.value:.3f} vs {row.baseline:.3f} ({signed(row.difference)})",
        ]
        for row in rows
    }
    vectors = sweep.vectors
    # Other scorers would be computed for the hover text of every query.
    is_fast = isinstance(system, RankedRun) or decoders.has_default_scorers(system)
    if vectors is not None and len(rows) <= MAX_HOVER_QUERIES and is_fast:
        with jobs.page_turn():
            rankings = [
                item.build_ranking(loaded.space, vectors.ids, sweep.k)
                if isinstance(item, RankedRun)
                else decode(item, loaded.space, vectors, k=sweep.k)
                for item in (system, sweep.baseline)
            ]
        corpus = loaded.space.corpus
        sets: list[list[list[int]]] = [ranking.index.tolist() for ranking in rankings]
        for row in rows:
            own_set, other_set = (item[position[row.query]] for item in sets)
            for name, this_set, that_set in ((names[0], own_set, other_set), (names[1], other_set, own_set)):
                titles = [
                    escape(visible(corpus.titles[row_index] or corpus.ids[row_index]), 40)
                    for row_index in this_set
                    if row_index >= 0 and row_index not in that_set
                ]
                suffix = f" and {len(titles) - MAX_HOVER_TITLES} more" if len(titles) > MAX_HOVER_TITLES else ""
                if titles:
                    lines[row.query].append(f"Only {escape(name)}: {', '.join(titles[:MAX_HOVER_TITLES])}{suffix}")
    return {query: "<br>".join(parts) for query, parts in lines.items()}


def _draw_kinds(
    loaded: Loaded, sweep: Sweep, curves: Frontier, baseline: FrontierPoint, best: tuple[FrontierPoint, ...]
) -> None:
    """Draw the differences by kinds of queries: relevant documents, lengths, aspects, metadata."""
    corpus, qrels = loaded.space.corpus, sweep.qrels
    if qrels is None:
        return
    # Comparing relevant documents with a large corpus would delay the page.
    space = loaded.space if len(corpus) <= MAX_COMPARED_DOCUMENTS else None
    counts: dict[str, Any] = get_or_compute(
        MEMORY_KEY,
        ("counted", sweep.key),
        lambda: {
            **collect_query_values(corpus, sweep.queries, qrels),
            **kinds_of(corpus, sweep.queries, qrels, loaded.dataset.aspects, space),
        },
    )
    # A comparison needs a second decoder, and queries that fall into groups.
    if len(best) < 2 or not counts:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        by = choose(
            "By", counts, "tradeoff.by", show_label=True, format_func=lambda kind: QUERY_KINDS.get(kind, as_label(kind))
        )
        metric = _draw_metric(curves, "tradeoff.kinds.metric")
    points = [point.point for point in best]
    rows = get_or_compute(
        MEMORY_KEY,
        ("kinds", sweep.key, tuple(point.label for point in points), metric, by),
        lambda: stratify(points, metric, counts[by], curves.k, against=baseline.point.label),
    )
    differences = [row for row in rows if row.label != baseline.point.label]
    title = f"{title_of(metric)}@{curves.k}"
    figure = plot_strata(
        differences,
        {point.label: point.method for point in points},
        QUERY_KINDS.get(by, by),
        title,
        baseline.name,
        is_dark(),
    )
    plot(figure, "tradeoff.kinds", file=f"kinds-{metric}")
    st.caption(
        "Best setting of each decoder · bar = 95% CI of the mean difference · "
        f"grey = fewer than {MIN_GROUP_QUERIES} queries",
        help="The difference is paired by query; each interval is for its row alone. A group of one query has none.",
    )


def _draw_metric(curves: Frontier, key: str) -> str:
    return choose("Metric", curves.metrics, key, show_label=True, persist=False, format_func=title_of)
