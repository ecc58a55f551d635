"""Below the frontier: wins and losses by query, kinds of queries, and all settings against the baseline."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import streamlit as st

from dashboard.charts.differences import MIN_GROUP_QUERIES, plot_strata, plot_wins
from dashboard.charts.figure import escape, read_column
from dashboard.charts.palette import method_style
from dashboard.components.live_plot import is_dark, plot
from dashboard.services import jobs
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.services.sweeps import Cells, Sweep
from dashboard.session import decoders
from dashboard.session.tradeoff import KINDS_VIEW, SCRUBBED_KEY, TRADEOFF_VIEW_KEY, TRADEOFF_VIEWS, WINS_VIEW
from dashboard.tradeoff.point_sets import ask
from dashboard.tradeoff.selection import MEMORY_KEY, OpenSetting, get_budget, open_point
from dashboard.tradeoff.verdict import draw_point_table, format_interval
from dashboard.widgets.basics import download_button
from dashboard.widgets.choices import choose
from dashboard.widgets.common import as_label
from dashboard.widgets.tables import name_metric, number_column, text_column
from engine.decoder import Decoder, decode
from engine.evaluation import tables
from engine.evaluation.frontier import TIME_AXIS, Frontier, FrontierPoint
from engine.evaluation.paired import QueryDifference, rank_query_differences
from engine.evaluation.runs import RankedRun
from engine.evaluation.statistics import Comparison, ComparisonsByMetric, summarize_comparisons
from engine.evaluation.stratification import QUERY_COUNT_TITLES as QUERY_KINDS
from engine.evaluation.stratification import collect_query_values, stratify
from engine.evaluation.stratification import count_by_query as kinds_of
from engine.values import Corpus
from engine.views.names import name_document
from engine.wording import signed, visible

MAX_SETTING_ROWS = 14
MAX_COMPARED_DOCUMENTS = 100_000
"""Up to this many documents, similarities are computed while the page is drawn."""
MAX_HOVER_QUERIES = 500
"""Up to this many queries the hover text has both sets, else only the query."""
MAX_HOVER_TITLES = 4
"""Named documents that only one set has."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DifferenceData:
    """Measurements that the views of differences to the baseline draw."""

    sweep: Sweep
    cells: Cells  # the measurements
    frontier: Frontier  # the measured settings as points of the chart
    baseline: FrontierPoint
    rows: ComparisonsByMetric  # comparisons with the baseline, by metric and label
    best: Sequence[Any]  # each other decoder's best setting, with its metrics by query
    compared: OpenSetting | None  # the setting whose wins and losses are shown


def draw_differences(loaded: Loaded, data: DifferenceData) -> None:
    """Draw how decoders differ from the baseline in three views: by setting, query or kind of query."""
    view = choose("View", TRADEOFF_VIEWS, TRADEOFF_VIEW_KEY)
    if view == WINS_VIEW:
        if data.compared is not None:
            _draw_wins(loaded, data.sweep, data.frontier, data.baseline, data.compared)
    elif view == KINDS_VIEW:
        _draw_kinds(loaded, data.sweep, data.frontier, data.baseline, data.best)
    else:
        _draw_settings(data.sweep, data.cells, data.frontier, data.baseline, data.rows)


def _draw_settings(
    sweep: Sweep, cells: Cells, curves: Frontier, baseline: FrontierPoint, rows: ComparisonsByMetric
) -> None:
    """Draw the table of all settings against the baseline, a summary of their differences, and downloads.

    rows: comparisons with the baseline, by metric and label
    """
    n_compared = max((row.comparisons for by_label in rows.values() for row in by_label.values()), default=0)
    with st.container(horizontal=True, vertical_alignment="center"):
        for metric in rows:
            st.text(summarize_comparisons(list(rows[metric].values())))
        _draw_downloads(sweep, cells, curves, baseline)
    points = order_settings(curves, baseline, get_budget())
    _draw_table(points, rows, curves, baseline)
    st.caption(
        f"Against {baseline.name} · ↑ ↓ = significant",
        help=f"p < 0.05 in a paired randomisation test after Holm's correction over all {n_compared:,} settings, and a "
        "95% CI (paired bootstrap), widened by the same correction, without 0. Choose a setting on other queries "
        "than you report on: Tune does.",
    )


def order_settings(curves: Frontier, baseline: FrontierPoint, budget: float) -> list[FrontierPoint]:
    """Return the baseline, then the settings that keep the budget, then the others, each from the best x to the worst.

    budget: share of the baseline's y that a setting must keep
    """

    def rank_point(point: FrontierPoint) -> tuple[bool, bool, float, float]:
        """Return the sort key of a point; the direction is −1 for time, of which less is better."""
        # The most diverse settings of all are off-topic: without the budget they would open the table.
        return point is not baseline, point.y < budget * baseline.y, -curves.direction * point.x, -point.y

    return sorted(curves.points, key=rank_point)


def _draw_table(points: list[FrontierPoint], rows: ComparisonsByMetric, curves: Frontier, base: FrontierPoint) -> None:
    """Draw a row of figures per setting, the baseline first; a click opens what the setting retrieves.

    rows: comparisons with the baseline, by metric and label
    """
    names = [f"{method_style(point.point.method).sign} {point.name}" for point in points]
    columns: dict[str, tuple[list[Any], Any]] = {"Decoder": (names, text_column(270))}
    extra_columns: dict[str, tuple[list[Any], Any]] = {}
    if curves.x == TIME_AXIS:
        columns["ms a query"] = read_column(points, "x"), number_column("%.2f", 90, "Median of single calls")
    mean_column, p_column = number_column("%.3f", 90), number_column("%.3f", 80, "Of this setting alone, uncorrected")
    holm_column = number_column("%.3f", 80, "After Holm's correction over all settings, as the interval")
    labels = read_column(points, "point.label")
    for metric, by_label in rows.items():
        title, comparisons = name_metric(metric), list(map(by_label.get, labels))
        means = [comparison and comparison.mean for comparison in comparisons]
        # The first row, the baseline, has no comparison: its mean is in those of the others.
        means[0] = next((comparison.baseline_mean for comparison in by_label.values()), None)
        columns[name_metric(metric, curves.k)] = means, mean_column
        columns[f"Δ {title} (95% CI)"] = list(map(_format_difference, comparisons)), None
        extra_columns[f"p, {title}"] = [comparison and comparison.p for comparison in comparisons], p_column
        holm_values = [comparison and comparison.p_holm for comparison in comparisons]
        extra_columns[f"p (Holm), {title}"] = holm_values, holm_column
        wins = ["" if comparison is None else " · ".join(map(str, comparison.wins)) for comparison in comparisons]
        extra_columns[f"{title}: better · same · worse"] = wins, None
    draw_point_table("table", columns | extra_columns, labels, MAX_SETTING_ROWS)


def _format_difference(comparison: Comparison | None) -> str:
    """Format a difference with its interval, and an arrow if it is significant; "" without one."""
    if comparison is None:
        return ""
    arrow = (" ↑" if comparison.difference > 0 else " ↓") if comparison.significant else ""
    return format_interval(comparison) + arrow


def _draw_downloads(sweep: Sweep, cells: Cells, curves: Frontier, baseline: FrontierPoint) -> None:
    """Draw buttons that download the measurements as files; each file is built only on its click."""
    points, set_size, names = list(cells.points), curves.k, read_column(curves.points, "name")
    metrics = list(dict.fromkeys([*curves.metrics, *sweep.metrics]))

    def build_results() -> tables.ResultsTable:
        """Build the table of results for publication, without the settings that the chart left out."""
        table = tables.build_results(points, metrics, baseline.point, set_size)
        # A row begins with the decoder's name.
        is_listed = [comparison[0] in names for comparison in table.rows]
        rows, marks = compress(table.rows, is_listed), compress(table.marks, is_listed)
        return replace(table, rows=tuple(rows), marks=tuple(marks))

    def build_parquet() -> Any:
        """Build a Parquet file with a row for each setting."""
        return tables.build_frame(points).to_parquet(index=False)

    def build_query_csv() -> str:
        """Build a CSV with the metrics of each setting for every query."""
        return tables.format_csv(tables.build_per_query_frame(points))

    files = (
        ("All settings, CSV", "csv", "text/csv", lambda: tables.format_csv(tables.build_frame(points))),
        ("All settings, Parquet", "parquet", "application/vnd.apache.parquet", build_parquet),
        ("Every query, CSV", "queries.csv", "text/csv", build_query_csv),
        ("This table, Markdown", "md", "text/markdown", lambda: tables.format_markdown(build_results())),
        ("This table, LaTeX", "tex", "application/x-tex", lambda: tables.format_latex(build_results())),
    )
    with st.popover("Download", icon=":material/download:"):
        for label, suffix, mime_type, build_file in files:
            download_button(label, build_file, f"tradeoff.{suffix}", mime_type, f"tradeoff.file.{suffix}")


def order_queries(
    sweep: Sweep, curves: Frontier, baseline: FrontierPoint, cell: Any, metric: str
) -> tuple[QueryDifference, ...]:
    """Return the queries from a setting's largest win over the baseline in a metric to its largest loss.

    The bars of wins and losses follow this order, and so do the buttons to the next query. cell: the setting with its
    metrics by query. Empty for the baseline itself, for a single query, and for what has the metric on no query.
    """
    # The baseline has no differences, and one query no order.
    if cell is baseline.point or curves.queries < 2 or metric not in cell.values:
        return ()
    cells = read_column(curves.points, "point")
    return get_or_compute(
        MEMORY_KEY,
        ("won", sweep.key, tuple(read_column(cells, "label")), metric, cell.label),
        lambda: rank_query_differences(cell, baseline.point, metric, curves.k, other_cells=cells),
    )


def _draw_wins(loaded: Loaded, sweep: Sweep, curves: Frontier, baseline: FrontierPoint, compared: OpenSetting) -> None:
    """Draw each query's difference to the baseline as a bar, sorted; a click selects the query.

    compared: the setting that is open; with the baseline open, the first choice
    """
    label, metric = compared.cell.label, _draw_metric(curves, "tradeoff.won.metric")
    rows = order_queries(sweep, curves, baseline, compared.cell, metric)
    signs = Counter(np.sign(read_column(rows, "difference")).tolist())
    title = name_metric(metric, curves.k)
    counts = f"{signs[1]:,} better · {len(rows) - signs[1] - signs[-1]:,} same · {signs[-1]:,} worse"
    st.text(visible(f"{compared.name} vs {baseline.name}, {title}: {counts}"))
    cards = get_or_compute(
        MEMORY_KEY,
        ("cards", sweep.key, label, metric),
        lambda: _build_cards(loaded, sweep, rows, compared.system, (compared.name, baseline.name)),
    )
    figure = plot_wins(rows, cards, compared.cell.method, title, baseline.name, is_dark())
    picked = plot(figure, "tradeoff.wins", file=f"wins-{metric}")
    st.caption("Click a bar to open its query above.")
    # The component repeats its last click in every run: only a new count is a new click.
    if picked.clicks != st.session_state.get("tradeoff.wins.clicks", 0) and picked.clicked is not None:
        st.session_state["tradeoff.wins.clicks"] = picked.clicks
        # A dragged position stays where it is: it is the one that is compared.
        if compared.point is not None or st.session_state.get(SCRUBBED_KEY) is None:
            open_point(label)
        ask(loaded, sweep.split, picked.clicked)
        st.rerun()


def _build_cards(
    loaded: Loaded, sweep: Sweep, rows: Sequence[QueryDifference], system: Decoder | RankedRun, names: tuple[str, str]
) -> Mapping[str, str]:
    """Build each query's hover text: its figures, and the documents that only one of the two sets has.

    rows: the queries; system: the compared decoder or run; names: its name and the baseline's. Without
    vectors, and for slow scorers or many queries, the sets are left out.
    """
    space, vectors, rankings, cards = loaded.space, sweep.vectors, [], {}
    # Other scorers would be computed for the hover text of every query.
    is_fast = isinstance(system, RankedRun) or decoders.has_default_scorers(system)
    if vectors is not None and len(rows) <= MAX_HOVER_QUERIES and is_fast:
        with jobs.limit_page_computations():
            # `rankings` then has the compared system's sets first, the baseline's second.
            for one_system in (system, sweep.baseline):
                if isinstance(one_system, RankedRun):
                    rankings.append(one_system.build_ranking(space, vectors.ids, sweep.k))
                else:
                    rankings.append(decode(one_system, space, vectors, k=sweep.k))
    for comparison in rows:
        query_index = sweep.queries.position[comparison.query]
        lines = [
            f"<b>{escape(visible(sweep.queries.texts[query_index]), 90)}</b>",
            f"{comparison.value:.3f} vs {comparison.baseline:.3f} ({signed(comparison.difference)})",
        ]
        if rankings:
            system_set, base_set = (ranking.index[query_index].tolist() for ranking in rankings)
            lines.append(_list_only(space.corpus, names[0], system_set, base_set))
            lines.append(_list_only(space.corpus, names[1], base_set, system_set))
        cards[comparison.query] = "<br>".join(filter(None, lines))
    return cards


def _list_only(corpus: Corpus, name: str, this_set: Sequence[int], that_set: Sequence[int]) -> str:
    """Format the titles of documents in this set that are not in that set; "" if there are none.

    Sets are rows of the corpus; name: of the decoder that retrieved this set
    """
    titles = []
    for row_index in this_set:
        # Rows of −1 fill sets that have fewer than k documents.
        if row_index >= 0 and row_index not in that_set:
            titles.append(escape(name_document(corpus, row_index), 40))
    suffix = f" and {len(titles) - MAX_HOVER_TITLES} more" if len(titles) > MAX_HOVER_TITLES else ""
    return f"Only {escape(name)}: {', '.join(titles[:MAX_HOVER_TITLES])}{suffix}" if titles else ""


def _draw_kinds(loaded: Loaded, sweep: Sweep, curves: Frontier, baseline: FrontierPoint, best: Sequence[Any]) -> None:
    """Draw differences to the baseline by kinds of queries, such as their number of relevant documents.

    best: each other decoder's best setting, with its metrics by query
    """
    corpus, qrels = loaded.space.corpus, sweep.qrels
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
    if not best or not counts:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        kind_titles = {kind: QUERY_KINDS.get(kind, as_label(kind)) for kind in counts}
        grouping_name = choose("By", counts, "tradeoff.by", show_label=True, format_func=kind_titles.__getitem__)
        metric = _draw_metric(curves, "tradeoff.kinds.metric")
    cells, base_label = [baseline.point, *best], baseline.point.label
    labels = read_column(cells, "label")
    rows = get_or_compute(
        MEMORY_KEY,
        ("kinds", sweep.key, tuple(labels), metric, grouping_name),
        lambda: stratify(cells, metric, counts[grouping_name], curves.k, against=base_label),
    )
    # Against itself the baseline has no difference.
    differences = [comparison for comparison in rows if comparison.label != base_label]
    method_names = dict(zip(labels, read_column(cells, "method"), strict=True))
    grouping, title = QUERY_KINDS.get(grouping_name, grouping_name), name_metric(metric, curves.k)
    figure = plot_strata(differences, method_names, grouping, title, baseline.name, is_dark())
    plot(figure, "tradeoff.kinds", file=f"kinds-{metric}")
    st.caption(
        "Best setting of each decoder · bar = 95% CI of the mean difference · "
        f"grey = fewer than {MIN_GROUP_QUERIES} queries",
        help="The difference is paired by query; each interval is for its row alone. A group of one query has none.",
    )


def _draw_metric(curves: Frontier, key: str) -> str:
    """Draw the choice between the metrics of the two axes; return it."""
    return choose("Metric", curves.metrics, key, show_label=True, persist=False, format_func=name_metric)
